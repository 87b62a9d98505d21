package embedded

import (
	"context"
	"iter"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Read implements store.Backend. All items are from one snapshot.
func (b *Backend) Read(ctx context.Context, keys []store.Key) ([]store.Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.begin(); err != nil {
		return nil, err
	}
	defer b.calls.done()
	out, units, err := b.read(keys)
	store.ChargeRead(ctx, units)
	if err != nil {
		return nil, err
	}
	return out, b.waitDurable(ctx, func(e store.Effect) bool { return slices.Contains(keys, e.Key) })
}

func (b *Backend) read(keys []store.Key) (out []store.Item, units float64, err error) {
	from := pebble.Reader(b.db)
	if len(keys) > 1 {
		snapshot := b.db.NewSnapshot()
		defer func() { _ = snapshot.Close() }()
		from = snapshot
	}
	for _, key := range keys {
		s, err := readItem(from, key)
		if err != nil {
			return nil, units, err
		}
		if s == nil {
			units += store.ReadUnits(0)
			continue
		}
		units += store.ReadUnits(s.Size)
		out = append(out, s.Item)
	}
	return out, units, nil
}

// Query implements store.Backend. A page is a snapshot of its part of the partition.
func (b *Backend) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	if err := b.begin(); err != nil {
		return nil, "", err
	}
	defer b.calls.done()
	items, next, err = q.ReadPage(ctx, func(from *store.Position, sizesOnly bool) iter.Seq2[store.Entry, error] {
		return func(yield func(store.Entry, error) bool) { b.scan(q, from, sizesOnly, yield) }
	})
	if err != nil {
		return nil, "", err
	}
	return items, next, b.waitDurable(ctx, func(e store.Effect) bool { return inPartition(q, e) })
}

// inPartition reports whether an effect changes an entry of q's partition.
func inPartition(q store.Query, e store.Effect) bool {
	if q.Index == "" {
		return e.Key.PK == q.PK
	}
	for _, s := range []*store.Stored{e.Before, e.After} {
		if s == nil {
			continue
		}
		if entry, _, ok := q.Index.Entry(s.Item); ok && entry.PK == q.PK {
			return true
		}
	}
	return false
}

// scan yields the entries of q after from, or all entries of q if from is nil. If sizesOnly is true, the entries have
// only positions and sizes.
func (b *Backend) scan(q store.Query, from *store.Position, sizesOnly bool, yield func(store.Entry, error) bool) {
	lower, upper := bounds(q, from)
	iterator, err := b.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		yield(store.Entry{}, readError(err))
		return
	}
	defer func() { _ = iterator.Close() }()
	first, step := iterator.First, iterator.Next
	if q.Descending {
		first, step = iterator.Last, iterator.Prev
	}
	prefixLength := len(partitionPrefix(q.Index, q.PK))
	for more := first(); more; more = step() {
		e, err := decodeEntry(q, iterator, prefixLength, sizesOnly)
		if err != nil {
			yield(store.Entry{}, readError(err))
			return
		}
		if !yield(e, nil) {
			return
		}
	}
	if err := iterator.Error(); err != nil {
		yield(store.Entry{}, readError(err))
	}
}

// decodeEntry returns the current entry of the iterator. prefixLength is the length of the partition's prefix in keys.
func decodeEntry(q store.Query, iterator *pebble.Iterator, prefixLength int, sizesOnly bool) (store.Entry, error) {
	raw, err := iterator.ValueAndErr()
	if err != nil {
		return store.Entry{}, err
	}
	e := store.Entry{Position: positionOf(q, iterator.Key()[prefixLength:])}
	var rest []byte
	if e.Size, rest, err = decodeSize(raw); err != nil || sizesOnly {
		return e, err
	}
	item, err := decodeItem(e.Key, rest)
	if err != nil {
		return e, err
	}
	e.Item = q.Project(item)
	return e, nil
}
