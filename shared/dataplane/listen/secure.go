package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// negotiatedHTTP reports whether a handshake has negotiated HTTP. The other protocol that the configuration can allow
// is acme-tls/1. Its connections end after the handshake.
func negotiatedHTTP(state tls.ConnectionState) bool {
	switch state.NegotiatedProtocol {
	case "", "http/1.1", protocolHTTP2:
		return true
	}
	return false
}

// wireConn is the connection below TLS. Its writes have the timeout for slow clients. They have it below TLS, because
// a TLS connection can't be used after one of its own writes has exceeded a deadline. Its reads end an HTTP/2
// connection that receives too many bytes (allowRead).
type wireConn struct {
	net.Conn
	c *conn
}

// Read implements net.Conn.
func (wc wireConn) Read(p []byte) (int, error) {
	n, err := wc.Conn.Read(p)
	if err != nil && wc.c.http2 != nil {
		wc.c.disconnected.Store(true) // the read has no deadline, so the error means that no more bytes arrive
	}
	if state := wc.c.http2; state != nil && !state.allowRead(n, time.Now()) {
		wc.c.closeFlooding("frames that carry nothing")
		return 0, errRefused
	}
	return n, err
}

// Close implements net.Conn. It also releases what the connection holds, if closeOnce
// has not done so: net/http closes an HTTP/2 connection without closeOnce.
func (wc wireConn) Close() error {
	c := wc.c
	if c.http2 != nil {
		c.http2.headTimer.Stop()
	}
	if !c.finished.Swap(true) {
		c.release()
	}
	if tcp, ok := wc.Conn.(*net.TCPConn); ok && c.notReading.Load() {
		_ = tcp.SetLinger(0) // discard the bytes in the kernel's buffers, because the client reads nothing
	}
	return wc.Conn.Close()
}

// RemoteAddr implements net.Conn.
func (wc wireConn) RemoteAddr() net.Addr { return wc.c.RemoteAddr() }

// Write implements net.Conn.
func (wc wireConn) Write(p []byte) (int, error) {
	if wc.c.finalWrite.Load() {
		_ = wc.Conn.SetWriteDeadline(time.Now().Add(refusalTimeout))
		return wc.Conn.Write(p)
	}
	n, err := wc.c.write(p)
	if err != nil && wc.c.http2 != nil {
		_ = wc.Close() // otherwise net/http would read further requests, whose responses can't be sent
	}
	return n, err
}

// closeGracefully closes the connection. Over TLS, it first sends a close_notify alert, except to a client that reads
// nothing, and after Close of the server. The write of the alert can block, and it waits for other pending writes, so
// it ends after refusalTimeout.
func (c *conn) closeGracefully() error {
	wire := wireConn{c.wire, c}
	if c.Conn == c.wire || c.notReading.Load() || c.server.closed.Load() {
		return wire.Close()
	}
	c.finalWrite.Store(true)
	timer := time.AfterFunc(refusalTimeout, func() { _ = wire.Close() })
	defer timer.Stop()
	return c.Conn.Close()
}

// maxConcurrentCloses is the maximum number of concurrent TLS closings during a shutdown.
const maxConcurrentCloses = 1000

// closeAllGracefully closes connections concurrently, and returns after little more than refusalTimeout. Connections
// whose turn comes after that time get no close_notify alert, so that clients that read nothing do not delay the
// shutdown.
func closeAllGracefully(conns []*conn) {
	var g errgroup.Group
	g.SetLimit(maxConcurrentCloses)
	deadline := time.Now().Add(refusalTimeout)
	for _, c := range conns {
		if !time.Now().Before(deadline) {
			c.notReading.Store(true)
		}
		if c.Conn == c.wire {
			_ = c.closeOnce() // does not block
			continue
		}
		g.Go(c.closeOnce)
	}
	_ = g.Wait()
}

// handshake performs the TLS handshake of the connection, with the timeout of a head. After that, net/http receives the
// connection: for HTTP/1.1 from parkedConns, for HTTP/2 from http2Listener. The connection counts for its client's
// address even during the handshake.
func (c *conn) handshake(config *tls.Config) {
	s := &c.server.parked
	secure := tls.Server(wireConn{c.wire, c}, config)
	if !s.addWaiting(c) {
		_ = c.closeOnce()
		return
	}
	_ = c.wire.SetReadDeadline(c.headDeadline)
	err := secure.Handshake() //nolint:noctx // a deadline limits it; there is no context before the first request
	_ = c.wire.SetReadDeadline(time.Time{})
	state := secure.ConnectionState()
	if !s.removeWaiting(c) || err != nil || !negotiatedHTTP(state) {
		c.refusePlainHTTP(err)
		_ = c.closeOnce()
		return
	}
	c.Conn, c.state = secure, &state
	if state.NegotiatedProtocol == protocolHTTP2 {
		c.startHTTP2(secure)
		return
	}
	c.headDeadline = time.Now().Add(c.server.settings.HeaderTimeout)
	if !s.resume(c) {
		_ = c.closeOnce()
	}
}

var errPlainHTTP = &framing.Refusal{
	Status: http.StatusBadRequest,
	Detail: "The address speaks HTTPS, and the request came by plain HTTP. Begin the URL with https://.",
}

// refusePlainHTTP responds to a client that sends plain HTTP to a TLS listener.
func (c *conn) refusePlainHTTP(err error) {
	recordErr, ok := errors.AsType[tls.RecordHeaderError](err)
	if !ok || recordErr.Conn == nil || !isHTTP(recordErr.RecordHeader) {
		return
	}
	_ = c.wire.SetWriteDeadline(time.Now().Add(refusalTimeout))
	_, _ = c.wire.Write(c.server.refusals.response(errPlainHTTP, c.RemoteAddr()))
	drain(c.wire)
}

// isHTTP reports whether the first bytes of a connection can be the start of a request line: a method in upper case.
func isHTTP(b [5]byte) bool {
	for _, c := range b[:3] {
		if c < 'A' || c > 'Z' {
			return false
		}
	}
	return true
}
