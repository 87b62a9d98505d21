package store

import (
	"context"
	"errors"
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
	made, err := t.attempt(ctx, call)
	if span.On() {
		_, condition := errors.AsType[*ConditionError](err)
		span.End(err != nil && !condition, attribute.String("db.system.name", "aws.dynamodb"), attribute.Int("gatewright.attempts", made))
	}
	return err
}

func (t *Table) attempt(ctx context.Context, call func() error) (made int, err error) {
	for made = 1; ; made++ {
		err := call()
		if err == nil || !errors.Is(err, ErrRepeat) {
			return made, err
		}
		if made == attempts {
			return made, throttled(err)
		}
		if pauseErr := t.pause(ctx, made); pauseErr != nil {
			return made, errors.Join(pauseErr, err)
		}
	}
}

// changeAttempts is how often Again makes a change. Each attempt fails only
// because another change succeeded.
const changeAttempts = 12

// ErrStale is what a change answers to Again when something that it has read is
// another by now: put it where a condition fails (Write.Else).
var ErrStale = errors.New("store: what was read has changed since")

// Again makes a change that reads and then commits, from the start each time it
// answers an error that wraps ErrStale, with the table's pause in between. When
// that does not end, Again answers a Throttled fault: nothing was changed, and
// the request may be repeated.
func (t *Table) Again(ctx context.Context, change func() error) error {
	for attempt := 1; ; attempt++ {
		err := change()
		if !errors.Is(err, ErrStale) {
			return err
		}
		if attempt == changeAttempts {
			f := fault.New(fault.Throttled, "Too many changes of the same thing at once. Repeat the request after the time in Retry-After.")
			f.RetryAfter = time.Second
			return f.Because(err)
		}
		if pauseErr := t.pause(ctx, attempt); pauseErr != nil {
			return pauseErr
		}
	}
}
