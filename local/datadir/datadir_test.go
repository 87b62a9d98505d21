package datadir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/control"
	"github.com/gatewright/gatewright/local/datadir"
)

func openTemp(t *testing.T) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSecondLockIsRefusedUntilTheFirstIsReleased(t *testing.T) {
	d := openTemp(t)
	first, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); !errors.Is(err, datadir.ErrInUse) {
		t.Fatalf("second Lock() error = %v, want ErrInUse", err)
	}
	first.Release()
	first.Release()
	second, err := d.Lock()
	if err != nil {
		t.Fatalf("Lock() after Release() error = %v, want none", err)
	}
	second.Release()
}

// TestLockRemovesUnfinishedFilesOfAKilledHolder also checks that a
// failed Lock does not remove files of the process that holds the lock.
func TestLockRemovesUnfinishedFilesOfAKilledHolder(t *testing.T) {
	d := openTemp(t)
	names := []string{".new-1", ".key-2", "kept"}
	for _, name := range names {
		if err := os.WriteFile(d.Path(name), []byte("a key"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	countFiles := func() (n int) {
		for _, name := range names {
			if _, err := os.Stat(d.Path(name)); err == nil {
				n++
			}
		}
		return n
	}
	l, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if n := countFiles(); n != 1 {
		t.Errorf("files after Lock() = %d, want 1", n)
	}
	if err := os.WriteFile(d.Path(".new-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); !errors.Is(err, datadir.ErrInUse) || countFiles() != 2 {
		t.Errorf("second Lock() = %v with %d files left, want %v and 2", err, countFiles(), datadir.ErrInUse)
	}
	l.Release()
}

func TestUnwritableDirectoryErrorIsOneLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below"), "/proc/self"} {
		_, err := datadir.Open(path)
		if err == nil {
			t.Errorf("Open(%s) error = nil, want one", path)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "GATEWRIGHT_DATA_DIR") {
			t.Errorf("Open(%s) = %v, want one line with GATEWRIGHT_DATA_DIR", path, err)
		}
	}
}

func TestLockOfAnotherUserNamesTheRemedy(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may open every file")
	}
	d := openTemp(t)
	if err := os.WriteFile(d.Path("lock"), nil, 0o000); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); err == nil ||
		!strings.Contains(err.Error(), "is another user's: run this as the user who has it") {
		t.Errorf("Lock(file of another user) = %v, want an error that names the remedy", err)
	}
}

func TestNewFilesAreAccessibleOnlyByOwner(t *testing.T) {
	d := openTemp(t)
	if err := d.Write("secret", []byte("x")); err != nil {
		t.Fatal(err)
	}
	sub, err := d.CreateFolder("sub")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]fs.FileMode{d.Path(): 0o700, d.Path("secret"): 0o600, sub: 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
	}
}

func TestWriteReplacesFileWithoutLeftovers(t *testing.T) {
	d := openTemp(t)
	for _, content := range []string{"first", "second, longer", "3"} {
		if err := d.Write("file", []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := d.Read("file")
		if err != nil || string(got) != content {
			t.Errorf("Read(file) = %q, %v, want %q and no error", got, err, content)
		}
	}
	entries, err := os.ReadDir(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("files after three writes = %d, want 1: %v", len(entries), entries)
	}
	if _, err := d.Read("absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read(absent) = %v, want %v", err, fs.ErrNotExist)
	}
}

func TestLoadStateIgnoresCorruptState(t *testing.T) {
	d := openTemp(t)
	want := datadir.State{
		PID: 7, Command: "run", API: "http://127.0.0.1:9000",
		Control: control.Endpoint{Address: "http://127.0.0.1:1", Token: "t"},
	}
	if err := d.SaveState(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.LoadState()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the loaded state differs (-want +got):\n%s", diff)
	}
	if err := d.Write("run.json", []byte(`{"pid":`)); err != nil {
		t.Fatal(err)
	}
	if got, err = d.LoadState(); err != nil || got != (datadir.State{}) {
		t.Errorf("LoadState(corrupt) = %+v, %v, want an empty state and no error", got, err)
	}
	d.ClearState()
	if got, err = d.LoadState(); err != nil || got != (datadir.State{}) {
		t.Errorf("LoadState(no file) = %+v, %v, want an empty state and no error", got, err)
	}
}
