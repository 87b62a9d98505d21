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
	"github.com/gatewright/gatewright/local/terminal"
	"github.com/gatewright/gatewright/shared/seal"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

const (
	filledItems   = 600
	filledObjects = 3
)

// startOver does what a start does with its data directory, up to the first request.
func startOver(ctx context.Context, path string) (*opened, string, error) {
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
	defer l.Release() // nobody else uses it
	nowhere := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	o, err := open(ctx, s, dir, terminal.New(io.Discard, false), slog.New(slog.DiscardHandler), at{api: nowhere, gateway: nowhere}, func(error) {})
	if err != nil {
		return nil, "", err
	}
	key, err := ensureAccount(ctx, o.accounts, dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, "", errors.Join(err, o.close())
	}
	return o, key, nil
}

// filled makes a data directory as a killed process leaves it: tables of two starts, a log that no table has yet, and objects.
// Closing the engine leaves the same files as a kill, since it does not write the log into a table. No file changes afterwards.
func filled(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	ends, n := []int{filledItems / 2, filledItems * 9 / 10, filledItems}, 0
	for session, end := range ends {
		o, _, err := startOver(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for ; n < end; n++ {
			if err := o.database.table.Commit(t.Context(), store.Put(itemKey(n), map[string]any{"n": n, "filler": make([]byte, 2000)})); err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprint("artifacts/", session)
		if err := o.bucket.Put(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Fatal(err)
		}
		if err := o.close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func itemKey(n int) store.Key { return store.Key{PK: "filled", SK: fmt.Sprintf("%04d", n)} }

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	// CopyFS makes files with the default modes of its process.
	err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = os.Chmod(path, map[bool]fs.FileMode{true: 0o700, false: 0o600}[d.IsDir()])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// complete returns an error unless everything that filled has stored is served.
func complete(ctx context.Context, o *opened) error {
	n, err := o.database.table.Count(ctx, store.Query{PK: "filled"})
	if err != nil {
		return err
	}
	if n != filledItems {
		return fmt.Errorf("Count() = %d, want %d", n, filledItems)
	}
	for i := range filledObjects {
		name := fmt.Sprint("artifacts/", i)
		body, _, err := o.bucket.Get(ctx, name, "", 1<<20)
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

// digests returns the content's digest of every file, except files that say which process uses the directory.
func digests(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		below, _ := filepath.Rel(dir, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "logs":
			return fs.SkipDir
		case d.IsDir():
			out[below+"/"] = ""
		case d.Name() != "lock" && d.Name() != "LOCK" && d.Name() != "run.json":
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			out[below] = fmt.Sprintf("%x", sha256.Sum256(content))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// refusal checks a refused start: its error is one line, and it has changed no file.
func refusal(t *testing.T, dir string, before map[string]string, err error) {
	t.Helper()
	if text := err.Error(); strings.Contains(text, "\n") || strings.Contains(text, "goroutine ") {
		t.Errorf("start error = %q, want one line", text)
	}
	if after := digests(t, dir); !maps.Equal(before, after) {
		t.Errorf("files after a refused start = %v, want %v", slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
	}
}

// TestMissingFileLosesNothing removes each file and each folder of a data directory. Either the start serves everything, or it
// is refused, and the next start serves everything once the missing part is back.
func TestMissingFileLosesNothing(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	var names []string
	for name := range digests(t, whole) {
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
			copyTree(t, whole, dir)
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			before := digests(t, dir)
			o, _, err := startOver(t.Context(), dir)
			if err == nil {
				if err := errors.Join(complete(t.Context(), o), o.close()); err != nil {
					t.Errorf("start without %s serves, and %v", name, err)
				}
				return
			}
			refusal(t, dir, before, err)
			putBack(t, filepath.Join(whole, name), filepath.Join(dir, name))
			o, key, err := startOver(t.Context(), dir)
			if err != nil {
				t.Fatalf("start with %s put back: error = %v, want none", name, err)
			}
			if err := errors.Join(complete(t.Context(), o), o.close()); err != nil {
				t.Error(err)
			}
			if key != "" {
				t.Errorf("start with %s put back made another account key, want the old one kept", name)
			}
		})
	}
}

func putBack(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		copyTree(t, from, to)
		return
	}
	content, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPartOfADirectoryIsNoNewInstallation removes every set of the directory's parts, or empties the store like the mount point
// of a missing disk. A start refuses incomplete data. Only a directory without any part is new.
func TestPartOfADirectoryIsNoNewInstallation(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	parts := []string{datadir.Engine, rootkey.Name, datadir.Objects, datadir.AccountKey, "logs"}
	if err := os.MkdirAll(filepath.Join(whole, "logs"), 0o700); err != nil {
		t.Fatal(err)
	}
	for set := range 1 << len(parts) {
		var names []string
		for i, name := range parts {
			if set&(1<<i) != 0 {
				names = append(names, name)
			}
		}
		has := func(name string) bool { return slices.Contains(names, name) }
		evidence := has(rootkey.Name) || has(datadir.Objects) || has(datadir.AccountKey)
		testPart(t, whole, names, false, has(datadir.Engine) && has(rootkey.Name) && has(datadir.Objects), !has(datadir.Engine) && !evidence)
		if has(datadir.Engine) {
			testPart(t, whole, names, true, false, !evidence)
		}
	}
}

// testPart starts with the named parts of a directory. The start finds it complete or new, or refuses it.
func testPart(t *testing.T, whole string, names []string, emptied, isComplete, isNew bool) {
	name := strings.Join(names, "+")
	if emptied {
		name += " with an empty engine"
	}
	t.Run(name, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if emptied && name == datadir.Engine {
				if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
					t.Fatal(err)
				}
				continue
			}
			putBack(t, filepath.Join(whole, name), filepath.Join(dir, name))
		}
		before := digests(t, dir)
		o, _, err := startOver(t.Context(), dir)
		if err != nil {
			if isComplete || isNew {
				t.Fatalf("start over %s: error = %v, want none", name, err)
			}
			refusal(t, dir, before, err)
			return
		}
		defer func() { _ = o.close() }()
		switch got := complete(t.Context(), o); {
		case isComplete && got != nil:
			t.Error(got)
		case !isComplete && !isNew:
			t.Errorf("start over %s is served, want a refusal", name)
		}
	})
}

// TestKilledFirstStartGoesOn makes each state that a kill may leave during the first start, in the order in which a start writes.
func TestKilledFirstStartGoesOn(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	steps := []struct {
		name string
		do   func(d *datadir.Dir) error
	}{
		{"nothing", func(*datadir.Dir) error { return nil }},
		{"a log", func(d *datadir.Dir) error { _, err := d.Sub("logs"); return err }},
		{"the store's folder", func(d *datadir.Dir) error { return os.MkdirAll(d.Path(datadir.Engine, "pebble"), 0o700) }},
		{"a store", func(d *datadir.Dir) error {
			return inEngine(t.Context(), d, func(*embedded.Backend) error { return nil })
		}},
		{"a root key", func(d *datadir.Dir) error {
			_, err := seal.OpenFile(d.Path(rootkey.Name)).Root(t.Context())
			return err
		}},
		{"the root key's note", func(d *datadir.Dir) error {
			return inEngine(t.Context(), d, func(engine *embedded.Backend) error {
				_, err := rootkey.Open(t.Context(), d.Path(rootkey.Name), engine)
				return err
			})
		}},
		{"the objects' folder", func(d *datadir.Dir) error { _, err := d.Sub(datadir.Objects); return err }},
		{"an account without its key's file", func(d *datadir.Dir) error {
			o, _, err := startOver(t.Context(), d.Path())
			if err != nil {
				return err
			}
			return errors.Join(o.close(), os.Remove(d.Path(datadir.AccountKey)))
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
		killed := filepath.Join(t.TempDir(), "killed")
		copyTree(t, dir, killed)
		o, key, err := startOver(t.Context(), killed)
		if err != nil {
			t.Errorf("start after a kill that left %s: error = %v, want none", step.name, err)
			continue
		}
		if _, err := o.accounts.Authenticate(t.Context(), key); err != nil {
			t.Errorf("Authenticate() after a kill that left %s = %v, want success", step.name, err)
		}
		if err := o.close(); err != nil {
			t.Error(err)
		}
	}
}

func inEngine(ctx context.Context, d *datadir.Dir, do func(*embedded.Backend) error) error {
	engine, err := embedded.Open(ctx, embedded.Options{Dir: d.Path(datadir.Engine)})
	if err != nil {
		return err
	}
	return errors.Join(do(engine), engine.Close())
}
