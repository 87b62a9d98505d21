package integrity_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/integrity"
	"github.com/gatewright/gatewright/local/rootkey"
	"github.com/gatewright/gatewright/shared/core/blob/files"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/embedded"
)

// installation is an opened data directory.
type installation struct {
	dir     string
	engine  *embedded.Backend
	objects *files.Bucket
}

func openInstallation(t *testing.T, dir string) *installation {
	t.Helper()
	engine, err := embedded.Open(t.Context(), embedded.Options{Dir: filepath.Join(dir, "engine")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	if _, err := rootkey.Open(t.Context(), filepath.Join(dir, rootkey.Name), engine); err != nil {
		t.Fatal(err)
	}
	objects, err := files.Open(files.Options{Dir: filepath.Join(dir, "objects"), Notes: engine, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return &installation{dir, engine, objects}
}

// newFilled returns an installation whose store has table files and a log, with objects.
func newFilled(t *testing.T) *installation {
	t.Helper()
	dir := t.TempDir()
	for range 2 {
		i := openInstallation(t, dir)
		i.put(t, 200)
		if err := i.engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	i := openInstallation(t, dir)
	i.put(t, 20)
	return i
}

func (i *installation) put(t *testing.T, items int) {
	t.Helper()
	for n := range items {
		w := store.Upsert(store.Key{PK: "p", SK: fmt.Sprint(n)},
			store.Set(store.At("filler"), strings.Repeat(fmt.Sprint(n), 100)))
		if err := i.engine.Transact(t.Context(), fmt.Sprint(items, "-", n, "-", time.Now().UnixNano()),
			[]store.Write{w}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		name := fmt.Sprint("artifacts/", items, "-", n)
		if err := i.objects.Put(t.Context(), name, strings.NewReader(strings.Repeat(name, 1000))); err != nil {
			t.Fatal(err)
		}
	}
}

func (i *installation) check(ctx context.Context) (integrity.Report, error) {
	return integrity.CheckOnline(ctx, integrity.Source{Dir: i.dir, Objects: true},
		integrity.Live{Engine: i.engine, Objects: i.objects}, "check")
}

// damage changes one bit in the middle of the last file that
// matches pattern, or removes the file. undo restores the file.
func (i *installation) damage(t *testing.T, pattern string, remove bool) (name string, undo func()) {
	t.Helper()
	matches, err := filepath.Glob(filepath.Join(i.dir, filepath.FromSlash(pattern)))
	if err != nil || len(matches) == 0 {
		t.Fatalf("Glob(%s) = %v, %v, want a file", pattern, matches, err)
	}
	name = matches[len(matches)-1] // the newest
	original, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(original)
	changed[len(changed)/2] ^= 0x10
	err = os.WriteFile(name, changed, 0o600)
	if remove {
		err = os.Remove(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name, func() {
		if err := os.WriteFile(name, original, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheckFindsDamage checks that a check finds every kind of damage, both while a process uses the directory and
// while none does. In the second case the check must not add, remove or resize a file.
func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	i := newFilled(t)
	damages := []struct {
		name, pattern string
		remove        bool
		want          string // in the line about the damage, "" for no damage
	}{
		{"no damage", "", false, ""},
		{"a table", "engine/pebble/*.sst", false, "restore the last backup"},
		{"a missing table", "engine/pebble/*.sst", true, "restore the last backup"},
		{"the list of tables", "engine/pebble/MANIFEST-*", false, "restore the last backup"},
		{"an object", "objects/??/*", false, "is damaged: its content does not match its digest"},
		{"a missing object", "objects/??/*", true, "is missing, although it is the content of an object"},
		{"the root key", rootkey.Name, false, "the root key is not the one"},
		{"a missing root key", rootkey.Name, true, "is missing, and the data beside it was sealed under it"},
	}
	runAll := func(kind string, unchanged bool, check func(context.Context) (integrity.Report, error)) {
		for _, d := range damages {
			t.Run(strings.ReplaceAll(d.name+" "+kind, " ", "-"), func(t *testing.T) {
				name, undo := "", func() {}
				if d.pattern != "" {
					name, undo = i.damage(t, d.pattern, d.remove)
				}
				before := listFiles(t, i.dir)
				r, err := check(t.Context())
				if err != nil {
					t.Fatalf("check error = %v, want none", err)
				}
				if _, err := os.Lstat(name); filepath.Ext(name) == ".sst" && len(r.Damage) == 0 && errors.Is(err, fs.ErrNotExist) {
					t.Skip("the engine has replaced the table meanwhile, and does not need it")
				}
				defer undo()
				if after := listFiles(t, i.dir); unchanged && before != after {
					t.Errorf("files after the check = %s, want %s", after, before)
				}
				if d.want == "" {
					if len(r.Damage) != 0 || r.Objects != 6 || r.StoreBytes == 0 || r.ObjectBytes == 0 {
						t.Errorf("check of whole data = %+v, want 6 objects and no damage", r)
					}
					return
				}
				if len(r.Damage) == 0 || !strings.Contains(r.Damage[0].Error(), d.want) {
					t.Fatalf("damage = %v, want a line with %q", r.Damage, d.want)
				}
				for _, line := range r.Damage {
					if strings.Contains(line.Error(), "\n") {
						t.Errorf("damage = %q, want one line", line)
					}
				}
			})
		}
	}
	// While the directory is used, a check may change files, because the store writes to its log.
	runAll("while it is used", false, i.check)
	// Create the copy that a killed check leaves.
	if err := i.engine.Checkpoint(t.Context(), filepath.Join(i.dir, "check", "engine")); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(i.dir, "check", "lock"), nil, 0o600),
		os.Chmod(filepath.Join(i.dir, "check"), 0o700), integrity.RemoveStale(filepath.Join(i.dir, "check"))); err != nil {
		t.Errorf("RemoveStale() = %v, want success", err)
	}
	if _, err := os.Lstat(filepath.Join(i.dir, "check")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy of a killed check after RemoveStale(): %v, want it removed", err)
	}
	if err := i.engine.Close(); err != nil {
		t.Fatal(err)
	}
	runAll("at rest", true, func(ctx context.Context) (integrity.Report, error) {
		return integrity.CheckOffline(ctx, integrity.Source{Dir: i.dir, Objects: true})
	})
}

// listFiles lists the files of a directory with their sizes, except locks.
func listFiles(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			_, _ = fmt.Fprintf(&out, "%s %d\n", path, info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestCheckEndsWithItsContext checks that a check with a canceled context fails, and does not report unread data as
// damage.
func TestCheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	i := newFilled(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := i.check(ctx); !errors.Is(err, context.Canceled) || len(r.Damage) != 0 {
		t.Errorf("check(canceled) = %v, %v, want no damage and %v", r.Damage, err, context.Canceled)
	}
}

// deletingEngine deletes an object immediately after a checkpoint that contains the object.
type deletingEngine struct {
	*embedded.Backend
	objects *files.Bucket
}

func (d deletingEngine) Checkpoint(ctx context.Context, dir string) error {
	return errors.Join(d.Backend.Checkpoint(ctx, dir), d.objects.Delete(ctx, "artifacts/20-0"))
}

// TestObjectDeletedDuringACheckIsNoDamage deletes an object during a check. The check must not report
// damage, because the content of the object stays until the check ends. Then the content is deleted.
func TestObjectDeletedDuringACheckIsNoDamage(t *testing.T) {
	i := newFilled(t)
	live := integrity.Live{Engine: deletingEngine{i.engine, i.objects}, Objects: i.objects}
	r, err := integrity.CheckOnline(t.Context(), integrity.Source{Dir: i.dir, Objects: true}, live, "check")
	if err != nil {
		t.Fatalf("CheckOnline() error = %v, want nil", err)
	}
	if len(r.Damage) > 0 {
		t.Errorf("CheckOnline() reports the damage %v, want none", r.Damage)
	}
	if contents, err := filepath.Glob(filepath.Join(i.dir, "objects", "??", "*")); err != nil ||
		len(contents) != r.Objects-1 {
		t.Errorf("contents of objects after the check = %d, %v, want %d", len(contents), err, r.Objects-1)
	}
}
