package rotation

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
)

// Kept declares records that have something of the root key. The package that owns them does, and package durable lists all: what is
// in none is lost when the old root key is retired.
type Kept struct {
	Space store.Space
	// Attributes are those of the record that have a sealed value, spelled with dots.
	Attributes []string
	// Expires is the longest life of such a record where it has an end: none is renewed then, and a rotation outlasts them.
	// 0 is for ever.
	Expires time.Duration
	// Renew gives, in groups, the writes that bring items of the space under the root key that writes: nothing of those
	// that are. Each group holds for what was read, so that who changes a record meanwhile wins. Values that no root key
	// opens are counted and left as they are.
	Renew func(ctx context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error)
}

// Values is a Kept of records with one sealed value, at a path. of gives what of a record is sealed, nil for nothing, and what it is sealed
// for; with are further changes of the record, such as of its version.
func Values[T any](space store.Space, sealer *seal.Sealer, of func(store.Key, T) (value []byte, context string), path store.Path, with ...store.Change) Kept {
	return Kept{
		Space: space, Attributes: []string{spelled(path)},
		Renew: func(ctx context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error) {
			for _, item := range items {
				var record T
				if err := store.Decode(item, &record); err != nil {
					return nil, 0, fmt.Errorf("decode a record of %s: %w", space, err)
				}
				key := store.KeyOf(item)
				value, context := of(key, record)
				if value == nil {
					continue
				}
				change, ok, err := Value(ctx, sealer, value, context, path)
				switch {
				case err != nil:
					return nil, 0, err
				case !ok:
					unreadable++
				case change != nil:
					groups = append(groups, []store.Write{
						store.Update(key, append([]store.Change{*change}, with...)...).If(store.Equal(path, value)),
					})
				}
			}
			return groups, unreadable, nil
		},
	}
}

// Value gives the change that renews a sealed value at a path, nil for one that is under the root key that writes; not
// ok is one that no root key opens.
func Value(ctx context.Context, sealer *seal.Sealer, value []byte, context string, path store.Path) (change *store.Change, ok bool, err error) {
	renewed, other, err := sealer.Renew(ctx, value, context)
	switch {
	case isSealed(err):
		return nil, false, nil
	case err != nil, !other:
		return nil, true, err
	}
	return new(store.Set(path, renewed)), true, nil
}

// Expiring is a Kept of records that end by themselves before a rotation does.
func Expiring(space store.Space, life time.Duration, attributes ...string) Kept {
	return Kept{Space: space, Attributes: attributes, Expires: life}
}
