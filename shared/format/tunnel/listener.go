package tunnel

import (
	"bufio"
	"net"
	"sync"
	"time"
)

// singleConnListener is a listener for http.Server that accepts one connection.
type singleConnListener struct {
	tracked *trackedConn
	conn    chan net.Conn
	// done is closed when the connection has ended. draining is closed when the relay drains the connection.
	done, draining chan struct{}
}

// newSingleConnListener returns a listener that accepts only conn. onUsable is called at most once, when requests can
// arrive on the connection.
func newSingleConnListener(conn net.Conn, onUsable func()) *singleConnListener {
	l := &singleConnListener{conn: make(chan net.Conn, 1), done: make(chan struct{}), draining: make(chan struct{})}
	l.tracked = &trackedConn{
		Conn: conn, r: bufio.NewReaderSize(conn, readAhead), onUsable: onUsable,
		onClose: sync.OnceFunc(func() { close(l.done) }), onDrain: sync.OnceFunc(func() { close(l.draining) }),
	}
	l.conn <- l.tracked
	return l
}

// Accept returns the connection on the first call. Later calls wait for the connection's end and return net.ErrClosed.
func (l *singleConnListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *singleConnListener) Close() error   { return nil }
func (l *singleConnListener) Addr() net.Addr { return l.tracked.LocalAddr() }

// trackedConn is an agent's connection to a relay. It calls onClose when it is closed,
// onDrain when the relay drains it, and onUsable when requests can arrive on it.
type trackedConn struct {
	net.Conn
	r                          *bufio.Reader
	onClose, onDrain, onUsable func()

	mu                 sync.Mutex
	configured, closed bool
	configuredAt       time.Time // when configured was set
}

// readAhead is the size of the read buffer, so that one system call reads several
// small frames. Without it, net/http's HTTP/2 server would use two system calls
// for each frame, and receives a frame for every piece of a body that it sends.
const readAhead = 8 << 10

func (c *trackedConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (c *trackedConn) Close() error {
	c.onClose()
	return c.Conn.Close()
}

// markConfigured records that the agent has received the services, so that requests can arrive on this connection.
func (c *trackedConn) markConfigured() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.configured && !c.closed {
		c.configured, c.configuredAt = true, time.Now()
		c.onUsable()
	}
}

// markClosed records that the connection has ended. It reports whether the connection was usable, and for how long.
func (c *trackedConn) markClosed() (usable bool, uptime time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.configured, time.Since(c.configuredAt)
}
