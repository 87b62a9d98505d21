package gateway

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestHalfClosedConnectionStaysOpenWhileActive checks that waitHalfClosed waits as long as bytes pass, and returns
// at most three minutes after the last byte. It also checks that waitHalfClosed returns immediately when the second
// direction has ended.
func TestHalfClosedConnectionStaysOpenWhileActive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var transferred atomic.Int64
		done, returned, start := make(chan error), make(chan struct{}), time.Now()
		defer close(returned)
		go func() {
			for range 60 {
				select {
				case <-time.After(50 * time.Second):
					transferred.Add(1)
				case <-returned:
					return
				}
			}
		}()
		w := writer{halfClosedTimeout: defaultHalfClosedTimeout}
		w.waitHalfClosed(done, &transferred)
		if elapsed := time.Since(start); elapsed < 50*time.Minute || elapsed > 53*time.Minute {
			t.Errorf("waitHalfClosed() of an active connection returned after %s, want 50 to 53 minutes", elapsed)
		}
		go func() { done <- nil }()
		start = time.Now()
		if w.waitHalfClosed(done, &transferred); time.Since(start) > 0 {
			t.Errorf("waitHalfClosed() of an ended connection returned after %s, want no wait", time.Since(start))
		}
	})
}
