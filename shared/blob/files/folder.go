package files

import (
	"errors"
	"os"
	"runtime"
)

// syncFolder has the names in a folder outlive a power cut. Windows keeps them
// by itself and has no such call.
func syncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path) //nolint:gosec // G304: a folder of the bucket
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
