package allowance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/store"
)

// recordRetention is how long a record outlives its period, so that an instance whose
// clock is behind still meets it. Only one that is a day behind the table's own
// clock would begin a period anew.
const recordRetention = 24 * time.Hour

// record is an allowance of one period in the table.
type record struct {
	store.Rest

	// Granted is what was leased to instances and not given back.
	Granted int64 `dynamodbav:"granted"`
}

// returned is the fence that lets a return happen once.
type returned struct {
	store.Rest

	TTL int64 `dynamodbav:"ttl"`
}

// errSpent says that a lease would exceed the limit.
var errSpent = errors.New("allowance: the lease exceeds what is left")

// ledger is the table as allowances use it: three calls, each one round trip.
type ledger struct{ table *store.Table }

// lease takes n units for the caller, all or none: errSpent when fewer are
// left. After any other error the units may be taken and are lost; nobody may
// spend them.
func (l ledger) lease(ctx context.Context, p period, limit, n int64) error {
	if n > limit {
		return errSpent
	}
	granted := store.At("granted")
	w := l.add(p, n).If(store.Or(store.Lacks(granted), store.AtMost(granted, limit-n))).Else(errSpent)
	if err := l.table.Commit(ctx, w); err != nil {
		if errors.Is(err, errSpent) {
			return errSpent
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

// release returns units that the caller holds and will not spend. It may be
// repeated with the same refund after any error: the fence lets one through.
func (l ledger) release(ctx context.Context, refunds ...refund) error {
	var writes []store.Write
	for _, r := range refunds {
		fence := r.period.returnKey(r.id)
		writes = append(writes,
			store.Create(fence, returned{TTL: expiry(r.period)}).Else(errReturned),
			// A record that is gone must not come back below zero.
			l.add(r.period, -r.n).If(store.AtLeast(store.At("granted"), r.n)).Else(errReturned))
	}
	if err := l.table.Commit(ctx, writes...); err != nil {
		return fmt.Errorf("give back %d parts of allowances: %w", len(refunds), err)
	}
	return nil
}

// errReturned says that a refund was applied before, or that its record is gone.
var errReturned = errors.New("allowance: given back already")

// granted reads how much of the allowance is leased.
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

// refund is a part of a lease on its way back.
type refund struct {
	period period
	n      int64 // units that were begun
	id     string
	// unbegun are units that journal has written down, of a quota.
	unbegun int64
	journal *journal
}
