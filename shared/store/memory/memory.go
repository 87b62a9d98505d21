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
	items  map[store.Key]*store.Stored
	runs   map[runKey]*btree.BTreeG[entry]
	nodes  *btree.FreeListG[entry]
	tokens map[string]uint64 // a digest of what was committed, by token
	stream func(store.StreamRecord)
	// between and order tear reads, nil for whole ones (Tear).
	between func(context.Context) error
	order   *rand.Rand
}

var _ store.Backend = (*Backend)(nil)

// New makes an empty backend.
func New() *Backend {
	const freeNodes = 256
	return &Backend{
		items: map[store.Key]*store.Stored{}, tokens: map[string]uint64{},
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
	c.items, c.tokens = maps.Clone(m.items), maps.Clone(m.tokens)
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
	m.items, m.runs, m.nodes, m.tokens = c.items, c.runs, c.nodes, c.tokens
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
		out[key] = store.Clone(s.Item)
	}
	return out
}

// Snapshot returns the whole content without copying an item: the items are those of the backend, and a caller must not
// change them. No commit changes them either, so that an item that was not written since is the same map in two snapshots,
// which reflect.DeepEqual notices at once.
func (m *Backend) Snapshot() map[store.Key]store.Item {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[store.Key]store.Item, len(m.items))
	for key, s := range m.items {
		out[key] = s.Item
	}
	return out
}

// Transact implements Backend.
func (m *Backend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.RefuseTried(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	digest := store.Digest(writes)
	if earlier, ok := m.tokens[token]; ok && earlier != digest {
		return store.ErrTokenReused
	} else if ok {
		store.ChargeRepeat(ctx, writes)
		return nil
	}
	effects, err := store.Effects(ctx, writes, func(key store.Key) (*store.Stored, error) { return m.items[key], nil })
	if err != nil {
		return err
	}
	m.tokens[token] = digest
	for _, e := range effects {
		m.apply(e)
	}
	return nil
}

func (m *Backend) apply(e store.Effect) {
	if e.Before == e.After {
		return // a check, or a delete of nothing
	}
	if e.Before != nil {
		m.unlist(e.Key, e.Before)
	}
	if e.After == nil {
		delete(m.items, e.Key)
	} else {
		m.items[e.Key] = e.After
		m.list(e.Key, e.After)
	}
	if m.stream == nil {
		return
	}
	if record, ok := e.StreamRecord(); ok {
		record.Old, record.New = store.Clone(record.Old), store.Clone(record.New)
		m.stream(record)
	}
}
