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

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

const folder = "store"

// crashedStore returns the files of an engine that was killed after the given number of commits and a note.
func crashedStore(t *testing.T, commits int) *vfs.MemFS {
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

// put commits item n, of more than 1,000 bytes.
func put(t *testing.T, table *store.Table, n int) {
	t.Helper()
	record := map[string]any{"n": n, "filler": make([]byte, 1000)}
	if err := table.Commit(t.Context(), store.Put(numberedKey(n), record)); err != nil {
		t.Fatalf("Commit() of item %d = %v, want success", n, err)
	}
}

func numberedKey(n int) store.Key { return store.Key{PK: "p", SK: fmt.Sprintf("%04d", n)} }

// count returns the number of items in the partition of put.
func count(t *testing.T, table *store.Table) int {
	t.Helper()
	n, err := table.Count(t.Context(), store.Query{PK: "p"})
	if err != nil {
		t.Fatalf("Count() = %v, want success", err)
	}
	return n
}

// open opens a store, and closes it when the test ends.
func open(t *testing.T, o embedded.Options) *embedded.Backend {
	t.Helper()
	b, err := embedded.Open(t.Context(), o)
	if err != nil {
		t.Fatalf("Open() = %v, want success", err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// newestFile returns the path of the newest file with a suffix.
func newestFile(t *testing.T, fs vfs.FS, suffix string) string {
	t.Helper()
	names, err := fs.List(path.Join(folder, "pebble"))
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, name := range names {
		if strings.HasSuffix(name, suffix) && name > found {
			found = name
		}
	}
	if found == "" {
		t.Fatalf("files = %v, want one that ends with %s", names, suffix)
	}
	return path.Join(folder, "pebble", found)
}

// content returns the content of a file.
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

// replace replaces the content of a file.
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

func TestKilledEngineKeepsCommits(t *testing.T) {
	const commits = 100
	table := tableOver(open(t, embedded.Options{Dir: folder, FS: crashedStore(t, commits)}))
	if n := count(t, table); n != commits {
		t.Errorf("Count() after a kill = %d, want %d", n, commits)
	}
}

// TestDamagedLogIsReportedAtStart damages or cuts the log at several places, or removes it. It
// checks that the start reports the damage, or that no acknowledged data is lost.
func TestDamagedLogIsReportedAtStart(t *testing.T) {
	const commits = 60
	whole := content(t, crashedStore(t, commits), newestFile(t, crashedStore(t, commits), ".log"))
	damages := map[string]func([]byte) []byte{}
	for _, part := range []int{1, 20, 50, 80, 99} {
		at := len(whole) * part / 100
		damages[fmt.Sprintf("flipped at %d %%", part)] = func(raw []byte) []byte {
			raw[min(at, len(raw)-1)] ^= 0x10
			return raw
		}
		damages[fmt.Sprintf("cut at %d %%", part)] = func(raw []byte) []byte { return raw[:min(at, len(raw))] }
	}
	damages["removed"] = nil
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			fs := crashedStore(t, commits)
			log := newestFile(t, fs, ".log")
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
					t.Errorf("Open() = %v, want an error with \"restore the last backup\"", err)
				}
				return
			}
			defer func() { _ = engine.Close() }()
			if n := count(t, tableOver(engine)); n != commits {
				t.Errorf("Open() of a damaged log succeeds with %d items, want an error or all %d", n, commits)
			}
			if note, err := engine.Note("note"); err != nil || note == nil {
				t.Errorf("Open() of a damaged log succeeds with the note %q, %v, want an error or the note", note, err)
			}
		})
	}
}

// TestDamagedTableReturnsError checks that a start or a read returns an error
// with advice if a byte of a table is damaged.
func TestDamagedTableReturnsError(t *testing.T) {
	fs := crashedStore(t, 50)
	first := open(t, embedded.Options{Dir: folder, FS: fs}) // writes the log into a table
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	name := newestFile(t, fs, ".sst")
	raw := content(t, fs, name)
	raw[len(raw)/3] ^= 1
	replace(t, fs, name, raw)
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: fs})
	if err == nil {
		defer func() { _ = engine.Close() }()
		_, err = tableOver(engine).Count(t.Context(), store.Query{PK: "p"})
	}
	if err == nil || !strings.Contains(err.Error(), "restore the last backup") {
		t.Errorf("Open() and Count() over a damaged table = %v, want an error with \"restore the last backup\"", err)
	}
}

// TestUnwritableDiskStopsWrites checks that all writes fail if a disk is full, read-only or broken, and that Fatal is
// called once, with advice. A start on the recovered disk must find all acknowledged commits.
func TestUnwritableDiskStopsWrites(t *testing.T) {
	for name, cause := range map[string]error{"full": syscall.ENOSPC, "read-only": syscall.EROFS, "broken": syscall.EIO} {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			var failing atomic.Bool
			faultyFS := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
					return cause
				}
				return nil
			}))
			fatal := make(chan error, 10)
			engine, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: faultyFS, Fatal: func(err error) {
				fatal <- err
			}})
			if err != nil {
				t.Fatal(err)
			}
			table := tableOver(engine)
			const before = 5
			for n := range before {
				put(t, table, n)
			}
			failing.Store(true)
			for range 3 {
				err = table.Commit(t.Context(), store.Put(numberedKey(before), map[string]any{"n": 1}))
				if !errors.Is(err, store.ErrOutcomeUnknown) && !errors.Is(err, cause) {
					t.Fatalf("Commit() on an unwritable disk = %v, want %v or %v", err, store.ErrOutcomeUnknown, cause)
				}
			}
			if fatalErr := <-fatal; !errors.Is(fatalErr, cause) ||
				!strings.Contains(fatalErr.Error(), "see that its disk has room") {
				t.Errorf("fatal error = %v, want %v, and what to do about the disk", fatalErr, cause)
			}
			if len(fatal) != 0 {
				t.Errorf("second fatal error = %v, want none", <-fatal)
			}
			if err := engine.Close(); err != nil {
				t.Errorf("Close() after the fatal error = %v, want nil", err)
			}
			failing.Store(false)
			if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: fs}))); n < before {
				t.Errorf("Count() after the disk recovered = %d, want at least %d", n, before)
			}
		})
	}
}

// TestStartOnUnwritableDiskIsNotDamage checks that a start on a full or read-only disk
// does not report damage. The start fails there, because it writes the log into tables.
func TestStartOnUnwritableDiskIsNotDamage(t *testing.T) {
	for name, cause := range map[string]error{"full": syscall.ENOSPC, "read-only": syscall.EROFS} {
		t.Run(name, func(t *testing.T) {
			fs := crashedStore(t, 10)
			faultyFS := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if op.Kind.ReadOrWrite() == errorfs.OpIsWrite && strings.HasPrefix(op.Path, path.Join(folder, "pebble")+"/") &&
					path.Base(op.Path) != "LOCK" {
					return cause
				}
				return nil
			}))
			_, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: faultyFS})
			if !errors.Is(err, cause) || !strings.Contains(err.Error(), "has room and is writable") ||
				strings.Contains(err.Error(), "damaged") || strings.Contains(err.Error(), "\n") {
				t.Errorf("Open() on an unwritable disk = %v, want %v and what to do about the disk, on one line, without damage",
					err, cause)
			}
			if n := count(t, tableOver(open(t, embedded.Options{Dir: folder, FS: fs}))); n != 10 {
				t.Errorf("Count() after a failed Open() = %d, want 10", n)
			}
		})
	}
}

// TestSystemLimitIsNotReportedAsDamage checks that a refusal of the system, such as too many open files, is not
// reported as damage. Otherwise the operator would restore a backup, and lose all data that was written after it.
func TestSystemLimitIsNotReportedAsDamage(t *testing.T) {
	for name, cause := range map[string]error{
		"open files of the process": syscall.EMFILE, "open files of the system": syscall.ENFILE,
		"memory": syscall.ENOMEM, "unreadable sector": syscall.EIO, "permission": syscall.EACCES,
	} {
		t.Run(name, func(t *testing.T) {
			fs := crashedStore(t, 10)
			var failing atomic.Bool
			faultyFS := errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
				if failing.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsRead && !strings.HasPrefix(path.Base(op.Path), "LOCK") {
					return cause
				}
				return nil
			}))
			check := func(call string, err error) {
				t.Helper()
				switch {
				case !errors.Is(err, cause):
					t.Errorf("%s error = %v, want %v in it", call, err, cause)
				case strings.Contains(err.Error(), "damaged"), strings.Contains(err.Error(), "restore the last backup into"),
					strings.Contains(err.Error(), "in use"):
					t.Errorf("%s error = %v, want an error that mentions neither damage nor another process", call, err)
				}
			}
			failing.Store(true)
			_, err := embedded.Open(t.Context(), embedded.Options{Dir: folder, FS: faultyFS})
			check("Open", err)
			failing.Store(false)
			engine := open(t, embedded.Options{Dir: folder, FS: faultyFS})
			failing.Store(true)
			check("Verify", engine.Verify(t.Context()))
			_, err = tableOver(engine).Count(t.Context(), store.Query{PK: "p"})
			if err != nil { // data in memory needs no file
				check("Count", err)
			}
		})
	}
}
