package disk_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gatewright/gatewright/shared/disk"
)

func TestFolderIsSynced(t *testing.T) {
	dir := t.TempDir()
	if err := disk.SyncFolder(dir); err != nil {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		return
	}
	if err := disk.SyncFolder(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestModesThatLetOthersIn(t *testing.T) {
	for mode, want := range map[fs.FileMode]bool{
		0o600: false, 0o400: false, 0o700: false, fs.ModeDir | 0o700: false,
		0o640: true, 0o604: true, 0o610: true, 0o601: true, 0o620: true, 0o602: true,
	} {
		if got := disk.Exposed(mode); got != (want && runtime.GOOS != "windows") {
			t.Errorf("mode %v: exposed %v", mode, got)
		}
	}
}

func TestWhatIsKeptIsAnOrdinaryFile(t *testing.T) {
	dir := t.TempDir()
	file, link, device := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "device")
	if err := errors.Join(os.Symlink(file, link), os.Symlink(os.DevNull, device)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, file, link} { // the first makes it, and the others lose nothing
		f, err := disk.Keep(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Seek(0, io.SeekEnd); err != nil {
			t.Error(err)
		}
		if _, err := f.WriteString("."); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "..." {
		t.Errorf("it has %q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || disk.Exposed(info.Mode()) {
		t.Errorf("it is %v, %v", info, err)
	}
	for _, path := range []string{dir, device} {
		if f, err := disk.Keep(path, 0o600); !errors.Is(err, disk.ErrNoFile) {
			t.Errorf("%s is kept as %v, %v", path, f, err)
		}
	}
	if _, err := disk.Keep(filepath.Join(dir, "none", "file"), 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// TestFileOfAnotherUserIsNotOurs, which root can make one of alone.
func TestFileOfAnotherUserIsNotOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || !disk.Ours(info) {
		t.Errorf("one that was just made is another's: %v", err)
	}
	const nobody = 65534
	if os.Geteuid() != 0 || os.Chown(path, nobody, nobody) != nil {
		t.Skip("nobody but root gives files away")
	}
	if info, err = os.Stat(path); err != nil || disk.Ours(info) {
		t.Errorf("another's is ours: %v", err)
	}
}
