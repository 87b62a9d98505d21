package disk_test

import (
	"errors"
	"io/fs"
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
