package counts

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestAnIdleInstanceSavesNoMoreWritesThanABurst: after a night without requests, the first ones of the morning would be written one by one.
func TestAnIdleInstanceSavesNoMoreWritesThanABurst(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	p := pace{tokens: burst, at: begin}
	written := 0
	for range callsPerWrite - 1 {
		p.calls.Add(1)
		if p.due(begin.Add(8 * time.Hour)) {
			written++
		}
	}
	if written != burst {
		t.Errorf("%d calls after a night are written %d times, want %d", callsPerWrite-1, written, burst)
	}
}

// TestAClockThatIsSetBackHoldsNoWrites: what is counted would be seen when it has gone as far again.
func TestAClockThatIsSetBackHoldsNoWrites(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	p := pace{tokens: 1, at: begin}
	for n, now := range []time.Time{begin.Add(-time.Hour), begin.Add(writeInterval - time.Hour), begin.Add(2*writeInterval - time.Hour)} {
		p.calls.Add(1)
		if !p.due(now) {
			t.Errorf("write %d is held", n+1)
		}
	}
}

// TestCallsThatEndTogetherAreWrittenOnce: calls that were taken twice would make the count negative, and later calls would wait for that many more.
func TestCallsThatEndTogetherAreWrittenOnce(t *testing.T) {
	t.Parallel()
	const together = 8
	begin := time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)
	p := pace{at: begin}
	p.calls.Store(callsPerWrite)
	var written atomic.Int64
	var all sync.WaitGroup
	p.mu.Lock() // so that all of them wait at the same place
	for range together {
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
		t.Errorf("%d of %d calls of due() returned true and %d calls are left, want 1 and 0", written.Load(), together, calls)
	}
}
