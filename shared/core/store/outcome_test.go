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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// commitWithFailures makes a commit over a client whose calls fail as script says. Calls after the
// end of script fail as the last call of script does. It returns the number of calls and the error.
func commitWithFailures(t *testing.T, script ...callFailure) (calls int, err error) {
	t.Helper()
	all := append([]callFailure(nil), script...)
	for len(all) < 50 {
		all = append(all, script[len(script)-1])
	}
	failing := &failingClient{script: all}
	err = storetest.NewWithBackend(t, store.NewDynamoDB(failing, "table")).Commit(t.Context(), store.Delete(key("a")))
	return len(failing.sent), err
}

// TestCommitWithLostReplyHasUnknownOutcome checks that the outcome of a commit is unknown if one of its calls
// may have had an effect, even if the other calls were throttled. A commit of only refused calls is throttled.
func TestCommitWithLostReplyHasUnknownOutcome(t *testing.T) {
	throttle := callFailure{err: &types.ThrottlingException{}}
	for _, loss := range lostReplyErrors() {
		for name, script := range map[string][]callFailure{
			"every reply": {{err: loss}}, "the first reply": {{err: loss}, throttle},
			"the second reply": {throttle, {err: loss}, throttle},
		} {
			if calls, err := commitWithFailures(t, script...); !fault.Is(err, fault.DatabaseUnavailable) || calls != 10 {
				t.Errorf("Commit() with %v instead of %s = %v after %d calls, want DatabaseUnavailable after 10",
					loss, name, err, calls)
			}
		}
	}
	for _, refusal := range refusedErrors() {
		if calls, err := commitWithFailures(t, callFailure{err: refusal}); !fault.Is(err, fault.Throttled) || calls != 10 {
			t.Errorf("Commit() with %v = %v after %d calls, want throttled after 10", refusal, err, calls)
		}
	}
}

// TestCancellationReasons checks the error and the number of calls for each cancellation reason of DynamoDB.
func TestCancellationReasons(t *testing.T) {
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
		calls, err := commitWithFailures(t,
			callFailure{
				err: &types.TransactionCanceledException{
					CancellationReasons: []types.CancellationReason{{Code: aws.String(code)}},
				},
			})
		if err == nil || fault.KindOf(err) != want.kind || calls != want.calls {
			t.Errorf("Commit() canceled with %s = %v (kind %v) after %d calls, want an error of the kind %v after %d",
				code, err, fault.KindOf(err), calls, want.kind, want.calls)
		}
		if errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("Commit() canceled with %s = %v, want a known outcome", code, err)
		}
	}
	calls, err := commitWithFailures(t,
		callFailure{
			err: &types.TransactionCanceledException{
				CancellationReasons: []types.CancellationReason{{Code: aws.String("ConditionalCheckFailed")}},
			},
		})
	if !errors.Is(err, store.ErrCondition) || calls != 1 {
		t.Errorf("Commit() with a false condition = %v after %d calls, want %v after 1", err, calls, store.ErrCondition)
	}
}

func TestOnlyRefusedCallHasKnownOutcome(t *testing.T) {
	for _, refusal := range []error{
		&smithy.GenericAPIError{Code: "AccessDeniedException", Fault: smithy.FaultClient},
		&smithy.GenericAPIError{Code: "ValidationException", Fault: smithy.FaultClient},
		&types.ResourceNotFoundException{},
	} {
		if calls, err := commitWithFailures(t, callFailure{err: refusal}); err == nil ||
			fault.Is(err, fault.DatabaseUnavailable) || errors.Is(err, store.ErrOutcomeUnknown) || calls != 1 {
			t.Errorf("Commit() with %v = %v after %d calls, want an error with a known outcome after 1", refusal, err, calls)
		}
	}
	for _, unknownErr := range []error{errors.New("an unknown error"), fmt.Errorf("x: %w", io.ErrShortWrite)} {
		if calls, err := commitWithFailures(t, callFailure{err: unknownErr}); !fault.Is(err, fault.DatabaseUnavailable) ||
			calls != 1 {
			t.Errorf("Commit() with %v = %v after %d calls, want DatabaseUnavailable after 1", unknownErr, err, calls)
		}
	}
}

// cancelingBackend ends a context in the middle of a commit. applied is whether the commit takes effect.
type cancelingBackend struct {
	store.Backend
	cancel  context.CancelFunc
	applied bool
}

func (b cancelingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.applied {
		if err := b.Backend.Transact(ctx, token, writes); err != nil {
			return err
		}
	}
	b.cancel()
	return ctx.Err()
}

func TestCommitCanceledMidwayHasUnknownOutcome(t *testing.T) {
	for _, applied := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		table := storetest.NewWithBackend(t, cancelingBackend{memory.New(), cancel, applied})
		if err := table.Commit(ctx, store.Put(key("a"), thing{})); !fault.Is(err, fault.DatabaseUnavailable) {
			t.Errorf("Commit() canceled midway, applied %t = %v, want DatabaseUnavailable", applied, err)
		}
		if err := table.Commit(ctx, store.Put(key("a"), thing{})); fault.Is(err, fault.DatabaseUnavailable) ||
			!errors.Is(err, context.Canceled) {
			t.Errorf("Commit() with a canceled context = %v, want %v", err, context.Canceled)
		}
	}
}

// TestCommitCanceledInBackoffIsNotThrottled checks that a commit whose context ends during a
// pause does not fail as throttled, because its caller does not wait any more.
func TestCommitCanceledInBackoffIsNotThrottled(t *testing.T) {
	for _, end := range []error{context.Canceled, context.DeadlineExceeded} {
		failing := &failingClient{script: []callFailure{{err: &types.ThrottlingException{}}}}
		table := storetest.NewWithBackend(t, store.NewDynamoDB(failing, "table"),
			storetest.Backoff(func(context.Context, int) error { return end }))
		if err := table.Commit(t.Context(), store.Delete(key("a"))); !errors.Is(err, end) || fault.Is(err, fault.Throttled) ||
			len(failing.sent) != 1 {
			t.Errorf("Commit() canceled in the backoff = %v after %d calls, want %v after 1, and not throttled",
				err, len(failing.sent), end)
		}
	}
}

func TestReadWithLostReplyIsUnavailable(t *testing.T) {
	for name, call := range map[string]func(*store.Table) error{
		"get": func(table *store.Table) error { return table.Get(t.Context(), key("a"), nil) },
		"query": func(table *store.Table) error {
			_, err := table.Keys(t.Context(), store.Query{PK: "p"})
			return err
		},
	} {
		for _, loss := range lostReplyErrors() {
			script := make([]callFailure, 50)
			for i := range script {
				script[i].err = loss
			}
			if err := call(storetest.NewWithBackend(t, store.NewDynamoDB(&failingClient{script: script}, "table"))); !fault.Is(
				err, fault.DatabaseUnavailable) {
				t.Errorf("%s with %v = %v, want DatabaseUnavailable", name, loss, err)
			}
		}
	}
}
