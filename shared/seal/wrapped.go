package seal

import (
	"context"
	"fmt"
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

// KeyStore has the installation's one wrapped root key where all its processes
// find it, such as in the table.
type KeyStore interface {
	// Load gives the wrapped key, nil when there is none yet.
	Load(ctx context.Context) ([]byte, error)
	// Create stores the wrapped key unless there is one already, and gives the
	// one that is stored after that.
	Create(ctx context.Context, wrapped []byte) ([]byte, error)
}

// Wrapped is the root key that a Wrapper wraps and a KeyStore has. The first
// process of an installation makes it. A process asks both once, and again
// when the key has been in its memory for the time given to NewWrapped: so
// long, at most, does a key that was disabled go on working.
type Wrapped struct {
	wrapper Wrapper
	store   KeyStore
	now     func() time.Time
	maxAge  time.Duration

	held atomic.Pointer[heldKey]
	// turn is held by the one caller who fetches. It is a channel, so that
	// those who wait can give up with their context.
	turn    chan struct{}
	wrapped []byte // owned by who holds turn
}

type heldKey struct {
	key    []byte
	expiry time.Time
}

var _ KeySource = (*Wrapped)(nil)

// NewWrapped makes a source that keeps the key in memory for maxAge.
func NewWrapped(w Wrapper, s KeyStore, maxAge time.Duration, now func() time.Time) *Wrapped {
	return &Wrapped{wrapper: w, store: s, now: now, maxAge: maxAge, turn: make(chan struct{}, 1)}
}

// Root implements KeySource.
func (w *Wrapped) Root(ctx context.Context) ([]byte, error) {
	if h := w.fresh(); h != nil {
		return h.key, nil
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if h := w.fresh(); h != nil { // fetched while this caller waited
		return h.key, nil
	}
	key, err := w.fetch(ctx)
	if err != nil {
		return nil, err
	}
	w.held.Store(&heldKey{key: key, expiry: w.now().Add(w.maxAge)})
	return key, nil
}

func (w *Wrapped) fresh() *heldKey {
	if h := w.held.Load(); h != nil && w.now().Before(h.expiry) {
		return h
	}
	return nil
}

func (w *Wrapped) fetch(ctx context.Context) ([]byte, error) {
	wrapped := w.wrapped // what is stored never changes
	if wrapped == nil {
		var err error
		if wrapped, err = w.store.Load(ctx); err != nil {
			return nil, fmt.Errorf("read the wrapped root key: %w", err)
		}
	}
	if wrapped == nil {
		created, err := w.wrapper.Generate(ctx)
		if err != nil {
			return nil, fmt.Errorf("make a root key: %w", err)
		}
		if wrapped, err = w.store.Create(ctx, created); err != nil {
			return nil, fmt.Errorf("store the wrapped root key: %w", err)
		}
	}
	// Even a key just made is unwrapped: the one stored may be another process's,
	// and a key that cannot be unwrapped must not seal anything.
	key, err := w.wrapper.Unwrap(ctx, wrapped)
	if err != nil {
		return nil, fmt.Errorf("unwrap the root key: %w", err)
	}
	w.wrapped = wrapped
	return key, nil
}
