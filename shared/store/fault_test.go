package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// mishap is what happens to one call.
type mishap struct {
	after bool // the call takes effect first
	err   error
}

// unlucky is a client whose calls fail by a script, and work once it has ended.
type unlucky struct {
	store.Client
	script []mishap
	sent   []*dynamodb.TransactWriteItemsInput
}

func (u *unlucky) next() (m mishap) {
	if len(u.script) > 0 {
		m, u.script = u.script[0], u.script[1:]
	}
	return m
}

func (u *unlucky) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	u.sent = append(u.sent, in)
	m := u.next()
	if m.err != nil && !m.after {
		return nil, m.err
	}
	out, err := u.Client.TransactWriteItems(ctx, in)
	if err == nil && m.err != nil {
		return nil, m.err
	}
	return out, err
}

func (u *unlucky) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	if m := u.next(); m.err != nil {
		return nil, m.err
	}
	return u.Client.GetItem(ctx, in)
}

func (u *unlucky) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	if m := u.next(); m.err != nil {
		return nil, m.err
	}
	return u.Client.Query(ctx, in)
}

// refusals are failures of calls that had no effect.
func refusals() []error {
	canceled := func(codes ...string) error {
		e := &types.TransactionCanceledException{}
		for _, code := range codes {
			e.CancellationReasons = append(e.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
		}
		return e
	}
	return []error{
		&types.ProvisionedThroughputExceededException{}, &types.RequestLimitExceeded{}, &types.ThrottlingException{},
		&types.TransactionConflictException{}, &smithy.GenericAPIError{Code: "ThrottlingException"},
		canceled("None", "TransactionConflict"), canceled("ThrottlingError", "None"),
		canceled("ProvisionedThroughputExceeded", "TransactionConflict"),
	}
}

// losses are failures of calls that may have had their effect.
func losses() []error {
	status := func(code int) error {
		return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}}, Err: errors.New("x")}
	}
	return []error{
		status(500), status(502), status(503), status(504), &types.InternalServerError{},
		&smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}, &smithy.DeserializationError{Err: io.ErrUnexpectedEOF},
		&types.TransactionInProgressException{}, &smithy.OperationError{Err: &smithyhttp.RequestSendError{Err: errors.New("connection reset")}},
	}
}

// However often a commit's calls are refused and its replies lost: it is made
// once, and its caller hears of success, or of the condition that was false
// before its own effect.
func TestCommitIsMadeOnceWhateverHappensToItsCalls(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	errTaken := errors.New("taken")
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		u := &unlucky{Client: client}
		table := storetest.Over(t, store.NewDynamoDB(u, name))
		counter, created := key(fmt.Sprint("counter-", run)), key(fmt.Sprint("created-", run))
		create := func() error {
			return table.Commit(t.Context(),
				store.Upsert(counter, store.Add(store.At("count"), 1)),
				store.Create(created, thing{Name: "x"}).Else(errTaken))
		}
		u.script = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) mishap {
			if rapid.Bool().Draw(rt, "refused") {
				return mishap{err: rapid.SampledFrom(refusals()).Draw(rt, "refusal")}
			}
			return mishap{after: rapid.Bool().Draw(rt, "after"), err: rapid.SampledFrom(losses()).Draw(rt, "loss")}
		}), 0, 9).Draw(rt, "script")
		calls := len(u.script) + 1
		if err := create(); err != nil {
			rt.Fatalf("the commit was answered %v", err)
		}
		if len(u.sent) != calls {
			rt.Errorf("%d calls were made, want %d", len(u.sent), calls)
		}
		for _, in := range u.sent {
			if !reflect.DeepEqual(in, u.sent[0]) {
				rt.Errorf("a repeat differs from the first call, and its token will be refused:\n%+v\n%+v", in, u.sent[0])
			}
		}
		if err := create(); !errors.Is(err, errTaken) {
			rt.Errorf("another commit was answered %v, want that the record is taken", err)
		}
		var got thing
		if err := table.Get(t.Context(), counter, &got); err != nil || got.Count != 1 {
			rt.Errorf("the effect happened %d times, %v", got.Count, err)
		}
	})
}

func TestThrottledCallsAreGivenUpWithAFault(t *testing.T) {
	always := make([]mishap, 100)
	for i := range always {
		always[i].err = &types.ThrottlingException{Message: aws.String("secret detail")}
	}
	for name, call := range map[string]func(*store.Table) error{
		"commit": func(table *store.Table) error { return table.Commit(t.Context(), store.Delete(key("a"))) },
		"get":    func(table *store.Table) error { return table.Get(t.Context(), key("a"), nil) },
		"query": func(table *store.Table) error {
			_, err := table.Keys(t.Context(), store.Query{PK: "p"})
			return err
		},
	} {
		u := &unlucky{script: always}
		err := call(storetest.Over(t, store.NewDynamoDB(u, "table")))
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok || f.Kind != fault.Throttled || f.RetryAfter != time.Second || strings.Contains(f.Public, "secret") {
			t.Errorf("%s: answered %v", name, err)
		}
		if !errors.Is(err, store.ErrRepeat) {
			t.Errorf("%s: the log does not hear of the cause: %v", name, err)
		}
		if calls := 100 - len(u.script); calls != 10 {
			t.Errorf("%s: %d calls were made, want 10", name, calls)
		}
	}
}

func TestFalseConditionOutranksAConflict(t *testing.T) {
	u := &unlucky{script: []mishap{{err: &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{
		{Code: aws.String("TransactionConflict")}, {Code: aws.String("None")}, {Code: aws.String("ConditionalCheckFailed")},
	}}}}}
	errOwn := errors.New("own")
	err := storetest.Over(t, store.NewDynamoDB(u, "table")).Commit(t.Context(),
		store.Delete(key("a")), store.Delete(key("b")), store.Delete(key("c")).If(store.Exists()).Else(errOwn))
	if !errors.Is(err, errOwn) || len(u.sent) != 1 {
		t.Errorf("answered %v after %d calls", err, len(u.sent))
	}
}

func TestPauseEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	errLeft := errors.New("the client has left")
	u := &unlucky{script: []mishap{{err: &types.ThrottlingException{}}, {err: &types.ThrottlingException{}}}}
	table := storetest.Over(t, store.NewDynamoDB(u, "table"), storetest.Pause(func(ctx context.Context, _ int) error {
		cancel(errLeft)
		return context.Cause(ctx)
	}))
	if err := table.Commit(ctx, store.Delete(key("a"))); !errors.Is(err, errLeft) || len(u.sent) != 1 {
		t.Errorf("answered %v after %d calls", err, len(u.sent))
	}
}

// halting processes a part of each batch.
type halting struct {
	store.Client
	parts []int // how many keys of each call are processed
	asked [][]store.Item
}

func (h *halting) BatchGetItem(_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	keys := in.RequestItems["table"].Keys
	h.asked = append(h.asked, keys)
	n := min(h.parts[0], len(keys))
	h.parts = h.parts[1:]
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]store.Item{"table": keys[:n]}}
	if n < len(keys) {
		out.UnprocessedKeys = map[string]types.KeysAndAttributes{"table": {Keys: keys[n:]}}
	}
	return out, nil
}

func TestUnprocessedKeysAreAskedForAgain(t *testing.T) {
	h := &halting{parts: []int{2, 1, 0, 5}}
	pauses := 0
	table := storetest.Over(t, store.NewDynamoDB(h, "table"), storetest.Pause(func(context.Context, int) error { pauses++; return nil }))
	wanted := make([]*store.Wanted, 5)
	for i := range wanted {
		wanted[i] = store.Want(key("p", i), nil)
	}
	if err := table.Load(t.Context(), wanted...); err != nil {
		t.Fatal(err)
	}
	for i, w := range wanted {
		if !w.Found {
			t.Errorf("item %d was not found", i)
		}
	}
	var sizes []int
	for _, keys := range h.asked {
		sizes = append(sizes, len(keys))
	}
	// Those left are asked for at once while there is progress, and all of
	// them after a pause when there was none.
	if want := []int{5, 3, 2, 5}; !reflect.DeepEqual(sizes, want) || pauses != 1 {
		t.Errorf("asked for %v keys with %d pauses, want %v and 1", sizes, pauses, want)
	}
}

// Through the SDK and real connections: what is repeated, and that the SDK
// does not repeat by itself.
func TestAnswersAreToldApartOnTheWire(t *testing.T) {
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	tests := []struct {
		name   string
		answer http.HandlerFunc
		again  bool
	}{
		{"connection cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		{"answer cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"Item":`)
		}, true},
		{"500", say(500, `{"__type":"InternalServerError"}`), true},
		{"503 of a proxy", say(503, `<html>busy</html>`), true},
		{"throttled", say(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}`), true},
		{"too much", say(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`), true},
		{"invalid", say(400, `{"__type":"com.amazon.coral.validate#ValidationException"}`), false},
		{"no table", say(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}`), false},
		{"not allowed", say(400, `{"__type":"com.amazon.coral.service#AccessDeniedException"}`), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls++; calls == 1 {
					test.answer(w, r)
					return
				}
				say(200, `{}`)(w, r)
			}))
			defer server.Close()
			repeats := 0
			table := storetest.Over(t, store.NewDynamoDB(store.Connect(storetest.Config(), server.URL), "table"),
				storetest.Pause(func(context.Context, int) error { repeats++; return nil }))
			err := table.Get(t.Context(), key("a"), nil)
			if again := repeats == 1 && calls == 2 && errors.Is(err, store.ErrNotFound); again != test.again {
				t.Errorf("answered %v after %d calls and %d repeats", err, calls, repeats)
			}
			if !test.again && (err == nil || calls != 1) {
				t.Errorf("answered %v after %d calls", err, calls)
			}
		})
	}
	t.Run("nobody listens", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		table := storetest.Over(t, store.NewDynamoDB(store.Connect(storetest.Config(), server.URL), "table"))
		if err := table.Get(t.Context(), key("a"), nil); !fault.Is(err, fault.Unanswered) {
			t.Errorf("answered %v", err)
		}
	})
}
