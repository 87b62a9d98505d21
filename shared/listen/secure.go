package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/listen/framing"
)

// speaksHTTP reports whether a handshake has led to HTTP. One may lead elsewhere
// where the configuration says so: to acme-tls/1, which ends with the handshake.
func speaksHTTP(state tls.ConnectionState) bool {
	switch state.NegotiatedProtocol {
	case "", "http/1.1", protocolHTTP2:
		return true
	}
	return false
}

// below is what TLS reads and writes: the wire, with the patience for slow clients
// that handlers' writes have. It has to stand below TLS, which is of no more use once
// a write has come to a deadline.
type below struct {
	net.Conn
	c *conn
}

// Read implements net.Conn.
func (b below) Read(p []byte) (int, error) {
	n, err := b.Conn.Read(p)
	if err != nil && b.c.http2 != nil {
		b.c.gone.Store(true) // nothing more comes: no deadline was set
	}
	if m := b.c.http2; m != nil && !m.mayRead(n, time.Now()) {
		b.c.flooded("frames that carry nothing")
		return 0, errRefused
	}
	return n, err
}

// Close implements net.Conn. By HTTP/2 it is where a connection ends.
func (b below) Close() error {
	c := b.c
	if c.http2 != nil {
		c.http2.first.Stop()
	}
	if !c.finished.Swap(true) {
		c.giveBack()
	}
	if tcp, ok := b.Conn.(*net.TCPConn); ok && c.stuck.Load() {
		_ = tcp.SetLinger(0) // who takes nothing is not owed what is in the kernel's buffers
	}
	return b.Conn.Close()
}

// RemoteAddr implements net.Conn.
func (b below) RemoteAddr() net.Addr { return b.c.RemoteAddr() }

// Write implements net.Conn.
func (b below) Write(p []byte) (int, error) {
	if b.c.last.Load() {
		_ = b.Conn.SetWriteDeadline(time.Now().Add(refusalTimeout))
		return b.Conn.Write(p)
	}
	n, err := b.c.write(p)
	if err != nil && b.c.http2 != nil {
		_ = b.Close() // net/http would go on to read, and leave to run what nobody gets an answer of
	}
	return n, err
}

// part closes what is below. TLS says goodbye first, which is a write, and waits for those that its reads
// make: a client that takes nothing, or whose server is closed, gets none.
func (c *conn) part() error {
	wire := below{c.wire, c}
	if c.Conn == c.wire || c.stuck.Load() || c.server.closed.Load() {
		return wire.Close()
	}
	c.last.Store(true)
	late := time.AfterFunc(refusalTimeout, func() { _ = wire.Close() })
	defer late.Stop()
	return c.Conn.Close()
}

// goodbyes is how many are said at once as a server ends.
const goodbyes = 1000

// partAll finishes connections in little more time than one takes. Those that are left when that has passed
// get no goodbye: all would wait for clients that take nothing.
func partAll(all []*conn) {
	var some errgroup.Group
	some.SetLimit(goodbyes)
	by := time.Now().Add(refusalTimeout)
	for _, c := range all {
		if !time.Now().Before(by) {
			c.stuck.Store(true)
		}
		if c.Conn == c.wire {
			_ = c.finish() // which does not wait
			continue
		}
		some.Go(c.finish)
	}
	_ = some.Wait()
}

// handshake makes the connection one by TLS, which then comes back through the
// sleepers. It has as long as a head has; a client that comes to no end holds a place
// among the connections of its address for that time, as one does that sends no head.
func (c *conn) handshake(config *tls.Config) {
	s := &c.server.sleepers
	secure := tls.Server(below{c.wire, c}, config)
	if !s.add(c) {
		_ = c.finish()
		return
	}
	_ = c.wire.SetReadDeadline(c.headBy)
	err := secure.Handshake() //nolint:noctx // a deadline bounds it: no request has begun, and so no context
	_ = c.wire.SetReadDeadline(time.Time{})
	state := secure.ConnectionState()
	if !s.remove(c) || err != nil || !speaksHTTP(state) {
		c.tellPlain(err)
		_ = c.finish()
		return
	}
	c.Conn, c.state = secure, &state
	if state.NegotiatedProtocol == protocolHTTP2 {
		c.multiplex(secure)
		return
	}
	c.headBy = time.Now().Add(c.server.settings.HeaderTimeout)
	if !s.wake(c) {
		_ = c.finish()
	}
}

var errPlainHTTP = &framing.Refusal{Status: http.StatusBadRequest, Detail: "The address speaks HTTPS, and the request came by plain HTTP. Begin the URL with https://."}

// tellPlain answers a client that speaks HTTP where TLS is spoken.
func (c *conn) tellPlain(err error) {
	not, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || not.Conn == nil || !isHTTP(not.RecordHeader) {
		return
	}
	_ = c.wire.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = c.wire.Write(c.server.refusals.answer(errPlainHTTP, c.RemoteAddr()))
	drain(c.wire)
}

// isHTTP reports whether the first bytes of a connection are of a request line: a
// method in upper case.
func isHTTP(b [5]byte) bool {
	for _, c := range b[:3] {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}
