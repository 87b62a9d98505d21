package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/telemetry"
)

// BackoffFunc waits after the failed attempt number attempt (counted from 1), before the next attempt. It returns the
// context's error if the context ends first.
type BackoffFunc func(ctx context.Context, attempt int) error

// maxAttempts is the maximum number of attempts at a call. With Backoff the pauses between them take
// 1.6 s on average and 3.3 s at most, which is less than the timeout of each Lambda.
const maxAttempts = 10

const (
	initialBackoff = 10 * time.Millisecond
	maxBackoff     = time.Second
)

// Backoff waits a random time between 0 and a limit. The limit is 10 ms, doubled with each attempt,
// and at most 1 s. This is full jitter, so callers that have collided rarely collide again.
func Backoff(ctx context.Context, attempt int) error {
	limit := min(initialBackoff<<min(attempt-1, 20), maxBackoff)
	timer := time.NewTimer(rand.N(limit)) //nolint:gosec // G404: jitter is not secret
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// retry makes a call, and repeats it while it returns an error that wraps ErrRetryable, until there were
// maxAttempts attempts or the context ends. All attempts are one span of a trace.
func (t *Table) retry(ctx context.Context, kind action, call func() error) error {
	_, span := telemetry.Child(ctx, kind.span())
	calls, err := t.callWithRetries(ctx, kind, call)
	if span.Enabled() {
		_, condition := errors.AsType[*ConditionError](err)
		span.End(err != nil && !condition, attribute.String("db.system.name", "aws.dynamodb"),
			attribute.Int("gatewright.attempts", calls))
	}
	return err
}

func (t *Table) callWithRetries(ctx context.Context, kind action, call func() error) (calls int, err error) {
	outcomeUnknown := false // whether one of the attempts may have had its effect
	for calls = 1; ; calls++ {
		if ctx.Err() != nil && calls == 1 {
			return 0, fmt.Errorf("%s was not begun: %w", kind.span(), context.Cause(ctx))
		}
		err := call()
		if err == nil {
			return calls, nil
		}
		if _, condition := errors.AsType[*ConditionError](err); condition {
			// This also holds after a lost reply: if that attempt had committed, a repeat with its token would succeed.
			return calls, err
		}
		outcomeUnknown = outcomeUnknown || errors.Is(err, ErrOutcomeUnknown) || ctx.Err() != nil
		if errors.Is(err, ErrRetryable) && calls < maxAttempts {
			backoffErr := t.backoff(ctx, calls)
			if backoffErr == nil {
				continue
			}
			err = errors.Join(backoffErr, err)
		}
		return calls, kind.finalError(err, outcomeUnknown)
	}
}

// finalError returns the error for the caller after the last attempt at a call. The error of a
// commit is Throttled only if each attempt was refused, so that the commit had no effect.
func (a action) finalError(err error, outcomeUnknown bool) error {
	switch {
	case outcomeUnknown && a == committing:
		return fault.New(fault.DatabaseUnavailable, "It is not known whether this was done: the database did not answer. "+
			"Read what the request is about before repeating it.").WithCause(err)
	case errors.Is(err, ErrOutcomeUnknown):
		return fault.New(fault.DatabaseUnavailable,
			"The database does not answer, and what this request is about could not be read. Repeat it later.").WithCause(err)
	case errors.Is(err, ErrRetryable) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return throttledFault(err, "The service is busy, and nothing was done. Repeat the request after the time in "+
			"Retry-After.")
	}
	return err
}

// retryAfter is the Retry-After of a refused request.
const retryAfter = time.Second

// maxTxAttempts is the maximum number of times that RunInTx runs a change. RunInTx repeats a change only if another
// change has succeeded meanwhile.
const maxTxAttempts = 12

// ErrStale is the error that a change returns to RunInTx if data that the change has read has changed meanwhile.
// Within RunInTx, Commit returns ErrStale if a record that was read has changed. For other conditions, pass ErrStale to
// Write.Else.
var ErrStale = errors.New("store: what was read has changed since")

// RunInTx runs a change that reads and then commits. While the change returns an error that wraps
// ErrStale, RunInTx repeats it from the start, with the table's backoff in between. Each attempt
// has its own read set (see WithReadSet): its commit succeeds only if the records that were read
// under the context passed to change are unchanged. After maxTxAttempts attempts, RunInTx returns
// a Throttled fault. Then nothing was changed, and the client can repeat the request.
func (t *Table) RunInTx(ctx context.Context, change func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := change(withReadSet(ctx, true))
		if !errors.Is(err, ErrStale) {
			return err
		}
		if attempt == maxTxAttempts {
			return contentionFault(err)
		}
		if backoffErr := t.backoff(ctx, attempt); backoffErr != nil {
			return backoffErr
		}
	}
}
