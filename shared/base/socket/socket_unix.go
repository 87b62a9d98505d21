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

func brokenErrors() [2]error { return [2]error{syscall.ECONNRESET, syscall.EPIPE} }

// ErrWouldBlock is the error that Read returns if a socket has nothing to read now.
const ErrWouldBlock = syscall.EAGAIN

// Read reads from a non-blocking socket without waiting. It returns 0 and no error at the end of the stream.
func Read(fd uintptr, p []byte) (int, error) { return syscall.Read(int(fd), p) }

// Idle reports whether a socket is open and has nothing to read. peek
// is a buffer of at least one byte, so that calls need not allocate one.
func Idle(fd uintptr, peek []byte) bool {
	_, _, err := syscall.Recvfrom(int(fd), peek, syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	return errors.Is(err, syscall.EAGAIN)
}

// MaxDescriptors returns the maximum number of open files and sockets of the process.
func MaxDescriptors() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return defaultDescriptors
	}
	return uint64(limit.Cur) //nolint:unconvert // it is signed on some systems
}

// defaultDescriptors is the usual limit on Linux, for the case that the limit cannot be read.
const defaultDescriptors = 1024
