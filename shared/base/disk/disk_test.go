package disk_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/disk"
)

func TestFolderIsSynced(t *testing.T) {
	dir := t.TempDir()
	if err := disk.SyncFolder(dir); err != nil {
		t.Errorf("SyncFolder() = %v, want nil", err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := disk.SyncFolder(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SyncFolder(missing folder) = %v, want %v", err, fs.ErrNotExist)
	}
}

func TestExposedModes(t *testing.T) {
	for mode, want := range map[fs.FileMode]bool{
		0o600: false, 0o400: false, 0o700: false, fs.ModeDir | 0o700: false,
		0o640: true, 0o604: true, 0o610: true, 0o601: true, 0o620: true, 0o602: true,
	} {
		if got := disk.Exposed(mode); got != (want && runtime.GOOS != "windows") {
			t.Errorf("Exposed(%v) = %v, want %v (never on Windows: %s)", mode, got, want, runtime.GOOS)
		}
	}
}

func TestOpenRegularRefusesOtherFiles(t *testing.T) {
	dir := t.TempDir()
	file, link, device := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "device")
	if err := errors.Join(os.Symlink(file, link), os.Symlink(os.DevNull, device)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file, link} { // the first call creates the file, and the others keep its content
		f, err := disk.OpenRegular(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			t.Errorf("Seek() of %s: error = %v, want none", path, err)
		}
		if _, err := f.WriteString("."); err != nil {
			t.Errorf("WriteString() of %s: error = %v, want none", path, err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("Close() of %s = %v, want nil", path, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "..." {
		t.Errorf("ReadFile() = %q, %v, want \"...\" and no error", text, err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if disk.Exposed(info.Mode()) {
		t.Errorf("mode of the created file = %v, want one that is not exposed", info.Mode())
	}
	for _, path := range []string{dir, device} {
		if f, err := disk.OpenRegular(path, 0o600); !errors.Is(err, disk.ErrNotRegular) {
			t.Errorf("OpenRegular(%s) = %v, %v, want %v", path, f, err, disk.ErrNotRegular)
		}
	}
	if _, err := disk.OpenRegular(filepath.Join(dir, "none", "file"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("OpenRegular(file in a missing folder) error = %v, want %v", err, fs.ErrNotExist)
	}
}

// TestFileOfAnotherUserIsNotOwned checks a new file and, if the test runs as root, a file of another user. Only root
// can change the owner of a file.
func TestFileOfAnotherUserIsNotOwned(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if !disk.OwnedByUser(info) {
		t.Error("OwnedByUser(new file) = false, want true")
	}
	const nobody = 65534
	if os.Geteuid() != 0 || os.Chown(path, nobody, nobody) != nil {
		t.Skip("only root can change the owner of a file")
	}
	if info, err = os.Stat(path); err != nil {
		t.Fatal(err)
	}
	if disk.OwnedByUser(info) {
		t.Error("OwnedByUser(file of another user) = true, want false")
	}
}

// TestReadAtMostNeverTruncates checks that a text above the limit is an error, and that an endless source ends.
func TestReadAtMostNeverTruncates(t *testing.T) {
	for size, wantError := range map[int]bool{0: false, 4: false, 5: true, 9: true} {
		text := strings.Repeat("x", size)
		got, err := disk.ReadAtMost(strings.NewReader(text), 4)
		if (err != nil) != wantError {
			t.Errorf("ReadAtMost(%d bytes, limit 4) error = %v, want an error: %t", size, err, wantError)
		}
		if err == nil && string(got) != text {
			t.Errorf("ReadAtMost(%d bytes, limit 4) = %q, want %q", size, got, text)
		}
	}
	if got, err := disk.ReadAtMost(endless{}, 4); err == nil {
		t.Errorf("ReadAtMost(endless source) = %q, want an error", got)
	}
}

// endless is a source that never ends.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
