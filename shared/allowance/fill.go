package allowance

import (
	"context"
	"errors"
	"log/slog"
	"time"
)

// request is what a slot asks of the table.
type request struct {
	period period
	limit  int64
	need   int64 // waited for
	want   int64 // useful beyond that
	blind  bool  // nothing is known of the record: lease without a look at it
	demand demand
}

// grant is what the table answered.
type grant struct {
	leased int64
	left   int64 // in the record after it; at most this when before is unknown
	before int64 // granted before it, -1 if unknown
}

// fill has a goroutine lease for the slot until nobody waits, if none does yet.
// The slot's lock is held.
//
// The lease outlives the request that began it: others wait for it as well, and
// a lease that is given up halfway is lost.
func (pl *Pool) fill(ctx context.Context, s *slot) {
	if s.filling || s.evicted {
		return
	}
	s.filling = true
	ctx = context.WithoutCancel(ctx)
	go func() {
		for pl.fillOnce(ctx, s) {
		}
		if pl.draining.Load() {
			pl.report(ctx, pl.flushReturns(ctx))
			return
		}
		pl.sweepWhenDue(ctx)
	}()
}

// fillOnce makes one lease and says whether to go on.
func (pl *Pool) fillOnce(ctx context.Context, s *slot) bool {
	ctx, cancel := context.WithTimeout(ctx, pl.leaseTimeout)
	defer cancel()

	s.mu.Lock()
	now := pl.now()
	q, ok := s.plan(now)
	if pl.draining.Load() {
		q.want = 0
	}
	if !ok || s.failsAgain(now) {
		s.filling = false
		if pl.draining.Load() {
			pl.enqueueReturn(s.period, s.withdraw(s.tokens.Load()))
		}
		s.mu.Unlock()
		return false
	}
	s.mu.Unlock()

	g, err := pl.lease(ctx, q)

	s.mu.Lock()
	if err != nil {
		waiting := s.fail(now, err)
		s.mu.Unlock()
		if waiting == 0 {
			pl.report(ctx, err)
		}
		return true
	}
	over := s.settle(now, g)
	s.mu.Unlock()
	if over > 0 {
		pl.report(ctx, pl.ledger.overdraw(ctx, q.period, over))
	}
	return true
}

// failsAgain reports whether only what TakeAsync admitted is to be leased and
// the table failed a moment ago: that can wait. The lock is held.
func (s *slot) failsAgain(now time.Time) bool {
	return len(s.queue) == 0 && s.fails(now) != nil
}

// lease takes what is needed, or all that is left if that is less, and as much
// of what is wanted as is this instance's due.
func (pl *Pool) lease(ctx context.Context, q request) (grant, error) {
	if q.blind {
		n := max(q.need, q.want)
		err := pl.ledger.lease(ctx, q.period, q.limit, n)
		switch {
		case err == nil:
			return grant{leased: n, left: q.limit - n, before: -1}, nil
		case !errors.Is(err, errSpent):
			return grant{}, err
		case n == 1:
			return grant{before: -1}, nil
		}
	}
	for {
		before, err := pl.ledger.granted(ctx, q.period)
		if err != nil {
			return grant{}, err
		}
		left := max(q.limit-before, 0)
		n := min(max(q.need, min(q.want, q.demand.maxSlice(q.limit, left))), left)
		if n <= 0 {
			return grant{left: left, before: before}, nil
		}
		switch err = pl.ledger.lease(ctx, q.period, q.limit, n); {
		case err == nil:
			return grant{leased: n, left: left - n, before: before}, nil
		case !errors.Is(err, errSpent):
			return grant{}, err
		}
		// Others were quicker, so little is left: take no more than is waited for.
		q.want = 0
	}
}

func (pl *Pool) report(ctx context.Context, err error) {
	if err != nil {
		pl.log.LogAttrs(ctx, slog.LevelWarn, "allowance: the table did not answer", slog.Any("error", err))
	}
}
