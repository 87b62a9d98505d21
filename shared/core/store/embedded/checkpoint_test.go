package embedded_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// TestCheckpointUnderWriters makes checkpoints while 16 writers commit. It checks that each checkpoint
// has all commits that were acknowledged before it, and each commit whole or not at all.
func TestCheckpointUnderWriters(t *testing.T) {
	fs := vfs.NewMem()
	engine := open(t, embedded.Options{Dir: folder, FS: fs})
	table := tableOver(engine)
	const writers, checkpoints = 16, 8
	var running atomic.Bool
	running.Store(true)
	acknowledged := make([]atomic.Int64, writers)
	var wg sync.WaitGroup
	defer func() {
		running.Store(false)
		wg.Wait()
	}()
	for i := range writers {
		resetPair(t, table, i)
		wg.Go(func() {
			a, b := pairKeys(i)
			for n := 1; running.Load(); n++ {
				filler := make([]byte, 3000) // fills some memtables
				if err := table.Commit(t.Context(), store.Put(a, pair{n}), store.Put(b, pair{n}),
					store.Put(numberedKey(i), map[string]any{"filler": filler})); err != nil {
					t.Errorf("Commit() %d of writer %d = %v, want success", n, i, err)
					return
				}
				acknowledged[i].Store(int64(n))
			}
		})
	}
	for n := range checkpoints {
		before := make([]writer, writers)
		for i := range before {
			before[i].acknowledged = int(acknowledged[i].Load())
		}
		dir := fs.PathJoin("copies", numberedKey(n).SK)
		if err := engine.Checkpoint(t.Context(), dir); err != nil {
			t.Fatalf("Checkpoint(%s) = %v, want success", dir, err)
		}
		copied := open(t, embedded.Options{Dir: dir, FS: fs, ReadOnly: true})
		if err := copied.Verify(t.Context()); err != nil {
			t.Errorf("Verify() of checkpoint %d = %v, want nil", n, err)
		}
		if err := check(copied, before, make([]int, writers)); err != nil {
			t.Errorf("check() of checkpoint %d = %v, want nil", n, err)
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheckpointHasMarks checks that a checkpoint also has data that was written
// without an fsync, such as the marks of the feed's readers. A second checkpoint in the same folder must be refused.
func TestCheckpointHasMarks(t *testing.T) {
	fs := vfs.NewMem()
	engine := open(t, embedded.Options{Dir: folder, FS: fs})
	if err := engine.SetMark("operations", 7); err != nil {
		t.Fatal(err)
	}
	if err := engine.Checkpoint(t.Context(), "copy"); err != nil {
		t.Fatalf("Checkpoint(copy) = %v, want success", err)
	}
	if err := engine.Checkpoint(t.Context(), "copy"); err == nil {
		t.Error("second Checkpoint(copy) succeeds, want an error")
	}
	n, err := open(t, embedded.Options{Dir: "copy", FS: fs, ReadOnly: true}).Mark("operations")
	if err != nil || n != 7 {
		t.Errorf("Mark(operations) of the checkpoint = %d, %v, want 7", n, err)
	}
}

func TestReadOnlyOpenChangesNoFiles(t *testing.T) {
	fs := vfs.NewMem()
	if _, err := embedded.Open(t.Context(), embedded.Options{Dir: "absent", FS: fs, ReadOnly: true}); err == nil {
		t.Error("Open(absent folder, read-only) succeeds, want an error")
	}
	if _, err := fs.Stat("absent"); err == nil {
		t.Error("Open(absent folder, read-only) created the folder, want none")
	}
	fs = crashedStore(t, 10)
	files := func() (out []string) {
		for _, dir := range []string{folder, folder + "/pebble"} {
			names, err := fs.List(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if name != "lock" && name != "LOCK" && name != "pebble" {
					out = append(out, name+"="+string(content(t, fs, dir+"/"+name)))
				}
			}
		}
		slices.Sort(out)
		return out
	}
	_ = fs.RemoveAll(folder + "/lock")
	before := files()
	engine := open(t, embedded.Options{Dir: folder, FS: fs, ReadOnly: true})
	if n := count(t, tableOver(engine)); n != 10 {
		t.Errorf("%d items in the read-only store, want 10", n)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	if after := files(); !slices.Equal(before, after) {
		t.Error("Open() and Close() of a read-only store changed files, want no change")
	}
}
