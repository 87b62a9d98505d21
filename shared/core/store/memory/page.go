package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/core/store"
)

var _ store.Pager = (*Backend)(nil)

// Page implements store.Pager, in the order of keys.
func (ba *Backend) Page(ctx context.Context, after store.Key, limit int) ([]store.Item, store.Key, error) {
	if err := ctx.Err(); err != nil {
		return nil, store.Key{}, err
	}
	order := func(a, b store.Key) int {
		return cmp.Or(strings.Compare(a.PK, b.PK), strings.Compare(a.SK, b.SK))
	}
	all := ba.Snapshot()
	keys := slices.SortedFunc(maps.Keys(all), order)
	from, found := slices.BinarySearchFunc(keys, after, order)
	if found {
		from++
	}
	var out []store.Item
	for _, key := range keys[from:] {
		if len(out) == limit {
			return out, store.KeyOf(out[limit-1]), nil
		}
		out = append(out, store.Clone(all[key]))
	}
	return out, store.Key{}, nil
}
