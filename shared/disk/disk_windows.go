package disk

import "io/fs"

// SyncFolder does nothing: NTFS has the names in a folder outlive a power cut by
// its journal, and no call that waits for it.
func SyncFolder(string) error { return nil }

// Ours is always true: files are of those whom their folder is for.
func Ours(fs.FileInfo) bool { return true }

// Exposed is never true: files have no mode here, and are for those whom their
// folder is for.
func Exposed(fs.FileMode) bool { return false }
