//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// SyncFolder has the names in a folder outlive a power cut.
func SyncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // G304: the caller's folder
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Ours reports whether a file is of the user who runs this.
func Ours(info fs.FileInfo) bool {
	its, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(its.Uid) == os.Geteuid()
}

// Exposed reports whether a file's mode lets others than its owner use it.
func Exposed(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }
