package rootkey_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

func newEngine(t *testing.T) *embedded.Backend {
	t.Helper()
	b, err := embedded.Open(t.Context(), embedded.Options{Dir: "engine", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func readRoot(t *testing.T, key seal.KeySource) []byte {
	t.Helper()
	raw, err := key.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestFirstStartCreatesTheKey(t *testing.T) {
	path, data := filepath.Join(t.TempDir(), rootkey.Name), newEngine(t)
	first, err := rootkey.Open(t.Context(), path, data)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		second, err := rootkey.Open(t.Context(), path, data)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(readRoot(t, second), readRoot(t, first)) {
			t.Error("the key of a later start differs, want the same")
		}
	}
	stored, err := data.Note("root-key")
	if err != nil || len(stored) == 0 || bytes.Contains(stored, readRoot(t, first)) {
		t.Errorf("Note(root-key) = %q, %v, want a hash and not the key", stored, err)
	}
}

// TestKeyOfAnUnfinishedStartIsReused checks that Open uses an existing key if the engine is empty.
// A start that is killed between the writes of the key and of the engine's note leaves this state.
func TestKeyOfAnUnfinishedStartIsReused(t *testing.T) {
	path := filepath.Join(t.TempDir(), rootkey.Name)
	existing := readRoot(t, seal.OpenFile(path))
	key, err := rootkey.Open(t.Context(), path, newEngine(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(readRoot(t, key), existing) {
		t.Error("the key differs from the existing file, want the same")
	}
}

func TestMissingKeyOfExistingDataIsNotRecreated(t *testing.T) {
	path, withHash := filepath.Join(t.TempDir(), rootkey.Name), newEngine(t)
	if _, err := rootkey.Open(t.Context(), path, withHash); err != nil {
		t.Fatal(err)
	}
	withItem := newEngine(t)
	if err := withItem.Transact(t.Context(), "token",
		[]store.Write{store.Upsert(store.Key{PK: "p", SK: "s"}, store.Set(store.At("n"), 1))}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]*embedded.Backend{"its hash": withHash, "an item": withItem} {
		_, err := rootkey.Open(t.Context(), path, data)
		if err == nil || !strings.Contains(err.Error(), path) ||
			!strings.Contains(err.Error(), "put a copy of that file back") || strings.Contains(err.Error(), "\n") {
			t.Errorf("Open(no file, data with %s) = %v, want one line with the path and the remedy", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Stat() = %v, want %v, since no key is created", name, err, fs.ErrNotExist)
		}
	}
}

func TestForeignKeyIsRefused(t *testing.T) {
	dir, data := t.TempDir(), newEngine(t)
	path, foreign := filepath.Join(dir, rootkey.Name), filepath.Join(dir, "foreign")
	if _, err := rootkey.Open(t.Context(), path, data); err != nil {
		t.Fatal(err)
	}
	readRoot(t, seal.OpenFile(foreign))
	_, err := rootkey.Open(t.Context(), foreign, data)
	if err == nil || !strings.Contains(err.Error(), "put the right root.key back") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Open(foreign key) = %v, want one line with \"put the right root.key back\"", err)
	}
	if _, err := rootkey.Open(t.Context(), path, data); err != nil {
		t.Errorf("Open(the right key afterwards) = %v, want no error", err)
	}
}

// TestCheckNeedsANote checks that Check returns an error for an engine without the note.
func TestCheckNeedsANote(t *testing.T) {
	path := filepath.Join(t.TempDir(), rootkey.Name)
	readRoot(t, seal.OpenFile(path))
	if err := rootkey.Check(t.Context(), path, newEngine(t)); err == nil {
		t.Error("Check(no note) = nil, want an error")
	}
}

func TestUnsafeKeyFileIsRefused(t *testing.T) {
	path, data := filepath.Join(t.TempDir(), rootkey.Name), newEngine(t)
	if err := os.WriteFile(path, make([]byte, seal.KeyBytes), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := rootkey.Open(t.Context(), path, data); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("Open(mode 0644) = %v, want an error with \"chmod 600\"", err)
	}
}
