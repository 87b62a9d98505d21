package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// Held is a change whose deciding commit (Write.Decides) waits until all that
// shall be committed with it is known: what the request is answered, say, which is
// made only after the change. Under the context of Hold that commit is answered
// success and kept; Table.Settle makes it. Nothing has been changed before, and
// whoever settles has the change made again from the start when that fails.
//
// Commits before the deciding one are made at once. What they prepared and an
// abandoned change leaves behind is removed by OnAbandon. After the deciding one
// there is nothing to commit and nothing to read: both are refused, as defects.
type Held struct {
	reservation Write
	refusal     error

	mu       sync.Mutex
	decided  bool
	reserved bool
	writes   []Write
	undo     []func(context.Context)
}

type heldKey struct{}

// Hold gives a context under which the deciding commit is kept. reservation is
// committed with the first commit before it, if there is any. refusal, if not nil,
// is what the deciding commit is answered in place of success, once: what Settle
// said of it in an earlier run (RefusedError).
func Hold(ctx context.Context, reservation Write, refusal error) (context.Context, *Held) {
	h := &Held{reservation: reservation, refusal: refusal}
	return context.WithValue(ctx, heldKey{}, h), h
}

func heldOf(ctx context.Context) *Held {
	h, _ := ctx.Value(heldKey{}).(*Held)
	return h
}

// OnAbandon has undo called when a change that was answered success is not made
// after all, with a context of its own kind: for what its earlier commits have
// prepared.
func OnAbandon(ctx context.Context, undo func(context.Context)) {
	h := heldOf(ctx)
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.undo = append(h.undo, undo)
}

// Abandon undoes what a change has prepared that is not made. It is called under
// a context that holds nothing.
func (h *Held) Abandon(ctx context.Context) {
	h.mu.Lock()
	undo := h.undo
	h.undo = nil
	h.mu.Unlock()
	for _, f := range undo {
		f(Undecided(ctx, "what is undone is hidden, and nobody else's"))
	}
}

// Reserved reports whether the reservation was committed.
func (h *Held) Reserved() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reserved
}

var errAfterDeciding = errors.New("store: a request commits or reads after its deciding commit: begin an operation in that, or do it before")

// take keeps a deciding commit. held is false for one that is to be made now.
func (h *Held) take(d *decision, writes []Write) (held bool, err error) {
	if h == nil {
		return false, nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.decided:
		return true, errAfterDeciding
	case !slices.ContainsFunc(writes, func(w Write) bool { return w.decides }):
		return false, nil
	case h.refusal != nil:
		err, h.refusal = h.refusal, nil
		return true, d.stale(err)
	}
	h.decided, h.writes = true, writes
	d.made(writes)
	return true, nil
}

// reserving adds the reservation to the first commit before the deciding one.
func (h *Held) reserving(writes []Write) []Write {
	if h == nil || h.Reserved() || h.reservation.Key == (Key{}) {
		return writes
	}
	return append([]Write{h.reservation}, writes...)
}

// made notes that a commit before the deciding one was made.
func (h *Held) made() {
	if h == nil || h.reservation.Key == (Key{}) {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reserved = true
}

// lookBack refuses to read what the held commit may have changed.
func (h *Held) lookBack() error {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.decided {
		return errAfterDeciding
	}
	return nil
}

// RefusedError tells that a condition of the held commit is false: Err is what
// Commit would have answered the service.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns what the service would have been answered.
func (e *RefusedError) Unwrap() error { return e.Err }

// Settle makes a held change with more writes, in one transaction, which holds
// only over what depends has noted, if not nil. An error that wraps ErrStale says
// that all has to be decided again; a *RefusedError is the service's to hear, in
// another run; after any other one nothing was done, or it is not known (Commit).
func (t *Table) Settle(ctx context.Context, h *Held, depends *Notes, with ...Write) error {
	writes := depends.covered(append(slices.Clone(with), h.writes...))
	if len(writes) == 0 {
		return nil
	}
	refused, err := t.transact(ctx, writes)
	switch {
	case err != nil:
		return err
	case refused == nil || errors.Is(refused, ErrStale):
		return refused
	}
	return &RefusedError{refused}
}
