//go:build !unix

package listen

// descriptors is how many files the process may have open, where nobody says.
func descriptors() uint64 { return 16_384 }
