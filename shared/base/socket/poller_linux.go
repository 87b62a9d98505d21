package socket

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Poller reports which of many sockets have data to read or have ended, without
// a goroutine for each (epoll(7)). Create it with NewPoller, and Close it.
type Poller struct {
	file *os.File
	raw  syscall.RawConn
}

// NewPoller returns a Poller without sockets. The error is errors.ErrUnsupported on systems other than Linux.
func NewPoller() (*Poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("socket: wait for many: %w", err)
	}
	// The epoll descriptor is a non-blocking file, so the runtime's own poller watches it, and Wait does not block a thread.
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: wait for many: %w", err), unix.Close(fd))
	}
	file := os.NewFile(uintptr(fd), "epoll")
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket: wait for many: %w", err), file.Close())
	}
	return &Poller{file, raw}, nil
}

// Add makes Wait return id one time, when c has data to read or its peer has closed it. If that is already the case,
// Wait returns id immediately. Call Add again for the next time. If this process closes c, Wait does not return id.
// The error is net.ErrClosed if c is already closed, and os.ErrClosed after Close.
func (p *Poller) Add(c syscall.Conn, id uint64) error {
	conn, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("socket: wait for one of many: %w", err)
	}
	//nolint:gosec // G115: Fd and Pad are the two halves of id
	event := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(uint32(id)), Pad: int32(id >> 32),
	}
	ctlErr := p.raw.Control(func(epoll uintptr) {
		ctlErr := conn.Control(func(fd uintptr) {
			err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, int(fd), &event)
			if errors.Is(err, unix.EEXIST) { // the socket was added before
				err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, int(fd), &event)
			}
		})
		err = errors.Join(err, ctlErr)
	})
	if ctlErr != nil {
		err = os.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("socket: wait for one of many: %w", err)
	}
	return nil
}

// maxReady is the maximum number of sockets that one Wait returns.
const maxReady = 64

// Wait waits until at least one added socket is ready, and appends the ids of up to maxReady ready sockets to ids.
// Only one goroutine can call it at a time. The error is os.ErrClosed after Close.
func (p *Poller) Wait(ids []uint64) ([]uint64, error) {
	var (
		events [maxReady]unix.EpollEvent
		n      int
		err    error
	)
	readErr := p.raw.Read(func(epoll uintptr) bool {
		n, err = unix.EpollWait(int(epoll), events[:], 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
	if readErr != nil {
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

// Close ends Wait and removes all sockets.
func (p *Poller) Close() error { return p.file.Close() }
