package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/core/store"
)

// EachItem calls visit for all items, including those past their ttl, in the order of their keys, until
// visit returns an error. The items are a snapshot of one moment. Commits continue meanwhile. visit should
// be fast if there are commits, because the files of that moment stay on disk until EachItem returns.
func (b *Backend) EachItem(ctx context.Context, visit func(store.Item) error) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	iterator, err := b.db.NewIter(&pebble.IterOptions{LowerBound: []byte{itemPrefix}, UpperBound: []byte{itemPrefix + 1}})
	if err != nil {
		return readError(err)
	}
	defer func() { _ = iterator.Close() }()
	for more := iterator.First(); more; more = iterator.Next() {
		value, err := iterator.ValueAndErr()
		if err != nil {
			return readError(err)
		}
		pk, sk := cutText(iterator.Key()[1:])
		stored, err := decodeStored(store.Key{PK: pk, SK: string(sk)}, value)
		if err != nil {
			return fmt.Errorf("read an item: %w", err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := visit(stored.Item); err != nil {
			return err
		}
	}
	if err := iterator.Error(); err != nil {
		return readError(err)
	}
	return b.waitDurable(ctx, nil)
}
