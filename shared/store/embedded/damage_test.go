package embedded_test

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

const folder = "store"

// crashed makes the files of an engine that was killed after so many commits, and
// a note behind them.
func crashed(t *testing.T, commits int) *vfs.MemFS {
	t.Helper()
	fs, copied := vfs.NewMem(), vfs.NewMem()
	engine := open(t, embedded.Options{Dir: folder, FS: fs})
	table := tableOver(engine)
	for n := range commits {
		put(t, table, n)
	}
	if err := engine.SetNotes(map[string][]byte{"note": make([]byte, 3000)}); err != nil {
		t.Fatal(err)
	}
	if _, err := vfs.Clone(fs, copied, folder, folder, vfs.CloneSync); err != nil {
		t.Fatal(err)
	}
	return copied
}

func put(t *testing.T, table *store.Table, n int) {
	t.Helper()
	record := map[string]any{"n": n, "filler": make([]byte, 1000)}
	if err := table.Commit(t.Context(), store.Put(numbered(n), record)); err != nil {
		t.Fatal(err)
	}
}

func numbered(n int) store.Key { return store.Key{PK: "p", SK: fmt.Sprintf("%04d", n)} }

func count(t *testing.T, table *store.Table) int {
	t.Helper()
	n, err := table.Count(t.Context(), store.Query{PK: "p"})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func open(t *testing.T, o embedded.Options) *embedded.Backend {
	t.Helper()
	b, err := embedded.Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// newest gives the file with that ending that was made last.
func newest(t *testing.T, fs vfs.FS, ending string) string {
	t.Helper()
	names, err := fs.List(path.Join(folder, "pebble"))
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, name := range names {
		if strings.HasSuffix(name, ending) && name > found {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("no file ends in %s: %v", ending, names)
	}
	return path.Join(folder, "pebble", found)
}

func content(t *testing.T, fs vfs.FS, name string) []byte {
	t.Helper()
	file, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	raw, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func replace(t *testing.T, fs vfs.FS, name string, raw []byte) {
	t.Helper()
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestKilledEngineHasEverything(t *testing.T) {
	const commits = 100
	table := tableOver(open(t, embedded.Options{Dir: folder, FS: crashed(t, commits)}))
	if n := count(t, table); n != commits {
		t.Errorf("of %d commits there are %d", commits, n)
	}
}

// Wherever the log is damaged or cut, the start says that something is lost, or
// nothing is.
func TestDamagedLogIsToldAtStart(t *testing.T) {
	const commits = 60
	whole := content(t, crashed(t, commits), newest(t, crashed(t, commits), ".log"))
	damages := map[string]func([]byte) []byte{}
	for _, part := range []int{1, 20, 50, 80, 99} {
		at := len(whole) * part / 100
		damages[fmt.Sprintf("flipped at %d %%", part)] = func(raw []byte) []byte { raw[min(at, len(raw)-1)] ^= 0x10; return raw }
		damages[fmt.Sprintf("cut at %d %%", part)] = func(raw []byte) []byte { return raw[:min(at, len(raw))] }
	}
	damages["gone"] = nil
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			fs := crashed(t, commits)
			log := newest(t, fs, ".log")
			if damage == nil {
				if err := fs.Remove(log); err != nil {
					t.Fatal(err)
				}
			} else {
				replace(t, fs, log, damage(content(t, fs, log)))
			}
			engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs})
			if err != nil {
				if !strings.Contains(err.Error(), "restore the last backup") {
					t.Errorf("the error does not say what to do: %v", err)
				}
				return
			}
			defer func() { _ = engine.Close() }()
			if n := count(t, tableOver(engine)); n != commits {
				t.Errorf("of %d commits there are %d, and nothing is said", commits, n)
			}
			if note, err := engine.Note("note"); err != nil || note == nil {
				t.Errorf("a note is gone, and nothing is said (%v)", err)
			}
		})
	}
}

// A file of the table that is damaged is no answer of other content.
func TestDamagedTableIsNoAnswer(t *testing.T) {
	fs := crashed(t, 50)
	first := open(t, embedded.Options{Dir: folder, FS: fs}) // writes the log into a table
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	name := newest(t, fs, ".sst")
	raw := content(t, fs, name)
	raw[len(raw)/3] ^= 1
	replace(t, fs, name, raw)
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs})
	if err == nil {
		defer func() { _ = engine.Close() }()
		_, err = tableOver(engine).Count(t.Context(), store.Query{PK: "p"})
	}
	if err == nil || !strings.Contains(err.Error(), "restore the last backup") {
		t.Errorf("a damaged table is answered with %v", err)
	}
}

// A disk that is full, gone or read-only ends writing with one line; what was
// acknowledged is there when it has room again.
func TestDiskThatTakesNothing(t *testing.T) {
	for name, cause := range map[string]error{"full": syscall.ENOSPC, "read-only": syscall.EROFS, "broken": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			var off atomic.Bool
			broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if off.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					return cause
				}
				return nil
			}))
			said := make(chan error, 10)
			engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: broken, Fatal: func(err error) { said <- err }})
			if err != nil {
				t.Fatal(err)
			}
			table := tableOver(engine)
			const before = 5
			for n := range before {
				put(t, table, n)
			}
			off.Store(true)
			for range 3 {
				err = table.Commit(t.Context(), store.Put(numbered(before), map[string]any{"n": 1}))
				if !errors.Is(err, store.ErrLost) && !errors.Is(err, cause) {
					t.Fatalf("a commit is answered with %v", err)
				}
			}
			if told := <-said; !errors.Is(told, cause) || !strings.Contains(told.Error(), "see that its disk has room") {
				t.Errorf("it says %v", told)
			}
			if len(said) != 0 {
				t.Errorf("it says so again: %v", <-said)
			}
			if err := engine.Close(); err != nil {
				t.Errorf("at its end it says more: %v", err)
			}
			off.Store(false)
			if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: fs}))); n < before {
				t.Errorf("of %d commits there are %d", before, n)
			}
		})
	}
}

// A start writes, too: a log becomes tables. On a disk that takes nothing it is not
// taken for damaged data.
func TestStartOnADiskThatTakesNothing(t *testing.T) {
	for name, cause := range map[string]error{"full": syscall.ENOSPC, "read-only": syscall.EROFS} {
		t.Run(name, func(t *testing.T) {
			fs := crashed(t, 10)
			broken := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasPrefix(op.Path, path.Join(folder, "pebble")+"/") && path.Base(op.Path) != "LOCK" {
					return cause
				}
				return nil
			}))
			_, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: broken})
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), "has room and is writable") || strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "\n") {
				t.Errorf("it is answered with %v", err)
			}
			if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: fs}))); n != 10 {
				t.Errorf("of 10 commits there are %d", n)
			}
		})
	}
}

// TestRefusalOfTheSystemIsNoDamage: if an error called a file damaged because too many files are open, the operator
// would restore a backup, and lose everything that was written since.
func TestRefusalOfTheSystemIsNoDamage(t *testing.T) {
	for name, cause := range map[string]error{"its own files": syscall.EMFILE, "the files of all": syscall.ENFILE, "memory": syscall.ENOMEM, "the disk": syscall.EIO, "rights": syscall.EACCES} {
		t.Run(name, func(t *testing.T) {
			fs := crashed(t, 10)
			var off atomic.Bool
			refusing := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if off.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsRead && !strings.HasPrefix(path.Base(op.Path), "LOCK") {
					return cause
				}
				return nil
			}))
			check := func(call string, err error) {
				t.Helper()
				switch {
				case !errors.Is(err, cause):
					t.Errorf("%s error = %v, want %v in it", call, err, cause)
				case strings.Contains(err.Error(), "damaged"), strings.Contains(err.Error(), "restore the last backup into"), strings.Contains(err.Error(), "in use"):
					t.Errorf("%s error = %v, want an error that mentions neither damage nor another process", call, err)
				}
			}
			off.Store(true)
			_, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: refusing})
			check("Open", err)
			off.Store(false)
			engine := open(t, embedded.Options{Dir: folder, FS: refusing})
			off.Store(true)
			check("Verify", engine.Verify(t.Context()))
			_, err = tableOver(engine).Count(t.Context(), store.Query{PK: "p"})
			if err != nil { // what is in memory needs no file
				check("Count", err)
			}
		})
	}
}
