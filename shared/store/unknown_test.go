package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// given makes a commit over a client whose calls all fail so.
func given(t *testing.T, script ...mishap) (calls int, err error) {
	t.Helper()
	all := append([]mishap(nil), script...)
	for len(all) < 50 {
		all = append(all, script[len(script)-1])
	}
	u := &unlucky{script: all}
	err = storetest.Over(t, store.NewDynamoDB(u, "table")).Commit(t.Context(), store.Delete(key("a")))
	return len(u.sent), err
}

// TestCommitWithoutAnAnswerIsUnknown: one call that may have had its effect is
// enough, whatever the others were answered.
func TestCommitWithoutAnAnswerIsUnknown(t *testing.T) {
	throttle := mishap{err: &types.ThrottlingException{}}
	for _, loss := range losses() {
		for name, script := range map[string][]mishap{
			"each time": {{err: loss}}, "at first": {{err: loss}, throttle}, "in between": {throttle, {err: loss}, throttle},
		} {
			if calls, err := given(t, script...); !fault.Is(err, fault.Unanswered) || calls != 10 {
				t.Errorf("%v %s: answered %v after %d calls", loss, name, err, calls)
			}
		}
	}
	for _, refusal := range refusals() {
		if calls, err := given(t, mishap{err: refusal}); !fault.Is(err, fault.Throttled) || calls != 10 {
			t.Errorf("%v: answered %v after %d calls", refusal, err, calls)
		}
	}
}

// TestReasonsOfACanceledTransaction has each reason that DynamoDB knows.
func TestReasonsOfACanceledTransaction(t *testing.T) {
	for code, want := range map[string]struct {
		kind  fault.Kind
		calls int
	}{
		"TransactionConflict":             {fault.Throttled, 10},
		"ThrottlingError":                 {fault.Throttled, 10},
		"ProvisionedThroughputExceeded":   {fault.Throttled, 10},
		"ItemCollectionSizeLimitExceeded": {fault.Internal, 1},
		"ValidationError":                 {fault.Internal, 1},
	} {
		calls, err := given(t, mishap{err: &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String(code)}}}})
		if err == nil || fault.KindOf(err) != want.kind || calls != want.calls || errors.Is(err, store.ErrLost) {
			t.Errorf("%s: answered %v after %d calls", code, err, calls)
		}
	}
	calls, err := given(t, mishap{err: &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("ConditionalCheckFailed")}}}})
	if !errors.Is(err, store.ErrCondition) || calls != 1 {
		t.Errorf("a false condition: answered %v after %d calls", err, calls)
	}
}

func TestRefusedCallIsNotUnknown(t *testing.T) {
	for _, refusal := range []error{
		&smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient},
		&smithy.GenericAPIError{Code: "ValidationException", Fault: smithy.FaultClient},
		&types.ResourceNotFoundException{},
	} {
		if calls, err := given(t, mishap{err: refusal}); fault.Is(err, fault.Unanswered) || errors.Is(err, store.ErrLost) || calls != 1 {
			t.Errorf("%v: answered %v after %d calls", refusal, err, calls)
		}
	}
	for _, unheard := range []error{errors.New("what is this"), fmt.Errorf("x: %w", io.ErrShortWrite)} {
		if calls, err := given(t, mishap{err: unheard}); !fault.Is(err, fault.Unanswered) || calls != 1 {
			t.Errorf("%v: answered %v after %d calls", unheard, err, calls)
		}
	}
}

// ending ends a context in the middle of a commit.
type ending struct {
	store.Backend
	cancel  context.CancelFunc
	applied bool
}

func (e ending) Transact(ctx context.Context, token string, writes []store.Write) error {
	if e.applied {
		if err := e.Backend.Transact(ctx, token, writes); err != nil {
			return err
		}
	}
	e.cancel()
	return ctx.Err()
}

func TestCommitWhoseContextEndsMidwayIsUnknown(t *testing.T) {
	for _, applied := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		table := storetest.Over(t, ending{memory.New(), cancel, applied})
		if err := table.Commit(ctx, store.Put(key("a"), thing{})); !fault.Is(err, fault.Unanswered) {
			t.Errorf("applied %v: answered %v", applied, err)
		}
		if err := table.Commit(ctx, store.Put(key("a"), thing{})); fault.Is(err, fault.Unanswered) || !errors.Is(err, context.Canceled) {
			t.Errorf("a commit that was never begun: answered %v", err)
		}
	}
}

// TestCommitThatIsNotRepeatedForItsContextIsNoThrottle: nobody is told to come
// back who has gone, or whose time is over.
func TestCommitThatIsNotRepeatedForItsContextIsNoThrottle(t *testing.T) {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		u := &unlucky{script: []mishap{{err: &types.ThrottlingException{}}}}
		table := storetest.Over(t, store.NewDynamoDB(u, "table"), storetest.Pause(func(context.Context, int) error { return end }))
		if err := table.Commit(t.Context(), store.Delete(key("a"))); !errors.Is(err, end) || fault.Is(err, fault.Throttled) || len(u.sent) != 1 {
			t.Errorf("%v: answered %v after %d calls", end, err, len(u.sent))
		}
	}
}

func TestDatabaseThatDoesNotAnswerReadsIsNoThrottle(t *testing.T) {
	for name, call := range map[string]func(*store.Table) error{
		"get": func(table *store.Table) error { return table.Get(t.Context(), key("a"), nil) },
		"query": func(table *store.Table) error {
			_, err := table.Keys(t.Context(), store.Query{PK: "p"})
			return err
		},
	} {
		for _, loss := range losses() {
			script := make([]mishap, 50)
			for i := range script {
				script[i].err = loss
			}
			if err := call(storetest.Over(t, store.NewDynamoDB(&unlucky{script: script}, "table"))); !fault.Is(err, fault.Unanswered) {
				t.Errorf("%s, %v: answered %v", name, loss, err)
			}
		}
	}
}
