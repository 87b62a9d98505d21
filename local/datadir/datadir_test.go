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

func open(t *testing.T) *datadir.Dir {
	t.Helper()
	d, err := datadir.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSecondLockIsRefusedUntilTheFirstIsReleased(t *testing.T) {
	d := open(t)
	first, err := d.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); !errors.Is(err, datadir.ErrInUse) {
		t.Fatalf("second lock: %v, want ErrInUse", err)
	}
	first.Release()
	first.Release()
	again, err := d.Lock()
	if err != nil {
		t.Fatalf("after the release: %v", err)
	}
	again.Release()
}

// TestLockRemovesWhatAKilledHolderWasWriting, and nothing of one that is alive.
func TestLockRemovesWhatAKilledHolderWasWriting(t *testing.T) {
	d := open(t)
	left := []string{".new-1", ".key-2", "kept"}
	for _, name := range left {
		if err := os.WriteFile(d.Path(name), []byte("a key"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	there := func() (n int) {
		for _, name := range left {
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
	if n := there(); n != 1 {
		t.Errorf("%d files are left, want 1", n)
	}
	if err := os.WriteFile(d.Path(".new-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); !errors.Is(err, datadir.ErrInUse) || there() != 2 {
		t.Errorf("a second lock is answered with %v, and %d files are left", err, there())
	}
	l.Release()
}

func TestDirectoryThatCannotBeWrittenIsOneClearLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below"), "/proc/self"} {
		_, err := datadir.Open(path)
		if err == nil {
			t.Errorf("%s was accepted", path)
			continue
		}
		if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "GATEWRIGHT_DATA_DIR") {
			t.Errorf("error for %s: %v", path, err)
		}
	}
}

func TestDirectoryOfAnotherUserIsOneClearLine(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may open every file")
	}
	d := open(t)
	if err := os.WriteFile(d.Path("lock"), nil, 0o000); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lock(); err == nil || !strings.Contains(err.Error(), "is another user's: run this as the user who has it") {
		t.Errorf("a lock that is another user's: %v", err)
	}
}

func TestWhatIsMadeIsForTheOwnerAlone(t *testing.T) {
	d := open(t)
	if err := d.Write("secret", []byte("x")); err != nil {
		t.Fatal(err)
	}
	sub, err := d.Sub("sub")
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

func TestWriteReplacesAndLeavesNothingBehind(t *testing.T) {
	d := open(t)
	for _, content := range []string{"first", "second, longer", "3"} {
		if err := d.Write("file", []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := d.Read("file")
		if err != nil || string(got) != content {
			t.Errorf("read %q, %v; want %q", got, err, content)
		}
	}
	entries, err := os.ReadDir(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("there are %d files, want 1: %v", len(entries), entries)
	}
	if _, err := d.Read("absent"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
}

func TestStateIsReadBackAndACorruptOneCountsAsNone(t *testing.T) {
	d := open(t)
	want := datadir.State{PID: 7, Command: "run", API: "http://127.0.0.1:9000", Control: control.Endpoint{Address: "http://127.0.0.1:1", Token: "t"}}
	if err := d.SaveState(want); err != nil {
		t.Fatal(err)
	}
	got, err := d.LoadState()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := d.Write("run.json", []byte(`{"pid":`)); err != nil {
		t.Fatal(err)
	}
	if got, err = d.LoadState(); err != nil || got != (datadir.State{}) {
		t.Errorf("corrupt state: %+v, %v", got, err)
	}
	d.ClearState()
	if got, err = d.LoadState(); err != nil || got != (datadir.State{}) {
		t.Errorf("no state: %+v, %v", got, err)
	}
}
