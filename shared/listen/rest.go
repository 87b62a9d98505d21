package listen

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/shared/socket"
)

// restAfter is how long net/http keeps a connection on which nothing comes. After
// that the connection rests with us, and comes back as a new one with its next
// byte: net/http holds some 20 KB for each, a goroutine that sleeps in a read 4, and
// where the system tells of many at once (socket.Readiness) it takes 1.
// Clients that ask again and again never get there. A second would cost 27 MB more
// while 10,000 clients come at once.
const restAfter = 250 * time.Millisecond

// mayRest is when a connection goes to rest of which nothing is read before: restAfter from
// now, or a little less. It is moved only when less than half of that is left, so that
// requests that come one after another set no deadline each.
func (c *conn) mayRest(now time.Time) time.Time {
	if c.restBy.Sub(now) < restAfter/2 {
		c.restBy = now.Add(restAfter)
	}
	return c.restBy
}

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
	// The first holds the contexts of the last request, which is answered. The others are made again.
	c.fail, c.patience, c.told = nil, nil, nil
	if !c.server.sleepers.watch(c) {
		go c.doze()
	}
}

// doze waits for the next byte in a read, which is how it waits where it cannot be told
// of many connections at once, and how a byte is read that has come.
func (c *conn) doze() {
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

// sleepers are the connections that rest, and those that wait for something else than
// net/http. As a listener they give back those that have woken.
type sleepers struct {
	woken chan *conn
	ended chan struct{}
	close sync.Once

	mu  sync.Mutex         // guards what follows
	all map[*conn]struct{} // with a goroutine each, nil after the end
	// ready tells which of watched have something to be read, nil where the system does not.
	// They have no goroutine. never says that the system cannot tell.
	ready   *socket.Readiness
	never   bool
	watched map[uint64]sleeper
	last    uint64 // the key of the one that came last
}

// sleeper is a connection that rests, and what ends it if it does so for too long.
type sleeper struct {
	conn  *conn
	alarm *time.Timer
}

var _ net.Listener = (*sleepers)(nil)

func newSleepers() sleepers {
	return sleepers{
		woken: make(chan *conn), ended: make(chan struct{}), all: make(map[*conn]struct{}), watched: make(map[uint64]sleeper),
	}
}

// begin has the system tell of connections, if it can: where it has nothing left to do so by, they have a goroutine
// each until it has. The lock is held.
func (s *sleepers) begin() {
	if s.ready != nil || s.never || s.all == nil {
		return
	}
	ready, err := socket.NewReadiness()
	if err != nil {
		s.never = errors.Is(err, errors.ErrUnsupported)
		return
	}
	s.ready = ready
	go s.wait(ready)
}

// wait wakes those that have something to be read.
func (s *sleepers) wait(ready *socket.Readiness) {
	var ids []uint64
	for err := error(nil); err == nil; {
		ids, err = ready.Wait(ids[:0])
		for _, id := range ids {
			if c := s.take(id); c != nil {
				go c.doze()
			}
		}
	}
}

// watch has a connection rest without a goroutine. It reports whether it does, or has ended.
func (s *sleepers) watch(c *conn) bool {
	wire, ok := c.wire.(syscall.Conn)
	if !ok {
		return false
	}
	s.mu.Lock()
	s.begin()
	if s.ready == nil {
		s.mu.Unlock()
		return false
	}
	ready := s.ready
	s.last++
	id, its := s.last, sleeper{conn: c}
	if by := c.awakeUntil(); !by.IsZero() {
		its.alarm = time.AfterFunc(time.Until(by), func() {
			if s.take(id) != nil {
				_ = c.finish()
			}
		})
	}
	s.watched[id] = its
	s.mu.Unlock()
	return ready.Add(wire, id) == nil || s.take(id) == nil
}

// take gives a connection that rests to whoever is first, nil to others.
func (s *sleepers) take(id uint64) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	its := s.watched[id]
	delete(s.watched, id)
	if its.alarm != nil {
		its.alarm.Stop()
	}
	return its.conn
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
	all, watched, ready := s.all, s.watched, s.ready
	s.all, s.watched, s.ready = nil, nil, nil
	s.mu.Unlock()
	if ready != nil {
		_ = ready.Close()
	}
	ends := slices.Collect(maps.Keys(all))
	for _, its := range watched {
		if its.alarm != nil {
			its.alarm.Stop()
		}
		ends = append(ends, its.conn)
	}
	partAll(ends)
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
