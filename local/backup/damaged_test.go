package backup_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/rootkey"
)

// TestBackupOfDamagedDataKeepsTheOldFile flips a bit in each kind of file while the store is open. Either the backup ends with
// one line and does not change the file of the last backup, or the new backup holds everything.
func TestBackupOfDamagedDataKeepsTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := started(t, dir)
	const commits = 400
	for n := 1; n <= commits; n++ {
		if err := first.put(t.Context(), 0, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	i := started(t, dir)     // writes the log into a table
	for n := range fillers { // which become several tables, each by an edit of the list of tables
		if err := i.engine.SetNotes(map[string][]byte{fillerOf(n): filler(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := i.put(t.Context(), 0, commits+1); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "kept.backup")
	write := func() error {
		return backup.Create(name, dir, func(to io.Writer) error { return i.write(t.Context(), to) })
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	old := read(t, name)
	for _, kind := range []struct {
		name, pattern string
		refused       bool // in any case
	}{
		{"a table", "engine/pebble/*.sst", true},
		{"the list of tables", "engine/pebble/MANIFEST-*", false},
		{"the log", "engine/pebble/*.log", false},
		{"the options", "engine/pebble/OPTIONS-*", false},
		{"the last promise", "engine/acknowledged", false},
		{"an object", "objects/??/*", true},
		{"the root key", rootkey.Name, true},
	} {
		t.Run(strings.ReplaceAll(kind.name, " ", "-"), func(t *testing.T) {
			found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(kind.pattern)))
			if err != nil || len(found) == 0 {
				t.Fatalf("Glob(%s) = %v, %v, want a file", kind.pattern, found, err)
			}
			at := found[len(found)-1]
			whole := read(t, at)
			for part := 5; part < 100; part += 30 {
				flip(t, at, whole, len(whole)*part/100)
				err := write()
				replaceFile(t, at, whole)
				switch {
				case err == nil && kind.refused && there(at):
					t.Errorf("backup with a bit of %s flipped at %d %% = nil, want an error", kind.name, part)
				case err == nil: // or the engine has replaced the table before
					restores(t, name, commits+1)
				case strings.Contains(err.Error(), "\n"):
					t.Errorf("backup error = %q, want one line", err)
				case !bytes.Equal(read(t, name), old):
					t.Errorf("the old file after a backup with a bit of %s flipped at %d %% has changed, want it as it was", kind.name, part)
				}
				replaceFile(t, name, old)
			}
		})
	}
	restores(t, name, commits+1)
}

const (
	fillers     = 20
	fillerBytes = 64 << 10
)

func fillerOf(n int) string { return fmt.Sprint("filler/", n) }

// filler returns bytes that cannot be compressed.
func filler(n int) []byte {
	out := make([]byte, fillerBytes)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(out)
	return out
}

// restores restores a backup and compares what it holds.
func restores(t *testing.T, name string, commits int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), name, dir); err != nil {
		t.Errorf("Restore() = %v, want success", err)
		return
	}
	i := started(t, dir)
	for n := range fillers {
		if got, err := i.engine.Note(fillerOf(n)); err != nil || !bytes.Equal(got, filler(n)) {
			t.Errorf("Note(%s) of the restored data = %d bytes, %v, want %d bytes", fillerOf(n), len(got), err, fillerBytes)
		}
	}
	if n, err := i.last(t.Context(), 0); err != nil || n != commits {
		t.Errorf("last commit of the restored data = %d, %v, want %d", n, err, commits)
	}
	if err := i.stop(); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// flip writes a file with one bit changed in place, since tables of a copy are links to it.
func flip(t *testing.T, name string, whole []byte, at int) {
	t.Helper()
	changed := bytes.Clone(whole)
	changed[at] ^= 0x10
	replaceFile(t, name, changed)
}

// replaceFile writes a file in place, if the engine has not removed it meanwhile.
func replaceFile(t *testing.T, name string, content []byte) {
	t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_TRUNC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func there(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
