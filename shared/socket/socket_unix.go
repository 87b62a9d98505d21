//go:build unix

package socket

import (
	"errors"
	"syscall"
)

const (
	errInUse   = syscall.EADDRINUSE
	errRefused = syscall.ECONNREFUSED
)

func connectionBroken() [2]error { return [2]error{syscall.ECONNRESET, syscall.EPIPE} }

// ErrNothing is what Read answers for a socket of which nothing can be read now.
const ErrNothing = syscall.EAGAIN

// Read reads what a non-blocking socket has, 0 at its end, without waiting.
func Read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

// Silent reports whether a socket is open and nothing can be read of it. peek is
// room of a byte or more, so that none is made for each look.
func Silent(fd uintptr, peek []byte) bool {
	_, _, err := syscall.Recvfrom(int(fd), peek, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return errors.Is(err, syscall.EAGAIN)
}

// Descriptors is how many files and sockets the process may have open.
func Descriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultDescriptors
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}

// defaultDescriptors is the least that systems give.
const defaultDescriptors = 1024
