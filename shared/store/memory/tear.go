package memory

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/gatewright/gatewright/shared/store"
)

// Tear has reads be as far from snapshots as DynamoDB's are: the items of a Read
// are read one by one, in an order that seed chooses, and between is called
// before each of them but the first, with the table unlocked, so that it, or
// whoever runs meanwhile, changes what is still to be read. An error that
// between answers is that of the read: store.ErrRepeat, say, for keys that
// DynamoDB has left unprocessed. Nil between ends it.
func (m *Backend) Tear(seed uint64, between func(ctx context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.between, m.order = between, rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // G404: a test's order is no secret
}

// torn is the order in which a Read of keys goes, and what happens in between.
func (m *Backend) torn(keys []store.Key) ([]store.Key, func(context.Context) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.between == nil {
		return keys, nil
	}
	keys = slices.Clone(keys)
	m.order.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys, m.between
}

// Read implements Backend.
func (m *Backend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	keys, between := m.torn(keys)
	if between == nil {
		items, units := m.read(keys...)
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
		items, units := m.read(key)
		out, sum = append(out, items...), sum+units
	}
	store.ChargeRead(ctx, sum)
	return out, nil
}

// read gives copies of items at one moment, and what that costs.
func (m *Backend) read(keys ...store.Key) (out []store.Item, units float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		s, ok := m.items[k]
		if !ok {
			units += store.ReadUnits(0)
			continue
		}
		units += store.ReadUnits(s.Size)
		out = append(out, store.Clone(s.Item))
	}
	return out, units
}
