package embedded

import (
	"errors"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// readFile returns the content of a file.
func readFile(fs vfs.FS, path string) ([]byte, error) {
	file, err := fs.Open(path)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(file)
	return raw, errors.Join(err, file.Close())
}

// writeFile replaces a file's content. After a kill or a power cut,
// the file has either the old content or the whole new content.
func writeFile(fs vfs.FS, path string, content []byte) error {
	temp := path + ".new"
	file, err := fs.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := fs.Rename(temp, path); err != nil {
		return err
	}
	return syncFolder(fs, fs.PathDir(path))
}

// syncFolder syncs a folder, so that the names of its files survive a power cut.
func syncFolder(fs vfs.FS, path string) error {
	dir, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// makeFolder creates a folder and its missing parents. It syncs the
// folder that contains each of them, so that all of them survive a power cut.
func makeFolder(fs vfs.FS, path string) error {
	var parents []string // parents of the missing folders
	for dir := path; ; dir = fs.PathDir(dir) {
		if _, err := fs.Stat(dir); err == nil || fs.PathDir(dir) == dir {
			break
		}
		parents = append(parents, fs.PathDir(dir))
	}
	if err := fs.MkdirAll(path, 0o700); err != nil {
		return err
	}
	for _, dir := range parents {
		if err := syncFolder(fs, dir); err != nil {
			return err
		}
	}
	return nil
}
