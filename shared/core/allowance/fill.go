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

// request is a slot's request to the table.
type request struct {
	period period
	limit  int64
	need   int64 // the number of units that callers wait for
	want   int64 // the number of units that are useful to lease; it can be less than need, or negative
	blind  bool  // the record is unknown: lease without reading it first
	demand demand

	// The fields below are for quotas. reserve is the number of units
	// that are leased but not activated, and journal records these units.
	journal         *journal
	reserve         int64
	isQuota         bool    // the request is for a quota
	activate        int64   // the number of units that are useful to activate now
	reserveSuffices bool    // the reserve is enough
	needs           []int64 // the need of each waiting caller
}

// grant is the result of a request.
type grant struct {
	leased int64
	// reserved is, for quotas, the number of leased units that are not activated and so cannot be spent
	// yet. It is negative if some of the reserve was activated too. journal records these units.
	reserved      int64
	journal       *journal
	recordUnread  bool  // nothing was leased, and the record was not read
	insufficient  bool  // there are too few units for a waiting caller
	remaining     int64 // the record's remainder after the lease; an upper bound if grantedBefore is unknown
	grantedBefore int64 // the record's granted before the lease, -1 if unknown
}

// fill starts a goroutine that leases for the slot until no caller waits, unless one is running or the slot was
// evicted. The caller must hold the slot's lock.
//
// The lease continues if the request that started it is canceled: other callers
// wait for the lease too, and the units of an abandoned lease are lost.
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
			pl.logError(ctx, pl.flushReturns(ctx))
			return
		}
		pl.sweepWhenDue(ctx)
	}()
}

// fills tracks the goroutines of a Pool that lease units and return the surplus.
// It is not a sync.WaitGroup, because goroutines can begin during a wait.
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

// wait waits for the goroutines that were running when wait was called, until they have ended or ctx ends.
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

// fillOnce makes one lease and reports whether to continue.
func (pl *Pool) fillOnce(ctx context.Context, s *slot) bool {
	ctx, cancel := context.WithTimeout(ctx, pl.leaseTimeout)
	defer cancel()

	s.mu.Lock()
	now := pl.now()
	q, ok := s.plan(now)
	if pl.draining.Load() {
		q.want, q.activate = 0, 0
	}
	if !ok || s.shouldBackOff(now) {
		s.filling = false
		if pl.draining.Load() {
			pl.scheduleRefund(s.release(s.tokens.Load() + s.reserve))
		}
		s.mu.Unlock()
		return false
	}
	s.mu.Unlock()

	g, err := pl.lease(ctx, q)

	s.mu.Lock()
	if errors.Is(err, errJournalClosed) {
		s.currentReserve() // continue with a new journal
		s.recheck = true
		s.mu.Unlock()
		return true
	}
	if err != nil {
		waiting := s.fail(now, err)
		s.mu.Unlock()
		if waiting == 0 {
			pl.logError(ctx, err)
		}
		return true
	}
	excess := s.applyGrant(now, g)
	s.mu.Unlock()
	if excess > 0 {
		pl.logError(ctx, pl.ledger.overdraw(ctx, q.period, excess))
	}
	return true
}

// shouldBackOff reports whether a lease can wait because the table failed a moment ago. It can wait if it only
// has to cover units that TakeAsync admitted, so that no caller waits for it. The caller must hold the lock.
func (s *slot) shouldBackOff(now time.Time) bool {
	return len(s.queue) == 0 && s.recentFailure(now) != nil
}

// lease takes as many of the wanted units as this instance's share allows, but at least the needed units, or the whole
// remainder if that is less. A blind lease first tries to take all wanted units.
func (pl *Pool) lease(ctx context.Context, q request) (grant, error) {
	if q.reserveSuffices {
		g, err := pl.acquire(ctx, q, 0)
		g.recordUnread = true
		return g, err
	}
	need := max(q.need-q.reserve, 0)
	if q.blind {
		n := max(need, q.want)
		g, err := pl.acquire(ctx, q, n)
		switch {
		case err == nil:
			g.remaining, g.grantedBefore = q.limit-n, -1
			return g, nil
		case !errors.Is(err, errExceedsLimit):
			return grant{}, err
		case n == 1 && q.reserve == 0:
			return grant{grantedBefore: -1}, nil
		}
	}
	for {
		granted, err := pl.ledger.granted(ctx, q.period)
		if err != nil {
			return grant{}, err
		}
		remaining := max(q.limit-granted, 0)
		insufficient := q.isQuota && remaining < need
		if insufficient {
			need = q.usable(remaining)
		}
		slice := min(q.demand.maxSlice(q.limit, remaining), max(remaining-pl.onDemandUnits, 0))
		n := max(min(max(need, min(q.want, slice)), remaining), 0)
		if n == 0 && q.reserve == 0 {
			return grant{remaining: remaining, grantedBefore: granted, insufficient: insufficient}, nil
		}
		g, err := pl.acquire(ctx, q, n)
		switch {
		case err == nil:
			g.remaining, g.grantedBefore, g.insufficient = remaining-n, granted, insufficient
			return g, nil
		case !errors.Is(err, errExceedsLimit):
			return grant{}, err
		}
		// Other instances were faster, so little is left: take no more than callers wait for.
		q.want, need = 0, max(q.need-q.reserve, 0)
	}
}

// usable returns how many of the remaining units are needed to admit waiting callers.
// Units that are too few to admit another caller stay in the record for other instances.
func (r request) usable(remaining int64) int64 {
	available := r.reserve + remaining
	for _, n := range r.needs {
		if n <= available {
			available -= n
		}
	}
	return min(max(remaining-available, 0), remaining)
}

// acquire leases n units. For a quota it then activates as many of
// the leased units as are useful; otherwise it activates the n units.
func (pl *Pool) acquire(ctx context.Context, q request, n int64) (grant, error) {
	activate := n
	if q.isQuota {
		activate = min(n+q.reserve, max(q.need, q.activate))
	}
	if n+activate == 0 {
		return grant{journal: q.journal}, nil
	}
	j, err := pl.units.acquire(ctx, q, n, activate)
	return grant{leased: n, reserved: n - activate, journal: j}, err
}

func (pl *Pool) logError(ctx context.Context, err error) {
	if err != nil {
		pl.log.LogAttrs(ctx, slog.LevelWarn, "allowance: the table did not answer", slog.Any("error", err))
	}
}
