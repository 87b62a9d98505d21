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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// callFailure is the failure of one call.
type callFailure struct {
	applied bool // the call takes effect before it fails
	err     error
}

// failingClient is a client whose calls fail as script says. After the end of script, it passes all calls to Client.
type failingClient struct {
	store.Client
	script []callFailure
	sent   []*dynamodb.TransactWriteItemsInput
}

func (c *failingClient) next() (f callFailure) {
	if len(c.script) > 0 {
		f, c.script = c.script[0], c.script[1:]
	}
	return f
}

func (c *failingClient) TransactWriteItems(
	ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options),
) (*dynamodb.TransactWriteItemsOutput, error) {
	c.sent = append(c.sent, in)
	failure := c.next()
	if failure.err != nil && !failure.applied {
		return nil, failure.err
	}
	out, err := c.Client.TransactWriteItems(ctx, in)
	if err == nil && failure.err != nil {
		return nil, failure.err
	}
	return out, err
}

func (c *failingClient) GetItem(
	ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options),
) (*dynamodb.GetItemOutput, error) {
	if failure := c.next(); failure.err != nil {
		return nil, failure.err
	}
	return c.Client.GetItem(ctx, in)
}

func (c *failingClient) Query(
	ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options),
) (*dynamodb.QueryOutput, error) {
	if failure := c.next(); failure.err != nil {
		return nil, failure.err
	}
	return c.Client.Query(ctx, in)
}

// refusedErrors returns failures of calls that had no effect.
func refusedErrors() []error {
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

// lostReplyErrors returns failures of calls that may have had an effect.
func lostReplyErrors() []error {
	status := func(code int) error {
		return &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: &http.Response{StatusCode: code}},
			Err:      errors.New("x"),
		}
	}
	return []error{
		status(500), status(502), status(503), status(504), &types.InternalServerError{},
		&smithyhttp.RequestSendError{Err: io.ErrUnexpectedEOF}, &smithy.DeserializationError{Err: io.ErrUnexpectedEOF},
		&types.TransactionInProgressException{},
		&smithy.OperationError{Err: &smithyhttp.RequestSendError{Err: errors.New("connection reset")}},
	}
}

// TestCommitIsAppliedOnceDespiteFailures checks that a commit succeeds and is made once if up to nine of its calls are
// refused or lose their replies. It must not fail because its own effect has made a condition false. A second commit
// of the same writes must return the error of the condition that is false now.
func TestCommitIsAppliedOnceDespiteFailures(t *testing.T) {
	_, client, name := storetest.NewDynamoDB(t)
	errTaken := errors.New("taken")
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		failing := &failingClient{Client: client}
		table := storetest.NewWithBackend(t, store.NewDynamoDB(failing, name))
		counter, created := key(fmt.Sprint("counter-", run)), key(fmt.Sprint("created-", run))
		create := func() error {
			return table.Commit(t.Context(),
				store.Upsert(counter, store.Add(store.At("count"), 1)),
				store.Create(created, thing{Name: "x"}).Else(errTaken))
		}
		failing.script = rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) callFailure {
			if rapid.Bool().Draw(rt, "refused") {
				return callFailure{err: rapid.SampledFrom(refusedErrors()).Draw(rt, "refusal")}
			}
			return callFailure{
				applied: rapid.Bool().Draw(rt, "applied"), err: rapid.SampledFrom(lostReplyErrors()).Draw(rt, "lost reply"),
			}
		}), 0, 9).Draw(rt, "script")
		calls := len(failing.script) + 1
		if err := create(); err != nil {
			rt.Fatalf("Commit() = %v, want nil", err)
		}
		if len(failing.sent) != calls {
			rt.Errorf("Commit() makes %d calls of the database, want %d", len(failing.sent), calls)
		}
		for i, in := range failing.sent {
			if first := failing.sent[0]; !reflect.DeepEqual(in, first) {
				rt.Errorf("the input of call %d (token %q) differs from that of the first call (token %q), want the same input",
					i, aws.ToString(in.ClientRequestToken), aws.ToString(first.ClientRequestToken))
			}
		}
		if err := create(); !errors.Is(err, errTaken) {
			rt.Errorf("Commit() of the same writes in a new transaction = %v, want %v", err, errTaken)
		}
		var got thing
		if err := table.Get(t.Context(), counter, &got); err != nil || got.Count != 1 {
			rt.Errorf("Get(counter) after one commit = %d, %v, want 1", got.Count, err)
		}
	})
}

func TestThrottledCallsReturnFault(t *testing.T) {
	script := make([]callFailure, 100)
	for i := range script {
		script[i].err = &types.ThrottlingException{Message: aws.String("secret detail")}
	}
	for name, call := range map[string]func(*store.Table) error{
		"commit": func(table *store.Table) error { return table.Commit(t.Context(), store.Delete(key("a"))) },
		"get":    func(table *store.Table) error { return table.Get(t.Context(), key("a"), nil) },
		"query": func(table *store.Table) error {
			_, err := table.Keys(t.Context(), store.Query{PK: "p"})
			return err
		},
	} {
		failing := &failingClient{script: script}
		err := call(storetest.NewWithBackend(t, store.NewDynamoDB(failing, "table")))
		f, ok := errors.AsType[*fault.Fault](err)
		if !ok {
			t.Fatalf("%s = %v, want a fault", name, err)
		}
		if f.Kind != fault.Throttled || f.RetryAfter != time.Second {
			t.Errorf("%s = fault of the kind %v with RetryAfter %v, want %v with 1s",
				name, f.Kind, f.RetryAfter, fault.Throttled)
		}
		if strings.Contains(f.Public, "secret") {
			t.Errorf("%s = fault with the public text %q, want a text without the cause", name, f.Public)
		}
		if !errors.Is(err, store.ErrRetryable) {
			t.Errorf("%s = %v, want %v as its cause", name, err, store.ErrRetryable)
		}
		if calls := 100 - len(failing.script); calls != 10 {
			t.Errorf("%s makes %d calls of the database, want 10", name, calls)
		}
	}
}

// TestFalseConditionOutranksAConflict checks that a commit with a conflict and a false condition returns the error of
// the condition, and is not retried.
func TestFalseConditionOutranksAConflict(t *testing.T) {
	failing := &failingClient{
		script: []callFailure{{err: &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{
			{Code: aws.String("TransactionConflict")}, {Code: aws.String("None")}, {Code: aws.String("ConditionalCheckFailed")},
		}}}},
	}
	errElse := errors.New("the error of Else")
	err := storetest.NewWithBackend(t, store.NewDynamoDB(failing, "table")).Commit(t.Context(),
		store.Delete(key("a")), store.Delete(key("b")), store.Delete(key("c")).If(store.Exists()).Else(errElse))
	if !errors.Is(err, errElse) || len(failing.sent) != 1 {
		t.Errorf("Commit() = %v after %d calls, want %v after 1", err, len(failing.sent), errElse)
	}
}

// TestBackoffErrorEndsCommit checks that Commit returns the error of its backoff, and makes no more calls.
func TestBackoffErrorEndsCommit(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	errDisconnected := errors.New("the client has disconnected")
	throttle := callFailure{err: &types.ThrottlingException{}}
	failing := &failingClient{script: []callFailure{throttle, throttle}}
	table := storetest.NewWithBackend(t, store.NewDynamoDB(failing, "table"),
		storetest.Backoff(func(ctx context.Context, _ int) error {
			cancel(errDisconnected)
			return context.Cause(ctx)
		}))
	if err := table.Commit(ctx, store.Delete(key("a"))); !errors.Is(err, errDisconnected) || len(failing.sent) != 1 {
		t.Errorf("Commit() with a canceled context = %v after %d calls, want %v after 1",
			err, len(failing.sent), errDisconnected)
	}
}

// partialBatches is a client that processes only the first keys of each batch.
type partialBatches struct {
	store.Client
	parts    []int // the maximum number of processed keys of each call that follows
	requests [][]store.Item
}

func (b *partialBatches) BatchGetItem(
	_ context.Context, in *dynamodb.BatchGetItemInput, _ ...func(*dynamodb.Options),
) (*dynamodb.BatchGetItemOutput, error) {
	keys := in.RequestItems["table"].Keys
	b.requests = append(b.requests, keys)
	n := min(b.parts[0], len(keys))
	b.parts = b.parts[1:]
	out := &dynamodb.BatchGetItemOutput{Responses: map[string][]store.Item{"table": keys[:n]}}
	if n < len(keys) {
		out.UnprocessedKeys = map[string]types.KeysAndAttributes{"table": {Keys: keys[n:]}}
	}
	return out, nil
}

// TestUnprocessedKeysAreRequestedAgain checks that Load requests unprocessed keys again until it has all items.
func TestUnprocessedKeysAreRequestedAgain(t *testing.T) {
	batches := &partialBatches{parts: []int{2, 1, 0, 5}}
	backoffs := 0
	table := storetest.NewWithBackend(t, store.NewDynamoDB(batches, "table"),
		storetest.Backoff(func(context.Context, int) error {
			backoffs++
			return nil
		}))
	requests := make([]*store.ReadRequest, 5)
	for i := range requests {
		requests[i] = store.Get(key("p", i), nil)
	}
	if err := table.Load(t.Context(), requests...); err != nil {
		t.Fatalf("Load() with unprocessed keys = %v, want success", err)
	}
	for i, r := range requests {
		if !r.Found {
			t.Errorf("Load(): item %d was not found, want it found", i)
		}
	}
	var sizes []int
	for _, keys := range batches.requests {
		sizes = append(sizes, len(keys))
	}
	// While there is progress, the remaining keys are requested immediately.
	// Without progress, all keys are requested again after a pause.
	if want := []int{5, 3, 2, 5}; !reflect.DeepEqual(sizes, want) || backoffs != 1 {
		t.Errorf("requested keys by call = %v with %d pauses, want %v with 1", sizes, backoffs, want)
	}
}

// TestHTTPFailuresAreClassified checks with the SDK and real connections which
// failed calls the Table repeats, and that the SDK itself repeats no call.
func TestHTTPFailuresAreClassified(t *testing.T) {
	respond := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		retried bool
	}{
		{"connection cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		{"response cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"Item":`)
		}, true},
		{"500", respond(500, `{"__type":"InternalServerError"}`), true},
		{"503 of a proxy", respond(503, `<html>busy</html>`), true},
		{"throttled", respond(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException"}`), true},
		{
			"throughput exceeded",
			respond(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException"}`), true,
		},
		{"invalid", respond(400, `{"__type":"com.amazon.coral.validate#ValidationException"}`), false},
		{"no table", respond(400, `{"__type":"com.amazonaws.dynamodb.v20120810#ResourceNotFoundException"}`), false},
		{"not allowed", respond(400, `{"__type":"com.amazon.coral.service#AccessDeniedException"}`), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if calls++; calls == 1 {
					test.handler(w, r)
					return
				}
				respond(200, `{}`)(w, r)
			}))
			defer server.Close()
			retries := 0
			table := storetest.NewWithBackend(t, store.NewDynamoDB(store.Connect(storetest.Config(), server.URL), "table"),
				storetest.Backoff(func(context.Context, int) error { retries++; return nil }))
			err := table.Get(t.Context(), key("a"), nil)
			if retried := retries == 1 && calls == 2 && errors.Is(err, store.ErrNotFound); retried != test.retried {
				t.Errorf("Get() = %v after %d calls and %d retries, want it retried: %t", err, calls, retries, test.retried)
			}
			if !test.retried && (err == nil || calls != 1) {
				t.Errorf("Get() = %v after %d calls, want an error after 1", err, calls)
			}
		})
	}
	t.Run("no listener", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		table := storetest.NewWithBackend(t, store.NewDynamoDB(store.Connect(storetest.Config(), server.URL), "table"))
		if err := table.Get(t.Context(), key("a"), nil); !fault.Is(err, fault.DatabaseUnavailable) {
			t.Errorf("Get() from a closed server = %v, want the kind DatabaseUnavailable", err)
		}
	})
}
