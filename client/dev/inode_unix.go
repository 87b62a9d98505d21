//go:build unix

package dev

import (
	"io/fs"
	"syscall"
)

// inode returns the inode number of a file, which shows that another file has replaced it under the same name. Many
// editors replace a file when they save it.
func inode(info fs.FileInfo) uint64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ino
	}
	return 0
}
