package disk

import "os"

// Map gives the bytes of a file that nobody changes. Here they are read: an empty file has none, and one that does not exist
// is fs.ErrNotExist.
func Map(path string) ([]byte, error) {
	return os.ReadFile(path) //nolint:gosec // G304: the caller's file
}
