package disk_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/shared/base/disk"
)

func TestMapReturnsFileContents(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := disk.Map(path); err != nil || string(got) != "weights" {
		t.Errorf("Map() = %q, %v, want \"weights\" and no error", got, err)
	}
	if _, err := disk.Map(path + "-none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Map(missing file) error = %v, want fs.ErrNotExist", err)
	}
}
