package product

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/preflight"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/base/terminal"
	"github.com/gatewright/gatewright/shared/core/seal"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// The numbers of items and objects of newFilledDir.
const (
	filledItems   = 600
	filledObjects = 3
)

// openInstallation opens a data directory like a start, and returns the opened resources and the account key.
func openInstallation(ctx context.Context, path string) (*resources, string, error) {
	s, err := Laptop.settings(func(string) string { return "" })
	if err != nil {
		return nil, "", err
	}
	if err := preflight.RefuseEmulators(path); err != nil {
		return nil, "", err
	}
	dir, err := datadir.Open(path)
	if err != nil {
		return nil, "", err
	}
	l, err := dir.Lock()
	if err != nil {
		return nil, "", err
	}
	defer l.Release() // early: no other process uses the directory
	unusedAddr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	res, err := open(ctx, s, dir, terminal.New(io.Discard, false), slog.New(slog.DiscardHandler),
		listenAddrs{api: unusedAddr, gateway: unusedAddr}, func(error) {})
	if err != nil {
		return nil, "", err
	}
	key, err := ensureAccount(ctx, res.accounts, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, "", errors.Join(err, res.close())
	}
	return res, key, nil
}

// newFilledDir returns a data directory with table files of two starts, a log whose content is not in a table file
// yet, and objects. The files are as after a kill, because closing the engine does not write the log to a table file.
func newFilledDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	totals, n := []int{filledItems / 2, filledItems * 9 / 10, filledItems}, 0
	for session, total := range totals {
		res, _, err := openInstallation(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for ; n < total; n++ {
			if err := res.database.table.Commit(t.Context(),
				store.Put(itemKey(n), map[string]any{"n": n, "filler": make([]byte, 2000)})); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprint("artifacts/", session)
		if err := res.bucket.Put(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
		if err := res.close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func itemKey(n int) store.Key { return store.Key{PK: "filled", SK: fmt.Sprintf("%04d", n)} }

func copyTree(t *testing.T, src, dst string) {
	t.Helper()
	if err := os.CopyFS(dst, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	// CopyFS does not preserve the modes of files.
	err := filepath.WalkDir(dst, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = os.Chmod(path, map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkComplete returns an error unless all items and objects of newFilledDir can be read.
func checkComplete(ctx context.Context, res *resources) error {
	n, err := res.database.table.Count(ctx, store.Query{PK: "filled"})
	if err != nil {
		return err
	}
	if n != filledItems {
		return fmt.Errorf("Count() = %d, want %d", n, filledItems)
	}
	for i := range filledObjects {
		name := fmt.Sprint("artifacts/", i)
		body, _, err := res.bucket.Get(ctx, name, "", 1<<20)
		if err != nil {
			return err
		}
		got, err := io.ReadAll(body)
		if err = errors.Join(err, body.Close()); err != nil || string(got) != name {
			return fmt.Errorf("Get(%s) = %q, %w, want %q", name, got, err, name)
		}
	}
	return nil
}

// fileDigests returns the digest of every file's content, and "" for every folder. It omits the logs and the files with
// the lock and the run state.
func fileDigests(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "logs":
			return fs.SkipDir
		case d.IsDir():
			out[rel+"/"] = ""
		case d.Name() != "lock" && d.Name() != "LOCK" && d.Name() != "run.json":
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[rel] = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// checkRefusal checks a failed start: the error must be one line, and no file may have changed since before.
func checkRefusal(t *testing.T, dir string, before map[string]string, err error) {
	t.Helper()
	if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "goroutine ") {
		t.Errorf("start error = %q, want one line", text)
	}
	if after := fileDigests(t, dir); !maps.Equal(before, after) {
		t.Errorf("digests of the files after a refused start = %v, want %v", after, before)
	}
}

// TestMissingFileLosesNothing removes each file and each folder of a data directory in turn. Either all data can still
// be read after the start, or the start fails. In the second case, all data can be read after the missing part is
// restored.
func TestMissingFileLosesNothing(t *testing.T) {
	t.Parallel()
	original := newFilledDir(t)
	var names []string
	for name := range fileDigests(t, original) {
		if name = strings.TrimSuffix(name, "/"); name != "." {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) < 15 {
		t.Fatalf("files of the data directory = %v, want at least 15", names)
	}
	for _, name := range names {
		t.Run(strings.ReplaceAll(name, "/", "_"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			copyTree(t, original, dir)
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			before := fileDigests(t, dir)
			res, _, err := openInstallation(t.Context(), dir)
			if err == nil {
				if err := errors.Join(checkComplete(t.Context(), res), res.close()); err != nil {
					t.Errorf("start without %s: error %v, want all data served and no error", name, err)
				}
				return
			}
			checkRefusal(t, dir, before, err)
			restorePart(t, filepath.Join(original, name), filepath.Join(dir, name))
			res, key, err := openInstallation(t.Context(), dir)
			if err != nil {
				t.Fatalf("start with %s put back: error = %v, want none", name, err)
			}
			if err := errors.Join(checkComplete(t.Context(), res), res.close()); err != nil {
				t.Errorf("start with %s put back: error %v, want all data served and no error", name, err)
			}
			if key != "" {
				t.Errorf("start with %s put back made another account key, want the old one kept", name)
			}
		})
	}
}

func restorePart(t *testing.T, src, dst string) {
	t.Helper()
	info, err := os.Stat(src)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		copyTree(t, src, dst)
		return
	}
	content, err := os.ReadFile(src)
	if err == nil {
		err = os.WriteFile(dst, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestIncompleteDirectoryIsRefused starts with every subset of the directory's parts, and also with an empty store
// folder, like the mount point of a missing disk. A start must fail if parts are missing, unless the directory can be a
// new one.
func TestIncompleteDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	original := newFilledDir(t)
	parts := []string{datadir.Engine, rootkey.Name, datadir.Objects, datadir.AccountKey, "logs"}
	if err := os.MkdirAll(filepath.Join(original, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for mask := range 1 << len(parts) {
		var names []string
		for i, name := range parts {
			if mask&(1<<i) != 0 {
				names = append(names, name)
			}
		}
		has := func(name string) bool { return slices.Contains(names, name) }
		evidence := has(rootkey.Name) || has(datadir.Objects) || has(datadir.AccountKey)
		testIncompleteDir(t, original, names, false, has(datadir.Engine) && has(rootkey.Name) && has(datadir.Objects),
			!has(datadir.Engine) && !evidence)
		if has(datadir.Engine) {
			testIncompleteDir(t, original, names, true, false, !evidence)
		}
	}
}

// testIncompleteDir starts with the named parts of a directory. The start must succeed if isComplete
// or isNew is true, and fail otherwise. If emptyEngine is true, the folder of the engine is empty.
func testIncompleteDir(t *testing.T, original string, names []string, emptyEngine, isComplete, isNew bool) {
	name := strings.Join(names, "+")
	if name == "" {
		name = "no part"
	}
	if emptyEngine {
		name += " with an empty engine"
	}
	t.Run(name, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if emptyEngine && name == datadir.Engine {
				if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
				continue
			}
			restorePart(t, filepath.Join(original, name), filepath.Join(dir, name))
		}
		before := fileDigests(t, dir)
		res, _, err := openInstallation(t.Context(), dir)
		if err != nil {
			if isComplete || isNew {
				t.Fatalf("start over %s: error = %v, want none", name, err)
			}
			checkRefusal(t, dir, before, err)
			return
		}
		defer func() { _ = res.close() }()
		switch got := checkComplete(t.Context(), res); {
		case isComplete && got != nil:
			t.Errorf("start over %s: error %v, want all data served and no error", name, got)
		case !isComplete && !isNew:
			t.Errorf("start over %s is served, want a refusal", name)
		}
	})
}

// TestKilledFirstStartResumes creates each state that a kill can leave during the first start, in the order of the
// writes.
func TestKilledFirstStartResumes(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	steps := []struct {
		name string
		do   func(d *datadir.Dir) error
	}{
		{"an empty directory", func(*datadir.Dir) error { return nil }},
		{"a log", func(d *datadir.Dir) error { _, err := d.CreateFolder("logs"); return err }},
		{"the store's folder", func(d *datadir.Dir) error { return os.MkdirAll(d.Path(datadir.Engine, "pebble"), 0o700) }},
		{"a store", func(d *datadir.Dir) error {
			return withEngine(t.Context(), d, func(*embedded.Backend) error { return nil })
		}},
		{"a root key", func(d *datadir.Dir) error {
			_, err := seal.OpenFile(d.Path(rootkey.Name)).Root(t.Context())
			return err
		}},
		{"the root key's note", func(d *datadir.Dir) error {
			return withEngine(t.Context(), d, func(engine *embedded.Backend) error {
				_, err := rootkey.Open(t.Context(), d.Path(rootkey.Name), engine)
				return err
			})
		}},
		{"the objects' folder", func(d *datadir.Dir) error { _, err := d.CreateFolder(datadir.Objects); return err }},
		{"an account without its key file", func(d *datadir.Dir) error {
			res, _, err := openInstallation(t.Context(), d.Path())
			if err != nil {
				return err
			}
			return errors.Join(res.close(), os.Remove(d.Path(datadir.AccountKey)))
		}},
	}
	for _, step := range steps {
		d, err := datadir.Open(dir)
		if err == nil {
			err = step.do(d)
		}
		if err != nil {
			t.Fatal(err)
		}
		killedDir := filepath.Join(t.TempDir(), "killed")
		copyTree(t, dir, killedDir)
		res, key, err := openInstallation(t.Context(), killedDir)
		if err != nil {
			t.Errorf("start after a kill that left %s: error = %v, want none", step.name, err)
			continue
		}
		if _, err := res.accounts.Authenticate(t.Context(), key); err != nil {
			t.Errorf("Authenticate() after a kill that left %s = %v, want success", step.name, err)
		}
		if err := res.close(); err != nil {
			t.Errorf("close() after a kill that left %s = %v, want nil", step.name, err)
		}
	}
}

func withEngine(ctx context.Context, d *datadir.Dir, do func(*embedded.Backend) error) error {
	engine, err := embedded.Open(ctx, embedded.Options{Dir: d.Path(datadir.Engine)})
	if err != nil {
		return err
	}
	return errors.Join(do(engine), engine.Close())
}
