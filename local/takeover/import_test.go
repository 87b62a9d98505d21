package takeover_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/datadir"
	"github.com/gatewright/gatewright/local/emulator"
	"github.com/gatewright/gatewright/local/processes/processestest"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/local/takeover"
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// helperVariable makes this test binary a process that is killed.
const helperVariable = "TAKEOVER_TEST_HELPER"

// TestMain lets this test binary be the S3 server, and a process that imports.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[1] == emulator.S3ServerCommand:
		err = emulator.ServeS3(context.Background(), os.Stdin, os.NewFile(3, "notes"))
	case os.Getenv(helperVariable) != "":
		processestest.Begin()
		_, err = takeover.Import(context.Background(), os.Args[1], os.Args[2])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// check compares a new data directory with the earlier one.
func (e *earlier) check(t *testing.T, dir string) {
	t.Helper()
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: filepath.Join(dir, "engine")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = engine.Close() }()
	key, err := rootkey.Open(t.Context(), filepath.Join(dir, "root.key"), engine)
	if err != nil {
		t.Fatal(err)
	}
	got, _ := key.Root(t.Context())
	if want, err := os.ReadFile(filepath.Join(e.dir, "root.key")); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the root key is another one (%v)", err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "account-key")); err != nil || string(got) != "gw_demo\n" {
		t.Errorf("the account key is %q (%v)", got, err)
	}
	e.checkItems(t, engine)
	objects, err := files.Open(files.Options{Dir: filepath.Join(dir, "objects"), Notes: engine, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	left := maps.Clone(e.objects)
	for o, err := range objects.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		want, ok := left[o]
		if !ok {
			t.Errorf("there is an object more, or with other metadata: %+v", o)
			continue
		}
		delete(left, o)
		body, _, err := objects.Get(t.Context(), o.Key, o.ETag, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(body)
		if err != nil || string(content) != want {
			t.Errorf("%s has another content (%v)", o.Key, err)
		}
		_ = body.Close()
	}
	for o := range left {
		t.Errorf("there is no object %+v", o)
	}
}

func (e *earlier) checkItems(t *testing.T, engine *embedded.Backend) {
	t.Helper()
	for chunk := range slices.Chunk(slices.Collect(maps.Keys(e.items)), store.MaxKeys) {
		found, err := engine.Read(t.Context(), chunk)
		if err != nil {
			t.Fatal(err)
		}
		if len(found) != len(chunk) {
			t.Errorf("of %d items %d are there", len(chunk), len(found))
		}
		for _, item := range found {
			if diff := cmp.Diff(e.items[store.KeyOf(item)], item, exported); diff != "" {
				t.Errorf("%v differs: %s", store.KeyOf(item), diff)
			}
		}
	}
	due, _, err := engine.Query(t.Context(), store.Query{Index: store.DueIndex, PK: duePartition})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(e.due, due, exported); diff != "" {
		t.Errorf("what is due differs: %s", diff)
	}
	// The function that works on operations hears of the one that was under way.
	told, operations := uint64(0), 0
	for n := 0; n < len(e.items); {
		waiting, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		changes, err := engine.Changes(waiting, told, 1000)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range changes {
			if _, ok := operation.IDOf(c.Key); ok && c.Old == nil {
				operations++
			}
		}
		n, told = n+len(changes), changes[len(changes)-1].Seq
	}
	if operations != 1 {
		t.Errorf("the feed tells of %d operations", operations)
	}
}

// tree is all that can be seen of a directory, but for when it was read.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		content := []byte(nil)
		if !d.IsDir() {
			if content, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		out[path] = fmt.Sprint(info.Mode(), info.ModTime().UnixNano(), info.Size(), sha256.Sum256(content))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// readOnly takes the right to write away from everybody, and gives it back.
func readOnly(t *testing.T, dir string) {
	t.Helper()
	change := func(to func(fs.FileMode) fs.FileMode) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			return os.Chmod(path, to(info.Mode().Perm()))
		})
		if err != nil {
			t.Error(err)
		}
	}
	change(func(m fs.FileMode) fs.FileMode { return m &^ 0o222 })
	t.Cleanup(func() { change(func(m fs.FileMode) fs.FileMode { return m | 0o200 }) })
}

func TestEverythingIsTakenOverAndNothingTouched(t *testing.T) {
	e := makeEarlier(t)
	for name, old := range map[string]string{"stopped": e.dir, "killed, and copied without attributes": e.copied} {
		t.Run(name, func(t *testing.T) {
			readOnly(t, old)
			before := tree(t, old)
			place := t.TempDir()
			dir := filepath.Join(place, "data")
			sum, err := takeover.Import(t.Context(), old, dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, tree(t, old)); diff != "" {
				t.Errorf("the old data was touched: %s", diff)
			}
			var size int64
			for o := range e.objects {
				size += o.Size
			}
			if sum != (takeover.Summary{Items: len(e.items), Objects: len(e.objects), Bytes: size}) {
				t.Errorf("it says that it took %+v over", sum)
			}
			if left, err := os.ReadDir(place); err != nil || len(left) != 1 {
				t.Errorf("beside it there is %v (%v)", left, err)
			}
			e.check(t, dir)
			again := tree(t, dir)
			if _, err := takeover.Import(t.Context(), old, dir); err == nil || !strings.Contains(err.Error(), "holds something already") {
				t.Errorf("a second import is answered with %v", err)
			}
			if diff := cmp.Diff(again, tree(t, dir)); diff != "" {
				t.Errorf("it changed what was there: %s", diff)
			}
		})
	}
	t.Run("killed on the way", func(t *testing.T) { e.killed(t) })
	t.Run("refused", func(t *testing.T) { e.refused(t) })
}

// However an import ends, there is no directory or a whole one, and it can be
// done again.
func (e *earlier) killed(t *testing.T) {
	place := t.TempDir()
	dir := filepath.Join(place, "data")
	begun := time.Now()
	if _, err := takeover.Import(t.Context(), e.dir, dir); err != nil {
		t.Fatal(err)
	}
	took, whole := time.Since(begun), 0
	const rounds = 10
	for round := range rounds {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		processestest.Killed(t, helperVariable+"=import", took*time.Duration(2*round+1)/rounds, e.dir, dir)
		if _, err := os.Stat(dir); err == nil {
			whole++
			e.check(t, dir)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := takeover.Import(t.Context(), e.dir, dir); err != nil {
		t.Fatal(err)
	}
	e.check(t, dir)
	if left, err := os.ReadDir(place); err != nil || len(left) != 1 {
		t.Errorf("what killed ones made is left: %v (%v)", left, err)
	}
	t.Logf("of %d killed processes %d were done", rounds, whole)
}

// refused tries what cannot be taken over: one line each, and nothing is made.
func (e *earlier) refused(t *testing.T) {
	damaged := func(edit func(dir string) error) string {
		dir := filepath.Join(t.TempDir(), "old")
		if err := errors.Join(os.CopyFS(dir, os.DirFS(e.dir)), os.Chmod(filepath.Join(dir, "root.key"), 0o600), edit(dir)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	table := filepath.Join("dynamodb", "table.db")
	held, err := datadir.Open(damaged(func(string) error { return nil }))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := held.Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	outside := filepath.Join(t.TempDir(), "data")
	for _, test := range []struct{ name, old, dir, want string }{
		{"in use", held.Path(), outside, "is in use by a running product"},
		{"nothing there", filepath.Join(t.TempDir(), "absent"), outside, "cannot be read"},
		{"nothing old there", t.TempDir(), outside, "holds no data of an earlier version"},
		{"the same directory", e.dir, e.dir, "mv "},
		{"below it", e.dir, filepath.Join(e.dir, "new"), "name another one"},
		{"nothing around it", e.dir, filepath.Join(t.TempDir(), "absent", "new"), "make the directory around it"},
		{"no root key", damaged(func(dir string) error { return os.Remove(filepath.Join(dir, "root.key")) }), outside, "put a copy of that file back"},
		{"an open root key", damaged(func(dir string) error { return os.Chmod(filepath.Join(dir, "root.key"), 0o644) }), outside, "chmod 600"},
		{"a cut table", damaged(func(dir string) error { return os.Truncate(filepath.Join(dir, table), 100<<10) }), outside, "restore a copy"},
		{"no table at all", damaged(func(dir string) error {
			return os.WriteFile(filepath.Join(dir, table), bytes.Repeat([]byte("no table"), 1000), 0o600)
		}), outside, "restore a copy"},
		{"another form", damaged(func(dir string) error { return os.Truncate(filepath.Join(dir, table), 0) }), outside, "another form"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := takeover.Import(t.Context(), test.old, test.dir)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("it is answered with %v, want %q", err, test.want)
			}
		})
	}
	if left, err := os.ReadDir(filepath.Dir(outside)); err != nil || len(left) != 0 {
		t.Errorf("there is %v (%v)", left, err)
	}
}
