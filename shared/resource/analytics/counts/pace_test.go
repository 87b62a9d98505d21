package counts

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestIdleInstanceAccumulatesAtMostOneBurst checks that the number of tokens is limited. Without the limit, many
// requests of the morning would be written one by one after a night without requests.
func TestIdleInstanceAccumulatesAtMostOneBurst(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	p := pacer{tokens: maxBurst, refilledAt: begin}
	written := 0
	for range callsPerWrite - 1 {
		p.calls.Add(1)
		if p.due(begin.Add(8 * time.Hour)) {
			written++
		}
	}
	if written != maxBurst {
		t.Errorf("%d calls after a night are written %d times, want %d", callsPerWrite-1, written, maxBurst)
	}
}

// TestClockSetBackDoesNotDelayWrites is a regression test: after a clock was set back, counts became visible only when
// the clock had caught up.
func TestClockSetBackDoesNotDelayWrites(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	p := pacer{tokens: 1, refilledAt: begin}
	for n, now := range []time.Time{
		begin.Add(-time.Hour), begin.Add(writeInterval - time.Hour),
		begin.Add(2*writeInterval - time.Hour),
	} {
		p.calls.Add(1)
		if !p.due(now) {
			t.Errorf("due() for write %d after the clock was set back = false, want true", n+1)
		}
	}
}

// TestConcurrentCallsAreWrittenOnce is a regression test: if written calls were subtracted twice, the number of waiting
// calls would become negative, and later calls would not be written in time.
func TestConcurrentCallsAreWrittenOnce(t *testing.T) {
	t.Parallel()
	const goroutines = 8
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	p := pacer{refilledAt: begin}
	p.calls.Store(callsPerWrite)
	var written atomic.Int64
	var all sync.WaitGroup
	p.mu.Lock() // so that all of them wait at the same place
	for range goroutines {
		all.Go(func() {
			if p.due(begin) {
				written.Add(1)
			}
		})
	}
	for range 1000 {
		runtime.Gosched()
	}
	p.mu.Unlock()
	all.Wait()
	if calls := p.calls.Load(); calls != 0 || written.Load() != 1 {
		t.Errorf("%d of %d calls of due() return true and %d calls remain, want 1 and 0", written.Load(), goroutines, calls)
	}
}
