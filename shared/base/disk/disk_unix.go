//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// SyncFolder writes a folder to disk (fsync), so that the names in it survive a power failure.
func SyncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // G304: the caller's folder
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// OwnedByUser reports whether a file belongs to the user of this process.
func OwnedByUser(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// Exposed reports whether a file's mode allows the group or other users to read, write or execute it.
func Exposed(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }
