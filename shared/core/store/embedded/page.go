package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/core/store"
)

var _ store.Pager = (*Backend)(nil)

// Page implements store.Pager, in the order of keys.
func (b *Backend) Page(ctx context.Context, after store.Key, limit int) (out []store.Item, last store.Key, err error) {
	if err := b.begin(); err != nil {
		return nil, store.Key{}, err
	}
	defer b.calls.done()
	from := []byte{itemPrefix}
	if after != (store.Key{}) {
		from = append(itemKey(after), 0)
	}
	iterator, err := b.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: []byte{itemPrefix + 1}})
	if err != nil {
		return nil, store.Key{}, readError(err)
	}
	defer func() { _ = iterator.Close() }()
	for more := iterator.First(); more; more = iterator.Next() {
		if len(out) == limit {
			last = store.KeyOf(out[limit-1])
			break
		}
		value, err := iterator.ValueAndErr()
		if err != nil {
			return nil, store.Key{}, readError(err)
		}
		pk, sk := cutText(iterator.Key()[1:])
		stored, err := decodeStored(store.Key{PK: pk, SK: string(sk)}, value)
		if err != nil {
			return nil, store.Key{}, fmt.Errorf("read an item: %w", err)
		}
		out = append(out, stored.Item)
	}
	if err := iterator.Error(); err != nil {
		return nil, store.Key{}, readError(err)
	}
	return out, last, b.waitDurable(ctx, nil)
}
