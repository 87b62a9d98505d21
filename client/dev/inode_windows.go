package dev

import "io/fs"

// inode is what a file has beside its name; there the time of a change has to tell.
func inode(fs.FileInfo) uint64 { return 0 }
