package embedded_test

import (
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// TestCloseUnderCalls closes the files under callers of everything, who then hear
// that the store is closed; what was answered before is there.
func TestCloseUnderCalls(t *testing.T) {
	t.Parallel()
	ctx, fs := t.Context(), vfs.NewMem()
	engine := open(t, embedded.Options{Dir: "data", FS: fs})
	var callers sync.WaitGroup
	var over atomic.Bool // nobody has told them
	calls := map[string]func(i int) error{
		"Transact": func(i int) error {
			return engine.Transact(ctx, fmt.Sprint("token", i), []store.Write{store.Put(store.Key{PK: "a", SK: fmt.Sprint(i)}, map[string]int{"n": i})})
		},
		"Read": func(int) error { _, err := engine.Read(ctx, []store.Key{{PK: "a", SK: "0"}}); return err },
		"Query": func(int) error {
			_, _, err := engine.Query(ctx, store.Query{PK: "a", Limit: 10})
			return err
		},
		"Mark":     func(int) error { _, err := engine.Mark("reader"); return err },
		"SetMark":  func(i int) error { return engine.SetMark("reader", uint64(i)) },
		"Note":     func(int) error { _, err := engine.Note("n0"); return err },
		"SetNotes": func(i int) error { return engine.SetNotes(map[string][]byte{fmt.Sprint("n", i): {1}}) },
		"EachNote": func(int) error {
			return engine.EachNote("n", func(key string, _ []byte) (bool, error) {
				_, err := engine.Note(key)
				return true, err
			})
		},
		"Page": func(int) error {
			_, _, err := engine.Page(ctx, store.Key{}, 10)
			return err
		},
		"EachItem": func(int) error {
			return engine.EachItem(ctx, func(store.Item) error { return nil })
		},
		"Empty":      func(int) error { _, err := engine.Empty(); return err },
		"Bytes":      func(int) error { _, err := engine.Bytes(); return err },
		"Verify":     func(int) error { return engine.Verify(t.Context()) },
		"EachDamage": func(int) error { return engine.EachDamage(t.Context(), func(error) bool { return true }) },
		"Checkpoint": func(i int) error {
			return engine.Checkpoint(ctx, fmt.Sprint("copy", i))
		},
		"Expire":  func(int) error { return engine.Expire(ctx) },
		"Changes": func(int) error { _, err := engine.Changes(ctx, 1<<60, 1); return err }, // waits
	}
	for method := range reflect.TypeFor[*embedded.Backend]().Methods() {
		if calls[method.Name] == nil && method.Name != "Close" && method.Name != "Watch" { // which touches no file
			t.Errorf("nobody calls %s", method.Name)
		}
	}
	answered := make([]int, len(calls))
	n := 0
	for name, call := range calls {
		at := n
		n++
		callers.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					t.Errorf("%s: %v", name, cause)
				}
			}()
			for i := 0; !over.Load(); i++ {
				if err := call(i); err != nil {
					if !errors.Is(err, embedded.ErrClosed) {
						t.Errorf("%s: %v", name, err)
					}
					return
				}
				if name == "Transact" {
					answered[at] = i + 1
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	ended := make(chan error, 1)
	go func() {
		err := engine.Close()
		callers.Wait()
		ended <- err
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(deadline.Long()):
		over.Store(true)
		t.Fatal("Close, or a call, never came back")
	}
	again := open(t, embedded.Options{Dir: "data", FS: fs})
	for _, i := range answered {
		if i == 0 {
			continue
		}
		items, err := again.Read(ctx, []store.Key{{PK: "a", SK: fmt.Sprint(i - 1)}})
		if err != nil || len(items) != 1 {
			t.Errorf("write %d was answered and is not there: %v", i-1, err)
		}
	}
}

// TestNotesAreVisitedPageByPage visits more than are read at once, while some are
// removed.
func TestNotesAreVisitedPageByPage(t *testing.T) {
	t.Parallel()
	engine := open(t, embedded.Options{Dir: "data", FS: vfs.NewMem()})
	const n = 1201
	set := map[string][]byte{"after": {}, "m": {}}
	for i := range n {
		set[fmt.Sprintf("note/%04d", i)] = fmt.Append(nil, i)
	}
	if err := engine.SetNotes(set); err != nil {
		t.Fatal(err)
	}
	next := 0
	err := engine.EachNote("note/", func(key string, value []byte) (bool, error) {
		if want := fmt.Sprintf("note/%04d", next); key != want || string(value) != fmt.Sprint(next) {
			return false, fmt.Errorf("%s holds %s, want %s", key, value, want)
		}
		next++
		return true, engine.SetNotes(nil, key)
	})
	if err != nil || next != n {
		t.Errorf("visited %d of %d: %v", next, n, err)
	}
	visited := 0
	if err := engine.EachNote("", func(string, []byte) (bool, error) { visited++; return visited < 2, nil }); err != nil || visited != 2 {
		t.Errorf("visited %d, %v; 2 are left", visited, err)
	}
}
