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

func connectionBroken() [2]error { return [2]error{windows.WSAECONNRESET, windows.WSAECONNABORTED} }

// ErrNothing is what Read answers for a socket of which nothing can be read now.
const ErrNothing = syscall.EAGAIN

// Read reads what a socket has, 0 at its end, without waiting.
func Read(fd uintptr, p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if Silent(fd, nil) {
		return 0, ErrNothing
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

// Silent reports whether a socket is open and nothing can be read of it: WSAPoll
// tells of bytes, of an end and of an error alike. peek is for other systems.
func Silent(fd uintptr, _ []byte) bool {
	poll := pollFD{fd: fd, events: pollRead}
	n, _, _ := wsaPoll.Call(uintptr(unsafe.Pointer(&poll)), 1, 0) //nolint:gosec // G103: as LazyProc.Call wants it
	return n == 0
}

// Descriptors is how many sockets the process may have open: Windows has no such
// bound, and gives memory for them.
func Descriptors() uint64 { return 16_384 }
