//go:build unix

package disk

import (
	"fmt"
	"os"
	"syscall"
)

// Map maps a file into memory without reading it, for the life of the process. The file must not change. The system
// reads pages when the process accesses them, and can drop them again. Map returns an error for an empty file, and
// fs.ErrNotExist if the file does not exist.
func Map(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // G304: the caller's file
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data, err := syscall.Mmap(int(file.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", path, err)
	}
	return data, nil
}
