package upstream

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"github.com/gatewright/gatewright/shared/socket"
)

// silence tells without waiting whether anything can still be read of a
// connection. On a plain one that is a look at the socket. Under TLS it is not
// enough: records may have been read of the socket and lie in tls.Conn, whole or
// in part, and bytes on the socket may be no more than TLS's own, such as the
// tickets of TLS 1.3. So tls.Conn itself is read, over a connection that says
// "nothing now" in place of waiting. tls.Conn goes on after an error that calls
// itself temporary, as a deadline's does; that no bytes of a record that began
// are left in it, the connection under it knows from the lengths of records.
//
// The zero value never calls a connection silent.
type silence struct {
	raw   syscall.RawConn
	peek  func(fd uintptr) bool // one value a connection: it is called for each request
	alive bool                  // what peek saw
	below *underTLS             // nil without TLS
}

// depth is how far silent looks.
type depth int

const (
	reading  depth = iota // it does not look: reads wait
	inMemory              // what was read of the socket
	onSocket              // that, and what the socket has
)

// watch prepares for a connection; one without a socket is never silent.
func (s *silence) watch(tcp net.Conn) error {
	c, ok := tcp.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("watch a connection: %w", err)
	}
	s.raw = raw
	var one [1]byte
	s.peek = func(fd uintptr) bool {
		s.alive = socket.Silent(fd, one[:])
		return true
	}
	return nil
}

// under returns the connection to put TLS on.
func (s *silence) under(tcp net.Conn) net.Conn {
	s.below = &underTLS{Conn: tcp, raw: s.raw}
	s.below.readNow = func(fd uintptr) bool {
		s.below.n, s.below.err = socket.Read(fd, s.below.into)
		return true
	}
	return s.below
}

// silent reports whether nothing can be read of conn, the connection that was
// watched or TLS on it, as far as it looks. If not, it is of no more use.
func (s *silence) silent(conn net.Conn, where depth) bool {
	switch {
	case s.raw == nil:
		return false
	case s.below != nil:
		s.below.looking = where
		n, err := conn.Read(s.below.one[:])
		s.below.looking = reading
		return n == 0 && err == error(nothingError{}) && s.below.atBoundary() && !s.below.spoke //nolint:errorlint // tls.Conn hands it through as it is
	case where == inMemory:
		return true
	}
	s.alive = false
	return s.raw.Read(s.peek) == nil && s.alive
}

// underTLS is what tls.Conn reads and writes.
type underTLS struct {
	net.Conn
	raw     syscall.RawConn
	looking depth
	spoke   bool // TLS had something to say while it was looked

	readNow func(fd uintptr) bool
	into    []byte
	n       int
	err     error
	one     [1]byte // what a look may find: here, so that none is made for it

	// Where in a record the bytes end that were read: RFC 8446, section 5.1.
	header [5]byte
	have   int // of header
	left   int // of the record after its header
}

// nothingError is the answer in place of waiting: a net.Error, since tls.Conn asks
// it whether it may read again.
type nothingError struct{}

var _ net.Error = nothingError{}

func (nothingError) Error() string   { return "upstream: nothing to read now" }
func (nothingError) Timeout() bool   { return true }
func (nothingError) Temporary() bool { return true }

func (u *underTLS) Read(p []byte) (n int, err error) {
	switch u.looking {
	case reading:
		n, err = u.Conn.Read(p)
	case inMemory:
		return 0, nothingError{}
	case onSocket:
		n, err = u.now(p)
	}
	u.follow(p[:n])
	return n, err
}

// now reads what the socket has.
func (u *underTLS) now(p []byte) (int, error) {
	u.into, u.n, u.err = p, 0, nil
	err := u.raw.Read(u.readNow)
	u.into = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(u.err, socket.ErrNothing):
		return 0, nothingError{}
	case u.err != nil:
		return 0, u.err
	case u.n == 0:
		return 0, io.EOF
	}
	return u.n, nil
}

// Write may have to wait, which a look must not: a connection on which TLS has
// to answer something is of no more use.
func (u *underTLS) Write(p []byte) (int, error) {
	if u.looking != reading {
		u.spoke = true
		return 0, nothingError{}
	}
	return u.Conn.Write(p)
}

// follow keeps count of records.
func (u *underTLS) follow(p []byte) {
	for len(p) > 0 {
		if u.left > 0 {
			n := min(u.left, len(p))
			u.left -= n
			p = p[n:]
			continue
		}
		n := copy(u.header[u.have:], p)
		u.have += n
		p = p[n:]
		if u.have == len(u.header) {
			u.have = 0
			u.left = int(u.header[3])<<8 | int(u.header[4])
		}
	}
}

// atBoundary reports whether all that was read are whole records.
func (u *underTLS) atBoundary() bool { return u.have == 0 && u.left == 0 }
