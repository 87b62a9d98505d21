package takeover

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// lockOld keeps the version that made the data from starting over it, and refuses
// while it runs. The lock's file is only read.
func lockOld(old string) (release func(), err error) {
	file, err := os.Open(filepath.Join(old, "lock")) //nolint:gosec // G304: the operator names the directory
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil // a copy
	}
	if err != nil {
		return nil, fmt.Errorf("look whether %s is in use: %w", old, err)
	}
	release = func() { _ = file.Close() }
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_SH|syscall.LOCK_NB); err != nil {
		release()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errInUse(old)
		}
		return nil, fmt.Errorf("look whether %s is in use: %w", old, err)
	}
	return release, nil
}
