package listen

import (
	"context"
	"crypto/tls"
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/gatewright/gatewright/shared/base/framing"
)

// The limits of an HTTP/2 connection. Limits of net/http that are not listed here also
// apply: a client has 2 s after the preface to send its settings, which are at most 100,
// and the frames of a header block are limited by the maximum size of the header list.
const (
	// maxStreams is the maximum number of concurrent requests on a connection. The server
	// sends it in its settings. RFC 9113 (section 6.5.2) recommends at least this value.
	maxStreams = 100
	// streamWindow and connectionWindow are the maximum numbers of body bytes that wait for
	// handlers, per request and per connection. They limit the memory that a client can use.
	streamWindow     = 256 << 10
	connectionWindow = 512 << 10
	// maxFrame is the maximum size of a frame's payload. It is the smallest
	// value that RFC 9113 allows, because a whole frame is held in memory.
	maxFrame = 16 << 10
	// overheadFactor is the number of received bytes that each byte of a request or its response allows, as in
	// nginx. Beyond these, overheadBurst bytes are allowed at once, and overheadPerSecond per second on average.
	overheadFactor    = 8
	overheadBurst     = 1 << 20
	overheadPerSecond = 64 << 10
	// A client can cancel one request for each request that had a response. It can
	// cancel maxCanceled more at once, and canceledPerSecond per second on average.
	maxCanceled       = 2 * maxStreams
	canceledPerSecond = 10
)

// protocolHTTP2 is the name of HTTP/2 in handshakes.
const protocolHTTP2 = "h2"

// http2State is the HTTP/2 state of a connection. Each stream is a request with its response.
type http2State struct {
	frames *framedConn
	// headTimer ends a connection if its first head does not arrive in time.
	headTimer *time.Timer
	// running is the number of streams with a running handler.
	running atomic.Int32
	// allowedBytes is the number of bytes that earlier requests and responses still allow the client to send. Only
	// reads reduce it.
	allowedBytes atomic.Int64
	overhead     *rate.Limiter // limits the bytes beyond allowedBytes
	// cancelCredit is the number of requests with a response minus the number of canceled requests, from 0 to maxCanceled.
	cancelCredit atomic.Int32
	canceled     *rate.Limiter // limits the canceled requests beyond cancelCredit
}

// newHTTP2 returns net/http's server for HTTP/2 connections. It is separate from the
// server for HTTP/1.1, because it receives connections after their TLS handshake.
func (s *Server) newHTTP2() *http.Server {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true) // net/http takes framedConn for a connection without TLS
	return &http.Server{                //nolint:gosec // G112: headTimer and IdleTimeout limit the wait for heads
		Handler:     http.HandlerFunc(s.serveStream),
		Protocols:   &protocols,
		IdleTimeout: s.http.IdleTimeout,
		// Each field counts as 32 bytes more than it has (RFC 9113, section 6.5.2). framing.Limits enforces the
		// exact limits. If a head exceeds MaxHeaderBytes, net/http drops the rest and writes its own response.
		MaxHeaderBytes:               2*s.settings.HeaderBytes + 32*s.settings.HeaderFields,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     s.http.ErrorLog,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: connectionWindow, MaxReceiveBufferPerStream: streamWindow,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if f, ok := c.(*framedConn); ok {
				return context.WithValue(ctx, connKey{}, f.c)
			}
			return ctx
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if f, ok := c.(*framedConn); ok {
				s.shutdown.trackHTTP2Conn(f, state)
			}
		},
	}
}

// startHTTP2 continues a connection with HTTP/2 after its handshake. The first head
// has a timeout as in HTTP/1.1. Later heads have the timeout of an idle connection.
func (c *conn) startHTTP2(secure *tls.Conn) {
	if !isAdequateTLS(c.state) {
		_, _ = secure.Write(goAway(0, codeInadequateSecurity))
		_ = c.closeOnce()
		return
	}
	c.http2 = &http2State{
		frames:   &framedConn{Conn: secure, c: c},
		overhead: rate.NewLimiter(overheadPerSecond, overheadBurst),
		canceled: rate.NewLimiter(canceledPerSecond, maxCanceled),
	}
	// Closing the connection below TLS ends net/http's pending read.
	c.http2.headTimer = time.AfterFunc(math.MaxInt64, func() { _ = secure.NetConn().Close() })
	c.http2.headTimer.Reset(c.server.settings.HeaderTimeout)
	if !c.server.http2Listener.deliver(c.http2.frames) {
		_ = c.closeOnce()
	}
}

// chanListener is a listener for connections that another listener has accepted.
type chanListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

var _ net.Listener = (*chanListener)(nil)

func newChanListener() chanListener {
	return chanListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// deliver passes a connection to Accept. It returns false if the listener is closed.
func (l *chanListener) deliver(c net.Conn) bool {
	select {
	case l.conns <- c:
		return true
	case <-l.closed:
		return false
	}
}

// Accept implements net.Listener.
func (l *chanListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *chanListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (*chanListener) Addr() net.Addr {
	return &net.UnixAddr{Name: "connections by HTTP/2", Net: "unix"}
}

var (
	errTooManyStreams = &framing.Refusal{
		Status: http.StatusServiceUnavailable,
		Detail: "There are as many requests and connections as are served at once, from this address or in all. Come again " +
			"in a few seconds, with fewer at once.",
	}
	errMisdirected = &framing.Refusal{
		Status: http.StatusMisdirectedRequest,
		Detail: "Clients of this host are asked for a certificate as they connect, and the connection is one to another " +
			"host. Open one to this host.",
	}
)

// serveStream checks an HTTP/2 request and calls the handler, like serveHTTP for HTTP/1.1.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c.http2.headTimer.Stop()
	running := c.http2.running.Add(1)
	defer c.http2.running.Add(-1)
	defer c.recordEnd(r.Context())
	if r.Context().Err() != nil {
		return // the client has canceled the request before the handler starts
	}
	r.TLS = c.state
	if s.draining.Load() {
		c.http2.frames.goAwayDue.Store(true) // sent before the response
	}
	size, refusal := s.limits.CheckHTTP2(r)
	c.allowBytes(size)
	switch {
	case refusal != nil:
	case s.misdirected != nil && s.misdirected(r):
		refusal = errMisdirected
	// Each concurrent request after the first counts as a connection, because it has its own
	// goroutine and upstream connection. In HTTP/1.1, it would need a connection of its own.
	case running > 1 && !s.counts.reserveStream(c.limitAddr):
		refusal = errTooManyStreams
	case running > 1:
		defer s.counts.releaseStream(c.limitAddr)
	}
	if refusal != nil {
		s.refusals.writeTo(w, refusal, c.RemoteAddr())
		return
	}
	st := &stream{ResponseWriter: w, conn: c}
	defer st.finish()
	if r.ContentLength != 0 {
		r = st.withBodyTimeout(r)
		defer st.cancel(nil)
		tracked, done := s.bodies.Begin(r, s.clientAddr(r), st.failStalledRead)
		defer done()
		r = tracked
	}
	if r.Method == http.MethodOptions && r.RequestURI == "*" {
		st.WriteHeader(http.StatusNoContent)
		return
	}
	s.handler.ServeHTTP(st, r)
}

// allowBytes increases allowedBytes for n bytes of a request or its response.
func (c *conn) allowBytes(n int) { c.http2.allowedBytes.Add(overheadFactor * int64(n)) }

// allowRead counts bytes that have arrived, and reports whether they are allowed. Bytes beyond
// allowedBytes are frames that cost us more than their sender, such as pings, settings,
// priorities, window updates and empty frames. Only a limited rate of them is allowed.
func (s *http2State) allowRead(n int, now time.Time) bool {
	allowed := min(int64(n), s.allowedBytes.Load())
	s.allowedBytes.Add(-allowed)
	excess := n - int(allowed)
	return excess == 0 || s.overhead.AllowN(now, excess)
}

// recordEnd counts requests with a response and canceled requests, and ends the connection of a client that cancels
// too many. A client that starts and cancels requests makes us call upstreams, and needs only two frames per request
// (rapid reset, CVE-2023-44487).
func (c *conn) recordEnd(ctx context.Context) {
	state := c.http2
	if ctx.Err() == nil {
		if state.cancelCredit.Load() < maxCanceled {
			state.cancelCredit.Add(1)
		}
		return
	}
	if c.disconnected.Load() {
		return // the end of the connection has canceled the request, not the client
	}
	if state.cancelCredit.Add(-1) >= 0 {
		return
	}
	state.cancelCredit.Add(1)
	if !state.canceled.Allow() {
		c.closeFlooding("requests that it cancels")
	}
}

// closeFlooding ends a connection whose client exceeds a limit that no
// normal client reaches. reason names what the client has sent too much of.
func (c *conn) closeFlooding(reason string) {
	if c.closed.Swap(true) {
		return
	}
	c.server.refusals.logFlood(c.RemoteAddr(), reason)
	c.notReading.Store(true) // discard the bytes in the buffers
	_ = wireConn{c.wire, c}.Close()
}
