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

	"github.com/gatewright/gatewright/shared/core/seal"
)

func TestKeyFileIsCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root-key")
	var keys [16][]byte
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			key, err := seal.OpenFile(path).Root(t.Context())
			if err != nil {
				t.Errorf("Root() in process %d = %v, want success", i, err)
			}
			keys[i] = key
		})
	}
	wg.Wait()
	for i, key := range keys {
		if len(key) != seal.KeyBytes || !bytes.Equal(key, keys[0]) {
			t.Errorf("process %d has a key of %d bytes, want the key of the first process, %d bytes", i, len(key), seal.KeyBytes)
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
		t.Errorf("folder of the key file = %v, %v, want one entry", entries, err)
	}
}

func TestExistingFileDoesNotCreateKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root-key")
	if _, err := seal.ExistingFile(path).Root(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Root() of an absent file = %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Root() of an absent file created it, want no file")
	}
	created, err := seal.OpenFile(path).Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := seal.ExistingFile(path).Root(t.Context()); err != nil || !bytes.Equal(got, created) {
		t.Errorf("Root() of an existing file = %v, %v, want %v", got, err, created)
	}
}

func TestInvalidKeyFileIsRefused(t *testing.T) {
	tests := []struct {
		name    string
		content []byte
		mode    os.FileMode
		want    string // the advice in the error
	}{
		{"group may read", make([]byte, seal.KeyBytes), 0o640, "chmod 600"},
		{"others may read", make([]byte, seal.KeyBytes), 0o604, "chmod 600"},
		{"empty", nil, 0o600, "restore it"},
		{"truncated", make([]byte, seal.KeyBytes-1), 0o600, "restore it"},
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
				t.Errorf("Root() = %v, want an error with %s and %q", err, path, test.want)
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, test.content) {
				t.Errorf("content of the file after Root() = %q, %v, want no change", after, err)
			}
		})
	}
	t.Run("directory", func(t *testing.T) {
		if _, err := seal.OpenFile(t.TempDir()).Root(t.Context()); err == nil {
			t.Error("Root() of a directory succeeds, want an error")
		}
	})
	t.Run("a path through an absent directory", func(t *testing.T) {
		// The directory of the file exists, but a part of its path does not.
		path := t.TempDir() + "/absent/../root-key"
		if _, err := seal.OpenFile(path).Root(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "make the key file") {
			t.Errorf("Root() without a writable path = %v, want an error with \"make the key file\"", err)
		}
	})
	t.Run("an absent directory", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "absent", "root-key")
		if _, err := seal.OpenFile(path).Root(t.Context()); err == nil {
			t.Error("Root() in an absent directory succeeds, want an error")
		}
	})
}
