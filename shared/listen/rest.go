package listen

import (
	"errors"
	"net"
	"sync"
	"time"
)

// restAfter is how long net/http keeps a connection on which nothing comes. After
// that the connection rests with us, and comes back as a new one with its next
// byte: net/http holds some 20 KB for each, a goroutine that sleeps in a read 4.
// Clients that ask again and again never get there. A second would cost 27 MB more
// while 10,000 clients come at once.
const restAfter = 250 * time.Millisecond

// errResting ends net/http's read of a connection that goes to rest.
var errResting = errors.New("listen: the connection rests")

// rest reports whether a connection goes to rest: if nothing came by then, and
// neither it nor net/http has reached another end.
func (c *conn) rest(by time.Time) bool {
	if c.closed.Load() || time.Now().Before(by) {
		return false
	}
	until := c.awakeUntil()
	if !until.IsZero() && !until.After(by) {
		return false
	}
	c.resting.Store(true)
	return true
}

// awakeUntil is when a connection without a request ends: a new one when its head
// is due, others when they were idle for too long. Zero is never.
func (c *conn) awakeUntil() time.Time {
	if !c.headBy.IsZero() {
		return c.headBy
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wanted
}

// sleep waits for the next byte in place of net/http.
func (c *conn) sleep() {
	s := &c.server.sleepers
	if !s.add(c) {
		_ = c.finish()
		return
	}
	by := c.awakeUntil()
	_ = c.Conn.SetReadDeadline(by)
	n, _ := c.Conn.Read(c.one[:])
	if !s.remove(c) || n == 0 {
		_ = c.finish()
		return
	}
	c.mu.Lock()
	c.applied, c.wanted = by, time.Time{}
	c.mu.Unlock()
	if c.headBy.IsZero() {
		c.headBy = time.Now().Add(c.server.settings.HeaderTimeout)
	}
	c.keep(c.one[:])
	if !s.wake(c) {
		_ = c.finish()
	}
}

// sleepers are the connections that rest. As a listener they give back those that
// have woken.
type sleepers struct {
	woken chan *conn
	ended chan struct{}

	mu    sync.Mutex // guards all, which is nil after the end
	all   map[*conn]struct{}
	close sync.Once
}

var _ net.Listener = (*sleepers)(nil)

func newSleepers() sleepers {
	return sleepers{woken: make(chan *conn), ended: make(chan struct{}), all: make(map[*conn]struct{})}
}

func (s *sleepers) add(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		return false
	}
	s.all[c] = struct{}{}
	return true
}

func (s *sleepers) remove(c *conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		return false
	}
	delete(s.all, c)
	return true
}

func (s *sleepers) wake(c *conn) bool {
	select {
	case s.woken <- c:
		return true
	case <-s.ended:
		return false
	}
}

// end closes all that rest, and gives none back any more.
func (s *sleepers) end() {
	s.close.Do(func() { close(s.ended) })
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.all {
		_ = c.Conn.Close()
	}
	s.all = nil
}

// Accept implements net.Listener.
func (s *sleepers) Accept() (net.Conn, error) {
	select {
	case c := <-s.woken:
		return c, nil
	case <-s.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *sleepers) Close() error {
	s.end()
	return nil
}

// Addr implements net.Listener.
func (*sleepers) Addr() net.Addr { return &net.UnixAddr{Name: "connections that rest", Net: "unix"} }
