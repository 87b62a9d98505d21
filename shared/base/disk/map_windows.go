package disk

import "os"

// Map returns the content of a file, which must not change. On Windows it reads the whole file. For an empty file it
// returns no bytes and no error. It returns fs.ErrNotExist if the file does not exist.
func Map(path string) ([]byte, error) {
	return os.ReadFile(path) //nolint:gosec // G304: the caller's file
}
