package store

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/google/btree"
)

// Memory is a backend in memory, for tests and simulators: transactions,
// tokens, conditions, the due index, the stream and the capacity that DynamoDB
// would bill, without a process to start. A partition may hold 100,000 items.
type Memory struct {
	mu     sync.Mutex
	items  map[Key]*stored
	runs   map[runKey]*btree.BTreeG[entry]
	nodes  *btree.FreeListG[entry]
	tokens map[string]uint64 // a digest of what was committed, by token
	seed   maphash.Seed
	stream func(StreamRecord)
}

// stored is an item with its size. Neither changes: a write makes another.
type stored struct {
	item Item
	size int
}

// StreamRecord is one change of an item, as the table's stream tells it.
type StreamRecord struct {
	Key Key
	// Old and New are the item before and after, nil where it was not there.
	Old, New Item
}

var _ Backend = (*Memory)(nil)

// NewMemory makes an empty backend.
func NewMemory() *Memory {
	const freeNodes = 256
	return &Memory{
		items: map[Key]*stored{}, tokens: map[string]uint64{}, seed: maphash.MakeSeed(),
		runs: map[runKey]*btree.BTreeG[entry]{}, nodes: btree.NewFreeListG[entry](freeNodes),
	}
}

// OnChange has f called after each commit with every item it changed, in the
// order of the commits. f must not call the backend.
func (m *Memory) OnChange(f func(StreamRecord)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stream = f
}

// Items gives a copy of the whole content, for a test to compare.
func (m *Memory) Items() map[Key]Item {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[Key]Item, len(m.items))
	for key, s := range m.items {
		out[key] = clone(s.item)
	}
	return out
}

// Read implements Backend.
func (m *Memory) Read(ctx context.Context, keys []Key) ([]Item, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []Item
	var units float64
	for _, k := range keys {
		s, ok := m.items[k]
		if !ok {
			units += readUnits(0)
			continue
		}
		units += readUnits(s.size)
		out = append(out, clone(s.item))
	}
	charge(ctx, reading, units, 0)
	return out, nil
}

// maxTransactionBytes is a limit of DynamoDB.
const maxTransactionBytes = 4 << 20

// Transact implements Backend.
func (m *Memory) Transact(ctx context.Context, token string, writes []Write) error {
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
		charge(ctx, committing, float64(2*len(writes)), 0)
		return nil
	}
	if err := m.failedConditions(writes); err != nil {
		charge(ctx, committing, 0, 0)
		return err
	}
	changes := make([]memoryChange, len(writes))
	var units float64
	total := 0
	for i, w := range writes {
		c, err := m.change(w)
		if err != nil {
			charge(ctx, committing, 0, 0)
			return err
		}
		units += c.units()
		if c.after != nil {
			total += c.after.size
		}
		changes[i] = c
	}
	if total > maxTransactionBytes {
		charge(ctx, committing, 0, 0)
		return fmt.Errorf("store: a transaction of %d bytes, at most %d are possible", total, maxTransactionBytes)
	}
	m.tokens[token] = digest
	charge(ctx, committing, 0, units)
	for _, c := range changes {
		m.apply(c)
	}
	return nil
}

// digest tells transactions apart by what they do to which items.
func (m *Memory) digest(writes []Write) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, w := range writes {
		maphash.WriteComparable(&h, w.Kind)
		maphash.WriteComparable(&h, w.Key)
	}
	return h.Sum64()
}

func (m *Memory) failedConditions(writes []Write) error {
	var failed []int
	for i, w := range writes {
		var item Item
		if s := m.items[w.Key]; s != nil {
			item = s.item
		}
		ok, err := holds(w.Condition, item)
		if err != nil {
			return err
		}
		if !ok {
			failed = append(failed, i)
		}
	}
	if failed != nil {
		return &ConditionError{Failed: failed}
	}
	return nil
}

// memoryChange is what one write does to one item.
type memoryChange struct {
	key           Key
	before, after *stored // nil where there is no item
}

func (m *Memory) change(w Write) (memoryChange, error) {
	c := memoryChange{key: w.Key, before: m.items[w.Key]}
	if w.Kind == CheckKind {
		c.after = c.before
		return c, nil
	}
	var before Item
	if c.before != nil {
		before = c.before.item
	}
	after, err := applied(w, before)
	if err != nil || after == nil {
		return c, err
	}
	c.after = &stored{after, itemSize(after)}
	if c.after.size > maxItemBytes {
		return c, tooLarge(c.after.size)
	}
	return c, nil
}

// units is what the change costs: twice a write of the larger of the item
// before and after, and what the index is written besides.
func (c memoryChange) units() float64 {
	size := 0
	for _, s := range []*stored{c.before, c.after} {
		if s != nil {
			size = max(size, s.size)
		}
	}
	units := 2 * writeUnits(size)
	before, wasThere := indexEntry(c.key, c.before)
	after, isThere := indexEntry(c.key, c.after)
	switch {
	case wasThere && isThere && before.sameKey(after):
		// The index holds keys alone, which do not change.
	default:
		if wasThere {
			units += writeUnits(before.value.size)
		}
		if isThere {
			units += writeUnits(after.value.size)
		}
	}
	return units
}

func (m *Memory) apply(c memoryChange) {
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
	record := StreamRecord{Key: c.key}
	if c.before != nil {
		record.Old = clone(c.before.item)
	}
	if c.after != nil {
		record.New = clone(c.after.item)
	}
	// As in DynamoDB, a write that leaves an item as it was is in no stream.
	if record.Old == nil || record.New == nil || !equalItems(record.Old, record.New) {
		m.stream(record)
	}
}
