package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
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
	sk    string
	key   store.Key // of the item in the table: it orders an index's equal sort keys
	pk    string
	value *stored
}

func (e entry) compare(other entry) int {
	return cmp.Or(strings.Compare(e.sk, other.sk), strings.Compare(e.key.PK, other.key.PK), strings.Compare(e.key.SK, other.key.SK))
}

func (e entry) sameKey(other entry) bool { return e.pk == other.pk && e.sk == other.sk }

// indexEntry gives the entry of an item in the due index, if it has one.
func indexEntry(key store.Key, s *stored) (entry, bool) {
	if s == nil {
		return entry{}, false
	}
	due, projected, ok := store.DueIndex.Entry(s.item)
	return entry{pk: due.PK, sk: due.SK, key: key, value: &stored{projected, store.Size(projected)}}, ok
}

func (m *Backend) list(key store.Key, s *stored) {
	m.run(runKey{pk: key.PK}).ReplaceOrInsert(entry{sk: key.SK, key: key, value: s})
	if e, ok := indexEntry(key, s); ok {
		m.run(runKey{store.DueIndex, e.pk}).ReplaceOrInsert(e)
	}
}

func (m *Backend) unlist(key store.Key, s *stored) {
	remove := func(k runKey, e entry) {
		run := m.run(k)
		if run.Delete(e); run.Len() == 0 {
			delete(m.runs, k)
		}
	}
	remove(runKey{pk: key.PK}, entry{sk: key.SK, key: key})
	if e, ok := indexEntry(key, s); ok {
		remove(runKey{store.DueIndex, e.pk}, e)
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
	if _, _, empty := q.Range(); empty {
		return nil, "", nil
	}
	var from *entry
	if q.Cursor != "" {
		if from, err = decodeEntry(q.Cursor); err != nil {
			return nil, "", err
		}
	} else if q.Offset > 0 {
		for left := q.Offset; left > 0; {
			var skipped []entry
			skipped, from = m.page(ctx, q, from, left)
			if from == nil {
				return nil, "", nil
			}
			left -= len(skipped)
		}
	}
	found, last := m.page(ctx, q, from, q.Limit)
	for _, e := range found {
		items = append(items, q.Project(e.value.item))
	}
	if last != nil {
		next, err = encodeEntry(*last)
	}
	return items, next, err
}

// pageBytes is how much one page of a query reads in DynamoDB.
const pageBytes = 1 << 20

// page reads the run of q behind from (nil: from its begin), at most limit
// entries (0: all) or 1 MB, and gives the entry to go on behind, nil at the
// end. As in DynamoDB, a page that is full by its limit does not know whether
// there is more.
func (m *Backend) page(ctx context.Context, q store.Query, from *entry, limit int) (found []entry, last *entry) {
	size := 0
	if run := m.runs[runKey{q.Index, q.PK}]; run != nil {
		each(q, run, from, func(e entry) bool {
			if len(found) > 0 && size+e.value.size > pageBytes {
				last = &found[len(found)-1]
				return false
			}
			found = append(found, e)
			size += e.value.size
			if len(found) == limit {
				last = &e
			}
			return len(found) != limit
		})
	}
	units := store.ReadUnits(size)
	if q.Index != "" {
		units /= 2 // an index is read with eventual consistency
	}
	store.ChargeQuery(ctx, units)
	return found, last
}

// each visits the entries of q behind from in q's order.
func each(q store.Query, run *btree.BTreeG[entry], from *entry, visit func(entry) bool) {
	low, high, _ := q.Range()
	bounded := func(e entry) bool {
		switch {
		case from != nil && e.compare(*from) == 0:
			return true
		case e.sk < low || high != "" && e.sk >= high:
			// The first entry of a falling order may be the bound itself.
			return q.Descending && e.sk >= low
		}
		return visit(e)
	}
	switch {
	case from != nil && q.Descending:
		run.DescendLessOrEqual(*from, bounded)
	case from != nil:
		run.AscendGreaterOrEqual(*from, bounded)
	case q.Descending && high != "":
		run.DescendLessOrEqual(entry{sk: high}, bounded)
	case q.Descending:
		run.Descend(bounded)
	default:
		run.AscendGreaterOrEqual(entry{sk: low}, bounded)
	}
}

func encodeEntry(e entry) (string, error) {
	b, err := json.Marshal([3]string{e.sk, e.key.PK, e.key.SK})
	if err != nil {
		return "", fmt.Errorf("encode a cursor: %w", err)
	}
	return string(b), nil
}

func decodeEntry(cursor string) (*entry, error) {
	var parts [3]string
	if err := json.Unmarshal([]byte(cursor), &parts); err != nil {
		return nil, fmt.Errorf("decode a cursor: %w", err)
	}
	return &entry{sk: parts[0], key: store.Key{PK: parts[1], SK: parts[2]}}, nil
}
