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

// Wrapper is a key service that never reveals its own key, such as KMS.
type Wrapper interface {
	// Generate generates a random key of KeyBytes bytes and returns it wrapped.
	Generate(ctx context.Context) (wrapped []byte, err error)
	// Unwrap returns a key that Generate wrapped.
	Unwrap(ctx context.Context, wrapped []byte) ([]byte, error)
}

// StoredRoot is a root key in a KeyStore.
type StoredRoot struct {
	Number  int
	Wrapped []byte
	// WrappedAlternate is the same root key, wrapped by a second key of the key service. It
	// is nil if there is no second key. A process needs access to only one of the two keys.
	WrappedAlternate []byte
	// Lineage is the root key's lineage, sealed under the root key itself. It is nil if there is none.
	Lineage []byte
}

// StoredRing has the root keys in a KeyStore: one, or two during a rotation. Primary is the number of the root key that seals.
type StoredRing struct {
	Roots   []StoredRoot
	Primary int
}

// KeyStore stores the installation's wrapped root keys for all its processes, such as in the table.
type KeyStore interface {
	// Load returns the root keys, nil if there are none yet.
	Load(ctx context.Context) (*StoredRing, error)
	// Create stores the first wrapped key unless there is one already, and returns the stored root keys.
	Create(ctx context.Context, wrapped []byte) (*StoredRing, error)
}

// Wrapped is the KeySource for root keys that a Wrapper wraps and a KeyStore stores. The first
// process of an installation creates the first root key. A process calls the KeyStore and the
// Wrapper when it first needs the keys, and again when the keys have been in its memory for maxAge
// (NewWrapped). So it takes at most maxAge until a process uses a new key, and stops using a disabled key.
type Wrapped struct {
	wrapper Wrapper
	store   KeyStore
	now     func() time.Time
	maxAge  time.Duration

	cached atomic.Pointer[cachedRing]
	// fetching is held by the caller that fetches. It is a channel, so that waiting callers can give up when their context ends.
	fetching chan struct{}
}

type cachedRing struct {
	ring   *Ring
	stored *StoredRing
	keys   [][]byte
	expiry time.Time
}

var _ RingSource = (*Wrapped)(nil)

// NewWrapped returns a source that keeps the keys in memory for maxAge.
func NewWrapped(w Wrapper, s KeyStore, maxAge time.Duration, now func() time.Time) *Wrapped {
	return &Wrapped{wrapper: w, store: s, now: now, maxAge: maxAge, fetching: make(chan struct{}, 1)}
}

// MaxAge returns how long a process can use root keys after the root keys in the KeyStore have changed.
func (w *Wrapped) MaxAge() time.Duration { return w.maxAge }

// Root implements KeySource. It returns the current root key, which seals and hashes.
func (w *Wrapped) Root(ctx context.Context) ([]byte, error) {
	r, err := w.Ring(ctx)
	if err != nil {
		return nil, err
	}
	return r.primary.Key, nil
}

// Ring implements RingSource.
func (w *Wrapped) Ring(ctx context.Context) (*Ring, error) {
	if c := w.unexpired(); c != nil {
		return c.ring, nil
	}
	select {
	case w.fetching <- struct{}{}:
		defer func() { <-w.fetching }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if c := w.unexpired(); c != nil { // another caller has fetched meanwhile
		return c.ring, nil
	}
	c, err := w.fetch(ctx)
	if err != nil {
		return nil, err
	}
	w.cached.Store(c)
	return c.ring, nil
}

// Expire makes the next call of Root or Ring fetch the keys again.
func (w *Wrapped) Expire() {
	for c := w.cached.Load(); c != nil; c = w.cached.Load() {
		stale := *c
		stale.expiry = time.Time{}
		if w.cached.CompareAndSwap(c, &stale) {
			return
		}
	}
}

// Successor generates the root key that follows the current one, with its lineage. It does not change the
// KeyStore. It returns an error if it cannot unwrap the new key, or if the new key is the current key.
// successor and current are the new and the current root key, unwrapped.
func (w *Wrapped) Successor(ctx context.Context) (stored StoredRoot, successor, current Root, err error) {
	r, err := w.Ring(ctx)
	if err != nil {
		return stored, successor, current, err
	}
	current = r.Primary()
	stored.Number = current.Number + 1
	if stored.Wrapped, err = w.wrapper.Generate(ctx); err != nil {
		return stored, successor, current, fmt.Errorf("make a root key: %w", err)
	}
	key, err := w.wrapper.Unwrap(ctx, stored.Wrapped)
	if err != nil {
		return stored, successor, current, fmt.Errorf("unwrap the new root key: %w", err)
	}
	if bytes.Equal(key, current.Key) {
		return stored, successor, current, errors.New("seal: the new root key is the old one")
	}
	successor = Root{Number: stored.Number, Key: key}
	stored.Lineage, err = current.SealLineageFor(successor)
	return stored, successor, current, err
}

// SealLineageFor returns the lineage of the root key that follows r, sealed
// under that root key: successor, which must not have a lineage yet.
func (r Root) SealLineageFor(successor Root) (sealed []byte, err error) {
	if successor.Lineage, err = r.SuccessorLineage(); err != nil {
		return nil, err
	}
	ring, err := NewRing(successor.Number, successor)
	if err != nil {
		return nil, err
	}
	return ring.primary.sealLineage()
}

func (w *Wrapped) unexpired() *cachedRing {
	if c := w.cached.Load(); c != nil && w.now().Before(c.expiry) {
		return c
	}
	return nil
}

func (w *Wrapped) fetch(ctx context.Context) (*cachedRing, error) {
	c := &cachedRing{expiry: w.now().Add(w.maxAge)} // computed before the read, so that keys are not used for longer
	var err error
	if c.stored, err = w.store.Load(ctx); err != nil {
		return nil, fmt.Errorf("read the wrapped root key: %w", err)
	}
	if c.stored == nil {
		created, err := w.wrapper.Generate(ctx)
		if err != nil {
			return nil, fmt.Errorf("make a root key: %w", err)
		}
		if c.stored, err = w.store.Create(ctx, created); err != nil {
			return nil, fmt.Errorf("store the wrapped root key: %w", err)
		}
	}
	// Unwrap even a new key, for two reasons: another process may have stored
	// its key first, and a key that cannot be unwrapped must not seal anything.
	for _, stored := range c.stored.Roots {
		key, err := w.wrapper.Unwrap(ctx, stored.Wrapped)
		if err != nil && stored.WrappedAlternate != nil {
			key, err = w.wrapper.Unwrap(ctx, stored.WrappedAlternate)
		}
		if err != nil {
			return nil, fmt.Errorf("unwrap the root key: %w", err)
		}
		c.keys = append(c.keys, key)
	}
	if previous := w.cached.Load(); previous != nil && reflect.DeepEqual(previous.stored, c.stored) &&
		reflect.DeepEqual(previous.keys, c.keys) {
		c.ring = previous.ring // the ring caches keys that were derived from the root keys
		return c, nil
	}
	c.ring, err = c.stored.open(c.keys)
	return c, err
}

// open returns the ring of the unwrapped keys.
func (s *StoredRing) open(keys [][]byte) (*Ring, error) {
	roots := make([]Root, len(keys))
	for i, stored := range s.Roots {
		lineage, err := OpenLineage(keys[i], stored.Number, stored.Lineage)
		if err != nil {
			return nil, fmt.Errorf("open what the root key has of those before it: %w", err)
		}
		roots[i] = Root{Number: stored.Number, Key: keys[i], Lineage: lineage}
	}
	return NewRing(s.Primary, roots...)
}
