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
	"github.com/gatewright/gatewright/shared/blob/files"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/embedded"
)

// installation is an opened data directory.
type installation struct {
	dir     string
	engine  *embedded.Backend
	objects *files.Bucket
}

func opened(t *testing.T, dir string) *installation {
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

// filled returns an installation with tables of an earlier start, a log, and objects.
func filled(t *testing.T) *installation {
	t.Helper()
	dir := t.TempDir()
	for range 2 {
		i := opened(t, dir)
		i.put(t, 200)
		if err := i.engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	i := opened(t, dir)
	i.put(t, 20)
	return i
}

func (i *installation) put(t *testing.T, items int) {
	t.Helper()
	for n := range items {
		w := store.Upsert(store.Key{PK: "p", SK: fmt.Sprint(n)}, store.Set(store.At("filler"), strings.Repeat(fmt.Sprint(n), 100)))
		if err := i.engine.Transact(t.Context(), fmt.Sprint(items, "-", n, "-", time.Now().UnixNano()), []store.Write{w}); err != nil {
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
	return integrity.Running(ctx, integrity.Source{Dir: i.dir, Objects: true}, integrity.Live{Engine: i.engine, Objects: i.objects}, "check")
}

// damage changes one bit in the middle of the last file of a pattern, or removes the file. It returns a function that undoes this.
func (i *installation) damage(t *testing.T, pattern string, remove bool) (name string, undo func()) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(i.dir, filepath.FromSlash(pattern)))
	if err != nil || len(found) == 0 {
		t.Fatalf("Glob(%s) = %v, %v, want a file", pattern, found, err)
	}
	name = found[len(found)-1] // the newest
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(whole)
	changed[len(changed)/2] ^= 0x10
	err = os.WriteFile(name, changed, 0o600)
	if remove {
		err = os.Remove(name)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name, func() {
		if err := os.WriteFile(name, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCheckFindsDamage: a check finds every kind of damage, whether a process uses the directory or not. If none does, the check
// changes no file.
func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	i := filled(t)
	damages := []struct {
		name, pattern string
		remove        bool
		want          string // in the line
	}{
		{"nothing", "", false, ""},
		{"a table", "engine/pebble/*.sst", false, "restore the last backup"},
		{"a missing table", "engine/pebble/*.sst", true, "restore the last backup"},
		{"the list of tables", "engine/pebble/MANIFEST-*", false, "restore the last backup"},
		{"an object", "objects/??/*", false, "is damaged: its content does not match its digest"},
		{"a missing object", "objects/??/*", true, "is missing, although it is the content of an object"},
		{"the root key", rootkey.Name, false, "the root key is not the one"},
		{"a missing root key", rootkey.Name, true, "is missing, and the data beside it was sealed under it"},
	}
	every := func(kind string, unchanged bool, check func(context.Context) (integrity.Report, error)) {
		for _, d := range damages {
			t.Run(strings.ReplaceAll(d.name+" "+kind, " ", "-"), func(t *testing.T) {
				name, undo := "", func() {}
				if d.pattern != "" {
					name, undo = i.damage(t, d.pattern, d.remove)
				}
				before := tree(t, i.dir)
				r, err := check(t.Context())
				if err != nil {
					t.Fatalf("check error = %v, want none", err)
				}
				if _, err := os.Lstat(name); filepath.Ext(name) == ".sst" && len(r.Damage) == 0 && errors.Is(err, fs.ErrNotExist) {
					t.Skip("the engine has replaced the table meanwhile, and does not need it")
				}
				defer undo()
				if after := tree(t, i.dir); unchanged && before != after {
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
	// The store writes to its log meanwhile.
	every("while it is used", false, i.check)
	if err := i.engine.Checkpoint(t.Context(), filepath.Join(i.dir, "check", "engine")); err != nil { // as a kill leaves it
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(i.dir, "check", "lock"), nil, 0o600), os.Chmod(filepath.Join(i.dir, "check"), 0o700), integrity.RemoveLeft(filepath.Join(i.dir, "check"))); err != nil {
		t.Errorf("RemoveLeft() = %v, want success", err)
	}
	if _, err := os.Lstat(filepath.Join(i.dir, "check")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the copy of a killed check after RemoveLeft(): %v, want it removed", err)
	}
	if err := i.engine.Close(); err != nil {
		t.Fatal(err)
	}
	every("at rest", true, func(ctx context.Context) (integrity.Report, error) {
		return integrity.AtRest(ctx, integrity.Source{Dir: i.dir, Objects: true})
	})
}

// tree lists the files of a directory with their sizes, except locks.
func tree(t *testing.T, dir string) string {
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

// TestCheckEndsWithItsContext: a canceled check ends at once, and does not report unread data as damage.
func TestCheckEndsWithItsContext(t *testing.T) {
	t.Parallel()
	i := filled(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := i.check(ctx); !errors.Is(err, context.Canceled) || len(r.Damage) != 0 {
		t.Errorf("check(canceled) = %v, %v, want no damage and %v", r.Damage, err, context.Canceled)
	}
}

// deleting deletes an object right after the checkpoint that has it.
type deleting struct {
	*embedded.Backend
	objects *files.Bucket
}

func (d deleting) Checkpoint(ctx context.Context, dir string) error {
	return errors.Join(d.Backend.Checkpoint(ctx, dir), d.objects.Delete(ctx, "artifacts/20-0"))
}

// TestObjectDeletedDuringACheckIsNoDamage: its content stays until the check ends.
func TestObjectDeletedDuringACheckIsNoDamage(t *testing.T) {
	i := filled(t)
	live := integrity.Live{Engine: deleting{i.engine, i.objects}, Objects: i.objects}
	r, err := integrity.Running(t.Context(), integrity.Source{Dir: i.dir, Objects: true}, live, "check")
	if err != nil {
		t.Fatalf("Running() = %v, want nil", err)
	}
	if len(r.Damage) > 0 {
		t.Errorf("Running() reports the damage %v, want none", r.Damage)
	}
	if found, err := filepath.Glob(filepath.Join(i.dir, "objects", "??", "*")); err != nil || len(found) != r.Objects-1 {
		t.Errorf("after the check %d contents are left (%v), want %d", len(found), err, r.Objects-1)
	}
}
