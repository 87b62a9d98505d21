// Package disk knows what systems do differently about files: whether a folder
// can be synced, and who may read a file; and what is to be told of their errors.
//
// What it is not: a file system. Packages os and vfs are.
//
// Read disk.go first; disk_unix.go and disk_windows.go hold what differs, map_unix.go and map_windows.go map a file
// into memory.
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
