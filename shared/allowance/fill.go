package allowance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
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

	// Of a quota: what is leased and not begun, and where that is written down.
	journal *journal
	reserve int64
	paced   bool    // it is one of a quota
	begin   int64   // useful to begin now
	ample   bool    // the reserve is enough
	asks    []int64 // what each of those who wait needs
}

// grant is what the table answered.
type grant struct {
	leased int64
	// kept, of a quota, is what of leased is not begun, and so cannot be spent yet;
	// below 0 where some of the reserve is begun too. journal has it written down.
	kept    int64
	journal *journal
	unseen  bool  // nothing is known of the record: nothing was leased
	short   bool  // there is too little for somebody who waits
	left    int64 // in the record after it; at most this when before is unknown
	before  int64 // granted before it, -1 if unknown
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
	done := pl.fills.begin()
	go func() {
		defer pl.fills.end(done)
		for pl.fillOnce(ctx, s) {
		}
		if pl.draining.Load() {
			pl.report(ctx, pl.flushReturns(ctx))
			return
		}
		pl.sweepWhenDue(ctx)
	}()
}

// fills are the goroutines of a Pool that lease, and give back what they need not. Others begin while
// they are waited for, which a sync.WaitGroup does not allow.
type fills struct {
	mu      sync.Mutex
	running map[chan struct{}]struct{}
}

func (f *fills) begin() chan struct{} {
	done := make(chan struct{})
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = map[chan struct{}]struct{}{}
	}
	f.running[done] = struct{}{}
	return done
}

func (f *fills) end(done chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.running, done)
	close(done)
}

// wait returns when all have ended that ran when it was called, or with ctx.
func (f *fills) wait(ctx context.Context) error {
	f.mu.Lock()
	running := slices.Collect(maps.Keys(f.running))
	f.mu.Unlock()
	for _, done := range running {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("wait for leases that are being made: %w", context.Cause(ctx))
		}
	}
	return nil
}

// fillOnce makes one lease and says whether to go on.
func (pl *Pool) fillOnce(ctx context.Context, s *slot) bool {
	ctx, cancel := context.WithTimeout(ctx, pl.leaseTimeout)
	defer cancel()

	s.mu.Lock()
	now := pl.now()
	q, ok := s.plan(now)
	if pl.draining.Load() {
		q.want, q.begin = 0, 0
	}
	if !ok || s.failsAgain(now) {
		s.filling = false
		if pl.draining.Load() {
			pl.owe(s.giveUp(s.tokens.Load() + s.reserve))
		}
		s.mu.Unlock()
		return false
	}
	s.mu.Unlock()

	g, err := pl.lease(ctx, q)

	s.mu.Lock()
	if errors.Is(err, errGone) {
		s.settleReserve() // it goes on under a new journal
		s.recheck = true
		s.mu.Unlock()
		return true
	}
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
	if q.ample {
		g, err := pl.take(ctx, q, 0)
		g.unseen = true
		return g, err
	}
	need := max(q.need-q.reserve, 0)
	if q.blind {
		n := max(need, q.want)
		g, err := pl.take(ctx, q, n)
		switch {
		case err == nil:
			g.left, g.before = q.limit-n, -1
			return g, nil
		case !errors.Is(err, errSpent):
			return grant{}, err
		case n == 1 && q.reserve == 0:
			return grant{before: -1}, nil
		}
	}
	for {
		before, err := pl.ledger.granted(ctx, q.period)
		if err != nil {
			return grant{}, err
		}
		left := max(q.limit-before, 0)
		short := q.paced && left < need
		if short {
			need = q.servable(left)
		}
		slice := min(q.demand.maxSlice(q.limit, left), max(left-pl.singly, 0))
		n := max(min(max(need, min(q.want, slice)), left), 0)
		if n == 0 && q.reserve == 0 {
			return grant{left: left, before: before, short: short}, nil
		}
		g, err := pl.take(ctx, q, n)
		switch {
		case err == nil:
			g.left, g.before, g.short = left-n, before, short
			return g, nil
		case !errors.Is(err, errSpent):
			return grant{}, err
		}
		// Others were quicker, so little is left: take no more than is waited for.
		q.want, need = 0, max(q.need-q.reserve, 0)
	}
}

// servable is how many of the units that are left somebody can be admitted with: those
// that are too few for anybody stay there for others.
func (q request) servable(left int64) int64 {
	have := q.reserve + left
	for _, n := range q.asks {
		if n <= have {
			have -= n
		}
	}
	return min(max(left-have, 0), left)
}

// take leases n units and begins what is useful of all that is there then.
func (pl *Pool) take(ctx context.Context, q request, n int64) (grant, error) {
	begun := n
	if q.paced {
		begun = min(n+q.reserve, max(q.need, q.begin))
	}
	if n+begun == 0 {
		return grant{journal: q.journal}, nil
	}
	j, err := pl.books.take(ctx, q, n, begun)
	return grant{leased: n, kept: n - begun, journal: j}, err
}

func (pl *Pool) report(ctx context.Context, err error) {
	if err != nil {
		pl.log.LogAttrs(ctx, slog.LevelWarn, "allowance: the table did not answer", slog.Any("error", err))
	}
}
