package garbage_test

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/garbage"
)

func TestASmallProcessHasRoom(t *testing.T) {
	for _, c := range []struct {
		held uint64
		want int
	}{
		{16 << 20, 300}, {24 << 20, 200}, {48 << 20, 100}, {1 << 30, 100}, {1 << 50, 100},
	} {
		if got := garbage.Percent(c.held); got != c.want {
			t.Errorf("who holds %d MB collects after %d %%, not %d", c.held>>20, got, c.want)
		}
	}
	for _, held := range []uint64{0, 1, 1000} {
		if got := garbage.Percent(held); got < 100_000 {
			t.Errorf("who holds %d bytes collects after %d %%", held, got)
		}
	}
}

// percent is what holds now.
func percent() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// collectUntil collects until the percentage is as it is asked for: what is said after a collection, a goroutine hears later.
func collectUntil(t *testing.T, is func(uint64) bool) {
	t.Helper()
	for range 500 {
		if is(percent()) {
			return
		}
		runtime.GC()
		runtime.Gosched()
	}
	t.Fatalf("the percentage remains %d", percent())
}

// keep has the process be kept until what it gives is called, and Go's own measure restored when the test ends.
func keep(t *testing.T) (stop func()) {
	t.Helper()
	before := debug.SetGCPercent(100)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		garbage.Keep(ctx)
	}()
	return func() {
		cancel()
		<-ended
	}
}

var held []byte

// TestRoomFollowsWhatIsHeld: much room while little is held, Go's own measure while much is, and room again.
func TestRoomFollowsWhatIsHeld(t *testing.T) {
	stop := keep(t)
	large := func(p uint64) bool { return p > 200 }
	collectUntil(t, large)
	held = make([]byte, 2*garbage.Room)
	collectUntil(t, func(p uint64) bool { return p == 100 })
	held = nil
	collectUntil(t, large)
	stop()
	if p := percent(); p != 100 {
		t.Errorf("afterwards it is %d", p)
	}
}

func TestWhoHasChosenIsLeftAlone(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	ctx, stop := context.WithCancel(t.Context())
	stop()
	garbage.Keep(ctx)
	if p := percent(); p != 70 {
		t.Errorf("chosen was 70, and it is %d", p)
	}
}

// TestQuietProcessGivesItsRoomBack: what the heap has and does not use goes to the system.
func TestQuietProcessGivesItsRoomBack(t *testing.T) {
	defer keep(t)()
	kept := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapSys - m.HeapReleased
	}
	for range 4 {
		held = make([]byte, garbage.Room)
		for i := 0; i < len(held); i += 4096 {
			held[i] = 1
		}
	}
	held = nil
	busy := kept()
	if busy < garbage.Room {
		t.Fatalf("the heap has %d MB", busy>>20)
	}
	for range 300 {
		if kept() < busy-garbage.Room/2 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Errorf("the heap has %d MB still, of %d", kept()>>20, busy>>20)
}
