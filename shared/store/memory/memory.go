// Package memory keeps the table in memory, for tests and simulators: it has
// DynamoDB's transactions, tokens, conditions, pages, due index and stream, and
// bills what DynamoDB would, without a process to start.
//
// What it is not: a fake. The suite of package store holds it and DynamoDB to
// the same answers (docs/decisions/0003-a-table-in-memory.md). It keeps nothing
// beyond its process.
//
// Read memory.go first, then query.go; tear.go has it read as badly as DynamoDB
// may.
package memory

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/google/btree"

	"github.com/gatewright/gatewright/shared/store"
)

// Backend is a store.Backend. A partition may hold 100,000 items. It is safe
// for concurrent use.
type Backend struct {
	mu     sync.Mutex
	items  map[store.Key]*stored
	runs   map[runKey]*btree.BTreeG[entry]
	nodes  *btree.FreeListG[entry]
	tokens map[string]uint64 // a digest of what was committed, by token
	seed   maphash.Seed
	stream func(store.StreamRecord)
	// between and order tear reads, nil for whole ones (Tear).
	between func(context.Context) error
	order   *rand.Rand
}

// stored is an item with its size. Neither changes: a write makes another.
type stored struct {
	item store.Item
	size int
}

var _ store.Backend = (*Backend)(nil)

// New makes an empty backend.
func New() *Backend {
	const freeNodes = 256
	return &Backend{
		items: map[store.Key]*stored{}, tokens: map[string]uint64{}, seed: maphash.MakeSeed(),
		runs: map[runKey]*btree.BTreeG[entry]{}, nodes: btree.NewFreeListG[entry](freeNodes),
	}
}

// Clone makes another backend with the same content, which neither changes for
// the other. It costs a map's entry for each item and copies none. The copy's
// changes are told to nobody (OnChange).
func (m *Backend) Clone() *Backend {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := New()
	c.items, c.tokens, c.seed = maps.Clone(m.items), maps.Clone(m.tokens), m.seed
	for key, run := range m.runs {
		c.runs[key] = run.Clone()
	}
	return c
}

// Restore gives the backend the content of another, as Clone does: so a test
// goes back to a world that it has made once. OnChange stays as it was and
// hears nothing of it.
func (m *Backend) Restore(from *Backend) {
	c := from.Clone()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.items, m.runs, m.nodes, m.tokens, m.seed = c.items, c.runs, c.nodes, c.tokens, c.seed
}

// OnChange has f called after each commit with every item it changed, in the
// order of the commits. f must not call the backend.
func (m *Backend) OnChange(f func(store.StreamRecord)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stream = f
}

// Items gives a copy of the whole content, for a test to compare.
func (m *Backend) Items() map[store.Key]store.Item {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[store.Key]store.Item, len(m.items))
	for key, s := range m.items {
		out[key] = store.Clone(s.item)
	}
	return out
}

// Transact implements Backend.
func (m *Backend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	digest := m.digest(writes)
	if earlier, ok := m.tokens[token]; ok && earlier != digest {
		return errors.New("store: a token was used for another transaction before")
	} else if ok {
		// DynamoDB bills a repeat as a read of what it would have written.
		store.ChargeCommit(ctx, float64(2*len(writes)), 0)
		return nil
	}
	if err := m.failedConditions(writes); err != nil {
		store.ChargeCommit(ctx, 0, 0)
		return err
	}
	changes := make([]change, len(writes))
	var units float64
	total := 0
	for i, w := range writes {
		c, err := m.change(w)
		if err != nil {
			store.ChargeCommit(ctx, 0, 0)
			return err
		}
		units += c.units()
		if c.after != nil {
			total += c.after.size
		}
		changes[i] = c
	}
	if total > store.MaxTransactionBytes {
		store.ChargeCommit(ctx, 0, 0)
		return fmt.Errorf("store: a transaction of %d bytes, at most %d are possible", total, store.MaxTransactionBytes)
	}
	m.tokens[token] = digest
	store.ChargeCommit(ctx, 0, units)
	for _, c := range changes {
		m.apply(c)
	}
	return nil
}

// digest tells transactions apart by what they do to which items.
func (m *Backend) digest(writes []store.Write) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, w := range writes {
		maphash.WriteComparable(&h, w.Kind)
		maphash.WriteComparable(&h, w.Key)
	}
	return h.Sum64()
}

func (m *Backend) failedConditions(writes []store.Write) error {
	var failed []int
	for i, w := range writes {
		var item store.Item
		if s := m.items[w.Key]; s != nil {
			item = s.item
		}
		ok, err := w.Holds(item)
		if err != nil {
			return err
		}
		if !ok {
			failed = append(failed, i)
		}
	}
	if failed != nil {
		return &store.ConditionError{Failed: failed}
	}
	return nil
}

// change is what one write does to one item.
type change struct {
	key           store.Key
	before, after *stored // nil where there is no item
}

func (m *Backend) change(w store.Write) (change, error) {
	c := change{key: w.Key, before: m.items[w.Key]}
	if w.Kind == store.CheckKind {
		c.after = c.before
		return c, nil
	}
	var before store.Item
	if c.before != nil {
		before = c.before.item
	}
	after, err := w.Apply(before)
	if err != nil || after == nil {
		return c, err
	}
	c.after = &stored{after, store.Size(after)}
	if c.after.size > store.MaxItemBytes {
		return c, store.TooLarge(c.after.size)
	}
	return c, versionKept(w.Key, before, after)
}

// units is what the change costs: twice a write of the larger of the item
// before and after, and what the index is written besides.
func (c change) units() float64 {
	size := 0
	for _, s := range []*stored{c.before, c.after} {
		if s != nil {
			size = max(size, s.size)
		}
	}
	units := 2 * store.WriteUnits(size)
	before, wasThere := indexEntry(c.key, c.before)
	after, isThere := indexEntry(c.key, c.after)
	switch {
	case wasThere && isThere && before.sameKey(after):
		// The index holds keys alone, which do not change.
	default:
		if wasThere {
			units += store.WriteUnits(before.value.size)
		}
		if isThere {
			units += store.WriteUnits(after.value.size)
		}
	}
	return units
}

func (m *Backend) apply(c change) {
	if c.before == c.after {
		return // a check, or a delete of nothing
	}
	if c.before != nil {
		m.unlist(c.key, c.before)
	}
	if c.after == nil {
		delete(m.items, c.key)
	} else {
		m.items[c.key] = c.after
		m.list(c.key, c.after)
	}
	if m.stream == nil {
		return
	}
	record := store.StreamRecord{Key: c.key}
	if c.before != nil {
		record.Old = store.Clone(c.before.item)
	}
	if c.after != nil {
		record.New = store.Clone(c.after.item)
	}
	// As in DynamoDB, a write that leaves an item as it was is in no stream.
	if record.Old == nil || record.New == nil || !store.EqualItems(record.Old, record.New) {
		m.stream(record)
	}
}
