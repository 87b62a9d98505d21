// Package gctuning makes a server collect garbage less often while its heap is small.
//
// By default, Go collects when the heap has doubled. A gateway holds some 15 MB and allocates 7 KB per request. It
// would collect every 2,000 requests, several times a second. With this package, it collects only after at least
// MinHeapGrowth bytes have been allocated. A process whose live heap is larger than MinHeapGrowth collects like Go by
// default. No process takes more than MinHeapGrowth in addition to its usual memory. When the process is idle, the
// memory is returned to the system.
//
// If GOGC or debug.SetGCPercent has set another value than 100, the package changes nothing. GOMEMLIMIT remains in
// effect. docs/decisions/0055-room-for-garbage.md has the decision.
package gctuning

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// MinHeapGrowth is the minimum number of bytes that are allocated between two collections.
const MinHeapGrowth = 48 << 20

// A process is idle if it allocates at most maxIdleAlloc bytes within an interval. A gateway is idle below some 70
// requests per second. An idle process returns unused memory to the system if it has allocated at least minRelease
// bytes since it last did so. Returning memory takes some 20 ms.
const (
	interval     = 2 * time.Second
	maxIdleAlloc = 1 << 20
	minRelease   = MinHeapGrowth / 2
)

// defaultPercent is Go's default percentage of the live heap, after which it collects.
const defaultPercent = 100

// Percent returns the value of GOGC for a process whose live heap has this many bytes, so that it collects after
// MinHeapGrowth or more allocated bytes.
func Percent(live uint64) int {
	//nolint:gosec // G115: bounded above
	return int(max(defaultPercent, min(MinHeapGrowth*defaultPercent/max(live, 1), math.MaxInt32)))
}

// Tune adjusts GOGC after each collection until ctx ends, and then restores Go's default. It returns immediately if
// GOGC has another value than Go's default. Call it once in a process.
func Tune(ctx context.Context) {
	current := readMetric("/gc/gogc:percent")
	if current != defaultPercent {
		return // the user has set a value
	}
	defer debug.SetGCPercent(defaultPercent)
	collected := make(chan struct{}, 1)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var idle idleDetector
	onCollected := func() {
		// Each collection finds the marker unreachable and runs its cleanup. At that time, the new live heap is
		// known.
		runtime.AddCleanup(new(marker), func(ch chan<- struct{}) { ch <- struct{}{} }, collected)
		next := uint64(Percent(readMetric("/gc/heap/live:bytes"))) //nolint:gosec // G115: it is positive
		if differs(next, current) {
			debug.SetGCPercent(int(next)) //nolint:gosec // G115: it is an int
			current = next
		}
	}
	onCollected()
	for {
		select {
		case <-ctx.Done():
			return
		case <-collected:
			onCollected()
		case <-ticker.C:
			if idle.shouldRelease(readMetric("/gc/heap/allocs:bytes")) {
				debug.FreeOSMemory()
			}
		}
	}
}

// idleDetector has the total allocated bytes at two times: at the end of the last interval, and when memory was last
// returned to the system.
type idleDetector struct{ lastAllocated, lastReleased uint64 }

// shouldRelease reports whether to return memory to the system at the end of an interval. allocated is the total
// number of allocated bytes at that time.
func (d *idleDetector) shouldRelease(allocated uint64) bool {
	busy := allocated-d.lastAllocated > maxIdleAlloc
	d.lastAllocated = allocated
	if busy || allocated-d.lastReleased < minRelease {
		return false
	}
	d.lastReleased = allocated
	return true
}

// marker is an object whose cleanup reports a collection. Go allocates smaller objects together in one block. If the
// marker was so small, another object in its block could keep it alive.
type marker [64]byte

// differs reports whether the percentages differ by more than an eighth of current. SetGCPercent stops the process
// for a moment, so smaller changes are not applied.
func differs(next, current uint64) bool { return max(next, current)-min(next, current) > current/8 }

func readMetric(name string) uint64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return s[0].Value.Uint64()
}
