// Package memory keeps the table in memory, for tests and simulators. It has DynamoDB's transactions, tokens,
// conditions, pages, due index and stream, and charges the same units as DynamoDB, without a separate process.
//
// The package is not a fake: the test suite of package store tests that Backend and DynamoDB return
// the same results (docs/decisions/0003-a-table-in-memory.md). Its data is lost when the process ends.
//
// Read memory.go first, then query.go. tear.go makes reads as inconsistent as DynamoDB's can be.
package memory

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/google/btree"

	"github.com/gatewright/gatewright/shared/core/store"
)

// Backend is a store.Backend in memory. It stays fast with 100,000 items in a partition. It is safe for concurrent use.
type Backend struct {
	mu         sync.Mutex
	items      map[store.Key]*store.Stored
	partitions map[partitionKey]*btree.BTreeG[entry]
	nodes      *btree.FreeListG[entry]
	tokens     map[string]uint64 // digests of committed transactions, by token
	stream     func(store.StreamRecord)
	// betweenReads and readOrder make reads torn (Tear). betweenReads is nil if a Read reads all items at one moment.
	betweenReads func(context.Context) error
	readOrder    *rand.Rand
}

var _ store.Backend = (*Backend)(nil)

// New returns an empty backend.
func New() *Backend {
	const freeNodes = 256
	return &Backend{
		items: map[store.Key]*store.Stored{}, tokens: map[string]uint64{},
		partitions: map[partitionKey]*btree.BTreeG[entry]{}, nodes: btree.NewFreeListG[entry](freeNodes),
	}
}

// Clone returns an independent backend with the same content. It needs a map entry for each item,
// but copies no items. The new backend has no OnChange function, and its reads are not torn (Tear).
func (ba *Backend) Clone() *Backend {
	ba.mu.Lock()
	defer ba.mu.Unlock()
	c := New()
	c.items, c.tokens = maps.Clone(ba.items), maps.Clone(ba.tokens)
	for key, partition := range ba.partitions {
		c.partitions[key] = partition.Clone()
	}
	return c
}

// Restore replaces the backend's content with the content of another backend. So a test can return to an
// earlier state (Clone). The function of OnChange stays registered, and is not called for the replacement.
func (ba *Backend) Restore(from *Backend) {
	c := from.Clone()
	ba.mu.Lock()
	defer ba.mu.Unlock()
	ba.items, ba.partitions, ba.nodes, ba.tokens = c.items, c.partitions, c.nodes, c.tokens
}

// OnChange registers f, which is called during each commit with every item that the commit changes, in the
// order of the commits. f must not call the backend, which is locked. f replaces an earlier function.
func (ba *Backend) OnChange(f func(store.StreamRecord)) {
	ba.mu.Lock()
	defer ba.mu.Unlock()
	ba.stream = f
}

// Items returns a copy of the whole content, for comparisons in tests.
func (ba *Backend) Items() map[store.Key]store.Item {
	ba.mu.Lock()
	defer ba.mu.Unlock()
	out := make(map[store.Key]store.Item, len(ba.items))
	for key, s := range ba.items {
		out[key] = store.Clone(s.Item)
	}
	return out
}

// Snapshot returns the whole content without copying the items. The caller must not change
// the items. Commits do not change them either: they replace them. So an item that was not
// written between two snapshots is the same map in both, which makes reflect.DeepEqual fast.
func (ba *Backend) Snapshot() map[store.Key]store.Item {
	ba.mu.Lock()
	defer ba.mu.Unlock()
	out := make(map[store.Key]store.Item, len(ba.items))
	for key, s := range ba.items {
		out[key] = s.Item
	}
	return out
}

// Transact implements store.Backend.
func (ba *Backend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := store.RefuseInDryRun(ctx); err != nil {
		return err
	}
	ba.mu.Lock()
	defer ba.mu.Unlock()
	digest := store.Digest(writes)
	if earlier, ok := ba.tokens[token]; ok && earlier != digest {
		return store.ErrTokenReused
	} else if ok {
		store.ChargeRetry(ctx, writes)
		return nil
	}
	effects, err := store.Effects(ctx, writes, func(key store.Key) (*store.Stored, error) { return ba.items[key], nil })
	if err != nil {
		return err
	}
	ba.tokens[token] = digest
	for _, e := range effects {
		ba.apply(e)
	}
	return nil
}

func (ba *Backend) apply(e store.Effect) {
	if e.Before == e.After {
		return // a check, or a deletion of an item that does not exist
	}
	if e.Before != nil {
		ba.removeFromIndexes(e.Key, e.Before)
	}
	if e.After == nil {
		delete(ba.items, e.Key)
	} else {
		ba.items[e.Key] = e.After
		ba.addToIndexes(e.Key, e.After)
	}
	if ba.stream == nil {
		return
	}
	if record, ok := e.StreamRecord(); ok {
		record.Old, record.New = store.Clone(record.Old), store.Clone(record.New)
		ba.stream(record)
	}
}
