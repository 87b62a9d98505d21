package coalesce_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/coalesce"
)

// callerKey is the key of a context value that names the caller.
type callerKey struct{}

// TestConcurrentCallersShareOneRead checks that callers share one read, and that the read continues when the first
// caller leaves.
func TestConcurrentCallersShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g coalesce.Group[*int]
		reads, seven := 0, 7
		read := func(ctx context.Context) (*int, error) {
			reads++
			if ctx.Value(callerKey{}) != "first" {
				t.Errorf("context value in the read = %v, want that of the first caller", ctx.Value(callerKey{}))
			}
			select {
			case <-time.After(time.Second):
				return &seven, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		errLeft := errors.New("left")
		first, cancelFirst := context.WithCancelCause(context.WithValue(t.Context(), callerKey{}, "first"))
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := g.Do(first, "key", time.Minute, read); got != nil || !errors.Is(err, errLeft) {
				t.Errorf("Do() of the canceled caller = %v, %v, want nil, %v", got, err, errLeft)
			}
		})
		synctest.Wait()
		for range 3 {
			wg.Go(func() {
				if got, err := g.Do(t.Context(), "key", time.Minute, read); got != &seven || err != nil {
					t.Errorf("Do() of a waiting caller = %p, %v, want the pointer %p of the read and no error", got, err, &seven)
				}
			})
		}
		synctest.Wait()
		cancelFirst(errLeft)
		wg.Wait()
		if reads != 1 {
			t.Errorf("reads for four concurrent callers = %d, want 1", reads)
		}
		if _, err := g.Do(first, "key", time.Minute, func(context.Context) (*int, error) {
			reads++
			return nil, nil
		}); !errors.Is(err, errLeft) && err != nil {
			t.Errorf("later Do() of the canceled caller = %v, want nil or %v", err, errLeft)
		}
		synctest.Wait()
		if reads != 2 {
			t.Errorf("reads after a later Do() = %d, want 2", reads)
		}
	})
}

// TestReadTimesOut checks the time limit of a read, and that Do returns the read's value together with its error.
func TestReadTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g coalesce.Group[string]
		start := time.Now()
		got, err := g.Do(t.Context(), "key", time.Second, func(ctx context.Context) (string, error) {
			<-ctx.Done()
			return "what was there before", ctx.Err()
		})
		if got != "what was there before" || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("Do() = %q, %v after %v, want the result of the read, %v after 1s",
				got, err, time.Since(start), context.DeadlineExceeded)
		}
	})
}

func TestKeysAreReadSeparately(t *testing.T) {
	var g coalesce.Group[string]
	for _, key := range []string{"a", "b"} {
		if got, err := g.Do(t.Context(), key, time.Minute, func(context.Context) (string, error) {
			return key, nil
		}); got != key || err != nil {
			t.Errorf("Do(%s) = %q, %v, want %[1]q and no error", key, got, err)
		}
	}
}
