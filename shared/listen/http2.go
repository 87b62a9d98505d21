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

	"github.com/gatewright/gatewright/shared/listen/framing"
)

// The bounds of a connection by HTTP/2. Those of net/http that are not named here hold too: a
// client has 2 s for its settings behind the preface, which may be 100, and a head's frames
// end with what its list may have.
const (
	// maxStreams is how many requests may be under way on a connection, as clients are told. It is
	// what RFC 9113 (section 6.5.2) wants at least.
	maxStreams = 100
	// streamWindow and connectionWindow are how much of bodies waits for handlers to read it, of a
	// request and of all of a connection: what a client can have us keep.
	streamWindow     = 256 << 10
	connectionWindow = 512 << 10
	// maxFrame is the smallest that RFC 9113 allows, since a frame is held in memory as a whole.
	maxFrame = 16 << 10
	// explains is how many bytes of a connection a byte of a request or of its answer explains, as
	// nginx has it; unexplained is how many more there may be at once, and in a second.
	explains             = 8
	unexplained          = 1 << 20
	unexplainedPerSecond = 64 << 10
	// maxCancelled is how many requests a client may cancel at once, beside one for each that was
	// answered; cancelledPerSecond is how fast it may again.
	maxCancelled       = 2 * maxStreams
	cancelledPerSecond = 10
)

// protocolHTTP2 is its name in handshakes.
const protocolHTTP2 = "h2"

// multiplexed is what a connection has once it speaks HTTP/2: streams, each of which is
// a request with its answer.
type multiplexed struct {
	frames *frames
	// first ends a connection on which no head comes.
	first *time.Timer
	// running are streams whose handlers run.
	running atomic.Int32
	// explained are bytes that may still come, for what requests and answers have had. Only reads
	// take from it.
	explained atomic.Int64
	others    *rate.Limiter
	// answered are requests that were, up to maxCancelled, less those that were cancelled.
	answered  atomic.Int32
	cancelled *rate.Limiter
}

// newHTTP2 makes the server of connections by HTTP/2: net/http's own. It is one beside that of
// HTTP/1.1, since connections come to it when their handshake is over.
func (s *Server) newHTTP2() *http.Server {
	var by http.Protocols
	by.SetUnencryptedHTTP2(true) // which frames are, for net/http
	return &http.Server{         //nolint:gosec // G112: a connection without a head has its timeout, and RFC 9113 no heads by the byte
		Handler:     http.HandlerFunc(s.serveStream),
		Protocols:   &by,
		IdleTimeout: s.http.IdleTimeout,
		// A list of fields counts 32 for each (RFC 9113, section 6.5.2). Heads are bounded exactly by
		// framing.Limits; beyond this no more is kept of one, and its answer is net/http's own.
		MaxHeaderBytes:               2*s.settings.HeaderBytes + 32*s.settings.HeaderFields,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     s.http.ErrorLog,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReadFrameSize: maxFrame,
			MaxReceiveBufferPerConnection: connectionWindow, MaxReceiveBufferPerStream: streamWindow,
		},
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if f, ok := c.(*frames); ok {
				return context.WithValue(ctx, connKey{}, f.c)
			}
			return ctx
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if f, ok := c.(*frames); ok {
				s.departure.followFrames(f, state)
			}
		},
	}
}

// multiplex has a connection whose handshake is over go on by HTTP/2. As with HTTP/1.1 its first
// head has its time; what comes later has as long as an idle connection.
func (c *conn) multiplex(secure *tls.Conn) {
	if !adequate(c.state) {
		_, _ = secure.Write(goAway(0, codeInadequate))
		_ = c.finish()
		return
	}
	c.http2 = &multiplexed{
		frames:    &frames{Conn: secure, c: c},
		others:    rate.NewLimiter(unexplainedPerSecond, unexplained),
		cancelled: rate.NewLimiter(cancelledPerSecond, maxCancelled),
	}
	c.http2.first = time.AfterFunc(math.MaxInt64, func() { _ = secure.NetConn().Close() }) // which reads it
	c.http2.first.Reset(c.server.settings.HeaderTimeout)
	if !c.server.passage.pass(c.http2.frames) {
		_ = c.finish()
	}
}

// passage is a listener of connections that come from another one.
type passage struct {
	through chan net.Conn
	ended   chan struct{}
	once    sync.Once
}

var _ net.Listener = (*passage)(nil)

func newPassage() passage { return passage{through: make(chan net.Conn), ended: make(chan struct{})} }

func (p *passage) pass(c net.Conn) bool {
	select {
	case p.through <- c:
		return true
	case <-p.ended:
		return false
	}
}

// Accept implements net.Listener.
func (p *passage) Accept() (net.Conn, error) {
	select {
	case c := <-p.through:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *passage) Close() error {
	p.once.Do(func() { close(p.ended) })
	return nil
}

// Addr implements net.Listener.
func (*passage) Addr() net.Addr {
	return &net.UnixAddr{Name: "connections by HTTP/2", Net: "unix"}
}

var (
	errManyStreams = &framing.Refusal{
		Status: http.StatusServiceUnavailable,
		Detail: "There are as many requests and connections as are served at once, from this address or in all. Come again in a few seconds, with fewer at once.",
	}
	errMisdirected = &framing.Refusal{
		Status: http.StatusMisdirectedRequest,
		Detail: "Clients of this host are asked for a certificate as they connect, and the connection is one to another host. Open one to this host.",
	}
)

// serveStream stands before the handler, as serveHTTP does where heads are lines.
func (s *Server) serveStream(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	c.http2.first.Stop()
	running := c.http2.running.Add(1)
	defer c.http2.running.Add(-1)
	defer c.noteEnd(r.Context())
	if r.Context().Err() != nil {
		return // cancelled before it has begun
	}
	r.TLS = c.state
	if s.leaving.Load() {
		c.http2.frames.due.Store(true) // with the answer
	}
	size, refusal := s.limits.Parsed(r)
	c.explain(size)
	switch {
	case refusal != nil:
	case s.misdirected != nil && s.misdirected(r):
		refusal = errMisdirected
	// Beyond the first each counts as a connection, which it would have been: it has a goroutine and
	// an upstream of its own.
	case running > 1 && !s.counts.takeStream(c.from):
		refusal = errManyStreams
	case running > 1:
		defer s.counts.giveStreamBack(c.from)
	}
	if refusal != nil {
		s.refusals.tell(w, refusal, c.RemoteAddr())
		return
	}
	st := &stream{ResponseWriter: w, conn: c}
	defer st.end()
	if r.ContentLength != 0 {
		r = st.read(r)
		defer st.cancel(nil)
		begun, over := s.bodies.Begin(r, s.clientOf(r), st.stall)
		defer over()
		r = begun
	}
	if r.Method == http.MethodOptions && r.RequestURI == "*" {
		st.WriteHeader(http.StatusNoContent)
		return
	}
	s.handler.ServeHTTP(st, r)
}

// explain has what a request or its answer has take as many bytes of the connection.
func (c *conn) explain(n int) { c.http2.explained.Add(explains * int64(n)) }

// mayRead counts bytes that have come, and reports whether requests and answers explain them. What
// they do not are frames that cost us more than their sender: of pings, of settings, of priorities,
// of windows, and such as are empty.
func (m *multiplexed) mayRead(n int, now time.Time) bool {
	have := min(int64(n), m.explained.Load())
	m.explained.Add(-have)
	rest := n - int(have)
	return rest == 0 || m.others.AllowN(now, rest)
}

// noteEnd counts requests that were answered and that were cancelled. A client that only begins
// requests has us call upstreams for the price of two frames each (rapid reset, CVE-2023-44487).
func (c *conn) noteEnd(ctx context.Context) {
	m := c.http2
	if ctx.Err() == nil {
		if m.answered.Load() < maxCancelled {
			m.answered.Add(1)
		}
		return
	}
	if c.gone.Load() {
		return // as the connection ends, its requests do
	}
	if m.answered.Add(-1) >= 0 {
		return
	}
	m.answered.Add(1)
	if !m.cancelled.Allow() {
		c.flooded("requests that it cancels")
	}
}

// flooded ends a connection whose client does more than any needs to.
func (c *conn) flooded(of string) {
	if c.closed.Swap(true) {
		return
	}
	c.server.refusals.flooded(c.RemoteAddr(), of)
	c.stuck.Store(true) // nothing is owed
	_ = below{c.wire, c}.Close()
}
