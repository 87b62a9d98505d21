package memory

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Tear makes reads as inconsistent as those of DynamoDB. The items of a Read are read one by one, in
// an order that depends on seed. between is called before each item except the first, while the table
// is unlocked. So between, or a concurrent goroutine, can change the items that are not read yet. If
// between returns an error, the Read returns this error, for example store.ErrRetryable for keys that
// DynamoDB left unprocessed. If between is nil, a Read reads all items at one moment again.
func (ba *Backend) Tear(seed uint64, between func(ctx context.Context) error) {
	ba.mu.Lock()
	defer ba.mu.Unlock()
	ba.betweenReads, ba.readOrder = between, rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // G404: a test's order is not secret
}

// tornOrder returns the keys in the order of the reads, and the function to call between two items.
func (ba *Backend) tornOrder(keys []store.Key) ([]store.Key, func(context.Context) error) {
	ba.mu.Lock()
	defer ba.mu.Unlock()
	if ba.betweenReads == nil {
		return keys, nil
	}
	keys = slices.Clone(keys)
	ba.readOrder.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys, ba.betweenReads
}

// Read implements store.Backend.
func (ba *Backend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	keys, between := ba.tornOrder(keys)
	if between == nil {
		items, units := ba.read(keys...)
		store.ChargeRead(ctx, units)
		return items, nil
	}
	var out []store.Item
	var sum float64
	for i, key := range keys {
		if i > 0 {
			if err := between(ctx); err != nil {
				store.ChargeRead(ctx, sum)
				return nil, err
			}
		}
		items, units := ba.read(key)
		out, sum = append(out, items...), sum+units
	}
	store.ChargeRead(ctx, sum)
	return out, nil
}

// read returns copies of items at one moment, and the cost of the read.
func (ba *Backend) read(keys ...store.Key) (out []store.Item, units float64) {
	ba.mu.Lock()
	defer ba.mu.Unlock()
	for _, k := range keys {
		s, ok := ba.items[k]
		if !ok {
			units += store.ReadUnits(0)
			continue
		}
		units += store.ReadUnits(s.Size)
		out = append(out, store.Clone(s.Item))
	}
	return out, units
}
