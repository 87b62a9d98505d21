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

// TestDataAreTheDirectorysUsers: a command that root types leaves nothing that the service's own user cannot open.
func TestDataAreTheDirectorysUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("root alone may give files away")
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
	own, err := os.Stat(dir)
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
		if files++; owner(info) != owner(own) {
			t.Errorf("%s is %d's, want %d", path, owner(info), owner(own))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if files < 5 {
		t.Errorf("%d files are there: no installation was made", files)
	}
}

func owner(info fs.FileInfo) uint32 { return info.Sys().(*syscall.Stat_t).Uid }
