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

// Shelf keeps the installation's one wrapped root key where all its processes
// find it, such as the table.
type Shelf interface {
	// Kept gives the wrapped key, nil when there is none yet.
	Kept(ctx context.Context) ([]byte, error)
	// Keep stores the wrapped key unless there is one already, and gives the
	// one that is kept after that.
	Keep(ctx context.Context, wrapped []byte) ([]byte, error)
}

// Wrapped is the root key that a Wrapper wraps and a Shelf keeps. The first
// process of an installation makes it. A process asks both once, and again
// when the key has been in its memory for the time given to NewWrapped: so
// long, at most, does a key that was disabled go on working.
type Wrapped struct {
	wrapper Wrapper
	shelf   Shelf
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
func NewWrapped(w Wrapper, s Shelf, maxAge time.Duration, now func() time.Time) *Wrapped {
	return &Wrapped{wrapper: w, shelf: s, now: now, maxAge: maxAge, turn: make(chan struct{}, 1)}
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
	wrapped := w.wrapped // what is kept never changes
	if wrapped == nil {
		var err error
		if wrapped, err = w.shelf.Kept(ctx); err != nil {
			return nil, fmt.Errorf("read the wrapped root key: %w", err)
		}
	}
	if wrapped == nil {
		made, err := w.wrapper.Generate(ctx)
		if err != nil {
			return nil, fmt.Errorf("make a root key: %w", err)
		}
		if wrapped, err = w.shelf.Keep(ctx, made); err != nil {
			return nil, fmt.Errorf("keep the wrapped root key: %w", err)
		}
	}
	// Even a key just made is unwrapped: the one kept may be another process's,
	// and a key that cannot be unwrapped must not seal anything.
	key, err := w.wrapper.Unwrap(ctx, wrapped)
	if err != nil {
		return nil, fmt.Errorf("unwrap the root key: %w", err)
	}
	w.wrapped = wrapped
	return key, nil
}
