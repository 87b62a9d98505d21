package disk

import "io/fs"

// SyncFolder does nothing. NTFS has a journal, so the names in a folder survive
// a power failure. Windows has no call that waits until they are in the journal.
func SyncFolder(string) error { return nil }

// OwnedByUser always returns true: a folder's permissions determine who can use its files.
func OwnedByUser(fs.FileInfo) bool { return true }

// Exposed always returns false: files have no mode here, and a folder's permissions determine who can use its files.
func Exposed(fs.FileMode) bool { return false }
