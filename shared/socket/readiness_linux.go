package socket

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Readiness tells of many sockets which have something to be read or have ended, without a
// goroutine for each (epoll(7)). Make one with NewReadiness, and Close it.
type Readiness struct {
	file *os.File
	raw  syscall.RawConn
}

// NewReadiness makes a Readiness that waits for nothing yet. The error is
// errors.ErrUnsupported on systems other than Linux.
func NewReadiness() (*Readiness, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("socket: wait for many: %w", err)
	}
	// Not blocking, it is itself a file that the runtime waits for: Wait holds no thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: wait for many: %w", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket: wait for many: %w", err), file.Close())
	}
	return &Readiness{file, raw}, nil
}

// Add has Wait answer id once, when c has something to be read or has ended: at once if it
// has already. A socket that is closed by this process is forgotten without an answer. The error
// is net.ErrClosed if it was closed before, os.ErrClosed after Close.
func (r *Readiness) Add(c syscall.Conn, id uint64) error {
	of, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("socket: wait for one of many: %w", err)
	}
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(id)), Pad: int32(id >> 32)} //nolint:gosec // G115: both halves of it
	failed := r.raw.Control(func(epoll uintptr) {
		failed := of.Control(func(fd uintptr) {
			err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, int(fd), &event)
			if errors.Is(err, unix.EEXIST) { // from the last time
				err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, int(fd), &event)
			}
		})
		err = errors.Join(err, failed)
	})
	if failed != nil {
		err = os.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("socket: wait for one of many: %w", err)
	}
	return nil
}

// mostReady is how many sockets one Wait answers at most.
const mostReady = 64

// Wait waits until sockets that were added are ready, and appends their ids. It is called by
// one goroutine at a time. The error is os.ErrClosed after Close.
func (r *Readiness) Wait(ids []uint64) ([]uint64, error) {
	var (
		events [mostReady]unix.EpollEvent
		n      int
		err    error
	)
	failed := r.raw.Read(func(epoll uintptr) bool {
		n, err = unix.EpollWait(int(epoll), events[:], 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if failed != nil {
		err = os.ErrClosed
	}
	if err != nil {
		return ids, fmt.Errorf("socket: wait for many: %w", err)
	}
	for _, e := range events[:n] {
		ids = append(ids, uint64(uint32(e.Fd))|uint64(uint32(e.Pad))<<32) //nolint:gosec // G115: as Add has split it
	}
	return ids, nil
}

// Close ends Wait, and forgets all sockets.
func (r *Readiness) Close() error { return r.file.Close() }
