package listen

import (
	"errors"
	"maps"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/gatewright/gatewright/shared/base/socket"
)

// parkDelay is how long net/http keeps a connection without new bytes. After that the connection is parked:
// net/http releases it, and receives it as a new connection when its next byte arrives. A connection takes
// about 20 KB in net/http, 4 KB with a goroutine that waits in a read, and 1 KB if the system can watch
// many connections at once (socket.Poller). Connections of clients with frequent requests are never parked.
// With a delay of one second, 10,000 clients that connect at the same time would take 27 MB more.
// Connections with HTTP/2 or StandardHTTP are not parked.
const parkDelay = 250 * time.Millisecond

// nextParkTime returns when the connection is parked if no byte arrives before. It changes the time to parkDelay
// from now only if less than half of parkDelay remains, so that not each of many frequent requests sets a deadline.
func (c *conn) nextParkTime(now time.Time) time.Time {
	if c.parkAt.Sub(now) < parkDelay/2 {
		c.parkAt = now.Add(parkDelay)
	}
	return c.parkAt
}

// errParked ends net/http's read of a connection that is parked.
var errParked = errors.New("listen: the connection is parked")

// tryPark marks a connection, so that net/http's next Close parks it. It is called after a read that received no byte
// until parkAt. It returns false, and does not mark the connection, if the connection was closed, if parkAt is not
// reached, or if the connection ends at parkAt or before.
func (c *conn) tryPark(parkAt time.Time) bool {
	if c.closed.Load() || time.Now().Before(parkAt) {
		return false
	}
	deadline := c.idleDeadline()
	if !deadline.IsZero() && !deadline.After(parkAt) {
		return false
	}
	c.parking.Store(true)
	return true
}

// idleDeadline returns when a connection without a request ends: a new connection at the
// deadline of its first head, any other connection at net/http's idle timeout. Zero means never.
func (c *conn) idleDeadline() time.Time {
	if !c.headDeadline.IsZero() {
		return c.headDeadline
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requestedDeadline
}

// park parks the connection, which net/http has closed and does not use any more.
func (c *conn) park() {
	// fail belongs to the last request, which has ended. The other two are created again when they are needed.
	c.fail, c.pauseTimer, c.deadlineSet = nil, nil, nil
	if !c.server.parked.park(c) {
		go c.waitForByte()
	}
}

// waitForByte reads the next byte of a parked connection and returns the connection to net/http, or closes it at its
// deadline. It is used if the system can't watch many connections at once, and to read a byte that is known to have
// arrived.
func (c *conn) waitForByte() {
	s := &c.server.parked
	if !s.addWaiting(c) {
		_ = c.closeOnce()
		return
	}
	deadline := c.idleDeadline()
	_ = c.Conn.SetReadDeadline(deadline)
	n, _ := c.Conn.Read(c.oneByte[:])
	if !s.removeWaiting(c) || n == 0 {
		_ = c.closeOnce()
		return
	}
	c.mu.Lock()
	c.appliedDeadline, c.requestedDeadline = deadline, time.Time{}
	c.mu.Unlock()
	if c.headDeadline.IsZero() {
		c.headDeadline = time.Now().Add(c.server.settings.HeaderTimeout)
	}
	c.bufferBytes(c.oneByte[:])
	if !s.resume(c) {
		_ = c.closeOnce()
	}
}

// parkedConns has the parked connections, and those that wait for a handshake
// or a PROXY header. Accept returns the connections that net/http has to serve.
type parkedConns struct {
	resumed   chan *conn
	closed    chan struct{}
	closeOnce sync.Once

	mu      sync.Mutex         // guards the fields below
	waiting map[*conn]struct{} // each has a goroutine; nil after closeAll
	// readiness reports which connections of parked have bytes to read. It is nil before its first use, after
	// closeAll, and if the system does not support it or has no resources for it. The connections of parked have no
	// goroutine. unsupported is set if the system has no such function.
	readiness   *socket.Poller
	unsupported bool
	parked      map[uint64]parkedConn
	lastID      uint64 // the key in parked of the connection that was added last
}

// parkedConn is a parked connection with its timeout.
type parkedConn struct {
	conn  *conn
	timer *time.Timer
}

var _ net.Listener = (*parkedConns)(nil)

func newParkedConns() parkedConns {
	return parkedConns{
		resumed: make(chan *conn), closed: make(chan struct{}), waiting: make(map[*conn]struct{}),
		parked: make(map[uint64]parkedConn),
	}
}

// startReadiness creates readiness if the system supports it. If the system lacks resources, a later call tries
// again, and until then each parked connection has a goroutine. The caller holds mu.
func (pc *parkedConns) startReadiness() {
	if pc.readiness != nil || pc.unsupported || pc.waiting == nil {
		return
	}
	readiness, err := socket.NewPoller()
	if err != nil {
		pc.unsupported = errors.Is(err, errors.ErrUnsupported)
		return
	}
	pc.readiness = readiness
	go pc.waitReadable(readiness)
}

// waitReadable resumes parked connections that have bytes to read.
func (pc *parkedConns) waitReadable(readiness *socket.Poller) {
	var ids []uint64
	for err := error(nil); err == nil; {
		ids, err = readiness.Wait(ids[:0])
		for _, id := range ids {
			if c := pc.takeParked(id); c != nil {
				go c.waitForByte()
			}
		}
	}
}

// park parks a connection without a goroutine. It returns false if that is not possible, so that the caller must wait
// for the next byte itself.
func (pc *parkedConns) park(c *conn) bool {
	wire, ok := c.wire.(syscall.Conn)
	if !ok {
		return false
	}
	pc.mu.Lock()
	pc.startReadiness()
	if pc.readiness == nil {
		pc.mu.Unlock()
		return false
	}
	readiness := pc.readiness
	pc.lastID++
	id, entry := pc.lastID, parkedConn{conn: c}
	if deadline := c.idleDeadline(); !deadline.IsZero() {
		entry.timer = time.AfterFunc(time.Until(deadline), func() {
			if pc.takeParked(id) != nil {
				_ = c.closeOnce()
			}
		})
	}
	pc.parked[id] = entry
	pc.mu.Unlock()
	return readiness.Add(wire, id) == nil || pc.takeParked(id) == nil
}

// takeParked removes and returns a parked connection. It returns nil if another caller has already taken the connection.
func (pc *parkedConns) takeParked(id uint64) *conn {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	entry := pc.parked[id]
	delete(pc.parked, id)
	if entry.timer != nil {
		entry.timer.Stop()
	}
	return entry.conn
}

// addWaiting adds a connection to waiting. After closeAll, it does nothing and returns false.
func (pc *parkedConns) addWaiting(c *conn) bool {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.waiting == nil {
		return false
	}
	pc.waiting[c] = struct{}{}
	return true
}

// removeWaiting removes a connection from waiting. It returns false after closeAll, which closes the connection.
func (pc *parkedConns) removeWaiting(c *conn) bool {
	pc.mu.Lock()
	defer pc.mu.Unlock()
	if pc.waiting == nil {
		return false
	}
	delete(pc.waiting, c)
	return true
}

// resume passes a connection to net/http, which receives it from Accept. It returns false after closeAll.
func (pc *parkedConns) resume(c *conn) bool {
	select {
	case pc.resumed <- c:
		return true
	case <-pc.closed:
		return false
	}
}

// closeAll closes all parked connections, and those that wait for a handshake or a PROXY
// header. After that, a connection is closed instead of parked.
func (pc *parkedConns) closeAll() {
	pc.closeOnce.Do(func() { close(pc.closed) })
	pc.mu.Lock()
	waiting, parked, readiness := pc.waiting, pc.parked, pc.readiness
	pc.waiting, pc.parked, pc.readiness = nil, nil, nil
	pc.mu.Unlock()
	if readiness != nil {
		_ = readiness.Close()
	}
	conns := slices.Collect(maps.Keys(waiting))
	for _, entry := range parked {
		if entry.timer != nil {
			entry.timer.Stop()
		}
		conns = append(conns, entry.conn)
	}
	closeAllGracefully(conns)
}

// Accept implements net.Listener.
func (pc *parkedConns) Accept() (net.Conn, error) {
	select {
	case c := <-pc.resumed:
		return c, nil
	case <-pc.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (pc *parkedConns) Close() error {
	pc.closeAll()
	return nil
}

// Addr implements net.Listener.
func (*parkedConns) Addr() net.Addr { return &net.UnixAddr{Name: "parked connections", Net: "unix"} }
