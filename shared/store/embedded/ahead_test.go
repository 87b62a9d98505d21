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

	"github.com/gatewright/gatewright/shared/store"
)

// stalling is a disk whose log takes nothing while it is held.
type stalling struct{ held sync.RWMutex }

// String implements errorfs.Injector.
func (s *stalling) String() string { return "stalling" }

func (s *stalling) MaybeError(op errorfs.Op) error {
	if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
		s.held.RLock()
		defer s.held.RUnlock()
	}
	return nil
}

// While the disk has not taken a change yet, nothing tells of it: neither its own
// answer nor any other call's, for a power cut may take it back. Each call is made
// as soon as the change is in memory, and answers once it is on disk.
func TestNothingIsToldBeforeItIsOnDisk(t *testing.T) {
	t.Parallel()
	kept, listed := store.Key{PK: "p", SK: "kept"}, store.Key{PK: "p", SK: "listed"}
	due := func(pk string) map[string]any { return map[string]any{"duePk": pk, "dueSk": "1"} }
	put := []store.Write{store.Put(kept, map[string]any{"n": 1})}
	found := func(items []store.Item, err error) (bool, error) { return len(items) > 0, err }
	query := func(ctx context.Context, b *Backend, q store.Query) (bool, error) {
		items, _, err := b.Query(ctx, q)
		return found(items, err)
	}
	transact := func(writes ...store.Write) func(context.Context, *Backend) error {
		return func(ctx context.Context, b *Backend) error { return b.Transact(ctx, "token", writes) }
	}
	note := func(_ context.Context, b *Backend) error { return b.SetNotes(map[string][]byte{"new": {1}}, "old") }
	noted := func(key string) func(context.Context, *Backend) (bool, error) {
		return func(_ context.Context, b *Backend) (bool, error) {
			value, err := b.Note(key)
			return (value != nil) == (key == "new"), err
		}
	}
	for name, c := range map[string]struct {
		change func(context.Context, *Backend) error
		// told reports whether a call has told of the change; nil is the change's own.
		told func(context.Context, *Backend) (bool, error)
	}{
		"a commit":   {change: transact(put...)},
		"notes":      {change: note},
		"an expiry":  {change: func(ctx context.Context, b *Backend) error { return b.Expire(ctx) }},
		"a deletion": {change: transact(store.Delete(listed))},
		"a read": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			return found(b.Read(ctx, []store.Key{kept}))
		}},
		"a read of nothing": {transact(store.Delete(listed)), func(ctx context.Context, b *Backend) (bool, error) {
			told, err := found(b.Read(ctx, []store.Key{listed}))
			return !told, err
		}},
		"a page": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			return query(ctx, b, store.Query{PK: "p", Prefix: "k"})
		}},
		"an index": {transact(store.Put(kept, due("new"))), func(ctx context.Context, b *Backend) (bool, error) {
			return query(ctx, b, store.Query{Index: store.DueIndex, PK: "new"})
		}},
		"an index of nothing": {transact(store.Put(listed, due("new"))), func(ctx context.Context, b *Backend) (bool, error) {
			told, err := query(ctx, b, store.Query{Index: store.DueIndex, PK: "old"})
			return !told, err
		}},
		"a false condition": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			err := b.Transact(ctx, "another", []store.Write{store.Create(kept, nil)})
			_, told := errors.AsType[*store.ConditionError](err)
			return told, nil
		}},
		"a repeat": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			return true, b.Transact(ctx, "token", put)
		}},
		"a token's other use": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			err := b.Transact(ctx, "token", []store.Write{store.Delete(kept)})
			return errors.Is(err, store.ErrTokenReused), nil
		}},
		"the feed": {transact(put...), func(ctx context.Context, b *Backend) (bool, error) {
			told, err := b.Changes(ctx, 2, 1)
			return len(told) > 0, err
		}},
		"a note":           {note, noted("new")},
		"a note's absence": {note, noted("old")},
		"a visit of notes": {note, func(_ context.Context, b *Backend) (told bool, err error) {
			err = b.EachNote("new", func(string, []byte) (bool, error) { told = true; return true, nil })
			return told, err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, disk := t.Context(), &stalling{}
			var now atomic.Int64
			b, err := Open(ctx, Options{Dir: "store", FS: errorfs.Wrap(vfs.NewMem(), disk), Now: func() time.Time { return time.Unix(now.Load(), 0) }})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = b.Close() }()
			AwaitFirstLook(b)
			passing := map[string]any{"ttl": 10}
			err = b.Transact(ctx, "first", []store.Write{store.Put(listed, due("old")), store.Put(store.Key{PK: "gone", SK: "."}, passing)})
			if err := errors.Join(err, b.SetNotes(map[string][]byte{"old": {1}})); err != nil {
				t.Fatal(err)
			}
			last := b.seq
			now.Store(11)
			answers := make(chan bool, 2)
			ask := func(call func() (bool, error)) {
				told, err := call()
				if err != nil {
					t.Error(err)
				}
				answers <- told
			}
			disk.held.Lock()
			go ask(func() (bool, error) { return true, c.change(ctx, b) })
			calls := 1
			for made := false; !made; time.Sleep(time.Millisecond) {
				b.mu.Lock()
				made = b.seq > last
				b.mu.Unlock()
			}
			if c.told != nil {
				calls++
				go ask(func() (bool, error) { return c.told(ctx, b) })
			}
			select {
			case <-answers:
				t.Error("it is told while the disk has not taken it")
				calls--
			case <-time.After(50 * time.Millisecond):
			}
			disk.held.Unlock()
			for range calls {
				if told := <-answers; !told {
					t.Error("it is not told after the disk has taken it")
				}
			}
		})
	}
}
