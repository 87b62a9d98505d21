package memory

import (
	"cmp"
	"context"
	"iter"
	"strings"

	"github.com/google/btree"

	"github.com/gatewright/gatewright/shared/store"
)

// runKey names a partition of the table (index "") or of an index.
type runKey struct {
	index store.Index
	pk    string
}

// entry is an item in the order of a partition.
type entry struct {
	store.Position
	value *store.Stored
}

func (e entry) compare(other entry) int {
	return cmp.Or(strings.Compare(e.SK, other.SK), strings.Compare(e.Key.PK, other.Key.PK), strings.Compare(e.Key.SK, other.Key.SK))
}

func entryAt(sk string, key store.Key, value *store.Stored) entry {
	return entry{store.Position{SK: sk, Key: key}, value}
}

func (m *Backend) list(key store.Key, s *store.Stored) {
	m.run(runKey{pk: key.PK}).ReplaceOrInsert(entryAt(key.SK, key, s))
	if due, projected, ok := store.DueIndex.Entry(s.Item); ok {
		value := &store.Stored{Item: projected, Size: store.Size(projected)}
		m.run(runKey{store.DueIndex, due.PK}).ReplaceOrInsert(entryAt(due.SK, key, value))
	}
}

func (m *Backend) unlist(key store.Key, s *store.Stored) {
	remove := func(k runKey, sk string) {
		run := m.run(k)
		if run.Delete(entryAt(sk, key, nil)); run.Len() == 0 {
			delete(m.runs, k)
		}
	}
	remove(runKey{pk: key.PK}, key.SK)
	if due, _, ok := store.DueIndex.Entry(s.Item); ok {
		remove(runKey{store.DueIndex, due.PK}, due.SK)
	}
}

func (m *Backend) run(k runKey) *btree.BTreeG[entry] {
	run, ok := m.runs[k]
	if !ok {
		const degree = 16
		run = btree.NewWithFreeListG(degree, func(a, b entry) bool { return a.compare(b) < 0 }, m.nodes)
		m.runs[k] = run
	}
	return run
}

// Query implements Backend.
func (m *Backend) Query(ctx context.Context, q store.Query) (items []store.Item, next string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return q.Answer(ctx, func(from *store.Position, sizes bool) iter.Seq2[store.Entry, error] {
		return func(yield func(store.Entry, error) bool) {
			run := m.runs[runKey{q.Index, q.PK}]
			if run == nil {
				return
			}
			each(q, run, from, func(e entry) bool {
				out := store.Entry{Position: e.Position, Size: e.value.Size}
				if !sizes {
					out.Item = q.Project(e.value.Item)
				}
				return yield(out, nil)
			})
		}
	})
}

// each visits the entries of q behind from in q's order.
func each(q store.Query, run *btree.BTreeG[entry], from *store.Position, visit func(entry) bool) {
	low, high, _ := q.Range()
	bounded := func(e entry) bool {
		switch {
		case from != nil && e.Position == *from:
			return true
		case e.SK < low || high != "" && e.SK >= high:
			// The first entry of a falling order may be the bound itself.
			return q.Descending && e.SK >= low
		}
		return visit(e)
	}
	switch {
	case from != nil && q.Descending:
		run.DescendLessOrEqual(entry{Position: *from}, bounded)
	case from != nil:
		run.AscendGreaterOrEqual(entry{Position: *from}, bounded)
	case q.Descending && high != "":
		run.DescendLessOrEqual(entryAt(high, store.Key{}, nil), bounded)
	case q.Descending:
		run.Descend(bounded)
	default:
		run.AscendGreaterOrEqual(entryAt(low, store.Key{}, nil), bounded)
	}
}
