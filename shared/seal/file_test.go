package seal_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/seal"
)

func TestKeyFileIsMadeOnceAndStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root-key")
	var keys [16][]byte
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := seal.OpenFile(path).Root(t.Context())
			if err != nil {
				t.Error(err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for i, key := range keys {
		if len(key) != seal.KeyBytes || !bytes.Equal(key, keys[0]) {
			t.Errorf("process %d has another key than the first", i)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %04o, want 0600", info.Mode().Perm())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("beside the key stand %v, %v", entries, err)
	}
}

func TestExistingKeyFileIsNotMade(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root-key")
	if _, err := seal.ExistingFile(path).Root(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there is answered with %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("it was made")
	}
	made, err := seal.OpenFile(path).Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := seal.ExistingFile(path).Root(t.Context()); err != nil || !bytes.Equal(got, made) {
		t.Errorf("one that is there is answered with %v", err)
	}
}

func TestUnsafeOrBrokenKeyFileIsRefused(t *testing.T) {
	tests := []struct {
		name    string
		content []byte
		mode    os.FileMode
		want    string // what the error tells to do
	}{
		{"group may read", make([]byte, seal.KeyBytes), 0o640, "chmod 600"},
		{"others may read", make([]byte, seal.KeyBytes), 0o604, "chmod 600"},
		{"empty", nil, 0o600, "restore it"},
		{"cut short", make([]byte, seal.KeyBytes-1), 0o600, "restore it"},
		{"too long", make([]byte, seal.KeyBytes+1), 0o600, "restore it"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "root-key")
			if err := os.WriteFile(path, test.content, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			_, err := seal.OpenFile(path).Root(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("answered %v, want the path and %q", err, test.want)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, test.content) {
				t.Errorf("the file was touched: %v", err)
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		if _, err := seal.OpenFile(t.TempDir()).Root(t.Context()); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("no place to put it", func(t *testing.T) {
		// Its directory is there, the way to it is not.
		path := t.TempDir() + "/absent/../root-key"
		if _, err := seal.OpenFile(path).Root(t.Context()); err == nil || !strings.Contains(err.Error(), "make the key file") {
			t.Errorf("answered %v, which does not say that none can be made", err)
		}
	})
	t.Run("no directory to make it in", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "absent", "root-key")
		if _, err := seal.OpenFile(path).Root(t.Context()); err == nil {
			t.Error("accepted")
		}
	})
}
