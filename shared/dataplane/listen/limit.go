package listen

import (
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/clientaddr"
)

// limitedListener accepts connections up to the limits per address and in total. It closes a connection above a
// limit, after it has written a refusal, which it does not write over TLS. If it left the connection in the kernel's
// queue instead, the client would wait for other clients to close their connections, and would not know why.
type limitedListener struct {
	net.Listener
	server *Server
}

// Accept implements net.Listener.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := l.server.countedAddress(c.RemoteAddr())
		if !l.server.counts.reserve(from) {
			l.server.refuseConn(c, c.RemoteAddr())
			continue
		}
		accepted := l.server.newConn(c, from)
		switch {
		case l.server.settings.ProxyProtocol && l.server.isTrusted(c.RemoteAddr()):
			go accepted.readProxyHeader()
		case l.server.tls != nil:
			go accepted.handshake(l.server.tls)
		default:
			return accepted, nil
		}
	}
}

// refuseConn sends a client the refusal that there are too many connections, over plain
// HTTP. Over TLS, it only closes the connection, because a refusal would need a handshake.
func (s *Server) refuseConn(c net.Conn, client net.Addr) {
	if s.tls != nil {
		_ = c.Close()
		return
	}
	_ = c.SetWriteDeadline(time.Now().Add(refusalTimeout)) // the buffers are empty: Write does not block
	_, _ = c.Write(s.refusals.response(errTooManyConnections, client))
	s.counts.closeRefused(c)
}

// isTrusted reports whether an address belongs to one of the installation's own proxies.
func (s *Server) isTrusted(a net.Addr) bool {
	return isTrustedProxy(s.settings.TrustedProxies, a)
}

func isTrustedProxy(proxies []netip.Prefix, a net.Addr) bool {
	from, ok := addressOf(a)
	return ok && slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(from) })
}

func addressOf(a net.Addr) (netip.Addr, bool) {
	if a == nil {
		return netip.Addr{}, false
	}
	addrPort, err := netip.ParseAddrPort(a.String())
	return addrPort.Addr().Unmap().WithZone(""), err == nil
}

// countedAddress returns the address to whose limit a connection counts, or the zero value if only the total limit applies.
func (s *Server) countedAddress(a net.Addr) netip.Addr {
	if s.settings.ConnectionsPerAddress == 0 {
		return netip.Addr{}
	}
	from, ok := addressOf(a)
	if !ok || from.IsLoopback() || s.isTrusted(a) {
		return netip.Addr{}
	}
	return clientaddr.Canonical(from)
}

// counts has the numbers of a listener's connections, and the budget of the process to which they count. The budget's
// mutex guards the numbers.
type counts struct {
	*Budget
	maxPerAddress int

	total      int // connections and streams
	streams    int // concurrent HTTP/2 requests that count as connections
	perAddress map[netip.Addr]int
}

// reserve counts a new connection, or returns false if the limit of its address or the budget is reached.
func (c *counts) reserve(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserveLocked(from)
}

// reserveStream counts a stream as a connection.
func (c *counts) reserveStream(from netip.Addr) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reserveLocked(from) {
		return false
	}
	c.streams++
	return true
}

func (c *counts) releaseStream(from netip.Addr) {
	c.mu.Lock()
	c.streams--
	c.mu.Unlock()
	c.release(from)
}

func (c *counts) reserveLocked(from netip.Addr) bool {
	if !c.hasCapacity(c) || from.IsValid() && c.perAddress[from] >= c.maxPerAddress {
		return false
	}
	c.total++
	if from.IsValid() {
		c.perAddress[from]++
	}
	return true
}

// assign counts a connection for an address. The connection already counts in total. assign returns false, and does
// not count the connection, if the address has reached its limit.
func (c *counts) assign(to netip.Addr) bool {
	if !to.IsValid() {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.perAddress[to] >= c.maxPerAddress {
		return false
	}
	c.perAddress[to]++
	return true
}

// release subtracts an ended connection or stream from the counts.
func (c *counts) release(from netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if !from.IsValid() {
		return
	}
	if c.perAddress[from]--; c.perAddress[from] == 0 {
		delete(c.perAddress, from)
	}
}

// closeRefused closes a connection after its refusal was written. It lets the client read the refusal
// before, in the background, unless maxRefused connections already wait for that.
func (c *counts) closeRefused(conn net.Conn) {
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
