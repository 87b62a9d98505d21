package listen

import (
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/subscriber"
)

// bounded accepts connections up to what is served at once, of an address and in
// all. One above that is told so and closed: left in the kernel's queue it would
// wait for as long as somebody else holds the others, and its client would not know
// for what.
type bounded struct {
	net.Listener
	server *Server
	counts *counts
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := l.server.counted(c.RemoteAddr())
		if l.counts.take(from) {
			own := l.server.newConn(c, func() { l.counts.giveBack(from) })
			if l.server.tls == nil {
				return own, nil
			}
			go own.handshake(l.server.tls)
			continue
		}
		if l.server.tls != nil { // which would take a handshake to answer
			_ = c.Close()
			continue
		}
		_ = c.SetWriteDeadline(time.Now().Add(refusalTimeout)) // its buffers are empty: the kernel takes this at once
		_, _ = c.Write(l.server.refusals.answer(errManyConnections, c.RemoteAddr()))
		l.counts.turnAway(c)
	}
}

// counted is the address that a connection counts for, the zero value for one that
// counts in all alone.
func (s *Server) counted(a net.Addr) netip.Addr {
	if a == nil || s.settings.ConnectionsPerAddress == 0 {
		return netip.Addr{}
	}
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	from := at.Addr().Unmap().WithZone("")
	if from.IsLoopback() || slices.ContainsFunc(s.trusted, func(p netip.Prefix) bool { return p.Contains(from) }) {
		return netip.Addr{}
	}
	return subscriber.Of(from)
}

// counts are the connections of a listener.
type counts struct {
	most, mostOfOne int

	mu   sync.Mutex
	all  int
	of   map[netip.Addr]int
	away int // that were refused and are read to their end
}

// maxAway is how many that were refused are waited for at once, so that they read
// the answer: in a flood the others may miss it.
const maxAway = 64

func (c *counts) take(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all >= c.most || from.IsValid() && c.of[from] >= c.mostOfOne {
		return false
	}
	c.all++
	if from.IsValid() {
		c.of[from]++
	}
	return true
}

func (c *counts) giveBack(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if !from.IsValid() {
		return
	}
	if c.of[from]--; c.of[from] == 0 {
		delete(c.of, from)
	}
}

// turnAway closes a connection that was answered already.
func (c *counts) turnAway(conn net.Conn) {
	c.mu.Lock()
	wait := c.away < maxAway
	if wait {
		c.away++
	}
	c.mu.Unlock()
	if !wait {
		_ = conn.Close()
		return
	}
	go func() {
		drain(conn)
		_ = conn.Close()
		c.mu.Lock()
		c.away--
		c.mu.Unlock()
	}()
}
