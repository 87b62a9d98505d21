package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"time"
)

// Wrapper is a key service that never gives out its own key, such as KMS.
type Wrapper interface {
	// Generate makes a random key of KeyBytes bytes and gives it wrapped.
	Generate(ctx context.Context) (wrapped []byte, err error)
	// Unwrap gives a key back that Generate wrapped.
	Unwrap(ctx context.Context, wrapped []byte) ([]byte, error)
}

// StoredRoot is a root key as a KeyStore has it.
type StoredRoot struct {
	Number  int
	Wrapped []byte
	// Also is the same root key as another key of the Wrapper's kind wraps it, nil for none: a process that has the
	// one of the two need not have the other.
	Also []byte
	// Lineage is sealed under the root key itself, nil for none.
	Lineage []byte
}

// StoredRing is the root keys that a KeyStore has: one, and two while it is rotated. Writing is the
// number of the one that seals.
type StoredRing struct {
	Roots   []StoredRoot
	Writing int
}

// KeyStore has the installation's wrapped root keys where all its processes
// find them, such as in the table.
type KeyStore interface {
	// Load gives the root keys, nil when there is none yet.
	Load(ctx context.Context) (*StoredRing, error)
	// Create stores the first wrapped key unless there is one already, and gives
	// what is stored after that.
	Create(ctx context.Context, wrapped []byte) (*StoredRing, error)
}

// Wrapped is the root keys that a Wrapper wraps and a KeyStore has. The first
// process of an installation makes the first. A process asks both once, and again
// when the keys have been in its memory for the time given to NewWrapped: so
// long, at most, does a key that was disabled go on working, and is another one not known.
type Wrapped struct {
	wrapper Wrapper
	store   KeyStore
	now     func() time.Time
	maxAge  time.Duration

	held atomic.Pointer[heldRing]
	// turn is held by the one caller who fetches. It is a channel, so that
	// those who wait can give up with their context.
	turn chan struct{}
}

type heldRing struct {
	ring   *Ring
	stored *StoredRing
	keys   [][]byte
	expiry time.Time
}

var _ Rings = (*Wrapped)(nil)

// NewWrapped makes a source that keeps the keys in memory for maxAge.
func NewWrapped(w Wrapper, s KeyStore, maxAge time.Duration, now func() time.Time) *Wrapped {
	return &Wrapped{wrapper: w, store: s, now: now, maxAge: maxAge, turn: make(chan struct{}, 1)}
}

// MaxAge is how long another process may go by root keys that are no longer those of the KeyStore.
func (w *Wrapped) MaxAge() time.Duration { return w.maxAge }

// Root implements KeySource: it is the key that writes.
func (w *Wrapped) Root(ctx context.Context) ([]byte, error) {
	r, err := w.Ring(ctx)
	if err != nil {
		return nil, err
	}
	return r.writing.Key, nil
}

// Ring implements Rings.
func (w *Wrapped) Ring(ctx context.Context) (*Ring, error) {
	if h := w.fresh(); h != nil {
		return h.ring, nil
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h := w.fresh(); h != nil { // fetched while this caller waited
		return h.ring, nil
	}
	h, err := w.fetch(ctx)
	if err != nil {
		return nil, err
	}
	w.held.Store(h)
	return h.ring, nil
}

// Forget has the next caller ask again.
func (w *Wrapped) Forget() {
	for h := w.held.Load(); h != nil; h = w.held.Load() {
		stale := *h
		stale.expiry = time.Time{}
		if w.held.CompareAndSwap(h, &stale) {
			return
		}
	}
}

// Successor makes the root key that follows the one that writes, with its lineage. It is
// stored nowhere yet; a key that cannot be unwrapped again is an error. its and before are both without their wrapping.
func (w *Wrapped) Successor(ctx context.Context) (next StoredRoot, its, before Root, err error) {
	r, err := w.Ring(ctx)
	if err != nil {
		return next, its, before, err
	}
	before = r.Writing()
	next.Number = before.Number + 1
	if next.Wrapped, err = w.wrapper.Generate(ctx); err != nil {
		return next, its, before, fmt.Errorf("make a root key: %w", err)
	}
	key, err := w.wrapper.Unwrap(ctx, next.Wrapped)
	if err != nil {
		return next, its, before, fmt.Errorf("unwrap the new root key: %w", err)
	}
	if bytes.Equal(key, before.Key) {
		return next, its, before, errors.New("seal: the new root key is the old one")
	}
	its = Root{Number: next.Number, Key: key}
	next.Lineage, err = before.Bequeath(its)
	return next, its, before, err
}

// Bequeath gives the lineage that heir, which has none yet, has after r, sealed under heir.
func (r Root) Bequeath(heir Root) (sealed []byte, err error) {
	if heir.Lineage, err = r.Heirs(); err != nil {
		return nil, err
	}
	ring, err := NewRing(heir.Number, heir)
	if err != nil {
		return nil, err
	}
	return ring.writing.sealLineage()
}

func (w *Wrapped) fresh() *heldRing {
	if h := w.held.Load(); h != nil && w.now().Before(h.expiry) {
		return h
	}
	return nil
}

func (w *Wrapped) fetch(ctx context.Context) (*heldRing, error) {
	h := &heldRing{expiry: w.now().Add(w.maxAge)} // from before the look on, so that nobody is later
	var err error
	if h.stored, err = w.store.Load(ctx); err != nil {
		return nil, fmt.Errorf("read the wrapped root key: %w", err)
	}
	if h.stored == nil {
		created, err := w.wrapper.Generate(ctx)
		if err != nil {
			return nil, fmt.Errorf("make a root key: %w", err)
		}
		if h.stored, err = w.store.Create(ctx, created); err != nil {
			return nil, fmt.Errorf("store the wrapped root key: %w", err)
		}
	}
	// Even a key just made is unwrapped: the one stored may be another process's,
	// and a key that cannot be unwrapped must not seal anything.
	for _, stored := range h.stored.Roots {
		key, err := w.wrapper.Unwrap(ctx, stored.Wrapped)
		if err != nil && stored.Also != nil {
			key, err = w.wrapper.Unwrap(ctx, stored.Also)
		}
		if err != nil {
			return nil, fmt.Errorf("unwrap the root key: %w", err)
		}
		h.keys = append(h.keys, key)
	}
	if before := w.held.Load(); before != nil && reflect.DeepEqual(before.stored, h.stored) && reflect.DeepEqual(before.keys, h.keys) {
		h.ring = before.ring // what was derived of them is kept
		return h, nil
	}
	h.ring, err = h.stored.open(h.keys)
	return h, err
}

// open makes the ring of the unwrapped keys.
func (s *StoredRing) open(keys [][]byte) (*Ring, error) {
	roots := make([]Root, len(keys))
	for i, stored := range s.Roots {
		lineage, err := OpenLineage(keys[i], stored.Number, stored.Lineage)
		if err != nil {
			return nil, fmt.Errorf("open what the root key has of those before it: %w", err)
		}
		roots[i] = Root{Number: stored.Number, Key: keys[i], Lineage: lineage}
	}
	return NewRing(s.Writing, roots...)
}
