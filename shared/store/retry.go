package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/telemetry"
)

// Pause waits before repeat number attempt (from 1) and answers the context's
// error when that ends first.
type Pause func(ctx context.Context, attempt int) error

// attempts is how often a call is made before it is given up as throttled:
// with Backoff after 1.6 s in the mean and 3.3 s at most, within any Lambda's time.
const attempts = 10

const (
	firstPause = 10 * time.Millisecond
	longest    = time.Second
)

// Backoff waits a random time between 0 and 10 ms doubled with each attempt, at
// most 1 s: full jitter, so that those who collided once do not meet again.
func Backoff(ctx context.Context, attempt int) error {
	limit := min(firstPause<<min(attempt-1, 20), longest)
	timer := time.NewTimer(rand.N(limit)) //nolint:gosec // G404: jitter is no secret
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// repeat makes a call until it answers anything but ErrRepeat, or attempts are
// used up, or the context ends. All of them are one span.
func (t *Table) repeat(ctx context.Context, what action, call func() error) error {
	_, span := telemetry.Child(ctx, what.span())
	made, err := t.attempt(ctx, what, call)
	if span.On() {
		_, condition := errors.AsType[*ConditionError](err)
		span.End(err != nil && !condition, attribute.String("db.system.name", "aws.dynamodb"), attribute.Int("gatewright.attempts", made))
	}
	return err
}

func (t *Table) attempt(ctx context.Context, what action, call func() error) (made int, err error) {
	lost := false // whether a call before this one, or it, may have had its effect
	for made = 1; ; made++ {
		if ctx.Err() != nil && made == 1 {
			return 0, fmt.Errorf("%s was not begun: %w", what.span(), context.Cause(ctx))
		}
		err := call()
		if err == nil {
			return made, nil
		}
		if _, condition := errors.AsType[*ConditionError](err); condition {
			return made, err // also after a lost reply: a commit that was made answers its token with success
		}
		lost = lost || errors.Is(err, ErrLost) || ctx.Err() != nil
		if errors.Is(err, ErrRepeat) && made < attempts {
			pauseErr := t.pause(ctx, made)
			if pauseErr == nil {
				continue
			}
			err = errors.Join(pauseErr, err)
		}
		return made, what.givenUp(err, lost)
	}
}

// givenUp is what a caller hears of a call that is not repeated any more. Only
// one that was refused each time is Throttled: it had no effect.
func (a action) givenUp(err error, lost bool) error {
	switch {
	case lost && a == committing:
		return fault.New(fault.Unanswered, "It is not known whether this was done: the database did not answer. Read what the request is about before repeating it.").Because(err)
	case errors.Is(err, ErrLost):
		return fault.New(fault.Unanswered, "The database does not answer, and what this request is about could not be read. Repeat it later.").Because(err)
	case errors.Is(err, ErrRepeat) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return refusedFor(err, "The service is busy, and nothing was done. Repeat the request after the time in Retry-After.")
	}
	return err
}

// retryAfter is how long a caller that was refused shall wait.
const retryAfter = time.Second

// changeAttempts is how often Again makes a change. Each attempt fails only
// because another change succeeded.
const changeAttempts = 12

// ErrStale is what a change answers to Again when something that it has read is
// another by now. Commit answers it by itself where a record that was read has
// changed; for what it cannot know, put it where a condition fails (Write.Else).
var ErrStale = errors.New("store: what was read has changed since")

// Again makes a change that reads and then commits, from the start each time it
// answers an error that wraps ErrStale, with the table's pause in between. Each
// attempt is a decision (see Decide): its commit holds only over what it has
// read under the context that change is given. When that does not end, Again
// answers a Throttled fault: nothing was changed, and the request may be repeated.
func (t *Table) Again(ctx context.Context, change func(ctx context.Context) error) error {
	for attempt := 1; ; attempt++ {
		err := change(deciding(ctx, true))
		if !errors.Is(err, ErrStale) {
			return err
		}
		if attempt == changeAttempts {
			return contended(err)
		}
		if pauseErr := t.pause(ctx, attempt); pauseErr != nil {
			return pauseErr
		}
	}
}
