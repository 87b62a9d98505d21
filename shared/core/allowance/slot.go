package allowance

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slot is the state of one allowance in one instance: the tokens that the instance can spend, and the callers that wait
// for tokens.
//
// tokens is decreased without the lock. It is increased and emptied only under the lock.
type slot struct {
	period period
	limit  int64

	tokens atomic.Int64 // leased and unspent
	// remainder is the record's remainder when it was last read, adjusted for later leases and returns, plus reserve.
	remainder atomic.Int64
	watermark atomic.Int64 // fewer tokens than this trigger the next lease

	mu       sync.Mutex
	evicted  bool // the slot is no longer in the Pool, and must not be used
	filling  bool // a goroutine leases for this slot
	recheck  bool // that goroutine should read the record although no caller waits
	queue    []*waiter
	unleased int64 // admitted by TakeAsync and not yet leased
	leased   int64 // all tokens ever added, minus those returned
	demand   demand

	// The fields from journal to pace are only for quotas. reserve is the number of units that are leased but not
	// activated, and journal records these units.
	journal          *journal
	reserve          int64
	reserveWatermark int64 // a smaller reserve triggers a request for the next slice
	unavailable      int64 // a request for this many units or more had to be refused at exhaustedAt; 0 for none
	pace             *pace

	exhausted   bool // the record had nothing left at exhaustedAt
	exhaustedAt time.Time

	failure  error // the error of the last lease, nil if it succeeded
	failedAt time.Time

	// These fields describe the last check of reclaim.
	sampled     bool
	sampledAt   time.Time
	sampleSpent int64
}

// waiter is a Take that waits for a lease.
type waiter struct {
	n    int64
	done chan outcome // accepts one outcome without blocking
}

// outcome is the result that a waiter receives.
type outcome struct {
	admitted bool
	err      error
}

func newSlot(p period, limit, first int64) *slot {
	s := &slot{period: p, limit: limit}
	s.demand = demand{first: first, granted: -1}
	s.remainder.Store(limit)
	return s
}

// spend takes n tokens if there are that many, and returns the remaining number.
func (s *slot) spend(n int64) (remaining int64, ok bool) {
	for {
		available := s.tokens.Load()
		if available < n {
			return available, false
		}
		if s.tokens.CompareAndSwap(available, available-n) {
			return available - n, true
		}
	}
}

// withdraw removes up to n tokens, so that they can no longer be spent. It returns their number. The caller must hold
// the lock.
func (s *slot) withdraw(n int64) int64 {
	for {
		available := s.tokens.Load()
		taken := min(n, available)
		if s.tokens.CompareAndSwap(available, available-taken) {
			s.leased -= taken
			return taken
		}
	}
}

// remaining returns the estimated remainder of the allowance for all instances.
func (s *slot) remaining(held int64) int64 { return min(held+s.remainder.Load(), s.limit) }

// currentReserve returns the reserve. If the journal is closed, it first removes the reserve from
// the slot, because another process returns the units in the journal. The caller must hold the lock.
func (s *slot) currentReserve() int64 {
	if s.journal != nil && s.journal.closed.Load() {
		s.journal, s.reserve = nil, 0
	}
	return s.reserve
}

// spent returns the total number of units admitted here. The caller must hold the lock.
func (s *slot) spent() int64 { return s.leased - s.tokens.Load() + s.unleased }

// recent reports whether t is less than d ago. A future time, after the clock was set back, is not recent.
func recent(t, now time.Time, d time.Duration) bool {
	age := now.Sub(t)
	return age >= 0 && age < d
}

// recentlyExhausted reports whether the record was found to have fewer than n units left,
// so recently that another request would be useless. The caller must hold the lock.
func (s *slot) recentlyExhausted(now time.Time, n int64) bool {
	unavailable := s.exhausted || s.unavailable > 0 && n >= s.unavailable
	return unavailable && recent(s.exhaustedAt, now, recheckInterval(s.period))
}

// recheckInterval returns how long a record that was found empty is assumed to stay empty, at
// most 5 s. Then the record is read again, because other instances may have returned units.
func recheckInterval(p period) time.Duration {
	return min(max(horizon(p)/4, 100*time.Millisecond), 5*time.Second)
}

// recentFailure returns the error of a lease that failed a moment ago. The caller must hold the lock.
func (s *slot) recentFailure(now time.Time) error {
	if s.failure != nil && recent(s.failedAt, now, failureBackoff) {
		return s.failure
	}
	return nil
}

// failureBackoff is the time after a failed lease during which an instance does not try again.
const failureBackoff = 250 * time.Millisecond

// plan admits the waiters for which the tokens suffice, and returns the slot's next request to
// the table. ok is false if none is needed. The caller must hold the lock.
func (s *slot) plan(now time.Time) (q request, ok bool) {
	s.admitWaiters(s.tokens.Swap(0), math.MaxInt64)
	need := s.unleased
	for _, w := range s.queue {
		need += w.n
	}
	recheck := s.recheck
	s.recheck = false
	reserve := s.currentReserve()
	if need == 0 && !recheck {
		return request{}, false
	}
	q = request{
		period: s.period, limit: s.limit, need: need, demand: s.demand,
		want:    s.demand.want(s.period, now, need, s.spent(), s.tokens.Load()+reserve),
		blind:   need > reserve && s.demand.at.IsZero(),
		journal: s.journal, reserve: reserve, isQuota: s.pace != nil,
	}
	if s.pace != nil {
		for _, w := range s.queue {
			q.needs = append(q.needs, w.n)
		}
		q.activate = s.pace.want(now, need, s.spent())
		q.reserveSuffices = reserve > 0 && need <= reserve && reserve-max(need, q.activate) >= s.reserveWatermark
	}
	// If need is 0 and want is not positive, the held units last until the horizon, so no lease is needed.
	return q, need > 0 || q.want > 0 || s.exhausted || q.reserveSuffices && q.activate > 0
}

// applyGrant adds the units of a lease and admits the waiters for which they suffice. It returns
// the number of units that TakeAsync admitted beyond the limit. The caller must hold the lock.
func (s *slot) applyGrant(now time.Time, g grant) (excess int64) {
	s.failure = nil
	activated := g.leased - g.reserved
	s.leased += activated
	s.journal = g.journal
	s.reserve += g.reserved
	if s.pace != nil {
		defer func() { s.pace.at, s.pace.spent = now, s.spent() }()
	}
	available := activated + s.tokens.Swap(0)
	if g.recordUnread {
		s.remainder.Add(-activated)
		s.admitWaiters(available, math.MaxInt64)
		s.watermark.Store(s.tokens.Load() / 4)
		return 0
	}
	s.remainder.Store(g.remaining + s.reserve)
	s.exhausted, s.exhaustedAt = g.remaining == 0, now
	s.reserveWatermark = s.reserve / 4
	covered := min(s.unleased, available)
	s.unleased -= covered
	available -= covered
	if g.remaining == 0 {
		excess = s.unleased
		s.leased += excess
		s.unleased = 0
	}
	maxRemaining := int64(math.MaxInt64)
	if (g.remaining == 0 || g.insufficient) && s.reserve == 0 {
		maxRemaining = g.remaining
	}
	s.admitWaiters(available, maxRemaining)
	s.unavailable = 0
	if g.insufficient {
		s.unavailable = g.remaining + 1
	}
	s.demand.recordLease(now, g.leased, s.spent(), g.grantedBefore)
	if g.remaining > 0 || s.reserve > 0 {
		s.watermark.Store(s.tokens.Load() / 4)
	} else {
		s.watermark.Store(0)
	}
	return excess
}

// admitWaiters admits the waiters for which the available units suffice, oldest first, and keeps the rest as tokens. It refuses
// other waiters that need more than maxRemaining, the maximum that can still arrive. The caller must hold the lock.
func (s *slot) admitWaiters(available, maxRemaining int64) {
	s.queue = slices.DeleteFunc(s.queue, func(w *waiter) bool {
		switch {
		case w.n <= available:
			available -= w.n
			w.done <- outcome{admitted: true}
		case w.n > maxRemaining:
			w.done <- outcome{}
		default:
			return false
		}
		return true
	})
	s.tokens.Add(available)
}

// fail sends err to all waiters, and returns the number of waiters. The caller must hold the lock.
func (s *slot) fail(now time.Time, err error) (waiting int) {
	s.failure, s.failedAt = err, now
	waiting = len(s.queue)
	for _, w := range s.queue {
		w.done <- outcome{err: err}
	}
	s.queue = nil
	// The failed lease may have taken units, which are then lost. So start with small leases again.
	s.demand.at, s.demand.first, s.demand.granted = time.Time{}, 0, -1
	return waiting
}

// removeWaiter removes a waiter whose caller no longer waits. If the waiter
// has already received its units, they become available to other callers.
func (s *slot) removeWaiter(w *waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.queue, w); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		return
	}
	if out := <-w.done; out.admitted {
		s.tokens.Add(w.n)
	}
}

// reclaim removes units that this instance will not spend from the slot, and returns them as a refund: all units if all
// is true. It checks once per horizon, so unspent units stay in the slot for about that time.
func (s *slot) reclaim(now time.Time, all bool) refund {
	s.mu.Lock()
	defer s.mu.Unlock()
	elapsed := now.Sub(s.sampledAt)
	spent := s.spent()
	if !all && s.sampled && elapsed >= 0 && elapsed < horizon(s.period) {
		return refund{}
	}
	sampled, before := s.sampled, s.sampleSpent
	s.sampled, s.sampledAt, s.sampleSpent = true, now, spent
	if s.filling || s.pace == nil && s.period.end().Sub(now) < minHorizon {
		return refund{}
	}
	excess := s.tokens.Load() + s.currentReserve()
	if !all {
		if !sampled {
			return refund{}
		}
		excess = surplus(s.period, s.limit, excess, spent-before, elapsed, now)
	}
	r := s.release(excess)
	if r.n+r.reserved > 0 {
		s.remainder.Add(r.n)
		s.watermark.Store(0)
		s.exhausted, s.unavailable = false, 0
	}
	return r
}

// release removes up to n units from the slot, first those that are not activated, and returns
// them as a refund. The caller must hold the lock.
func (s *slot) release(n int64) refund {
	r := refund{period: s.period, reserved: min(n, s.currentReserve()), journal: s.journal}
	s.reserve -= r.reserved
	s.reserveWatermark = min(s.reserveWatermark, s.reserve/4)
	r.n = s.withdraw(n - r.reserved)
	return r
}
