package embedded_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// A checkpoint that is made while 16 writers write has what was answered before
// it, and each commit whole, whenever in their work it is made.
func TestCheckpointUnderWriters(t *testing.T) {
	fs := vfs.NewMem()
	engine := open(t, embedded.Options{Dir: folder, FS: fs})
	table := tableOver(engine)
	const writers, checkpoints = 16, 8
	var going atomic.Bool
	going.Store(true)
	answered := make([]atomic.Int64, writers)
	var all sync.WaitGroup
	defer func() {
		going.Store(false)
		all.Wait()
	}()
	for i := range writers {
		begin(t, table, i)
		all.Go(func() {
			a, b := pairKeys(i)
			for n := 1; going.Load(); n++ {
				filler := make([]byte, 3000) // some memtables full
				if err := table.Commit(t.Context(), store.Put(a, pair{n}), store.Put(b, pair{n}), store.Put(numbered(i), map[string]any{"filler": filler})); err != nil {
					t.Error(err)
					return
				}
				answered[i].Store(int64(n))
			}
		})
	}
	for n := range checkpoints {
		before := make([]writer, writers)
		for i := range before {
			before[i].noted = int(answered[i].Load())
		}
		dir := fs.PathJoin("copies", numbered(n).SK)
		if err := engine.Checkpoint(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		copied := open(t, embedded.Options{Dir: dir, FS: fs, ReadOnly: true})
		if err := copied.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if err := check(copied, before, make([]int, writers)); err != nil {
			t.Errorf("checkpoint %d: %v", n, err)
		}
		if err := copied.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// What was written without an fsync of its own, such as how far a reader of the
// feed has come, is in a checkpoint too.
func TestCheckpointHasMarks(t *testing.T) {
	fs := vfs.NewMem()
	engine := open(t, embedded.Options{Dir: folder, FS: fs})
	if err := engine.SetMark("operations", 7); err != nil {
		t.Fatal(err)
	}
	if err := engine.Checkpoint(t.Context(), "copy"); err != nil {
		t.Fatal(err)
	}
	if err := engine.Checkpoint(t.Context(), "copy"); err == nil {
		t.Error("a copy is made over another")
	}
	n, err := open(t, embedded.Options{Dir: "copy", FS: fs, ReadOnly: true}).Mark("operations")
	if err != nil || n != 7 {
		t.Errorf("it has the mark %d (%v)", n, err)
	}
}

func TestReadOnlyNeedsFilesAndKeepsThem(t *testing.T) {
	fs := vfs.NewMem()
	if _, err := embedded.Open(t.Context(), embedded.Options{Dir: "absent", FS: fs, ReadOnly: true}); err == nil {
		t.Error("files that are not there are opened")
	}
	if _, err := fs.Stat("absent"); err == nil {
		t.Error("a folder was made")
	}
	fs = crashed(t, 10)
	listed := func() (out []string) {
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
	before := listed()
	engine := open(t, embedded.Options{Dir: folder, FS: fs, ReadOnly: true})
	if n := count(t, tableOver(engine)); n != 10 {
		t.Errorf("of 10 items there are %d", n)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	if after := listed(); !slices.Equal(before, after) {
		t.Error("files changed")
	}
}
