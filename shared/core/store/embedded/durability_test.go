package embedded

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gatewright/gatewright/shared/core/store"
)

// stallingDisk injects waits into a disk: writes to the log wait while stalled is locked.
type stallingDisk struct{ stalled sync.RWMutex }

// String implements errorfs.Injector.
func (s *stallingDisk) String() string { return "stalling" }

func (s *stallingDisk) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
		s.stalled.RLock()
		defer s.stalled.RUnlock()
	}
	return nil
}

// unsyncedChange has a change that reaches the disk late, and a call that may reveal the change.
type unsyncedChange struct {
	change func(context.Context, *Backend) error
	// reveals reports whether a call has revealed the change; nil means the call of the change itself.
	reveals func(context.Context, *Backend) (bool, error)
}

// existingKey is the key of an item that exists before the change.
var existingKey = store.Key{PK: "p", SK: "listed"}

// dueAttributes returns attributes that are in the index of due items.
func dueAttributes(pk string) map[string]any { return map[string]any{"duePk": pk, "dueSk": "1"} }

// unsyncedChanges returns every kind of change with the calls that may reveal it.
func unsyncedChanges() map[string]unsyncedChange {
	key := store.Key{PK: "p", SK: "kept"}
	put := []store.Write{store.Put(key, map[string]any{"n": 1})}
	found := func(items []store.Item, err error) (bool, error) { return len(items) > 0, err }
	query := func(ctx context.Context, b *Backend, q store.Query) (bool, error) {
		items, _, err := b.Query(ctx, q)
		return found(items, err)
	}
	transact := func(writes ...store.Write) func(context.Context, *Backend) error {
		return func(ctx context.Context, b *Backend) error { return b.Transact(ctx, "token", writes) }
	}
	setNotes := func(_ context.Context, b *Backend) error { return b.SetNotes(map[string][]byte{"new": {1}}, "old") }
	readNote := func(key string) func(context.Context, *Backend) (bool, error) {
		return func(_ context.Context, b *Backend) (bool, error) {
			value, err := b.Note(key)
			return (value != nil) == (key == "new"), err
		}
	}
	return map[string]unsyncedChange{
		"a commit":   {change: transact(put...)},
		"notes":      {change: setNotes},
		"an expiry":  {change: func(ctx context.Context, b *Backend) error { return b.Expire(ctx) }},
		"a deletion": {change: transact(store.Delete(existingKey))},
		"a read": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			return found(b.Read(ctx, []store.Key{key}))
		}},
		"a read of a deletion": {transact(store.Delete(existingKey)), func(ctx context.Context, b *Backend) (bool, error) {
			revealed, err := found(b.Read(ctx, []store.Key{existingKey}))
			return !revealed, err
		}},
		"a page": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			return query(ctx, b, store.Query{PK: "p", Prefix: "k"})
		}},
		"an index": {transact(store.Put(key, dueAttributes("new"))), func(ctx context.Context, b *Backend) (bool, error) {
			return query(ctx, b, store.Query{Index: store.DueIndex, PK: "new"})
		}},
		"an index without an item": {
			transact(store.Put(existingKey, dueAttributes("new"))),
			func(ctx context.Context, b *Backend) (bool, error) {
				revealed, err := query(ctx, b, store.Query{Index: store.DueIndex, PK: "old"})
				return !revealed, err
			},
		},
		"a false condition": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			err := b.Transact(ctx, "another", []store.Write{store.Create(key, nil)})
			_, revealed := errors.AsType[*store.ConditionError](err)
			return revealed, nil
		}},
		"a repeat": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			return true, b.Transact(ctx, "token", put)
		}},
		"another transaction with the token": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			err := b.Transact(ctx, "token", []store.Write{store.Delete(key)})
			return errors.Is(err, store.ErrTokenReused), nil
		}},
		"the feed": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			revealed, err := b.Changes(ctx, 2, 1)
			return len(revealed) > 0, err
		}},
		"a note":         {setNotes, readNote("new")},
		"a missing note": {setNotes, readNote("old")},
		"a visit of notes": {setNotes, func(_ context.Context, b *Backend) (revealed bool, err error) {
			err = b.EachNote("new", func(string, []byte) (bool, error) { revealed = true; return true, nil })
			return revealed, err
		}},
	}
}

// TestChangesAreRevealedOnlyOnceSynced checks that no call reveals a change before the change is on disk,
// because a power cut could revert it. This holds for the call that makes the change and for all other calls.
// Each call is made as soon as the change is in memory, and must return only when the change is on disk.
func TestChangesAreRevealedOnlyOnceSynced(t *testing.T) {
	t.Parallel()
	for name, c := range unsyncedChanges() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRevealedOnceSynced(t, c)
		})
	}
}

// wantRevealedOnceSynced makes the change and the call while the disk accepts
// no writes. Both must return only after the disk accepts writes again.
func wantRevealedOnceSynced(t *testing.T, c unsyncedChange) {
	t.Helper()
	ctx, disk := t.Context(), &stallingDisk{}
	var now atomic.Int64
	b, err := Open(ctx, Options{Dir: "store", FS: errorfs.Wrap(vfs.NewMem(), disk), Now: func() time.Time {
		return time.Unix(now.Load(), 0)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = b.Close() }()
	AwaitHousekeeping(b)
	expiring := map[string]any{"ttl": 10}
	err = b.Transact(ctx, "first", []store.Write{
		store.Put(existingKey, dueAttributes("old")),
		store.Put(store.Key{PK: "expiring", SK: "."}, expiring),
	})
	if err := errors.Join(err, b.SetNotes(map[string][]byte{"old": {1}})); err != nil {
		t.Fatal(err)
	}
	previousSeq := b.seq
	now.Store(11)
	results := make(chan bool, 2)
	run := func(name string, call func() (bool, error)) {
		revealed, err := call()
		if err != nil {
			t.Errorf("%s = %v, want success", name, err)
		}
		results <- revealed
	}
	disk.stalled.Lock()
	go run("the change", func() (bool, error) { return true, c.change(ctx, b) })
	calls := 1
	for applied := false; !applied; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		applied = b.seq > previousSeq
		b.mu.Unlock()
	}
	if c.reveals != nil {
		calls++
		go run("the call that may reveal the change", func() (bool, error) { return c.reveals(ctx, b) })
	}
	select {
	case <-results:
		t.Error("a call returns before the disk has synced the change, want it to wait")
		calls--
	case <-time.After(50 * time.Millisecond):
	}
	disk.stalled.Unlock()
	for range calls {
		if revealed := <-results; !revealed {
			t.Error("a call does not reveal the change after the disk has synced it, want it revealed")
		}
	}
}
