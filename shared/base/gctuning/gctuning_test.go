package gctuning_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/gctuning"
)

func TestPercentOfSmallHeapIsHigh(t *testing.T) {
	for _, c := range []struct {
		live uint64
		want int
	}{
		{16 << 20, 300}, {24 << 20, 200}, {48 << 20, 100}, {1 << 30, 100}, {1 << 50, 100},
	} {
		if got := gctuning.Percent(c.live); got != c.want {
			t.Errorf("Percent(%d MB) = %d, want %d", c.live>>20, got, c.want)
		}
	}
	for _, live := range []uint64{0, 1, 1000} {
		if got := gctuning.Percent(live); got < 100_000 {
			t.Errorf("Percent(%d) = %d, want at least 100000", live, got)
		}
	}
}

// percent returns the current value of GOGC.
func percent() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// collectUntil collects garbage until matches returns true for the value of GOGC. want describes these values. A
// goroutine changes the value some time after a collection.
func collectUntil(t *testing.T, want string, matches func(uint64) bool) {
	t.Helper()
	for range 500 {
		if matches(percent()) {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Fatalf("GC percentage = %d after 500 collections, want %s", percent(), want)
}

// startTune runs Tune, with Go's default at its start, until the caller calls stop. When the test ends, the GC
// percentage from before the call is restored.
func startTune(t *testing.T) (stop func()) {
	t.Helper()
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		gctuning.Tune(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// ballast is memory that stays in the live heap while a test needs it.
var ballast []byte

// TestPercentFollowsLiveHeap checks that the percentage is high while the live heap is small, Go's default while it is
// large, and high again afterwards. When the context of Tune ends, it is Go's default.
func TestPercentFollowsLiveHeap(t *testing.T) {
	stop := startTune(t)
	high := func(p uint64) bool { return p > 200 }
	collectUntil(t, "more than 200", high)
	ballast = make([]byte, 2*gctuning.MinHeapGrowth)
	collectUntil(t, "100", func(p uint64) bool { return p == 100 })
	ballast = nil
	collectUntil(t, "more than 200", high)
	stop()
	if p := percent(); p != 100 {
		t.Errorf("GC percentage after the context ends = %d, want 100", p)
	}
}

func TestExplicitGOGCIsKept(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	gctuning.Tune(ctx)
	if p := percent(); p != 70 {
		t.Errorf("GC percentage = %d, want the 70 of GOGC", p)
	}
}

// TestIdleProcessReleasesMemory checks that unused memory of the heap is returned to the system.
func TestIdleProcessReleasesMemory(t *testing.T) {
	defer startTune(t)()
	heapRetained := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	for range 4 {
		ballast = make([]byte, gctuning.MinHeapGrowth)
		for i := 0; i < len(ballast); i += 4096 {
			ballast[i] = 1
		}
	}
	ballast = nil
	busy := heapRetained()
	if busy < gctuning.MinHeapGrowth {
		t.Fatalf("retained heap = %d MB, want at least %d MB", busy>>20, gctuning.MinHeapGrowth>>20)
	}
	for range 300 {
		if heapRetained() < busy-gctuning.MinHeapGrowth/2 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("retained heap of the idle process = %d MB, want less than %d MB",
		heapRetained()>>20, (busy-gctuning.MinHeapGrowth/2)>>20)
}
