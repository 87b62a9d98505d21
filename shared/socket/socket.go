// Package socket knows what systems call the same things of TCP differently: the
// errors of connections, what can be read of one without waiting, which of many have
// something to be read, and how many sockets a process may have.
//
// What it is not: a connection. Packages net and crypto/tls have those; packages
// listen and upstream ask here what the errors and descriptors of net mean.
//
// Read socket.go first; socket_unix.go and socket_windows.go are one function each
// for what differs, readiness_linux.go is for many sockets at once.
package socket

import (
	"errors"
	"io"
)

// InUse reports whether an address cannot be listened on because somebody does.
func InUse(err error) bool { return errors.Is(err, errInUse) }

// Refused reports whether nobody listens at the address that was dialed.
func Refused(err error) bool { return errors.Is(err, errRefused) }

// Closed reports whether the other side has ended a connection, in order or not.
func Closed(err error) bool {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return true
	}
	for _, broken := range connectionBroken() {
		if errors.Is(err, broken) {
			return true
		}
	}
	return false
}
