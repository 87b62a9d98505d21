//go:build unix

package listen

import "syscall"

// descriptors is how many files the process may have open.
func descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultDescriptors
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}

// defaultDescriptors is the least that systems give.
const defaultDescriptors = 1024
