package gateway

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestHalfOfAConnectionGoesOnWhileSomethingPasses, however long that is, and no longer.
func TestHalfOfAConnectionGoesOnWhileSomethingPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var passed atomic.Int64
		done, over, begun := make(chan error), make(chan struct{}), time.Now()
		defer close(over)
		go func() {
			for range 60 {
				select {
				case <-time.After(50 * time.Second):
					passed.Add(1)
				case <-over:
					return
				}
			}
		}()
		w := writer{halfClosed: defaultHalfClosedTimeout}
		w.outlast(done, &passed)
		if took := time.Since(begun); took < 50*time.Minute || took > 53*time.Minute {
			t.Errorf("the second half has ended after %s", took)
		}
		go func() { done <- nil }()
		begun = time.Now()
		if w.outlast(done, &passed); time.Since(begun) > 0 {
			t.Error("one that ends by itself is waited for")
		}
	})
}
