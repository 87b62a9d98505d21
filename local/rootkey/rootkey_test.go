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
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

func engine(t *testing.T) *embedded.Backend {
	t.Helper()
	b, err := embedded.Open(t.Context(), embedded.Options{Dir: "engine", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func root(t *testing.T, key seal.KeySource) []byte {
	t.Helper()
	raw, err := key.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestFirstStartMakesTheKeyAndLaterOnesKeepIt(t *testing.T) {
	path, data := filepath.Join(t.TempDir(), rootkey.Name), engine(t)
	first, err := rootkey.Open(t.Context(), path, data)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again, err := rootkey.Open(t.Context(), path, data)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(root(t, again), root(t, first)) {
			t.Error("a later start has another key")
		}
	}
	known, err := data.Note("root-key")
	if err != nil || len(known) == 0 || bytes.Contains(known, root(t, first)) {
		t.Errorf("the engine holds %q (%v), which tells the key or nothing", known, err)
	}
}

// A kill between the key and the engine's note of it leaves a key and an empty
// engine.
func TestKeyOfAnUnfinishedStartIsTaken(t *testing.T) {
	path := filepath.Join(t.TempDir(), rootkey.Name)
	made := root(t, seal.OpenFile(path))
	key, err := rootkey.Open(t.Context(), path, engine(t))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(root(t, key), made) {
		t.Error("it was made anew")
	}
}

func TestMissingKeyOverDataIsRefusedAndNotMade(t *testing.T) {
	path, noted := filepath.Join(t.TempDir(), rootkey.Name), engine(t)
	if _, err := rootkey.Open(t.Context(), path, noted); err != nil {
		t.Fatal(err)
	}
	unnoted := engine(t)
	if err := unnoted.Transact(t.Context(), "token", []store.Write{store.Upsert(store.Key{PK: "p", SK: "s"}, store.Set(store.At("n"), 1))}); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]*embedded.Backend{"its hash": noted, "an item": unnoted} {
		_, err := rootkey.Open(t.Context(), path, data)
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "put a copy of that file back") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: it is answered with %v", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a key was made", name)
		}
	}
}

func TestForeignKeyOverDataIsRefused(t *testing.T) {
	dir, data := t.TempDir(), engine(t)
	path, foreign := filepath.Join(dir, rootkey.Name), filepath.Join(dir, "foreign")
	if _, err := rootkey.Open(t.Context(), path, data); err != nil {
		t.Fatal(err)
	}
	root(t, seal.OpenFile(foreign))
	_, err := rootkey.Open(t.Context(), foreign, data)
	if err == nil || !strings.Contains(err.Error(), "put the right root.key back") || strings.Contains(err.Error(), "\n") {
		t.Errorf("it is answered with %v", err)
	}
	if _, err := rootkey.Open(t.Context(), path, data); err != nil {
		t.Errorf("afterwards the right one is answered with %v", err)
	}
}

// Data that no key was ever noted beside has none that is right.
func TestCheckNeedsANote(t *testing.T) {
	path := filepath.Join(t.TempDir(), rootkey.Name)
	root(t, seal.OpenFile(path))
	if err := rootkey.Check(t.Context(), path, engine(t)); err == nil {
		t.Error("any key is right")
	}
}

func TestUnsafeKeyFileStaysRefused(t *testing.T) {
	path, data := filepath.Join(t.TempDir(), rootkey.Name), engine(t)
	if err := os.WriteFile(path, make([]byte, seal.KeyBytes), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := rootkey.Open(t.Context(), path, data); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("it is answered with %v", err)
	}
}
