package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/gatewright/gatewright/shared/store"
)

// EachItem visits all items, those past their ttl too, in the order of their keys and as
// they are at one moment, until an error. Commits go on meanwhile; visit must not take
// long under them, since the files of that moment stay on the disk until the end.
func (b *Backend) EachItem(ctx context.Context, visit func(store.Item) error) error {
	if err := b.begin(); err != nil {
		return err
	}
	defer b.calls.done()
	items, err := b.db.NewIter(&pebble.IterOptions{LowerBound: []byte{itemSpace}, UpperBound: []byte{itemSpace + 1}})
	if err != nil {
		return damaged(err)
	}
	defer func() { _ = items.Close() }()
	for more := items.First(); more; more = items.Next() {
		value, err := items.ValueAndErr()
		if err != nil {
			return damaged(err)
		}
		pk, sk := cutText(items.Key()[1:])
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
	if err := items.Error(); err != nil {
		return damaged(err)
	}
	return b.settled(ctx, nil)
}
