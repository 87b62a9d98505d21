package embedded_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// callsOfMethods returns a call of each method that uses the files, by the method's name. i is the number of the call.
func callsOfMethods(ctx context.Context, engine *embedded.Backend) map[string]func(i int) error {
	return map[string]func(i int) error{
		"Transact": func(i int) error {
			return engine.Transact(ctx, fmt.Sprint("token", i),
				[]store.Write{store.Put(store.Key{PK: "a", SK: fmt.Sprint(i)}, map[string]int{"n": i})})
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
		"Verify":     func(int) error { return engine.Verify(ctx) },
		"EachDamage": func(int) error { return engine.EachDamage(ctx, func(error) bool { return true }) },
		"Checkpoint": func(i int) error {
			return engine.Checkpoint(ctx, fmt.Sprint("copy", i))
		},
		"Expire":  func(int) error { return engine.Expire(ctx) },
		"Changes": func(int) error { _, err := engine.Changes(ctx, 1<<60, 1); return err }, // waits until Close
	}
}

// TestCloseUnderCalls closes the files during calls of every method. It checks that the calls
// return ErrClosed, and that the last acknowledged commit is found at the next start.
func TestCloseUnderCalls(t *testing.T) {
	t.Parallel()
	ctx, fs := t.Context(), vfs.NewMem()
	engine := open(t, embedded.Options{Dir: "data", FS: fs})
	var callers sync.WaitGroup
	var stopped atomic.Bool // set to end the callers if Close does not end them
	calls := callsOfMethods(ctx, engine)
	for method := range reflect.TypeFor[*embedded.Backend]().Methods() {
		if calls[method.Name] == nil && method.Name != "Close" && method.Name != "Watch" { // Watch uses no file
			t.Errorf("no test calls %s, want a call of each method", method.Name)
		}
	}
	acknowledged := make([]int, len(calls))
	n := 0
	for name, call := range calls {
		index := n
		n++
		callers.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					t.Errorf("%s() during Close() panics with %v, want %v", name, cause, embedded.ErrClosed)
				}
			}()
			for i := 0; !stopped.Load(); i++ {
				if err := call(i); err != nil {
					if !errors.Is(err, embedded.ErrClosed) {
						t.Errorf("%s() during Close() = %v, want %v", name, err, embedded.ErrClosed)
					}
					return
				}
				if name == "Transact" {
					acknowledged[index] = i + 1
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	closed := make(chan error, 1)
	go func() {
		err := engine.Close()
		callers.Wait()
		closed <- err
	}()
	select {
	case err := <-closed:
		if err != nil {
			t.Fatalf("Close() during calls = %v, want success", err)
		}
	case <-time.After(deadline.Timeout()):
		stopped.Store(true)
		t.Fatal("Close(), or a call during it, does not return, want all to return")
	}
	reopened := open(t, embedded.Options{Dir: "data", FS: fs})
	for _, i := range acknowledged {
		if i == 0 {
			continue
		}
		items, err := reopened.Read(ctx, []store.Key{{PK: "a", SK: fmt.Sprint(i - 1)}})
		if err != nil || len(items) != 1 {
			t.Errorf("Read() of the acknowledged write %d = %d items, %v, want 1", i-1, len(items), err)
		}
	}
}

// TestEachNotePages visits more notes than are read at a time, and deletes each note during its visit.
// It also checks that a visit ends when its function returns false.
func TestEachNotePages(t *testing.T) {
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
			return false, fmt.Errorf("EachNote(note/) visits %s with %q, want %s with %q", key, value, want, fmt.Sprint(next))
		}
		next++
		return true, engine.SetNotes(nil, key)
	})
	if err != nil || next != n {
		t.Errorf("EachNote(note/) visits %d notes, %v, want %d", next, err, n)
	}
	for limit, want := range map[int]int{1: 1, 3: 2} { // two notes are left
		visited := 0
		if err := engine.EachNote("", func(string, []byte) (bool, error) {
			visited++
			return visited < limit, nil
		}); err != nil || visited != want {
			t.Errorf("EachNote() that ends after %d notes visits %d of them, %v, want %d", limit, visited, err, want)
		}
	}
}
