//go:build unix

package disk

import (
	"errors"
	"io/fs"
	"os"
)

// SyncFolder has the names in a folder outlive a power cut.
func SyncFolder(path string) error {
	dir, err := os.Open(path) //nolint:gosec // G304: the caller's folder
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Exposed reports whether a file's mode lets others than its owner use it.
func Exposed(mode fs.FileMode) bool { return mode.Perm()&0o077 != 0 }
