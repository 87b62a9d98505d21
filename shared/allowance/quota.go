package allowance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// Quotas is what one instance holds of allowances whose periods are long: a month,
// a year. It is a Pool that leases and begins: a lease gives this instance units that
// nobody else may have, and is written down in its journal; it spends only those that it has
// begun, which the journal then has no more. So whatever becomes of the instance, all in its
// journal is unspent, and is given back when the journal was not written to for
// a minute (Reclaim): two to three minutes after a crash. What it had begun counts as spent:
// a third of a second of its own traffic at most, and where that is fewer than 40 units, as
// many, though no more than a second of it. docs/decisions/0039-quotas-with-journals.md.
//
// The last 500 units of a quota are leased one request at a time, so that none is refused at its end
// because another instance holds some ahead. Before that, one that holds them for half a
// minute unspent gives them back.
//
// It is safe for concurrent use; an instance has one.
type Quotas struct {
	pool  *Pool
	table *store.Table
	now   func() time.Time
}

// lastUnits is how many units of a quota are leased only when they are waited for.
// They cost at most as many leases a period.
const lastUnits = 500

// NewQuotas makes Quotas that hold nothing.
func NewQuotas(o Options) *Quotas {
	pl := New(o)
	pl.books = &journals{table: o.Table, ids: pl.ids, now: o.Now, timeout: pl.leaseTimeout, room: maxEntries}
	pl.quota, pl.singly = true, lastUnits
	return &Quotas{pool: pl, table: o.Table, now: o.Now}
}

// Take is Pool.Take.
func (q *Quotas) Take(ctx context.Context, a Allowance, n int64) (Decision, error) {
	return q.pool.Take(ctx, a, n)
}

// Give hands n units of a Take of the same allowance back that were not spent after
// all. They may be taken from this instance at once; the table hears of them when
// they are not spent for a while, or with Drain, and at once after that.
// Nobody checks that they were taken.
func (q *Quotas) Give(ctx context.Context, a Allowance, n int64) {
	if a.check(n) != nil {
		return
	}
	q.pool.give(a, n)
	if q.pool.draining.Load() {
		q.pool.report(ctx, q.pool.flushReturns(ctx))
	}
}

// Run is Pool.Run: it gives back what is not spent for a while, and keeps the journal.
// An instance that cannot run it has its journal given back for it when it was not
// asked for anything for a minute.
func (q *Quotas) Run(ctx context.Context, interval time.Duration) { q.pool.Run(ctx, interval) }

// Drain gives everything back, what was begun too.
func (q *Quotas) Drain(ctx context.Context) error { return q.pool.Drain(ctx) }

// Used reads how many units of an allowance are used as far as the table knows: those
// that instances hold and have not spent count as used. Its Limit does not matter. It is 0 from 40
// days after the period on.
func Used(ctx context.Context, table *store.Table, a Allowance) (int64, error) {
	return ledger{table}.granted(ctx, a.period())
}

// Held returns how many units of an allowance this instance has leased and not spent, with any Limit. The table counts them as
// used until the instance returns them. Held does not read the table.
func (q *Quotas) Held(a Allowance) (units int64) {
	p := a.period()
	for i := range q.pool.shards {
		sh := &q.pool.shards[i]
		sh.mu.RLock()
		for key, s := range sh.slots {
			if key.period == p {
				s.mu.Lock()
				units += max(0, s.tokens.Load()-s.ahead) + s.settleReserve()
				s.mu.Unlock()
			}
		}
		sh.mu.RUnlock()
	}
	return units
}

func (pl *Pool) give(a Allowance, n int64) {
	key := slotKey{a.period(), a.Limit}
	sh := pl.shard(key)
	sh.mu.RLock()
	s := sh.slots[key]
	sh.mu.RUnlock()
	if s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.evicted && !pl.draining.Load() {
			s.tokens.Add(n)
			return
		}
		s.leased -= n
	}
	pl.enqueueReturn(key.period, n)
}

const (
	// receiptRetention is how long a receipt is kept at least.
	receiptRetention = 35 * 24 * time.Hour
	// repeatsPerReceipt is how often units are not counted again for a receipt.
	// Without a bound one would be a free pass.
	repeatsPerReceipt = 16
)

// receipt is that units were counted for a key of the caller's.
type receipt struct {
	store.Rest

	// Repeats is how often they were asked for again.
	Repeats int64 `dynamodbav:"repeats"`
	TTL     int64 `dynamodbav:"ttl"`
}

var (
	errReceived = errors.New("allowance: there is a receipt")
	errWornOut  = errors.New("allowance: there is no receipt that may be repeated")
)

// Once is Take that counts n units once for all that name the same receipt, a text of
// a stranger's choice, within 35 days at least and until the period's end. Who
// repeats it is admitted, and told so by repeated, 16 times; then it counts anew, as a first
// one. A refusal leaves no receipt. After an error the units may be counted;
// then the receipt is there too, and who repeats the request pays nothing for it.
//
// It costs two written items, or one for a repeat.
func (q *Quotas) Once(ctx context.Context, a Allowance, n int64, text string) (d Decision, repeated bool, err error) {
	if err := a.check(n); err != nil {
		return Decision{}, false, err
	}
	key, first := a.receiptKey(text), q.receipt(a)
	if n > a.Limit {
		repeated, err = q.repeat(ctx, key)
		return q.decide(ctx, a, repeated), repeated, err
	}
	p := a.period()
	o := &order{period: p, limit: a.Limit, granted: n}
	switch err = q.commitOnce(ctx, store.Put(key, first).If(q.none()).Else(errReceived), o.write().Else(errSpent)); {
	case err == nil:
		return q.decide(ctx, a, true), false, nil
	case errors.Is(err, errReceived):
		if repeated, err = q.repeat(ctx, key); repeated || err != nil {
			return q.decide(ctx, a, repeated), repeated, err
		}
		// It was repeated as often as it may: this is a first one.
		err = q.commitOnce(ctx, store.Put(key, first).If(store.AtLeast(store.At("repeats"), repeatsPerReceipt)).Else(errReceived),
			o.write().Else(errSpent))
		if err == nil {
			return q.decide(ctx, a, true), false, nil
		}
	}
	if errors.Is(err, errReceived) { // another of the same key was quicker
		repeated, err = q.repeat(ctx, key)
		return q.decide(ctx, a, repeated), repeated, err
	}
	if errors.Is(err, errSpent) {
		return q.onceFromMemory(ctx, a, n, key, first)
	}
	return Decision{}, false, err
}

// onceFromMemory is Once where the record has too little left: this instance may
// hold what it needs.
func (q *Quotas) onceFromMemory(ctx context.Context, a Allowance, n int64, key store.Key, first receipt) (Decision, bool, error) {
	d, err := q.pool.Take(ctx, a, n)
	if err != nil || !d.Admitted {
		return d, false, err
	}
	err = q.commitOnce(ctx, store.Put(key, first).If(store.Or(q.none(), store.AtLeast(store.At("repeats"), repeatsPerReceipt))).Else(errReceived))
	if errors.Is(err, errReceived) {
		q.Give(ctx, a, n)
		repeated, err := q.repeat(ctx, key)
		return q.decide(ctx, a, repeated), repeated, err
	}
	if err != nil {
		// Whether the receipt is there nobody knows: the units stay counted.
		return Decision{}, false, err
	}
	return d, false, nil
}

func (q *Quotas) commitOnce(ctx context.Context, writes ...store.Write) error {
	err := q.table.Commit(ctx, writes...)
	if err != nil && !errors.Is(err, errReceived) && !errors.Is(err, errSpent) {
		return fmt.Errorf("count units with a receipt: %w", err)
	}
	return err
}

// repeat notes that units were asked for again, and reports whether that is free.
func (q *Quotas) repeat(ctx context.Context, key store.Key) (bool, error) {
	repeats := store.At("repeats")
	live := store.And(store.Less(repeats, repeatsPerReceipt), store.AtLeast(store.At(store.TTLAttribute), q.now().Unix()))
	err := q.table.Commit(ctx, store.Update(key, store.Add(repeats, 1)).If(live).Else(errWornOut))
	switch {
	case errors.Is(err, errWornOut):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for a receipt: %w", err)
	}
	return true, nil
}

// none holds where there is no receipt, or one whose time is over.
func (q *Quotas) none() store.Condition {
	return store.Or(store.Absent(), store.Less(store.At(store.TTLAttribute), q.now().Unix()))
}

func (q *Quotas) receipt(a Allowance) receipt {
	until := a.To
	if now := q.now(); until.Before(now) {
		until = now
	}
	return receipt{TTL: until.Add(receiptRetention).Unix()}
}

// decide is the answer where what is left is only known from before, if at all.
func (q *Quotas) decide(ctx context.Context, a Allowance, admitted bool) Decision {
	if !admitted {
		return q.pool.refusal(a)
	}
	s := q.pool.slot(a)
	s.mu.Lock()
	unknown := s.demand.at.IsZero() && s.left.Load() == a.Limit
	s.mu.Unlock()
	if unknown {
		// Once in a period. Without an answer the whole limit is what may be left.
		if granted, err := q.pool.ledger.granted(ctx, a.period()); err == nil {
			s.left.Store(max(a.Limit-granted, 0))
		}
	}
	return Decision{Admitted: true, Remaining: s.remaining(s.tokens.Load())}
}

// receiptKey has the hash of the text, whose length and content are a stranger's.
func (a Allowance) receiptKey(text string) store.Key {
	sum := sha256.Sum256([]byte(text))
	return receiptSpace.Key(a.period().name, hex.EncodeToString(sum[:]))
}
