// Package socket hides the differences between operating systems in TCP sockets. It classifies the errors of
// connections, reads without waiting, waits for many sockets at once, and returns the maximum number of sockets of a
// process.
//
// It does not implement connections: packages net and crypto/tls do. Packages listen
// and upstream use this package to interpret the errors and descriptors of net.
//
// Read socket.go first; socket_unix.go and socket_windows.go have the same functions for each system. poller_linux.go
// waits for many sockets at once.
package socket

import (
	"errors"
	"io"
)

// InUse reports whether listening failed because the address is already in use.
func InUse(err error) bool { return errors.Is(err, errInUse) }

// Refused reports whether the dialed address refused the connection, since no process listens there.
func Refused(err error) bool { return errors.Is(err, errRefused) }

// Closed reports whether the other side has ended a connection, gracefully or not.
func Closed(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	for _, broken := range brokenErrors() {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}
