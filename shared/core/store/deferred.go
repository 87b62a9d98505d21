package store

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// DeferredCommit is a change with a deferred commit. The deciding commit (Write.Final) is deferred until all writes of
// the same transaction are known. For example, the response to the request is stored in this transaction, but exists
// only after the change. Under the context of DeferCommit, Commit keeps the writes of the deciding commit and reports
// success. Table.CommitDeferred commits them. If CommitDeferred returns ErrStale or a *RefusedError, its caller runs
// the change again from the start.
//
// Commits before the deciding commit take effect immediately. OnAbandon registers a function that undoes them
// if the change is abandoned. Reads and commits after the deciding commit are defects, and return an error.
type DeferredCommit struct {
	reservation Write
	refusal     error

	mu        sync.Mutex
	finalSeen bool
	reserved  bool
	writes    []Write
	undo      []func(context.Context)
}

type deferredCommitKey struct{}

// DeferCommit returns a context under which the deciding commit is deferred. If there is a commit before the deciding
// commit, the first such commit also contains reservation. The zero Write means that there is no reservation. refusal
// is the Err of a RefusedError that CommitDeferred returned in an earlier run, or nil. If refusal is not nil, the
// first deciding commit returns it instead of success.
func DeferCommit(ctx context.Context, reservation Write, refusal error) (context.Context, *DeferredCommit) {
	d := &DeferredCommit{reservation: reservation, refusal: refusal}
	return context.WithValue(ctx, deferredCommitKey{}, d), d
}

func deferredCommitOf(ctx context.Context) *DeferredCommit {
	d, _ := ctx.Value(deferredCommitKey{}).(*DeferredCommit)
	return d
}

// OnAbandon registers undo for a change that reported success but is then not committed. undo undoes the
// earlier commits of the change. Abandon calls undo. If no commit is deferred under ctx, OnAbandon does nothing.
func OnAbandon(ctx context.Context, undo func(context.Context)) {
	d := deferredCommitOf(ctx)
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.undo = append(d.undo, undo)
}

// Abandon calls the functions registered with OnAbandon for a change that is not committed. Their context is ctx
// without its read set, deferred commit and read cache.
func (c *DeferredCommit) Abandon(ctx context.Context) {
	c.mu.Lock()
	undo := c.undo
	c.undo = nil
	c.mu.Unlock()
	for _, f := range undo {
		f(WithoutReadSet(ctx, "no other change uses the items that are undone"))
	}
}

// Reserved reports whether the reservation was committed.
func (c *DeferredCommit) Reserved() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserved
}

var errAfterFinalCommit = errors.New("store: a request commits or reads after its deciding commit: begin an " +
	"operation in that, or do it before")

// deferWrites keeps the writes of a deciding commit. deferred is false if Commit has to make the commit
// immediately, because no commit is deferred or this is not the deciding commit. deferred is true also with an
// error, which Commit returns: for a commit after the deciding commit, and for the refusal of an earlier run.
func (c *DeferredCommit) deferWrites(reads *readSet, writes []Write) (deferred bool, err error) {
	if c == nil {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.finalSeen:
		return true, errAfterFinalCommit
	case !slices.ContainsFunc(writes, func(w Write) bool { return w.final }):
		return false, nil
	case c.refusal != nil:
		err, c.refusal = c.refusal, nil
		return true, reads.stale(err)
	}
	c.finalSeen, c.writes = true, writes
	reads.forget(writes)
	return true, nil
}

// withReservation adds the reservation to the writes of a commit, unless the reservation was committed.
func (c *DeferredCommit) withReservation(writes []Write) []Write {
	if c == nil || c.Reserved() || c.reservation.Key == (Key{}) {
		return writes
	}
	return append([]Write{c.reservation}, writes...)
}

// markReserved records that a commit with the reservation succeeded.
func (c *DeferredCommit) markReserved() {
	if c == nil || c.reservation.Key == (Key{}) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved = true
}

// checkReadable returns an error for a read after the deciding commit, because that commit may have changed the item.
func (c *DeferredCommit) checkReadable() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finalSeen {
		return errAfterFinalCommit
	}
	return nil
}

// RefusedError means that a condition of the deferred commit is false. Err is the error that Commit would have
// returned to the change.
type RefusedError struct{ Err error }

func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns the error that Commit would have returned.
func (e *RefusedError) Unwrap() error { return e.Err }

// CommitDeferred commits a deferred change together with more writes in one transaction. If cache is not nil, the
// transaction requires that the items in it are unchanged; the cache must have no items that a commit has
// written. An error that wraps ErrStale means that the change must be decided again. After a *RefusedError, run
// the change again with its Err as the refusal, so that the change can handle it. After any other error nothing was
// done, or the outcome is unknown (see Commit).
func (t *Table) CommitDeferred(ctx context.Context, d *DeferredCommit, cache *ReadCache, more ...Write) error {
	writes := cache.withConditions(append(slices.Clone(more), d.writes...))
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
