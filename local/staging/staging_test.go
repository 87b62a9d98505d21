package staging_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/local/staging"
)

func open(t *testing.T, path string) *staging.Folder {
	t.Helper()
	f, err := staging.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(path), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	found, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		out = append(out, e.Name())
	}
	return out
}

// TestNobodyElsesFolderIsEmptied has what an operator keeps under the name, and what
// another user puts there, in a folder such as /tmp.
func TestNobodyElsesFolderIsEmptied(t *testing.T) {
	for name, make := range map[string]func(dir, path string) error{
		"another folder": func(_, path string) error { return os.Mkdir(path, 0o700) },
		"a link to a folder that has a lock": func(dir, path string) error {
			kept := filepath.Join(dir, "kept")
			return errors.Join(os.Mkdir(kept, 0o700), os.WriteFile(filepath.Join(kept, "lock"), nil, 0o600), os.Symlink(kept, path))
		},
		"a folder in which the lock is a link": func(dir, path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(dir, "linked"), []byte("x"), 0o600),
				os.Symlink(filepath.Join(dir, "linked"), filepath.Join(path, "lock")))
		},
		"a file": func(_, path string) error { return os.WriteFile(path, nil, 0o600) },
		"a folder into which others may write": func(_, path string) error {
			if runtime.GOOS == "windows" {
				return os.WriteFile(path, nil, 0o600)
			}
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "lock"), nil, 0o600), os.Chmod(path, 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "b.unfinished")
			if err := make(dir, path); err != nil {
				t.Fatal(err)
			}
			precious := filepath.Join(path, "precious")
			if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
				precious = path // it is no folder
			}
			if _, err := staging.Open(path); err == nil || !strings.Contains(err.Error(), "rename it") || strings.Contains(err.Error(), "\n") {
				t.Errorf("it is answered with %v", err)
			}
			if _, err := os.Lstat(precious); err != nil {
				t.Error(err)
			}
			if linked, err := os.ReadFile(filepath.Join(dir, "linked")); err == nil && len(linked) == 0 {
				t.Error("what the lock leads to is emptied")
			}
		})
	}
}

func TestFolderIsOnesAloneAndLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data.restoring")
	write(t, filepath.Join(path, "new", "left by a kill"))
	write(t, filepath.Join(path, "lock"))
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	if got := names(t, path); len(got) != 1 {
		t.Errorf("what a killed one left is there: %v", got)
	}
	if _, err := staging.Open(path); !errors.Is(err, staging.ErrInUse) {
		t.Errorf("a second one is answered with %v", err)
	}
	write(t, f.Path("new", "file"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("afterwards there is %v", got)
	}
}

func TestPlaceIsTakenOnlyWhereNothingIs(t *testing.T) {
	dir := t.TempDir()
	f := open(t, filepath.Join(dir, "staging"))
	t.Cleanup(func() { _ = f.Close() })
	absent, empty, full, file := filepath.Join(dir, "absent"), filepath.Join(dir, "empty"), filepath.Join(dir, "full"), filepath.Join(dir, "file")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(full, "other"))
	write(t, file)
	for _, to := range []string{absent, empty} {
		write(t, f.Path("new", "below", "file"))
		if err := f.Place("new", to); err != nil {
			t.Fatal(err)
		}
		if got := names(t, filepath.Join(to, "below")); len(got) != 1 {
			t.Errorf("%s has %v", to, got)
		}
		if _, err := os.Stat(f.Path("new")); !errors.Is(err, fs.ErrNotExist) {
			t.Error("it is in both places")
		}
	}
	write(t, f.Path("new", "file"))
	for to, want := range map[string]string{full: "holds something already", file: "cannot be read"} {
		if err := f.Place("new", to); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s is answered with %v", to, err)
		}
	}
	if got := names(t, full); len(got) != 1 {
		t.Errorf("what was there became %v", got)
	}
}

func TestResolvedPathHasNoLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder, link, dangling := filepath.Join(dir, "real"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Symlink(folder, link), os.Symlink(filepath.Join(dir, "absent"), dangling)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		folder + "/": folder, link: folder, filepath.Join(link, "new"): filepath.Join(folder, "new"), filepath.Join(dir, "new"): filepath.Join(dir, "new"), dangling: dangling,
	} {
		if got, err := staging.Resolve(path); err != nil || got != want {
			t.Errorf("%s resolves to %s (%v), want %s", path, got, err, want)
		}
	}
	if _, err := staging.Resolve(filepath.Join(dir, "absent", "new")); err == nil || !strings.Contains(err.Error(), "make the directory around it") {
		t.Errorf("a directory in none is answered with %v", err)
	}
}
