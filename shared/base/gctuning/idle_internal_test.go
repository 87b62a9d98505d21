package gctuning

import "testing"

// TestMemoryIsReleasedAboveMinimum checks that memory is returned after an idle interval, and again only after
// minRelease more bytes have been allocated.
func TestMemoryIsReleasedAboveMinimum(t *testing.T) {
	var detector idleDetector
	var allocated uint64
	for i, step := range []struct {
		more uint64
		want bool
	}{
		{minRelease + maxIdleAlloc, false}, // busy
		{maxIdleAlloc, true},
		{0, false}, // nothing has been allocated since
		{maxIdleAlloc, false},
		{minRelease, false},
		{maxIdleAlloc + 1, false}, // still busy
		{1, true},
		{minRelease / 2, false},
		{0, false}, // idle, but less than minRelease was allocated
	} {
		allocated += step.more
		if got := detector.shouldRelease(allocated); got != step.want {
			t.Errorf("step %d: shouldRelease(%d) = %v, want %v", i, allocated, got, step.want)
		}
	}
	for n := range uint64(2 * minRelease / maxIdleAlloc) { // many small amounts add up to minRelease
		if allocated += maxIdleAlloc; detector.shouldRelease(allocated) {
			if n < minRelease/2/maxIdleAlloc-2 {
				t.Errorf("shouldRelease() = true after %d intervals, want false for small amounts", n)
			}
			return
		}
	}
	t.Error("shouldRelease() of an idle process = false in every interval, want true in the end")
}
