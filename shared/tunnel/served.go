package tunnel

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// oneConn is a listener that accepts one connection: what http.Server serves on.
type oneConn struct {
	told *told
	conn chan net.Conn
	// ended is closed when the connection has ended, draining when its relay takes no more.
	ended, draining chan struct{}
}

// serveOne makes the listener of a connection; usable is called once when requests may
// come on it.
func serveOne(conn net.Conn, usable func()) *oneConn {
	l := &oneConn{conn: make(chan net.Conn, 1), ended: make(chan struct{}), draining: make(chan struct{})}
	l.told = &told{
		Conn: conn, read: bufio.NewReaderSize(conn, readAhead), usable: usable,
		ended: sync.OnceFunc(func() { close(l.ended) }), drains: sync.OnceFunc(func() { close(l.draining) }),
	}
	l.conn <- l.told
	return l
}

// Accept gives the connection, and then waits for its end.
func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.told.LocalAddr() }

// told is a connection that tells of its end.
type told struct {
	net.Conn
	read                  *bufio.Reader
	ended, drains, usable func()

	mu          sync.Mutex
	known, gone bool
	since       time.Time // when known was set
}

// readAhead is how much of small frames one call of the kernel reads: net/http's server of HTTP/2
// would make two for each, and a body that is sent has one come back for every piece of it.
const readAhead = 8 << 10

func (c *told) Read(p []byte) (int, error) { return c.read.Read(p) }

func (c *told) Close() error {
	c.ended()
	return c.Conn.Close()
}

// knows says that the services are known to which requests on this connection go.
func (c *told) knows() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known && !c.gone {
		c.known, c.since = true, time.Now()
		c.usable()
	}
}

// over says that the connection has ended, and reports whether it could be used, and then how
// long.
func (c *told) over() (known bool, lasted time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	return c.known, time.Since(c.since)
}
