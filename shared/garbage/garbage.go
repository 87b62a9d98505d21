// Package garbage has a process that serves collect garbage less often while it holds little.
//
// Go collects when as much has been allocated as is held. A gateway holds some 15 MB and allocates 7 KB a request, so that it would
// collect every 2,000 requests, several times a second. Here it collects when Room has been allocated, at the earliest, and as
// Go does once it holds more than that: no process takes more than Room on top of what it would. When there is nothing to do for a
// moment, the room goes back to the system.
//
// Who sets GOGC or calls debug.SetGCPercent has chosen, and is left alone; GOMEMLIMIT holds beside it. The decision is
// docs/decisions/0055-room-for-garbage.md.
package garbage

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Room is how many bytes are allocated between two collections at least.
const Room = 48 << 20

// A process is quiet that allocates less than mostQuiet within an interval: some 70 requests a second. It gives back what it
// does not hold when that may be worth it, which is not before so much has been allocated again: a collection of what it
// holds takes some 20 ms.
const (
	interval  = 2 * time.Second
	mostQuiet = 1 << 20
	worth     = Room / 2
)

// usual is Go's own percentage of what is held, after which it collects.
const usual = 100

// Percent is the percentage for a process that holds so many bytes: what GOGC is.
func Percent(held uint64) int {
	return int(max(usual, min(Room*usual/max(held, 1), math.MaxInt32))) //nolint:gosec // G115: bounded above
}

// Keep follows what the process holds and does until ctx ends, and then has Go collect as before. It is called once in a process.
func Keep(ctx context.Context) {
	set := sample("/gc/gogc:percent")
	if set != usual {
		return // somebody has chosen
	}
	defer debug.SetGCPercent(usual)
	collected := make(chan struct{}, 1)
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	var q quiet
	hear := func() {
		// It is told what is left after each collection by one of its own: an object that nobody holds.
		runtime.AddCleanup(new(marker), func(to chan<- struct{}) { to <- struct{}{} }, collected)
		if next := uint64(Percent(sample("/gc/heap/live:bytes"))); differs(next, set) { //nolint:gosec // G115: it is positive
			debug.SetGCPercent(int(next)) //nolint:gosec // G115: it is an int
			set = next
		}
	}
	hear()
	for {
		select {
		case <-ctx.Done():
			return
		case <-collected:
			hear()
		case <-ticks.C:
			if q.after(sample("/gc/heap/allocs:bytes")) {
				debug.FreeOSMemory()
			}
		}
	}
}

// quiet knows how much was allocated in all at the end of the last interval, and when memory was given back last.
type quiet struct{ before, given uint64 }

// after is called at the end of each interval with what has been allocated in all. It reports whether memory is given back.
func (q *quiet) after(allocated uint64) bool {
	busy := allocated-q.before > mostQuiet
	q.before = allocated
	if busy || allocated-q.given < worth {
		return false
	}
	q.given = allocated
	return true
}

// marker is larger than what Go allocates together with other objects, which may live on.
type marker [64]byte

// differs reports whether a percentage is worth the moment in which all stands still: it is another by an eighth.
func differs(next, set uint64) bool { return max(next, set)-min(next, set) > set/8 }

func sample(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
