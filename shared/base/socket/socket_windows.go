package socket

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

const (
	errInUse   = windows.WSAEADDRINUSE
	errRefused = windows.WSAECONNREFUSED
)

func brokenErrors() [2]error { return [2]error{windows.WSAECONNRESET, windows.WSAECONNABORTED} }

// ErrWouldBlock is the error that Read returns if a socket has nothing to read now.
const ErrWouldBlock = syscall.EAGAIN

// Read reads from a socket without waiting. It returns 0 and no error at the end of the stream.
func Read(fd uintptr, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if Idle(fd, nil) {
		return 0, ErrWouldBlock
	}
	into := windows.WSABuf{Len: uint32(len(p)), Buf: &p[0]} //nolint:gosec // G115: a record of TLS at most
	var n, flags uint32
	err := windows.WSARecv(windows.Handle(fd), &into, 1, &n, &flags, nil, nil)
	return int(n), err
}

// pollFD is WSAPOLLFD (winsock2.h).
type pollFD struct {
	fd      uintptr
	events  int16
	revents int16
}

const pollRead = 0x0100 | 0x0200 // POLLRDNORM | POLLRDBAND

var wsaPoll = windows.NewLazySystemDLL("ws2_32.dll").NewProc("WSAPoll")

// Idle reports whether a socket is open and has nothing to read. WSAPoll returns a socket that has data, an end or an
// error. The second parameter is used only on other systems.
func Idle(fd uintptr, _ []byte) bool {
	poll := pollFD{fd: fd, events: pollRead}
	n, _, _ := wsaPoll.Call(uintptr(unsafe.Pointer(&poll)), 1, 0) //nolint:gosec // G103: as LazyProc.Call wants it
	return n == 0
}

// MaxDescriptors returns a number of sockets that a process can have open. Windows has no limit except its memory.
func MaxDescriptors() uint64 { return 16_384 }
