package allowance

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Quotas holds the units of one instance for allowances with long periods: a month, a year. Quotas uses a Pool with two
// steps, lease and activation. A lease reserves units for this instance and is recorded in the instance's journal. The
// instance spends only units that it has activated, which are removed from the journal. So all units in the journal are
// unspent, even after a crash of the instance. They are returned when the journal has not been written for a minute
// (Reclaim), at most four minutes after a crash. The units that the instance had activated count as spent. These are at
// most the units of a third of a second of the instance's traffic, or 40 units if that is more, but no more than the
// units of one second. docs/decisions/0039-quotas-with-journals.md.
//
// The last 500 units of a quota are leased one request at a time. So no request is
// refused at the end because another instance holds unspent units. Before the last
// 500 units, an instance returns units that it has not spent for half a minute.
//
// An instance has one Quotas, which is safe for concurrent use.
type Quotas struct {
	pool  *Pool
	table *store.Table
	now   func() time.Time
}

// quotaOnDemandUnits is the number of a quota's last units that are leased only
// when a caller waits for them. They cost at most this number of leases per period.
const quotaOnDemandUnits = 500

// NewQuotas returns empty Quotas.
func NewQuotas(o Options) *Quotas {
	pl := New(o)
	pl.units = &journals{table: o.Table, ids: pl.ids, now: o.Now, timeout: pl.leaseTimeout, capacity: maxEntries}
	pl.quota, pl.onDemandUnits = true, quotaOnDemandUnits
	return &Quotas{pool: pl, table: o.Table, now: o.Now}
}

// Take works as Pool.Take does.
func (q *Quotas) Take(ctx context.Context, a Allowance, n int64) (Decision, error) {
	return q.pool.Take(ctx, a, n)
}

// Refund returns n units that Take admitted and that were not used. This instance can spend them again immediately. The
// table is updated if they stay unspent for some time, or by Drain. If Drain was called before, this instance does not
// spend them again, and the table is updated immediately. Refund does not check that the units were taken.
func (q *Quotas) Refund(ctx context.Context, a Allowance, n int64) {
	if a.check(n) != nil {
		return
	}
	q.pool.refund(a, n)
	if q.pool.draining.Load() {
		q.pool.logError(ctx, q.pool.flushReturns(ctx))
	}
}

// Run works as Pool.Run does: it returns units that are not spent for some time, and keeps the journal alive. If an instance
// cannot call Run, another process returns the units in its journal when the instance has had no requests for a minute.
func (q *Quotas) Run(ctx context.Context, interval time.Duration) { q.pool.Run(ctx, interval) }

// Drain returns all units, including those that were activated.
func (q *Quotas) Drain(ctx context.Context) error { return q.pool.Drain(ctx) }

// Used returns the number of used units of an allowance in the table. Units that instances hold unspent
// count as used. The allowance's Limit does not matter. The result is 0 from 40 days after the period on.
func Used(ctx context.Context, table *store.Table, a Allowance) (int64, error) {
	return ledger{table}.granted(ctx, a.period())
}

// Unspent returns the number of units of an allowance, with any Limit, that this instance has leased and not
// spent. The table counts them as used until the instance returns them. Unspent does not read the table.
func (q *Quotas) Unspent(a Allowance) (units int64) {
	p := a.period()
	for i := range q.pool.shards {
		sh := &q.pool.shards[i]
		sh.mu.RLock()
		for key, s := range sh.slots {
			if key.period == p {
				s.mu.Lock()
				units += max(0, s.tokens.Load()-s.unleased) + s.currentReserve()
				s.mu.Unlock()
			}
		}
		sh.mu.RUnlock()
	}
	return units
}

// refund makes n units available in their slot again. If there is no usable slot, it schedules their return to the
// table.
func (pl *Pool) refund(a Allowance, n int64) {
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
	pl.scheduleRefund(refund{period: key.period, n: n})
}

const (
	// receiptRetention is the minimum time for which a receipt is kept after the end of the period.
	receiptRetention = 35 * 24 * time.Hour
	// maxReceiptRepeats is the number of free repeats for a receipt.
	// Without this bound, one receipt would allow unlimited requests.
	maxReceiptRepeats = 16
)

// receipt records that units were counted for a key of the caller.
type receipt struct {
	store.UnknownAttributes

	// Repeats is the number of repeated requests with the key.
	Repeats int64 `dynamodbav:"repeats"`
	TTL     int64 `dynamodbav:"ttl"`
}

var (
	errReceiptExists = errors.New("allowance: there is a receipt")
	errReceiptUsedUp = errors.New("allowance: there is no receipt that may be repeated")
)

// TakeOnce works as Take does, but counts n units only once for all requests with the same idempotencyKey, until at
// least 35 days after the period's end. The client chooses the key. Up to 16 repeats are admitted for free, and
// repeated is then true. The next repeat counts again, as a first request does. A refusal leaves no receipt. After an
// error the units may have been counted. Then the receipt exists too, and a repeat of the request is free. Only if the
// units came from this instance's memory, because the record had too few, the receipt can be missing.
//
// TakeOnce costs two written items, or one for a repeat.
func (q *Quotas) TakeOnce(
	ctx context.Context, a Allowance, n int64, idempotencyKey string,
) (d Decision, repeated bool, err error) {
	if err := a.check(n); err != nil {
		return Decision{}, false, err
	}
	key, first := a.receiptKey(idempotencyKey), q.receipt(a)
	if n > a.Limit {
		repeated, err = q.useReceipt(ctx, key)
		return q.decision(ctx, a, repeated), repeated, err
	}
	p := a.period()
	o := &journalChange{period: p, limit: a.Limit, granted: n}
	switch err = q.commitOnce(ctx, store.Put(key, first).If(q.noReceipt()).Else(errReceiptExists),
		o.write().Else(errExceedsLimit)); {
	case err == nil:
		return q.decision(ctx, a, true), false, nil
	case errors.Is(err, errReceiptExists):
		if repeated, err = q.useReceipt(ctx, key); repeated || err != nil {
			return q.decision(ctx, a, repeated), repeated, err
		}
		// The repeats are used up: this counts as a first request.
		err = q.commitOnce(ctx,
			store.Put(key, first).If(store.AtLeast(store.At("repeats"), maxReceiptRepeats)).Else(errReceiptExists),
			o.write().Else(errExceedsLimit))
		if err == nil {
			return q.decision(ctx, a, true), false, nil
		}
	}
	if errors.Is(err, errReceiptExists) { // a concurrent request with the same key was faster
		repeated, err = q.useReceipt(ctx, key)
		return q.decision(ctx, a, repeated), repeated, err
	}
	if errors.Is(err, errExceedsLimit) {
		return q.takeOnceFromMemory(ctx, a, n, key, first)
	}
	return Decision{}, false, err
}

// takeOnceFromMemory takes the units of TakeOnce from this instance's memory, after the record had too few units left.
func (q *Quotas) takeOnceFromMemory(
	ctx context.Context, a Allowance, n int64, key store.Key, first receipt,
) (Decision, bool, error) {
	d, err := q.pool.Take(ctx, a, n)
	if err != nil || !d.Admitted {
		return d, false, err
	}
	err = q.commitOnce(ctx,
		store.Put(key, first).If(store.Or(q.noReceipt(), store.AtLeast(store.At("repeats"), maxReceiptRepeats))).Else(
			errReceiptExists))
	if errors.Is(err, errReceiptExists) {
		q.Refund(ctx, a, n)
		repeated, err := q.useReceipt(ctx, key)
		return q.decision(ctx, a, repeated), repeated, err
	}
	if err != nil {
		// It is unknown whether the receipt exists: the units stay counted.
		return Decision{}, false, err
	}
	return d, false, nil
}

// commitOnce commits the writes of TakeOnce. It returns errReceiptExists and errExceedsLimit unchanged.
func (q *Quotas) commitOnce(ctx context.Context, writes ...store.Write) error {
	err := q.table.Commit(ctx, writes...)
	if err != nil && !errors.Is(err, errReceiptExists) && !errors.Is(err, errExceedsLimit) {
		return fmt.Errorf("count units with a receipt: %w", err)
	}
	return err
}

// useReceipt counts a repeated request, and reports whether it is free.
func (q *Quotas) useReceipt(ctx context.Context, key store.Key) (bool, error) {
	repeats := store.At("repeats")
	usable := store.And(store.Less(repeats, maxReceiptRepeats),
		store.AtLeast(store.At(store.TTLAttribute), q.now().Unix()))
	err := q.table.Commit(ctx, store.Update(key, store.Add(repeats, 1)).If(usable).Else(errReceiptUsedUp))
	switch {
	case errors.Is(err, errReceiptUsedUp):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look for a receipt: %w", err)
	}
	return true, nil
}

// noReceipt returns a condition that holds if there is no receipt, or only an expired one.
func (q *Quotas) noReceipt() store.Condition {
	return store.Or(store.Absent(), store.Less(store.At(store.TTLAttribute), q.now().Unix()))
}

func (q *Quotas) receipt(a Allowance) receipt {
	until := a.To
	if now := q.now(); until.Before(now) {
		until = now
	}
	return receipt{TTL: until.Add(receiptRetention).Unix()}
}

// decision returns the decision when the remainder is known only from an earlier request, or not at all.
func (q *Quotas) decision(ctx context.Context, a Allowance, admitted bool) Decision {
	if !admitted {
		return q.pool.refusal(a)
	}
	s := q.pool.slot(a)
	s.mu.Lock()
	unknown := s.demand.at.IsZero() && s.remainder.Load() == a.Limit
	s.mu.Unlock()
	if unknown {
		// This happens once in a period. If the read fails, the whole limit counts as the remainder.
		if granted, err := q.pool.ledger.granted(ctx, a.period()); err == nil {
			s.remainder.Store(max(a.Limit-granted, 0))
		}
	}
	return Decision{Admitted: true, Remaining: s.remaining(s.tokens.Load())}
}

// receiptKey uses the hash of the text, because a client chooses the text's length and content.
func (a Allowance) receiptKey(text string) store.Key {
	sum := sha256.Sum256([]byte(text))
	return receiptPrefix.Key(a.period().name, hex.EncodeToString(sum[:]))
}
