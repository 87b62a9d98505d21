package allowance

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// slot is what an instance holds of one allowance: the tokens it may spend and
// those who wait for more.
//
// tokens is spent without the lock; it is raised only by settle and by a waiter
// who left, and emptied only under the lock.
type slot struct {
	period period
	limit  int64

	tokens atomic.Int64 // leased and unspent
	left   atomic.Int64 // what the record had left when it was last seen, and reserve
	low    atomic.Int64 // fewer tokens than this ask for the next slice

	mu      sync.Mutex
	evicted bool // evicted: look for the allowance's new slot
	filling bool // a goroutine leases for this slot
	recheck bool // that goroutine should look at the record though nobody waits
	queue   []*waiter
	ahead   int64 // admitted by TakeAsync and not yet leased
	leased  int64 // all tokens ever put here, less those given back
	demand  demand

	// What is below is for quotas alone: units that are leased and not begun, in the
	// journal that has them written down.
	journal *journal
	reserve int64
	ebb     int64 // less in reserve asks for the next slice
	short   int64 // at least so many units were not to be had at exhaustedAt, 0 for none
	pace    *pace

	exhausted   bool // the record had nothing left at exhaustedAt
	exhaustedAt time.Time

	failure  error // of the last lease, nil when it went well
	failedAt time.Time

	sampled     bool
	sampledAt   time.Time
	sampleSpent int64
}

// waiter is a Take that waits for a lease.
type waiter struct {
	n    int64
	done chan outcome // takes one outcome without blocking
}

type outcome struct {
	admitted bool
	err      error
}

func newSlot(p period, limit, first int64) *slot {
	s := &slot{period: p, limit: limit}
	s.demand = demand{first: first, granted: -1}
	s.left.Store(limit)
	return s
}

// spend takes n tokens and says how many remain, if there are that many.
func (s *slot) spend(n int64) (remain int64, ok bool) {
	for {
		have := s.tokens.Load()
		if have < n {
			return have, false
		}
		if s.tokens.CompareAndSwap(have, have-n) {
			return have - n, true
		}
	}
}

// withdraw removes up to n tokens, which nobody can spend any more.
func (s *slot) withdraw(n int64) int64 {
	for {
		have := s.tokens.Load()
		taken := min(n, have)
		if s.tokens.CompareAndSwap(have, have-taken) {
			s.leased -= taken
			return taken
		}
	}
}

// remaining is what may be left of the allowance for everyone.
func (s *slot) remaining(held int64) int64 { return min(held+s.left.Load(), s.limit) }

// settleReserve forgets what is in a journal that is not this instance's any more:
// somebody has given it back. The lock is held.
func (s *slot) settleReserve() int64 {
	if s.journal != nil && s.journal.gone.Load() {
		s.journal, s.reserve = nil, 0
	}
	return s.reserve
}

// spent is how many units were admitted here in all. The lock is held.
func (s *slot) spent() int64 { return s.leased - s.tokens.Load() + s.ahead }

// recent reports whether then is less than d ago. A time to come, after the
// clock was set back, is not fresh.
func recent(then, now time.Time, d time.Duration) bool {
	age := now.Sub(then)
	return age >= 0 && age < d
}

// refuses reports whether the record is known to have no n units left, so recently
// that asking again is not worth it. The lock is held.
func (s *slot) refuses(now time.Time, n int64) bool {
	return (s.exhausted || s.short > 0 && n >= s.short) && recent(s.exhaustedAt, now, recheck(s.period))
}

// recheck is how long a record that was seen empty is taken to be so: others
// may give something back. It is at most 5 s.
func recheck(p period) time.Duration {
	return min(max(horizon(p)/4, 100*time.Millisecond), 5*time.Second)
}

// fails is the error of a lease that failed a moment ago. The lock is held.
func (s *slot) fails(now time.Time) error {
	if s.failure != nil && recent(s.failedAt, now, failurePause) {
		return s.failure
	}
	return nil
}

// failurePause is how long an instance does not try again after a failure.
const failurePause = 250 * time.Millisecond

// plan says what the slot needs of the table now; ok is false for nothing. The
// lock is held.
func (s *slot) plan(now time.Time) (q request, ok bool) {
	s.serve(s.tokens.Swap(0), math.MaxInt64)
	need := s.ahead
	for _, w := range s.queue {
		need += w.n
	}
	asked := s.recheck
	s.recheck = false
	reserve := s.settleReserve()
	if need == 0 && !asked {
		return request{}, false
	}
	q = request{
		period: s.period, limit: s.limit, need: need, demand: s.demand,
		want:    s.demand.want(s.period, now, need, s.spent(), s.tokens.Load()+reserve),
		blind:   need > reserve && s.demand.at.IsZero(),
		journal: s.journal, reserve: reserve, paced: s.pace != nil,
	}
	if s.pace != nil {
		for _, w := range s.queue {
			q.asks = append(q.asks, w.n)
		}
		q.begin = s.pace.want(now, need, s.spent())
		q.ample = reserve > 0 && need <= reserve && reserve-max(need, q.begin) >= s.ebb
	}
	// What is held lasts until the horizon: no lease before it is spent.
	return q, need > 0 || q.want > 0 || s.exhausted || q.ample && q.begin > 0
}

// settle takes up what a lease brought and answers those it is enough for. It
// gives the units that were admitted ahead and exceed the limit. The lock is
// held.
func (s *slot) settle(now time.Time, g grant) (over int64) {
	s.failure = nil
	begun := g.leased - g.kept
	s.leased += begun
	s.journal = g.journal
	s.reserve += g.kept
	if s.pace != nil {
		defer func() { s.pace.at, s.pace.spent = now, s.spent() }()
	}
	have := begun + s.tokens.Swap(0)
	if g.unseen {
		s.left.Add(-begun)
		s.serve(have, math.MaxInt64)
		s.low.Store(s.tokens.Load() / 4)
		return 0
	}
	s.left.Store(g.left + s.reserve)
	s.exhausted, s.exhaustedAt = g.left == 0, now
	s.ebb = s.reserve / 4
	paid := min(s.ahead, have)
	s.ahead -= paid
	have -= paid
	if g.left == 0 {
		over = s.ahead
		s.leased += over
		s.ahead = 0
	}
	most := int64(math.MaxInt64)
	if (g.left == 0 || g.short) && s.reserve == 0 {
		most = g.left
	}
	s.serve(have, most)
	s.short = 0
	if g.short {
		s.short = g.left + 1
	}
	s.demand.leased(now, g.leased, s.spent(), g.before)
	if g.left > 0 || s.reserve > 0 {
		s.low.Store(s.tokens.Load() / 4)
	} else {
		s.low.Store(0)
	}
	return over
}

// serve admits the waiters that have units suffice for, oldest first, and keeps
// the rest as tokens. Of the others those are refused that need more than the most that
// is still to come. The lock is held.
func (s *slot) serve(have, most int64) {
	s.queue = slices.DeleteFunc(s.queue, func(w *waiter) bool {
		switch {
		case w.n <= have:
			have -= w.n
			w.done <- outcome{admitted: true}
		case w.n > most:
			w.done <- outcome{}
		default:
			return false
		}
		return true
	})
	s.tokens.Add(have)
}

// fail answers all waiters with err and says how many there were. The lock is
// held.
func (s *slot) fail(now time.Time, err error) (waiting int) {
	s.failure, s.failedAt = err, now
	waiting = len(s.queue)
	for _, w := range s.queue {
		w.done <- outcome{err: err}
	}
	s.queue = nil
	// A lease that failed may have been made, and is lost then: begin small.
	s.demand.at, s.demand.first, s.demand.granted = time.Time{}, 0, -1
	return waiting
}

// leave takes a waiter out whose caller is gone; what it was given goes to the
// next one.
func (s *slot) leave(w *waiter) {
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

// reclaim takes back what this instance will not spend: all of it with all set.
// It looks once in a horizon, which is how long unspent units stay here.
func (s *slot) reclaim(now time.Time, all bool) refund {
	s.mu.Lock()
	defer s.mu.Unlock()
	while := now.Sub(s.sampledAt)
	spent := s.spent()
	if !all && s.sampled && while >= 0 && while < horizon(s.period) {
		return refund{}
	}
	sampled, before := s.sampled, s.sampleSpent
	s.sampled, s.sampledAt, s.sampleSpent = true, now, spent
	if s.filling || s.pace == nil && s.period.end().Sub(now) < shortestHorizon {
		return refund{}
	}
	back := s.tokens.Load() + s.settleReserve()
	if !all {
		if !sampled {
			return refund{}
		}
		back = surplus(s.period, s.limit, back, spent-before, while, now)
	}
	r := s.giveUp(back)
	if r.n+r.unbegun > 0 {
		s.left.Add(r.n)
		s.low.Store(0)
		s.exhausted, s.short = false, 0
	}
	return r
}

// giveUp takes up to n units out of what this instance may spend, those first that
// are not begun. The lock is held.
func (s *slot) giveUp(n int64) refund {
	r := refund{period: s.period, unbegun: min(n, s.settleReserve()), journal: s.journal}
	s.reserve -= r.unbegun
	s.ebb = min(s.ebb, s.reserve/4)
	r.n = s.withdraw(n - r.unbegun)
	return r
}
