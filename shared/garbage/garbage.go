// Package garbage has a process that serves collect garbage less often while it holds little.
//
// Go collects when as much has been allocated as is held. A gateway holds some 15 MB and allocates 7 KB a request, so that it would
// collect every 2,000 requests, several times a second. Here it collects when Room has been allocated, at the earliest, and as
// Go does once it holds more than that: no process takes more than Room on top of what it would.
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
)

// Room is how many bytes are allocated between two collections at least.
const Room = 48 << 20

// usual is Go's own percentage of what is held, after which it collects.
const usual = 100

// Percent is the percentage for a process that holds so many bytes: what GOGC is.
func Percent(held uint64) int {
	return int(max(usual, min(Room*usual/max(held, 1), math.MaxInt32))) //nolint:gosec // G115: bounded above
}

// Keep follows what the process holds until ctx ends, and then has Go collect as before. It is called once in a process.
func Keep(ctx context.Context) {
	set := sample("/gc/gogc:percent")
	if set != usual {
		return // somebody has chosen
	}
	defer debug.SetGCPercent(usual)
	collected := make(chan struct{}, 1)
	for {
		// It is told what is left after each collection by one of its own: an object that nobody holds.
		runtime.AddCleanup(new(marker), func(to chan<- struct{}) { to <- struct{}{} }, collected)
		if next := uint64(Percent(sample("/gc/heap/live:bytes"))); differs(next, set) { //nolint:gosec // G115: it is positive
			debug.SetGCPercent(int(next)) //nolint:gosec // G115: it is an int
			set = next
		}
		select {
		case <-ctx.Done():
			return
		case <-collected:
		}
	}
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
