package allowance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
)

// recordRetention is how long a record outlives its period, so that an instance whose clock is slow still finds
// it. Only an instance whose clock is more than a day slow would start the period again with a new record.
const recordRetention = 24 * time.Hour

// record is an allowance of one period in the table.
type record struct {
	store.UnknownAttributes

	// Granted is the number of units that are leased to instances and not returned.
	Granted int64 `dynamodbav:"granted"`
}

// returnRecord is the item (the fence) that ensures that a return is applied only once.
type returnRecord struct {
	store.UnknownAttributes

	TTL int64 `dynamodbav:"ttl"`
}

// errExceedsLimit means that a lease would exceed the limit.
var errExceedsLimit = errors.New("allowance: the lease exceeds what is left")

// ledger accesses the allowances in the table. Each of its methods takes one round trip.
type ledger struct{ table *store.Table }

// lease takes n units for the caller, all or none. It returns errExceedsLimit if fewer are left.
// After any other error the units may have been taken: they are lost and must not be spent.
func (l ledger) lease(ctx context.Context, p period, limit, n int64) error {
	if n > limit {
		return errExceedsLimit
	}
	granted := store.At("granted")
	w := l.add(p, n).If(store.Or(store.Lacks(granted), store.AtMost(granted, limit-n))).Else(errExceedsLimit)
	if err := l.table.Commit(ctx, w); err != nil {
		if errors.Is(err, errExceedsLimit) {
			return errExceedsLimit
		}
		return fmt.Errorf("lease a part of an allowance: %w", err)
	}
	return nil
}

// overdraw counts n units that were admitted beyond the limit.
func (l ledger) overdraw(ctx context.Context, p period, n int64) error {
	if err := l.table.Commit(ctx, l.add(p, n)); err != nil {
		return fmt.Errorf("count units beyond an allowance: %w", err)
	}
	return nil
}

// release returns units that the caller holds and will not spend. The caller can repeat it with
// the same refunds after any error: a fence ensures that each refund is applied only once.
func (l ledger) release(ctx context.Context, refunds ...refund) error {
	var writes []store.Write
	for _, r := range refunds {
		fence := r.period.returnKey(r.id)
		writes = append(writes,
			store.Create(fence, returnRecord{TTL: expiry(r.period)}).Else(errAlreadyReturned),
			// A record that no longer exists must not be created with a negative value.
			l.add(r.period, -r.n).If(store.AtLeast(store.At("granted"), r.n)).Else(errAlreadyReturned))
	}
	if err := l.table.Commit(ctx, writes...); err != nil {
		return fmt.Errorf("give back %d parts of allowances: %w", len(refunds), err)
	}
	return nil
}

// errAlreadyReturned means that a refund was applied before, or that the allowance's record no longer exists.
var errAlreadyReturned = errors.New("allowance: given back already")

// granted returns the number of leased units of the allowance.
func (l ledger) granted(ctx context.Context, p period) (int64, error) {
	var r record
	err := l.table.Get(ctx, p.key(), &r)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return 0, fmt.Errorf("read an allowance: %w", err)
	}
	return r.Granted, nil
}

func (l ledger) add(p period, n int64) store.Write {
	return store.Upsert(p.key(),
		store.Add(store.At("granted"), n), store.Set(store.At("ttl"), expiry(p)))
}

func expiry(p period) int64 { return p.end().Add(recordRetention).Unix() }

// refund is a part of a lease that is being returned.
type refund struct {
	period period
	n      int64  // activated units
	id     string // random, so that the refund is applied only once
	// reserved is, for quotas, the number of units that journal records.
	reserved int64
	journal  *journal
}
