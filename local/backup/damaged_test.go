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

// TestBackupOfDamagedDataKeepsTheOldFile flips a bit in each kind of file while the store is open. Either the backup
// fails with a one-line error and does not change the file of the last backup, or the new backup contains all data.
func TestBackupOfDamagedDataKeepsTheOldFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := mustStart(t, dir)
	const commits = 400
	for n := 1; n <= commits; n++ {
		if err := first.put(t.Context(), 0, n); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	i := mustStart(t, dir)   // moves the commits from the log into a table file
	for n := range fillers { // so many notes are written to several table files
		if err := i.engine.SetNotes(map[string][]byte{fillerKey(n): filler(n)}); err != nil {
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
	old := readFile(t, name)
	for _, kind := range []struct {
		name, pattern string
		refused       bool // the backup must fail
	}{
		{"a table", "engine/pebble/*.sst", true},
		{"the list of tables", "engine/pebble/MANIFEST-*", false},
		{"the log", "engine/pebble/*.log", false},
		{"the options", "engine/pebble/OPTIONS-*", false},
		{"the acknowledged position", "engine/acknowledged", false},
		{"an object", "objects/??/*", true},
		{"the root key", rootkey.Name, true},
	} {
		t.Run(strings.ReplaceAll(kind.name, " ", "-"), func(t *testing.T) {
			matches, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(kind.pattern)))
			if err != nil || len(matches) == 0 {
				t.Fatalf("Glob(%s) = %v, %v, want a file", kind.pattern, matches, err)
			}
			path := matches[len(matches)-1]
			original := readFile(t, path)
			for percent := 5; percent < 100; percent += 30 {
				flipBit(t, path, original, len(original)*percent/100)
				err := write()
				replaceFile(t, path, original)
				switch {
				case err == nil && kind.refused && exists(path):
					t.Errorf("backup with a bit of %s flipped at %d %% = nil, want an error", kind.name, percent)
				case err == nil: // the bit is not used, or the engine has replaced the table file meanwhile
					checkRestore(t, name, commits+1)
				case strings.Contains(err.Error(), "\n"):
					t.Errorf("backup error = %q, want one line", err)
				case !bytes.Equal(readFile(t, name), old):
					t.Errorf("the old file differs after a backup with a bit of %s flipped at %d %%, want no change",
						kind.name, percent)
				}
				replaceFile(t, name, old)
			}
		})
	}
	checkRestore(t, name, commits+1)
}

const (
	fillers     = 20
	fillerBytes = 64 << 10
)

func fillerKey(n int) string { return fmt.Sprint("filler/", n) }

// filler returns random bytes, which cannot be compressed.
func filler(n int) []byte {
	out := make([]byte, fillerBytes)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(out)
	return out
}

// checkRestore restores a backup and checks its content.
func checkRestore(t *testing.T, name string, commits int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "restored")
	if _, err := backup.Restore(t.Context(), name, dir); err != nil {
		t.Errorf("Restore() = %v, want success", err)
		return
	}
	i := mustStart(t, dir)
	for n := range fillers {
		if got, err := i.engine.Note(fillerKey(n)); err != nil || !bytes.Equal(got, filler(n)) {
			t.Errorf("Note(%s) of the restored data = %d bytes, %v, want %d bytes", fillerKey(n), len(got), err, fillerBytes)
		}
	}
	if n, err := i.lastCommit(t.Context(), 0); err != nil || n != commits {
		t.Errorf("last commit of the restored data = %d, %v, want %d", n, err, commits)
	}
	if err := i.stop(); err != nil {
		t.Errorf("stop() of the restored installation = %v, want no error", err)
	}
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// flipBit changes one bit of a file in place, so that the hard links to the file in a checkpoint change too.
func flipBit(t *testing.T, name string, content []byte, offset int) {
	t.Helper()
	changed := bytes.Clone(content)
	changed[offset] ^= 0x10
	replaceFile(t, name, changed)
}

// replaceFile writes the content of a file in place, unless the engine has removed the file meanwhile.
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

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}
