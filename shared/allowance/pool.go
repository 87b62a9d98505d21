package allowance

import (
	"context"
	"hash/maphash"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/store"
)

// Options are what a Pool takes from outside. Table, Now, Random and Log are
// required.
type Options struct {
	Table *store.Table
	// Now is this instance's clock. It decides sizes and waits, never whether a
	// limit holds.
	Now func() time.Time
	// Random makes the identifiers of returns: crypto/rand.Reader outside tests.
	Random io.Reader
	// Log hears of leases that fail where no caller waits for them.
	Log *slog.Logger
	// MaxSlots bounds how many allowances are held at once, each about 500
	// bytes; beyond it the least used ones are given back. 0 means 16,384.
	MaxSlots int
	// LeaseTimeout is how long a lease may take. 0 means 2 s.
	LeaseTimeout time.Duration
}

// Pool is what one instance holds of all allowances. It is safe for concurrent
// use; an instance has one.
type Pool struct {
	ledger ledger
	books  books
	// quota is whether units are begun in a journal before they are spent, and go
	// back after their period too, for its history.
	quota bool
	// singly is how many of a record's last units are leased only when they are
	// waited for.
	singly       int64
	ids          *ids.Source
	now          func() time.Time
	log          *slog.Logger
	leaseTimeout time.Duration
	draining     atomic.Bool

	seed     maphash.Seed
	shards   [shardCount]shard
	maxShard int

	fills   fills
	pending pendingReturns
	swept   atomic.Int64 // when sweep last began, in nanoseconds since 1970
}

// shardCount keeps instances with many cores from meeting at one lock.
const shardCount = 64

type shard struct {
	mu    sync.RWMutex
	slots map[slotKey]*slot
}

// slotKey has the limit in it: during a rollout two limits are in force, and
// each keeps its own slice.
type slotKey struct {
	period period
	limit  int64
}

// New makes a Pool that holds nothing.
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
	pl.books = direct{pl.ledger}
	for i := range pl.shards {
		pl.shards[i].slots = map[slotKey]*slot{}
	}
	return pl
}

// Take asks for n units, all or none, and never admits more than a.Limit in the
// period over all instances. It answers from memory when it can and otherwise
// waits for one lease. It refuses when the record had nothing left at most
// 5 s ago: what another instance holds and gives back comes within that time.
//
// An error means that nobody can tell: the table did not answer within
// Options.LeaseTimeout, or ctx ended, in which case nothing was spent.
func (pl *Pool) Take(ctx context.Context, a Allowance, n int64) (Decision, error) {
	if err := a.check(n); err != nil {
		return Decision{}, err
	}
	for n <= a.Limit {
		s := pl.slot(a)
		if d, ok := pl.spend(ctx, s, n); ok {
			return d, nil
		}
		w, now, err := pl.enqueue(ctx, s, n)
		switch {
		case err != nil:
			return Decision{}, err
		case now == evicted:
			continue
		case now == admitted:
			return Decision{Admitted: true, Remaining: s.remaining(s.tokens.Load())}, nil
		case now == refused:
			return pl.refusal(a), nil
		}
		select {
		case out := <-w.done:
			if out.err != nil || !out.admitted {
				return pl.refusal(a), out.err
			}
			return Decision{Admitted: true, Remaining: s.remaining(s.tokens.Load())}, nil
		case <-ctx.Done():
			s.leave(w)
			return Decision{}, context.Cause(ctx)
		}
	}
	return pl.refusal(a), nil
}

// TakeAsync is Take that never waits: what cannot be answered from memory is
// admitted and counted afterwards. The excess is what instances admit before
// they hear that nothing is left, usually one round trip's worth each; alone,
// no instance admits more than a.Limit, whatever the table does. The error is
// nil unless the allowance is no valid one.
//
// An instance thus has credit up to the limit. A tenth of it would be a tighter
// bound, but would refuse a burst at a cold instance while the allowance is
// untouched. Over n instances at most limit × (n − 1) are too many, if the table
// is silent for a whole period; four instances with 100 requests a second each
// over a limit of 1,000 admitted none too many. Credit is charged to the record
// with the next lease, beyond the limit too, so that what others give back does
// not hide it; an instance that is killed takes its debt along.
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
		case refused, waits:
			return pl.refusal(a), nil
		}
	}
	return pl.refusal(a), nil
}

// spend answers from the slot's tokens, and asks for the next slice in time.
func (pl *Pool) spend(ctx context.Context, s *slot, n int64) (Decision, bool) {
	held, ok := s.spend(n)
	if !ok {
		return Decision{}, false
	}
	if low := s.low.Load(); held < low && s.low.CompareAndSwap(low, 0) {
		s.mu.Lock()
		s.recheck = true
		pl.fill(ctx, s)
		s.mu.Unlock()
	}
	return Decision{Admitted: true, Remaining: s.remaining(held)}, true
}

// verdict is what becomes of a request that memory alone did not answer.
type verdict int

const (
	refused verdict = iota
	admitted
	waits
	evicted // the slot is gone, there is a new one
)

// enqueue has the caller wait for a lease, if there is anything to wait for.
func (pl *Pool) enqueue(ctx context.Context, s *slot, n int64) (*waiter, verdict, error) {
	now := pl.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.evicted {
		return nil, evicted, nil
	}
	if _, ok := s.spend(n); ok { // a lease came in between
		return nil, admitted, nil
	}
	if s.refuses(now, n) && s.settleReserve() == 0 {
		return nil, refused, nil
	}
	if err := s.fails(now); err != nil {
		return nil, refused, err
	}
	w := &waiter{n: n, done: make(chan outcome, 1)}
	s.queue = append(s.queue, w)
	pl.fill(ctx, s)
	return w, waits, nil
}

// admitAhead admits what is not leased yet, and has it leased.
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
		if !s.refuses(now, n) && s.fails(now) == nil {
			s.recheck = true
			pl.fill(ctx, s)
		}
		return refused
	}
	if s.spent()+n > s.limit {
		return refused
	}
	s.ahead += n
	if s.fails(now) == nil {
		pl.fill(ctx, s)
	}
	return admitted
}

func (pl *Pool) refusal(a Allowance) Decision {
	return Decision{RetryAfter: max(a.To.Sub(pl.now()), time.Millisecond)}
}

// slot finds or makes the place of an allowance.
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
	s = newSlot(key.period, key.limit, sh.first(key))
	if pl.quota {
		s.pace = new(pace)
	}
	sh.slots[key] = s
	return s
}

func (pl *Pool) shard(key slotKey) *shard {
	return &pl.shards[maphash.String(pl.seed, key.period.name)%shardCount]
}

// first guesses the first slice of a period from what was spent in the one
// before. The shard's lock is held.
func (sh *shard) first(key slotKey) int64 {
	key.period = key.period.before()
	s := sh.slots[key]
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	guess := float64(s.spent()) * float64(horizon(s.period)) / float64(s.period.length())
	return min(int64(guess), s.limit/8)
}
