package tunnel

import (
	"net"
	"sync"
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
		Conn: conn, ended: sync.OnceFunc(func() { close(l.ended) }), drains: sync.OnceFunc(func() { close(l.draining) }), usable: usable,
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
	ended, drains, usable func()

	mu          sync.Mutex
	known, gone bool
}

func (c *told) Close() error {
	c.ended()
	return c.Conn.Close()
}

// knows says that the services are known to which requests on this connection go.
func (c *told) knows() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known && !c.gone {
		c.known = true
		c.usable()
	}
}

// over says that the connection has ended, and reports whether it could be used.
func (c *told) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone = true
	return c.known
}
