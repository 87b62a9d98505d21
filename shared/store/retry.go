package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
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
// used up, or the context ends.
func (t *Table) repeat(ctx context.Context, call func() error) error {
	for attempt := 1; ; attempt++ {
		err := call()
		if err == nil || !errors.Is(err, ErrRepeat) {
			return err
		}
		if attempt == attempts {
			return throttled(err)
		}
		if pauseErr := t.pause(ctx, attempt); pauseErr != nil {
			return errors.Join(pauseErr, err)
		}
	}
}
