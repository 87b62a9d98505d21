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

func openFolder(t *testing.T, path string) *staging.Folder {
	t.Helper()
	f, err := staging.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(path), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func fileNames(t *testing.T, dir string) (out []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestForeignFolderIsNotEmptied checks that Open fails and deletes nothing if its path is not a leftover
// staging folder. Another user could have created such a link or folder in a folder such as /tmp.
func TestForeignFolderIsNotEmptied(t *testing.T) {
	for name, prepare := range map[string]func(dir, path string) error{
		"another folder": func(_, path string) error { return os.Mkdir(path, 0o700) },
		"a link to a folder that has a lock": func(dir, path string) error {
			other := filepath.Join(dir, "kept")
			return errors.Join(os.Mkdir(other, 0o700), os.WriteFile(filepath.Join(other, "lock"), nil, 0o600),
				os.Symlink(other, path))
		},
		"a folder whose lock is a link": func(dir, path string) error {
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(dir, "linked"), []byte("x"), 0o600),
				os.Symlink(filepath.Join(dir, "linked"), filepath.Join(path, "lock")))
		},
		"a file": func(_, path string) error { return os.WriteFile(path, nil, 0o600) },
		"a folder that others may write to": func(_, path string) error {
			if runtime.GOOS == "windows" {
				return os.WriteFile(path, nil, 0o600)
			}
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "lock"), nil, 0o600),
				os.Chmod(path, 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "b.unfinished")
			if err := prepare(dir, path); err != nil {
				t.Fatal(err)
			}
			foreign := filepath.Join(path, "precious")
			if err := os.WriteFile(foreign, []byte("x"), 0o600); err != nil {
				foreign = path // a file instead of a folder
			}
			if _, err := staging.Open(path); err == nil || !strings.Contains(err.Error(), "rename it") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("Open(foreign folder) = %v, want one line with \"rename it\"", err)
			}
			if _, err := os.Lstat(foreign); err != nil {
				t.Errorf("%s after Open(): %v, want it unchanged", foreign, err)
			}
			if linked, err := os.ReadFile(filepath.Join(dir, "linked")); err == nil && len(linked) == 0 {
				t.Error("the target of the linked lock is empty, want it unchanged")
			}
		})
	}
}

func TestFolderIsExclusiveAndRemovedOnClose(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "data.restoring")
	writeFile(t, filepath.Join(path, "new", "left by a kill"))
	writeFile(t, filepath.Join(path, "lock"))
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	f := openFolder(t, path)
	if got := fileNames(t, path); len(got) != 1 {
		t.Errorf("files after Open() = %v, want the lock only", got)
	}
	if _, err := staging.Open(path); !errors.Is(err, staging.ErrInUse) {
		t.Errorf("second Open() = %v, want %v", err, staging.ErrInUse)
	}
	writeFile(t, f.Path("new", "file"))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := fileNames(t, dir); len(got) != 0 {
		t.Errorf("files after Close() = %v, want none", got)
	}
}

func TestMoveToNonEmptyTargetIsRefused(t *testing.T) {
	dir := t.TempDir()
	f := openFolder(t, filepath.Join(dir, "staging"))
	t.Cleanup(func() { _ = f.Close() })
	absent, empty, full, file := filepath.Join(dir, "absent"), filepath.Join(dir, "empty"), filepath.Join(dir, "full"),
		filepath.Join(dir, "file")
	if err := os.Mkdir(empty, 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(full, "other"))
	writeFile(t, file)
	for _, to := range []string{absent, empty} {
		writeFile(t, f.Path("new", "below", "file"))
		if err := f.MoveTo("new", to); err != nil {
			t.Fatal(err)
		}
		if got := fileNames(t, filepath.Join(to, "below")); len(got) != 1 {
			t.Errorf("files in %s = %v, want 1", to, got)
		}
		if _, err := os.Stat(f.Path("new")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Stat(source) after MoveTo() = %v, want %v", err, fs.ErrNotExist)
		}
	}
	writeFile(t, f.Path("new", "file"))
	for to, want := range map[string]string{full: "holds something already", file: "cannot be read"} {
		if err := f.MoveTo("new", to); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("MoveTo(%s) = %v, want one line with %q", to, err, want)
		}
	}
	if got := fileNames(t, full); len(got) != 1 {
		t.Errorf("files after the refusal = %v, want 1", got)
	}
}

func TestResolvedPathHasNoLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder, link, dangling := filepath.Join(dir, "real"), filepath.Join(dir, "link"), filepath.Join(dir, "dangling")
	if err := errors.Join(os.Mkdir(folder, 0o700), os.Symlink(folder, link),
		os.Symlink(filepath.Join(dir, "absent"), dangling)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		folder + "/": folder, link: folder, filepath.Join(link, "new"): filepath.Join(folder, "new"),
		filepath.Join(dir, "new"): filepath.Join(dir, "new"), dangling: dangling,
	} {
		if got, err := staging.Resolve(path); err != nil || got != want {
			t.Errorf("Resolve(%s) = %s, %v, want %s and no error", path, got, err, want)
		}
	}
	if _, err := staging.Resolve(filepath.Join(dir, "absent", "new")); err == nil ||
		!strings.Contains(err.Error(), "make the directory around it") {
		t.Errorf("Resolve(in a missing directory) = %v, want an error with the remedy", err)
	}
}
