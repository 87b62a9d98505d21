package embedded

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errMoved means that the store writes to files that no start will find.
// The system accepts writes to open files even after they were removed.
var errMoved = errors.New("its files were removed, moved or replaced while they were in use")

// lockFile is Pebble's lock file, which exists while the files are open.
const lockFile = "LOCK"

func (b *Backend) lockPath() string {
	return b.o.FS.PathJoin(b.o.FS.PathJoin(b.o.Dir, filesFolder), lockFile)
}

// statLock returns the fs.FileInfo of the lock file. os.SameFile accepts only the system's own
// fs.FileInfo, not Pebble's wrapper.
func (b *Backend) statLock() (fs.FileInfo, error) {
	if vfs.Root(b.o.FS) == vfs.Default {
		return os.Stat(b.lockPath())
	}
	return b.o.FS.Stat(b.lockPath())
}

// recordLockInfo records the identity of the lock file when the store is opened.
func (b *Backend) recordLockInfo() (err error) {
	if b.lockInfo, err = b.statLock(); err != nil {
		return fmt.Errorf("find the store's files: %w", err)
	}
	os.SameFile(b.lockInfo, b.lockInfo) // some systems read the identity of a file only at the first call of SameFile
	return nil
}

// checkNotMoved returns errMoved if the next start would not find the open files. It takes 2 µs, while an fsync takes
// hundreds of microseconds.
func (b *Backend) checkNotMoved() error {
	switch now, err := b.statLock(); {
	case errors.Is(err, fs.ErrNotExist):
		return errMoved
	case err != nil:
		return fmt.Errorf("find the store's files: %w", err)
	// In a file system in memory, os.SameFile is false even for the same file.
	case os.SameFile(b.lockInfo, b.lockInfo) && !os.SameFile(b.lockInfo, now):
		return errMoved
	}
	return nil
}
