package allowance

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run gives back what is not spent, once every interval, until ctx ends, and
// then everything, for which it takes 2 s at most. An instance that can run in
// the background runs it; one that cannot (a Lambda) sweeps when it leases, and
// so gives back what it holds of one allowance while it is asked for others.
func (pl *Pool) Run(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			pl.report(ctx, pl.sweep(ctx))
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
			defer cancel()
			pl.report(ctx, pl.Drain(ctx))
			return
		}
	}
}

// sweepInterval is how often an instance sweeps that does so only on occasion.
const sweepInterval = time.Second

// sweepWhenDue sweeps if that was not done for sweepInterval.
func (pl *Pool) sweepWhenDue(ctx context.Context) {
	now, last := pl.now().UnixNano(), pl.swept.Load()
	if age := time.Duration(now - last); age >= 0 && age < sweepInterval || !pl.swept.CompareAndSwap(last, now) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, pl.leaseTimeout)
	defer cancel()
	pl.report(ctx, pl.sweep(ctx))
}

// sweep forgets periods that are over and gives back what this instance has
// not spent for a while (a quarter of the period, at most 30 s). What could not
// be given back is kept for the next time.
func (pl *Pool) sweep(ctx context.Context) error {
	pl.swept.Store(pl.now().UnixNano())
	pl.collect(ctx, false)
	return errors.Join(pl.flushReturns(ctx), pl.books.keep(ctx))
}

// Drain gives everything back, also what leases bring that are being made: it returns
// when they are, or with ctx. The Pool can still be used, and leases only what is asked
// for from then on.
func (pl *Pool) Drain(ctx context.Context) error {
	pl.draining.Store(true)
	pl.collect(ctx, true)
	if err := errors.Join(pl.flushReturns(ctx), pl.fills.wait(ctx)); err != nil {
		return err
	}
	return pl.flushReturns(ctx) // what those that leased could not give back
}

// longestMemory is how long a period that is over is remembered, for the first
// guess of the next one.
const longestMemory = 2 * time.Minute

func (pl *Pool) collect(ctx context.Context, all bool) {
	now := pl.now()
	var live []*slot
	for i := range pl.shards {
		sh := &pl.shards[i]
		live = live[:0]
		sh.mu.Lock()
		for key, s := range sh.slots {
			memory := min(s.period.length(), longestMemory)
			if now.Sub(s.period.end()) >= memory && pl.remove(s) {
				delete(sh.slots, key)
				continue
			}
			live = append(live, s)
		}
		sh.mu.Unlock()
		for _, s := range live {
			pl.owe(s.reclaim(now, all))
			s.mu.Lock()
			if s.ahead > 0 { // its lease failed before
				pl.fill(ctx, s)
			}
			s.mu.Unlock()
		}
	}
}

// candidates is how many slots an eviction chooses from.
const candidates = 8

// evict makes room for one slot: the one with the fewest tokens of a few, which
// a stranger's flood of names cannot be. If all of them are in use it makes
// none: the requests in flight bound their number. The shard's lock is held.
func (pl *Pool) evict(sh *shard) {
	var victim slotKey
	var chosen *slot
	seen := 0
	for key, s := range sh.slots {
		if chosen == nil || s.tokens.Load() < chosen.tokens.Load() {
			victim, chosen = key, s
		}
		if seen++; seen == candidates {
			break
		}
	}
	if chosen != nil && pl.remove(chosen) {
		delete(sh.slots, victim)
	}
}

// remove marks a slot as gone and owes what it held, unless it is in use.
func (pl *Pool) remove(s *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.filling || len(s.queue) > 0 || s.ahead > 0 {
		return false
	}
	s.evicted = true
	pl.owe(s.giveUp(s.tokens.Load() + s.settleReserve()))
	return true
}

// pendingReturns are the parts of leases that wait to be given back.
type pendingReturns struct {
	mu      sync.Mutex
	refunds []refund
}

// maxPendingReturns bounds the memory of an instance whose table does not answer;
// beyond it parts of leases are lost, which costs their period units and
// nothing else.
const maxPendingReturns = 4096

func (pl *Pool) enqueueReturn(p period, n int64) { pl.owe(refund{period: p, n: n}) }

// owe has units given back with the next flush.
func (pl *Pool) owe(r refund) {
	if r.n+r.unbegun <= 0 {
		return
	}
	r.id = pl.ids.Digits(20)
	pl.pending.mu.Lock()
	defer pl.pending.mu.Unlock()
	if len(pl.pending.refunds) < maxPendingReturns {
		pl.pending.refunds = append(pl.pending.refunds, r)
	}
}

// flushReturns gives back what is owed and keeps what it could not.
func (pl *Pool) flushReturns(ctx context.Context) error {
	pl.pending.mu.Lock()
	due := pl.pending.refunds
	pl.pending.refunds = nil
	pl.pending.mu.Unlock()

	owed, err := pl.books.giveBack(ctx, pl.now(), due)
	pl.pending.mu.Lock()
	defer pl.pending.mu.Unlock()
	pl.pending.refunds = append(owed, pl.pending.refunds...)
	pl.pending.refunds = pl.pending.refunds[:min(len(pl.pending.refunds), maxPendingReturns)]
	return err
}
