package listen

import (
	"net"
	"net/netip"
	"slices"
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
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := l.server.counted(c.RemoteAddr())
		if !l.server.counts.take(from) {
			l.server.turnAway(c, c.RemoteAddr())
			continue
		}
		own := l.server.newConn(c, from)
		switch {
		case l.server.settings.ProxyProtocol && l.server.trusts(c.RemoteAddr()):
			go own.introduce()
		case l.server.tls != nil:
			go own.handshake(l.server.tls)
		default:
			return own, nil
		}
	}
}

// turnAway tells a client, by plain HTTP, that there are too many connections. TLS would
// take a handshake to do so.
func (s *Server) turnAway(c net.Conn, client net.Addr) {
	if s.tls != nil {
		_ = c.Close()
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(refusalTimeout)) // its buffers are empty: the kernel takes this at once
	_, _ = c.Write(s.refusals.answer(errManyConnections, client))
	s.counts.turnAway(c)
}

// trusts reports whether an address is that of a proxy of the installation's own.
func (s *Server) trusts(a net.Addr) bool {
	return trusts(s.settings.TrustedProxies, a)
}

func trusts(proxies []netip.Prefix, a net.Addr) bool {
	from, ok := addressOf(a)
	return ok && slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(from) })
}

func addressOf(a net.Addr) (netip.Addr, bool) {
	if a == nil {
		return netip.Addr{}, false
	}
	at, err := netip.ParseAddrPort(a.String())
	return at.Addr().Unmap().WithZone(""), err == nil
}

// counted is the address that a connection counts for, the zero value for one that
// counts in all alone.
func (s *Server) counted(a net.Addr) netip.Addr {
	if s.settings.ConnectionsPerAddress == 0 {
		return netip.Addr{}
	}
	from, ok := addressOf(a)
	if !ok || from.IsLoopback() || s.trusts(a) {
		return netip.Addr{}
	}
	return subscriber.Of(from)
}

// counts counts the connections of a listener within the budget of the process. The budget's mutex guards it.
type counts struct {
	*Budget
	mostOfOne int

	all     int
	streams int // in all, of HTTP/2
	of      map[netip.Addr]int
}

func (c *counts) take(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken(from)
}

// takeStream has a stream count as a connection.
func (c *counts) takeStream(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.taken(from) {
		return false
	}
	c.streams++
	return true
}

func (c *counts) giveStreamBack(from netip.Addr) {
	c.mu.Lock()
	c.streams--
	c.mu.Unlock()
	c.giveBack(from)
}

func (c *counts) taken(from netip.Addr) bool {
	if !c.hasRoom(c) || from.IsValid() && c.of[from] >= c.mostOfOne {
		return false
	}
	c.all++
	if from.IsValid() {
		c.of[from]++
	}
	return true
}

// move has a connection that counts in all count for an address too. It reports whether
// that one may have another.
func (c *counts) move(to netip.Addr) bool {
	if !to.IsValid() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[to] >= c.mostOfOne {
		return false
	}
	c.of[to]++
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
	wait := c.refused < c.maxRefused()
	if wait {
		c.refused++
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
		c.refused--
		c.mu.Unlock()
	}()
}
