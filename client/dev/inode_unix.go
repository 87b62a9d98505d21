//go:build unix

package dev

import (
	"io/fs"
	"syscall"
)

// inode tells a file from another that has taken its name, as editors do that write by renaming.
func inode(info fs.FileInfo) uint64 {
	if its, ok := info.Sys().(*syscall.Stat_t); ok {
		return its.Ino
	}
	return 0
}
