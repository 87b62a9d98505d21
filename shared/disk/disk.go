// Package disk knows what systems do differently about files: whether a folder
// can be synced, who may read a file, and what is none; and what to do about their errors.
//
// What it is not: a file system. Packages os and vfs are.
//
// Read disk.go first, then refusal.go, which lists errors that do not mean a damaged file. disk_unix.go and
// disk_windows.go hold what differs; map_unix.go and map_windows.go map a file into memory.
package disk

import (
	"errors"
	"io/fs"
	"os"
)

// Cause strips the operation and the paths of a file error, for a sentence that
// names the path itself.
func Cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

// ErrNoFile is of a name that leads to a folder, a pipe or a device.
var ErrNoFile = errors.New("it is no ordinary file")

// Keep opens a file that a program keeps for itself, to read and to write, and makes it with mode where there is none. What is no ordinary
// file is refused with ErrNoFile before it is opened: a pipe would have its reader wait for ever.
func Keep(path string, mode fs.FileMode) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNoFile
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode) //nolint:gosec // G304: the caller's file
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // it has become another one since
		return nil, errors.Join(ErrNoFile, err, f.Close())
	}
	return f, nil
}
