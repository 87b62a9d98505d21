// Package disk hides the differences between operating systems in the handling of files. It syncs folders, reports
// which users can use a file, and opens only regular files. It also explains the errors of files.
//
// It is not a file system: use package os, or Pebble's package vfs.
//
// Read disk.go first, then advice.go, which lists errors that do not mean a damaged file. disk_unix.go
// and disk_windows.go have the differences; map_unix.go and map_windows.go map a file into memory.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Cause removes the operation and the paths from a file error, for a message that already names the path.
func Cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	if l, ok := errors.AsType[*os.LinkError](err); ok {
		return l.Err
	}
	return err
}

// ErrNotRegular is the error for the path of a folder, a pipe or a device.
var ErrNotRegular = errors.New("it is no ordinary file")

// OpenRegular opens a program's own file for reading and writing, and creates it with mode if it does not exist. It
// returns ErrNotRegular for anything else, because a read from a pipe would block forever. It checks the path before
// it opens the file, and the opened file again.
func OpenRegular(path string, mode fs.FileMode) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, ErrNotRegular
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, mode) //nolint:gosec // G304: the caller's file
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // replaced after the first check
		return nil, errors.Join(ErrNotRegular, err, f.Close())
	}
	return f, nil
}

// ReadAtMost returns everything that r contains. It is an error if r contains more than limit bytes: then ReadAtMost
// reads only one byte more, because a device or a pipe can be endless.
func ReadAtMost(r io.Reader, limit int64) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(content)) > limit {
		return nil, fmt.Errorf("it has more than %d bytes", limit)
	}
	return content, nil
}
