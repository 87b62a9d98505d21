package allowance

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run sweeps once per interval until ctx ends. Then it calls Drain, for at most 2 s. An instance that can run in the
// background calls Run. An instance that cannot run in the background (a Lambda) does not call Run: it sweeps after a
// lease if a sweep is due (see sweepWhenDue).
func (pl *Pool) Run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			pl.logError(ctx, pl.sweep(ctx))
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			pl.logError(ctx, pl.Drain(ctx))
			return
		}
	}
}

// sweepInterval is the interval of sweeps in an instance that does not call Run.
const sweepInterval = time.Second

// sweepWhenDue sweeps if the last sweep was at least sweepInterval ago.
func (pl *Pool) sweepWhenDue(ctx context.Context) {
	now, last := pl.now().UnixNano(), pl.swept.Load()
	if age := time.Duration(now - last); age >= 0 && age < sweepInterval || !pl.swept.CompareAndSwap(last, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pl.leaseTimeout)
	defer cancel()
	pl.logError(ctx, pl.sweep(ctx))
}

// sweep forgets periods that ended some time ago (see maxPeriodMemory), returns units that this instance is not
// expected to spend, and writes the journals that would soon be presumed dead. It checks an allowance once per quarter
// of its period, and at least once per 30 s. Units that could not be returned are kept for the next sweep.
func (pl *Pool) sweep(ctx context.Context) error {
	pl.swept.Store(pl.now().UnixNano())
	pl.collect(ctx, false)
	return errors.Join(pl.flushReturns(ctx), pl.units.keepAlive(ctx))
}

// Drain returns all units, including the units of leases in progress. It waits until these leases have ended, or
// until ctx ends. The Pool can still be used afterwards, but then leases only the units that callers wait for.
func (pl *Pool) Drain(ctx context.Context) error {
	pl.draining.Store(true)
	pl.collect(ctx, true)
	if err := errors.Join(pl.flushReturns(ctx), pl.fills.wait(ctx)); err != nil {
		return err
	}
	return pl.flushReturns(ctx) // the units that the ended leases could not return
}

// maxPeriodMemory is the maximum time for which a period that has ended is remembered, to estimate the first slice of
// the next period. A shorter period is remembered for its length.
const maxPeriodMemory = 2 * time.Minute

// collect forgets periods that have ended, and schedules the return of units that this instance will not spend: of all
// units if all is true.
func (pl *Pool) collect(ctx context.Context, all bool) {
	now := pl.now()
	var live []*slot
	for i := range pl.shards {
		sh := &pl.shards[i]
		live = live[:0]
		sh.mu.Lock()
		for key, s := range sh.slots {
			retention := min(s.period.length(), maxPeriodMemory)
			if now.Sub(s.period.end()) >= retention && pl.remove(s) {
				delete(sh.slots, key)
				continue
			}
			live = append(live, s)
		}
		sh.mu.Unlock()
		for _, s := range live {
			pl.scheduleRefund(s.reclaim(now, all))
			s.mu.Lock()
			if s.unleased > 0 { // the lease for these units has failed, or is in progress
				pl.fill(ctx, s)
			}
			s.mu.Unlock()
		}
	}
}

// evictionCandidates is the number of slots that an eviction considers.
const evictionCandidates = 8

// evict makes space for another slot. It compares a few slots and removes the slot with the fewest tokens. Slots of new
// names have few tokens, so a flood of new names mostly evicts its own slots. If the chosen slot is in use, evict
// removes none, and the shard grows. The caller must hold the shard's lock.
func (pl *Pool) evict(sh *shard) {
	var victim slotKey
	var chosen *slot
	seen := 0
	for key, s := range sh.slots {
		if chosen == nil || s.tokens.Load() < chosen.tokens.Load() {
			victim, chosen = key, s
		}
		if seen++; seen == evictionCandidates {
			break
		}
	}
	if chosen != nil && pl.remove(chosen) {
		delete(sh.slots, victim)
	}
}

// remove marks a slot as evicted and schedules the return of its units, unless the slot is in use. It reports whether
// it did so. The caller then deletes the slot from its shard.
func (pl *Pool) remove(s *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filling || len(s.queue) > 0 || s.unleased > 0 {
		return false
	}
	s.evicted = true
	pl.scheduleRefund(s.release(s.tokens.Load() + s.currentReserve()))
	return true
}

// pendingReturns are the parts of leases that still have to be returned.
type pendingReturns struct {
	mu      sync.Mutex
	refunds []refund
}

// maxPendingReturns is the maximum number of scheduled refunds. It limits the memory of an instance whose table does
// not respond. Further refunds are dropped, so their units are lost until their periods end.
const maxPendingReturns = 4096

// scheduleRefund schedules the return of units with the next flush.
func (pl *Pool) scheduleRefund(r refund) {
	if r.n+r.reserved <= 0 {
		return
	}
	r.id = pl.ids.Digits(20)
	pl.pending.mu.Lock()
	defer pl.pending.mu.Unlock()
	if len(pl.pending.refunds) < maxPendingReturns {
		pl.pending.refunds = append(pl.pending.refunds, r)
	}
}

// flushReturns writes the scheduled refunds to the table. Refunds that failed stay scheduled for the next flush.
func (pl *Pool) flushReturns(ctx context.Context) error {
	pl.pending.mu.Lock()
	due := pl.pending.refunds
	pl.pending.refunds = nil
	pl.pending.mu.Unlock()

	failed, err := pl.units.refundAll(ctx, pl.now(), due)
	pl.pending.mu.Lock()
	defer pl.pending.mu.Unlock()
	pl.pending.refunds = append(failed, pl.pending.refunds...)
	pl.pending.refunds = pl.pending.refunds[:min(len(pl.pending.refunds), maxPendingReturns)]
	return err
}
