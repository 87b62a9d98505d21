// Package disk knows what systems do differently about files: whether a folder
// can be synced, and who may read a file.
//
// What it is not: a file system. Packages os and vfs are.
//
// disk_unix.go and disk_windows.go are all of it.
package disk
