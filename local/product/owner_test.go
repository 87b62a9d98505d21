//go:build unix

package product

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestRootsFilesBelongToTheDirectorysOwner runs a command as root. The created files must belong to the owner of the
// directory, so that the service can open them.
func TestRootsFilesBelongToTheDirectorysOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of a file")
	}
	dir := t.TempDir()
	t.Setenv("GATEWRIGHT_DATA_DIR", dir)
	if err := os.Chown(dir, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	root := Server.command(administration{program: Server})
	root.SetArgs([]string{"account", "create", "acme"})
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	dirInfo, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil {
			return err
		}
		if files++; owner(info) != owner(dirInfo) {
			t.Errorf("owner of %s = %d, want %d", path, owner(info), owner(dirInfo))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if files < 5 {
		t.Errorf("the directory has %d files, want at least 5 of an installation", files)
	}
}

func owner(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
