//go:build unix

package disk

import (
	"fmt"
	"os"
	"syscall"
)

// Map gives the bytes of a file that nobody changes, for as long as the process lives, without reading it: what is
// looked at is read then, and the system may forget it again. An empty file is a fault, and one that does not exist fs.ErrNotExist.
func Map(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // G304: the caller's file
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	about, err := file.Stat()
	if err != nil {
		return nil, err
	}
	bytes, err := syscall.Mmap(int(file.Fd()), 0, int(about.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return bytes, nil
}
