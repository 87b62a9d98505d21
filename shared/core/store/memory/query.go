package memory

import (
	"cmp"
	"context"
	"iter"
	"strings"

	"github.com/google/btree"

	"github.com/gatewright/gatewright/shared/core/store"
)

// partitionKey identifies a partition of the table (index "") or of an index.
type partitionKey struct {
	index store.Index
	pk    string
}

// entry is an item at its position in a partition.
type entry struct {
	store.Position
	value *store.Stored
}

func (e entry) compare(other entry) int {
	return cmp.Or(strings.Compare(e.SK, other.SK), strings.Compare(e.Key.PK, other.Key.PK),
		strings.Compare(e.Key.SK, other.Key.SK))
}

func entryAt(sk string, key store.Key, value *store.Stored) entry {
	return entry{store.Position{SK: sk, Key: key}, value}
}

func (ba *Backend) addToIndexes(key store.Key, s *store.Stored) {
	ba.partition(partitionKey{pk: key.PK}).ReplaceOrInsert(entryAt(key.SK, key, s))
	if due, projected, ok := store.DueIndex.Entry(s.Item); ok {
		value := &store.Stored{Item: projected, Size: store.Size(projected)}
		ba.partition(partitionKey{store.DueIndex, due.PK}).ReplaceOrInsert(entryAt(due.SK, key, value))
	}
}

func (ba *Backend) removeFromIndexes(key store.Key, s *store.Stored) {
	remove := func(k partitionKey, sk string) {
		partition := ba.partition(k)
		if partition.Delete(entryAt(sk, key, nil)); partition.Len() == 0 {
			delete(ba.partitions, k)
		}
	}
	remove(partitionKey{pk: key.PK}, key.SK)
	if due, _, ok := store.DueIndex.Entry(s.Item); ok {
		remove(partitionKey{store.DueIndex, due.PK}, due.SK)
	}
}

// partition returns the tree of a partition. It creates the tree if there is none.
func (ba *Backend) partition(k partitionKey) *btree.BTreeG[entry] {
	tree, ok := ba.partitions[k]
	if !ok {
		const degree = 16
		tree = btree.NewWithFreeListG(degree, func(a, b entry) bool { return a.compare(b) < 0 }, ba.nodes)
		ba.partitions[k] = tree
	}
	return tree
}

// Query implements store.Backend.
func (ba *Backend) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	ba.mu.Lock()
	defer ba.mu.Unlock()
	return q.ReadPage(ctx, func(from *store.Position, sizesOnly bool) iter.Seq2[store.Entry, error] {
		return func(yield func(store.Entry, error) bool) {
			partition := ba.partitions[partitionKey{q.Index, q.PK}]
			if partition == nil {
				return
			}
			scan(q, partition, from, func(e entry) bool {
				out := store.Entry{Position: e.Position, Size: e.value.Size}
				if !sizesOnly {
					out.Item = q.Project(e.value.Item)
				}
				return yield(out, nil)
			})
		}
	})
}

// scan visits the entries of q in q's order, until visit returns false. If from is not nil, it visits only entries
// after from.
func scan(q store.Query, partition *btree.BTreeG[entry], from *store.Position, visit func(entry) bool) {
	low, high, _ := q.Range()
	bounded := func(e entry) bool {
		switch {
		case from != nil && e.Position == *from:
			return true
		case e.SK < low || high != "" && e.SK >= high:
			// In descending order, the first entry may be the upper bound, which is not in the range. Skip it.
			return q.Descending && e.SK >= low
		}
		return visit(e)
	}
	switch {
	case from != nil && q.Descending:
		partition.DescendLessOrEqual(entry{Position: *from}, bounded)
	case from != nil:
		partition.AscendGreaterOrEqual(entry{Position: *from}, bounded)
	case q.Descending && high != "":
		partition.DescendLessOrEqual(entryAt(high, store.Key{}, nil), bounded)
	case q.Descending:
		partition.Descend(bounded)
	default:
		partition.AscendGreaterOrEqual(entryAt(low, store.Key{}, nil), bounded)
	}
}
