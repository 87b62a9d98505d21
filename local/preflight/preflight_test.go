package preflight_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/preflight"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

const content = "an artifact"

// openStore opens the store of a data directory and creates its root key.
func openStore(t *testing.T, dir *datadir.Dir) *embedded.Backend {
	t.Helper()
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: dir.Path(datadir.Engine)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := rootkey.Open(t.Context(), dir.Path(rootkey.Name), engine); err != nil {
		t.Fatal(err)
	}
	return engine
}

// fill writes a complete data directory: a store with an item and an object, the object's content, and an account key.
func fill(t *testing.T, dir *datadir.Dir) {
	t.Helper()
	engine := openStore(t, dir)
	objects, err := files.Open(files.Options{Dir: dir.Path(datadir.Objects), Notes: engine, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Put(t.Context(), "artifacts/one", strings.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	item := store.Upsert(store.Key{PK: "account", SK: "acme"}, store.Set(store.At("name"), "acme"))
	if err := engine.Transact(t.Context(), "first", []store.Write{item}); err != nil {
		t.Fatal(err)
	}
	if err := engine.Close(); err != nil {
		t.Fatal(err)
	}
	if err := dir.Write(datadir.AccountKey, []byte("a key")); err != nil {
		t.Fatal(err)
	}
}

// objectPath returns the path of the content of the only object.
func objectPath(t *testing.T, dir *datadir.Dir) string {
	t.Helper()
	matches, err := filepath.Glob(dir.Path(datadir.Objects, "??", "*"))
	if err != nil || len(matches) != 1 {
		t.Fatalf("contents of objects = %v, %v, want one", matches, err)
	}
	return matches[0]
}

// fileContents returns the content of each file below a folder.
func fileContents(t *testing.T, dir *datadir.Dir) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir.Path(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestIncompleteDirectoryIsRefused checks that Check returns an error if a part of the directory is missing, except the
// account key, which a start replaces. It also checks that Check accepts a directory that a killed first start has
// left.
func TestIncompleteDirectoryIsRefused(t *testing.T) {
	remove := func(names ...string) func(*testing.T, *datadir.Dir) {
		return func(t *testing.T, dir *datadir.Dir) {
			t.Helper()
			fill(t, dir)
			for _, name := range names {
				if err := os.RemoveAll(dir.Path(name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		prepare func(*testing.T, *datadir.Dir)
		want    string // "" for a complete directory
	}{
		"new":      {func(*testing.T, *datadir.Dir) {}, ""},
		"complete": {fill, ""},
		"killed first start": {func(t *testing.T, dir *datadir.Dir) {
			t.Helper()
			if err := openStore(t, dir).Close(); err != nil {
				t.Fatal(err)
			}
		}, ""},
		"without the account key": {remove(datadir.AccountKey), ""},
		"without the store": {
			remove(datadir.Engine),
			"engine is missing, and root.key, account-key, objects beside it show that it held data",
		},
		"without the root key": {remove(rootkey.Name), "root.key"},
		"without the objects":  {remove(datadir.Objects), "objects is missing, but an object in the store refers to it"},
		"with an emptied store": {func(t *testing.T, dir *datadir.Dir) {
			t.Helper()
			remove(datadir.Engine)(t, dir)
			if err := openStore(t, dir).Close(); err != nil {
				t.Fatal(err)
			}
		}, "is empty, but it held data, according to account-key, objects next to it"},
		"with an object cut short": {func(t *testing.T, dir *datadir.Dir) {
			t.Helper()
			fill(t, dir)
			if err := os.Truncate(objectPath(t, dir), 3); err != nil {
				t.Fatal(err)
			}
		}, "has 3 bytes instead of 11"},
		"with an object missing": {func(t *testing.T, dir *datadir.Dir) {
			t.Helper()
			fill(t, dir)
			if err := os.Remove(objectPath(t, dir)); err != nil {
				t.Fatal(err)
			}
		}, "is missing, but an object in the store refers to it"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := datadir.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			c.prepare(t, dir)
			before := fileContents(t, dir)
			err = preflight.Check(t.Context(), dir, preflight.Options{Table: true, Objects: true})
			switch {
			case c.want == "" && err != nil:
				t.Errorf("Check() = %v, want nil", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("Check() = %v, want an error with %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("Check() = %q, want one line", err)
			}
			if !maps.Equal(fileContents(t, dir), before) {
				t.Error("Check() changed files, want none changed")
			}
		})
	}
}
