package policy

import (
	"context"
	"runtime"

	"golang.org/x/sync/semaphore"
)

// Bounds of the bodies that a process checks at the same time. The values of JSON and of forms take up to 40 times the
// memory of their text (package schema bounds their number), so that a hundred bodies at once could fill the memory.
const (
	// slotBytes is the maximum size that a body counts with: the number of its values is bounded.
	slotBytes = 1 << 20
	// minSlots is the minimum number of bodies of slotBytes that are checked at the same time.
	minSlots = 4
	// smallBody is the maximum size in bytes of a body that does not wait for others.
	smallBody = 16 << 10
)

// NewCheckSlots returns the bound for Setup.CheckSlots of a process. There are as many slots as processors, and at least
// minSlots: more would only take memory.
func NewCheckSlots() *semaphore.Weighted {
	return semaphore.NewWeighted(slotBytes * int64(max(minSlots, runtime.GOMAXPROCS(0))))
}

// checkSlots bounds the bodies that are checked at the same time. Without a semaphore, there is no bound.
type checkSlots struct{ *semaphore.Weighted }

// acquire waits until a body of size bytes can be checked. The caller calls release after the check. The error is that of
// the context.
func (s checkSlots) acquire(ctx context.Context, size int) (release func(), err error) {
	if s.Weighted == nil || size <= smallBody {
		return func() {}, nil
	}
	weight := int64(min(size, slotBytes))
	if err := s.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return func() { s.Release(weight) }, nil
}

// tryAcquire is acquire without waiting. It reports whether the body can be checked now.
func (s checkSlots) tryAcquire(size int) (release func(), ok bool) {
	if s.Weighted == nil || size <= smallBody {
		return func() {}, true
	}
	weight := int64(min(size, slotBytes))
	return func() { s.Release(weight) }, s.TryAcquire(weight)
}
