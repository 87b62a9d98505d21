package allowance

import (
	"context"
	"hash/maphash"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/store"
)

// Options configure a Pool. Table, Now, Random and Log are required.
type Options struct {
	Table *store.Table
	// Now is this instance's clock. It affects sizes and waits, but never whether a limit holds.
	Now func() time.Time
	// Random is the source of random identifiers for returns and journals: crypto/rand.Reader outside tests.
	Random io.Reader
	// Log receives the errors that no caller receives: those of leases ahead, of returns and of sweeps.
	Log *slog.Logger
	// MaxSlots is about the maximum number of allowances that are held at the same time, each about 500 bytes. Beyond it,
	// the instance forgets an allowance with few units, and returns these units. 0 means 16,384.
	MaxSlots int
	// LeaseTimeout is the timeout of a lease. 0 means 2 s.
	LeaseTimeout time.Duration
}

// Pool holds the units of one instance for all allowances. An instance has one Pool, which is safe for concurrent use.
type Pool struct {
	ledger ledger
	units  unitStore
	// quota means that units are activated in a journal before they are spent. Unspent units
	// are returned even after their period, so that the history of the period is correct.
	quota bool
	// onDemandUnits is the number of a record's last units that are leased only when a caller waits for them.
	onDemandUnits int64
	ids           *ids.Source
	now           func() time.Time
	log           *slog.Logger
	leaseTimeout  time.Duration
	draining      atomic.Bool

	seed     maphash.Seed
	shards   [shardCount]shard
	maxShard int

	fills   fills
	pending pendingReturns
	swept   atomic.Int64 // the last start of sweep, in nanoseconds since 1970
}

// shardCount reduces lock contention on instances with many cores.
const shardCount = 64

// shard has a part of the slots, with a lock of its own.
type shard struct {
	mu    sync.RWMutex
	slots map[slotKey]*slot
}

// slotKey includes the limit: during a rollout two limits are in force, and each has its own slot.
type slotKey struct {
	period period
	limit  int64
}

// New returns an empty Pool.
func New(o Options) *Pool {
	pl := &Pool{
		ledger: ledger{table: o.Table}, ids: ids.NewSource(o.Random, o.Now), now: o.Now, log: o.Log,
		leaseTimeout: o.LeaseTimeout, seed: maphash.MakeSeed(),
	}
	if pl.leaseTimeout == 0 {
		pl.leaseTimeout = 2 * time.Second
	}
	if o.MaxSlots == 0 {
		o.MaxSlots = 16_384
	}
	pl.maxShard = max(o.MaxSlots/shardCount, 1)
	pl.units = directStore{pl.ledger}
	for i := range pl.shards {
		pl.shards[i].slots = map[slotKey]*slot{}
	}
	return pl
}

// Take requests n units, all or none. All instances together never admit more than a.Limit in the period. Take decides
// from memory if possible, and otherwise waits for one lease. If the record was recently found to have too few units
// (at most 5 s ago, see recheckInterval), Take refuses without a lease. So it can take up to 5 s until units that
// another instance returns are available here.
//
// An error means that there was no decision: the request was invalid, ctx ended, or a lease failed, for example because
// the table did not respond within Options.LeaseTimeout. No units were spent for the request, but the units of a failed
// lease may be lost.
func (pl *Pool) Take(ctx context.Context, a Allowance, n int64) (Decision, error) {
	if err := a.check(n); err != nil {
		return Decision{}, err
	}
	for n <= a.Limit {
		s := pl.slot(a)
		if d, ok := pl.spend(ctx, s, n); ok {
			return d, nil
		}
		w, v, err := pl.enqueue(ctx, s, n)
		switch {
		case err != nil:
			return Decision{}, err
		case v == evicted:
			continue
		case v == admitted:
			return Decision{Admitted: true, Remaining: s.remaining(s.tokens.Load())}, nil
		case v == refused:
			return pl.refusal(a), nil
		}
		select {
		case out := <-w.done:
			if out.err != nil || !out.admitted {
				return pl.refusal(a), out.err
			}
			return Decision{Admitted: true, Remaining: s.remaining(s.tokens.Load())}, nil
		case <-ctx.Done():
			s.removeWaiter(w)
			return Decision{}, context.Cause(ctx)
		}
	}
	return pl.refusal(a), nil
}

// TakeAsync works as Take does, but does not wait: it admits units that are not in memory, and leases them afterwards.
// So the instances together can exceed the limit: each instance admits units until it learns that nothing is left,
// usually during one round trip. A single instance never admits more than a.Limit, no matter what the table does. The
// error is nil unless a or n is invalid.
//
// So an instance has credit up to the limit. A credit of a tenth of the limit would be a tighter bound,
// but would refuse a burst at a cold instance while the allowance is unused. If the table does not
// respond for a whole period, k instances admit at most limit × (k − 1) units too many. In a measurement,
// four instances with 100 requests a second each and a limit of 1,000 admitted none too many. The next
// lease adds the admitted units to the record, even beyond the limit, so that units returned by other
// instances do not hide them. If the instance is killed before this lease, the record never contains them.
func (pl *Pool) TakeAsync(ctx context.Context, a Allowance, n int64) (Decision, error) {
	if err := a.check(n); err != nil {
		return Decision{}, err
	}
	for n <= a.Limit {
		s := pl.slot(a)
		if d, ok := pl.spend(ctx, s, n); ok {
			return d, nil
		}
		switch pl.admitAhead(ctx, s, n) {
		case evicted:
			continue
		case admitted:
			return Decision{Admitted: true, Remaining: s.remaining(s.tokens.Load())}, nil
		case refused, queued:
			return pl.refusal(a), nil
		}
	}
	return pl.refusal(a), nil
}

// spend takes units from the slot's tokens. If few tokens are left, it requests the next slice.
func (pl *Pool) spend(ctx context.Context, s *slot, n int64) (Decision, bool) {
	remaining, ok := s.spend(n)
	if !ok {
		return Decision{}, false
	}
	if watermark := s.watermark.Load(); remaining < watermark && s.watermark.CompareAndSwap(watermark, 0) {
		s.mu.Lock()
		s.recheck = true
		pl.fill(ctx, s)
		s.mu.Unlock()
	}
	return Decision{Admitted: true, Remaining: s.remaining(remaining)}, true
}

// verdict is the result for a request that the slot's tokens did not cover.
type verdict int

const (
	refused verdict = iota
	admitted
	queued
	evicted // the slot was evicted: try again with a new slot
)

// enqueue queues the caller as a waiter for a lease, unless the request can be decided immediately.
func (pl *Pool) enqueue(ctx context.Context, s *slot, n int64) (*waiter, verdict, error) {
	now := pl.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.evicted {
		return nil, evicted, nil
	}
	if _, ok := s.spend(n); ok { // a lease has added tokens meanwhile
		return nil, admitted, nil
	}
	if s.recentlyExhausted(now, n) && s.currentReserve() == 0 {
		return nil, refused, nil
	}
	if err := s.recentFailure(now); err != nil {
		return nil, refused, err
	}
	w := &waiter{n: n, done: make(chan outcome, 1)}
	s.queue = append(s.queue, w)
	pl.fill(ctx, s)
	return w, queued, nil
}

// admitAhead admits units that are not leased yet, and starts their lease. It refuses them if the
// record had nothing left, or if this instance would exceed the limit.
func (pl *Pool) admitAhead(ctx context.Context, s *slot, n int64) verdict {
	now := pl.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.evicted {
		return evicted
	}
	if _, ok := s.spend(n); ok {
		return admitted
	}
	if s.exhausted {
		if !s.recentlyExhausted(now, n) && s.recentFailure(now) == nil {
			s.recheck = true
			pl.fill(ctx, s)
		}
		return refused
	}
	if s.spent()+n > s.limit {
		return refused
	}
	s.unleased += n
	if s.recentFailure(now) == nil {
		pl.fill(ctx, s)
	}
	return admitted
}

func (pl *Pool) refusal(a Allowance) Decision {
	return Decision{RetryAfter: max(a.To.Sub(pl.now()), time.Millisecond)}
}

// slot returns the slot of an allowance, and creates it if necessary.
func (pl *Pool) slot(a Allowance) *slot {
	key := slotKey{a.period(), a.Limit}
	sh := pl.shard(key)
	sh.mu.RLock()
	s := sh.slots[key]
	sh.mu.RUnlock()
	if s != nil {
		return s
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if s = sh.slots[key]; s != nil {
		return s
	}
	if len(sh.slots) >= pl.maxShard {
		pl.evict(sh)
	}
	s = newSlot(key.period, key.limit, sh.guessFirst(key))
	if pl.quota {
		s.pace = new(pace)
	}
	sh.slots[key] = s
	return s
}

func (pl *Pool) shard(key slotKey) *shard {
	return &pl.shards[maphash.String(pl.seed, key.period.name)%shardCount]
}

// guessFirst estimates the first slice of a period from the use in the previous
// period, 0 if that is unknown. The caller must hold the shard's lock.
func (sh *shard) guessFirst(key slotKey) int64 {
	key.period = key.period.previous()
	s := sh.slots[key]
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	guess := float64(s.spent()) * float64(horizon(s.period)) / float64(s.period.length())
	return min(int64(guess), s.limit/8)
}
