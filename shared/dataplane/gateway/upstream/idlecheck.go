package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/gatewright/gatewright/shared/base/socket"
)

// idleChecker reports without blocking whether anything is left to read from a connection. For a
// plain connection, it checks the socket. Under TLS that is not enough: tls.Conn can hold complete
// or partial records from earlier reads, and bytes on the socket can belong only to TLS itself, such
// as the tickets of TLS 1.3. So idleChecker reads from tls.Conn, and the connection below (underTLS)
// returns wouldBlockError instead of blocking. tls.Conn can be used after a temporary error like this.
// underTLS tracks the lengths of records, so it knows whether tls.Conn holds a partial record.
//
// The zero value never reports a connection as idle.
type idleChecker struct {
	raw   syscall.RawConn
	peek  func(fd uintptr) bool // created once per connection, because it is used for each request
	alive bool                  // whether peek found the socket open, with nothing to read
	below *underTLS             // nil without TLS
}

// checkDepth says which bytes hasNothingToRead checks.
type checkDepth int

const (
	noCheck  checkDepth = iota // no check is running: reads block
	inMemory                   // bytes that were read from the socket
	onSocket                   // also bytes on the socket
)

// prepare prepares the checks for a connection. For a connection without a socket, hasNothingToRead is always false.
func (ic *idleChecker) prepare(tcp net.Conn) error {
	c, ok := tcp.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch a connection: %w", err)
	}
	ic.raw = raw
	var buf [1]byte
	ic.peek = func(fd uintptr) bool {
		ic.alive = socket.Idle(fd, buf[:])
		return true
	}
	return nil
}

// wrapForTLS returns the connection that tls.Client must use instead of tcp.
func (ic *idleChecker) wrapForTLS(tcp net.Conn) net.Conn {
	ic.below = &underTLS{Conn: tcp, raw: ic.raw}
	ic.below.readNow = func(fd uintptr) bool {
		ic.below.n, ic.below.err = socket.Read(fd, ic.below.dst)
		return true
	}
	return ic.below
}

// hasNothingToRead reports whether nothing can be read from conn, up to the given depth. conn is the connection
// given to prepare, or the TLS connection on it. If the result is false, the caller must close the connection.
func (ic *idleChecker) hasNothingToRead(conn net.Conn, depth checkDepth) bool {
	switch {
	case ic.raw == nil:
		return false
	case ic.below != nil:
		ic.below.depth = depth
		n, err := conn.Read(ic.below.buf[:])
		ic.below.depth = noCheck
		wouldBlock := err == error(wouldBlockError{}) //nolint:errorlint // unchanged by tls.Conn
		return n == 0 && wouldBlock && ic.below.atBoundary() && !ic.below.wrote
	case depth == inMemory:
		return true
	}
	ic.alive = false
	return ic.raw.Read(ic.peek) == nil && ic.alive
}

// underTLS is the connection below a tls.Conn.
type underTLS struct {
	net.Conn
	raw   syscall.RawConn
	depth checkDepth
	wrote bool // TLS tried to write during a check

	// readNow reads from the socket into dst, and stores the results in n and err.
	readNow func(fd uintptr) bool
	dst     []byte
	n       int
	err     error
	buf     [1]byte // the buffer for checks; a field to avoid an allocation

	// These fields are the position within the current record (RFC 8446, section 5.1) after the last byte that was read.
	header      [5]byte
	headerBytes int // number of bytes in header, 0 if the header is complete
	remaining   int // number of bytes of the record that are still to be read after its header
}

// wouldBlockError is the error of a read that would block. It is a temporary net.Error, so that tls.Conn allows further
// reads.
type wouldBlockError struct{}

var _ net.Error = wouldBlockError{}

func (wouldBlockError) Error() string   { return "upstream: nothing to read now" }
func (wouldBlockError) Timeout() bool   { return true }
func (wouldBlockError) Temporary() bool { return true }

func (u *underTLS) Read(p []byte) (n int, err error) {
	switch u.depth {
	case noCheck:
		n, err = u.Conn.Read(p)
	case inMemory:
		return 0, wouldBlockError{}
	case onSocket:
		n, err = u.readNonblocking(p)
	}
	u.track(p[:n])
	return n, err
}

// readNonblocking reads from the socket without blocking.
func (u *underTLS) readNonblocking(p []byte) (int, error) {
	u.dst, u.n, u.err = p, 0, nil
	err := u.raw.Read(u.readNow)
	u.dst = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(u.err, socket.ErrWouldBlock):
		return 0, wouldBlockError{}
	case u.err != nil:
		return 0, u.err
	case u.n == 0:
		return 0, io.EOF
	}
	return u.n, nil
}

// Write fails during a check, because a write can block. If TLS tries
// to write during a check, the connection can't be used any more.
func (u *underTLS) Write(p []byte) (int, error) {
	if u.depth != noCheck {
		u.wrote = true
		return 0, wouldBlockError{}
	}
	return u.Conn.Write(p)
}

// track updates the position within the current record.
func (u *underTLS) track(p []byte) {
	for len(p) > 0 {
		if u.remaining > 0 {
			n := min(u.remaining, len(p))
			u.remaining -= n
			p = p[n:]
			continue
		}
		n := copy(u.header[u.headerBytes:], p)
		u.headerBytes += n
		p = p[n:]
		if u.headerBytes == len(u.header) {
			u.headerBytes = 0
			u.remaining = int(u.header[3])<<8 | int(u.header[4])
		}
	}
}

// atBoundary reports whether only whole records were read.
func (u *underTLS) atBoundary() bool { return u.headerBytes == 0 && u.remaining == 0 }
