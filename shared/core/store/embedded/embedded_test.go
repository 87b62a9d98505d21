package embedded_test

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

func tableOver(b *embedded.Backend) *store.Table {
	return store.New(b, store.Options{Random: rand.Reader, Now: time.Now})
}

func TestSecondOpenIsRefused(t *testing.T) {
	dir := t.TempDir()
	first := open(t, embedded.Options{Dir: dir})
	if _, err := embedded.Open(t.Context(), embedded.Options{Dir: dir}); !errors.Is(err, embedded.ErrInUse) {
		t.Errorf("second Open() = %v, want %v", err, embedded.ErrInUse)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, embedded.Options{Dir: dir})
}

func TestUnwritableFolder(t *testing.T) {
	faultyFS := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.EACCES}
		}
		return nil
	}))
	if _, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: faultyFS}); !errors.Is(err,
		fs.ErrPermission) || !strings.Contains(err.Error(), "make it writable") {
		t.Errorf("Open() of an unwritable folder = %v, want %v with \"make it writable\"", err, fs.ErrPermission)
	}
}

// clock is the clock of a test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// TestTokensOutliveTheProcess checks that the store still knows a token
// after ten minutes in the next process, and forgets it within 25 minutes.
func TestTokensOutliveTheProcess(t *testing.T) {
	fs, c := vfs.NewMem(), &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs, Now: c.Now})
	if err != nil {
		t.Fatal(err)
	}
	add := []store.Write{store.Upsert(numberedKey(0), store.Add(store.At("n"), 1))}
	if err := engine.Transact(t.Context(), "token", add); err != nil {
		t.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	engine = open(t, embedded.Options{Dir: folder, FS: fs, Now: c.Now})
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{0, 1}, {10 * time.Minute, 1}, {15 * time.Minute, 2}} {
		c.advance(step.after)
		if err := engine.Transact(t.Context(), "token", add); err != nil {
			t.Fatalf("Transact() with the token after another %s = %v, want success", step.after, err)
		}
		if n := value(t, engine, numberedKey(0)); n != step.want {
			t.Errorf("the transaction with the token after another %s was made %d times, want %d", step.after, n, step.want)
		}
	}
	if err := engine.Transact(t.Context(), "token", []store.Write{store.Delete(numberedKey(0))}); !errors.Is(err,
		store.ErrTokenReused) {
		t.Errorf("Transact() of other writes with the token = %v, want %v", err, store.ErrTokenReused)
	}
}

// value returns the attribute n of an item.
func value(t *testing.T, engine *embedded.Backend, key store.Key) int {
	t.Helper()
	var record struct {
		N int `dynamodbav:"n"`
	}
	if err := tableOver(engine).Get(t.Context(), key, &record); err != nil {
		t.Fatal(err)
	}
	return record.N
}

// TestExpiredItemsAreDeleted checks that expired items are deleted and that the
// feed has the deletions, and that items with a later ttl stay.
func TestExpiredItemsAreDeleted(t *testing.T) {
	c := &clock{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	engine := open(t, embedded.Options{Dir: folder, FS: vfs.NewMem(), Now: c.Now})
	table := tableOver(engine)
	const items = 250
	var lastSeq uint64
	for n := range items {
		ttl := c.Now().Unix() + 10
		if err := table.Commit(t.Context(), store.Put(numberedKey(n), map[string]any{"ttl": ttl})); err != nil {
			t.Fatal(err)
		}
		lastSeq++
	}
	for _, w := range []store.Write{
		store.Upsert(numberedKey(7), store.Set(store.At("ttl"), c.Now().Unix()+1000)),
		store.Upsert(numberedKey(8), store.Remove(store.At("ttl"))),
	} {
		if err := table.Commit(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		lastSeq++
	}
	c.advance(10 * time.Second)
	for _, want := range []struct{ remaining, after int }{{items, 0}, {2, 1}, {2, 600}, {1, 1000}} {
		c.advance(time.Duration(want.after) * time.Second)
		if err := engine.Expire(t.Context()); err != nil {
			t.Fatalf("Expire() after another %d s = %v, want success", want.after, err)
		}
		found, _, err := engine.Query(t.Context(), store.Query{PK: "p"})
		if err != nil || len(found) != want.remaining {
			t.Errorf("Expire() after another %d s leaves %d items, %v, want %d", want.after, len(found), err, want.remaining)
		}
	}
	changes, err := engine.Changes(t.Context(), lastSeq, 1000)
	if err != nil || len(changes) != items-1 {
		t.Fatalf("Changes() = %d deletions, %v, want %d", len(changes), err, items-1)
	}
	if first := changes[0]; first.Old == nil || first.New != nil || first.Key != numberedKey(0) {
		t.Errorf("first change: key %v, old item %t, new item %t, want %v, true, false",
			first.Key, first.Old != nil, first.New != nil, numberedKey(0))
	}
}

// TestExpiryWakesHousekeeping checks that an item that expires soon wakes the housekeeping.
func TestExpiryWakesHousekeeping(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 20 s and more")
	}
	t.Parallel()
	engine := open(t, embedded.Options{Dir: folder, FS: vfs.NewMem()})
	if err := tableOver(engine).Commit(t.Context(),
		store.Put(numberedKey(1), map[string]any{"ttl": time.Now().Unix() + 1})); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		found, _, err := engine.Query(t.Context(), store.Query{PK: "p"})
		if err != nil {
			t.Fatal(err)
		}
		if len(found) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the item still exists after a minute, want it deleted")
		}
	}
}
