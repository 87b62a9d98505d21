package rotation

import (
	"context"
	"fmt"
	"time"

	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
)

// SealedRecords declares records with values that depend on the root key. The package that owns the records declares
// them, and package durable lists all declarations. Records without a declaration become unreadable when the old root
// key is retired.
type SealedRecords struct {
	Prefix store.KeyPrefix
	// Attributes are the record's attributes with a value that depends on the root key, as paths with dots.
	Attributes []string
	// MaxAge is the maximum lifetime of the records. Records with a MaxAge are not renewed, because
	// they expire before a rotation ends. 0 means that the records have no maximum lifetime.
	MaxAge time.Duration
	// Renew returns, in groups, the writes that renew the values of items under the current
	// root key. It returns no writes for values that are under this key already. Each group
	// requires that the values are as they were read, so that a concurrent change wins.
	// unreadable is the number of values that no root key opens. They are left unchanged.
	Renew func(ctx context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error)
}

// ForValue returns SealedRecords for records with one sealed value, at a path. valueOf returns
// the sealed value of a record (nil if there is none) and the context for which it is sealed.
// changes are further changes to make when the value is renewed, such as a new version.
func ForValue[T any](
	prefix store.KeyPrefix, sealer *seal.Sealer, valueOf func(store.Key, T) (value []byte, context string),
	path store.Path, changes ...store.Change,
) SealedRecords {
	return SealedRecords{
		Prefix: prefix, Attributes: []string{joinPath(path)},
		Renew: func(ctx context.Context, items []store.Item) (groups [][]store.Write, unreadable int, err error) {
			for _, item := range items {
				var record T
				if err := store.Decode(item, &record); err != nil {
					return nil, 0, fmt.Errorf("decode a record of %s: %w", prefix, err)
				}
				key := store.KeyOf(item)
				value, context := valueOf(key, record)
				if value == nil {
					continue
				}
				change, ok, err := RenewValue(ctx, sealer, value, context, path)
				switch {
				case err != nil:
					return nil, 0, err
				case !ok:
					unreadable++
				case change != nil:
					groups = append(groups, []store.Write{
						store.Update(key, append([]store.Change{*change}, changes...)...).If(store.Equal(path, value)),
					})
				}
			}
			return groups, unreadable, nil
		},
	}
}

// RenewValue returns the change that renews a sealed value at a path, nil if the value is
// already sealed under the current root key. ok is false if no root key opens the value.
func RenewValue(
	ctx context.Context, sealer *seal.Sealer, value []byte, context string, path store.Path,
) (change *store.Change, ok bool, err error) {
	renewed, changed, err := sealer.Renew(ctx, value, context)
	switch {
	case isUnreadable(err):
		return nil, false, nil
	case err != nil, !changed:
		return nil, true, err
	}
	return new(store.Set(path, renewed)), true, nil
}

// ForExpiring returns SealedRecords for records that expire before a rotation ends.
func ForExpiring(prefix store.KeyPrefix, maxAge time.Duration, attributes ...string) SealedRecords {
	return SealedRecords{Prefix: prefix, Attributes: attributes, MaxAge: maxAge}
}
