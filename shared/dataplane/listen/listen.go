// Package listen serves HTTP/1.1 and HTTP/2 to clients that can be slow,
// greedy or hostile. Both the management API and the gateway use it.
//
// The package adds to net/http: It refuses requests that two programs could frame differently (package framing).
// Every refusal that it writes is a problem document. It does not change a handler's response, except that it adds
// Connection: close to the last response of a connection. A refusal does not wait for the request's body. Stalled
// requests and responses are ended. The number of connections is limited.
//
// With Options.TLS, connections use TLS, and heads are checked after decryption. If the client
// negotiates HTTP/2, net/http parses the connection directly, because frames show unambiguously where
// a request ends. The limits of heads, of slow clients and of connections also apply to HTTP/2.
//
// The package is not a complete server: net/http parses every request that passes the checks. Handlers see
// no difference to net/http except the timeouts. Package handshake chooses the certificate of a handshake.
//
// With config.Listener.StandardHTTP, net/http reads HTTP/1.1 connections itself
// (standard.go). Operators can use this setting if our own parser has a defect.
//
// Read listen.go first, then conn.go (what net/http reads), heads.go (the memory of large heads), deadline.go
// (timeouts), park.go (parked connections), secure.go (TLS), http2.go and stream.go (HTTP/2), shutdown.go and
// goaway.go (shutdown), proxyprotocol.go (the PROXY protocol) and limit.go (limits of connections). The rules are
// in contract 1.2 (every error is a problem), design, section 4 (a bare % is a 400), RFC 9112 and
// docs/decisions/0026-heads-before-the-server.md, for HTTP/2 in docs/decisions/0058-http2-is-net-http-s-own.md.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/base/clientaddr"
	"github.com/gatewright/gatewright/shared/base/forwarded"
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/base/socket"
	"github.com/gatewright/gatewright/shared/core/config"
)

// Open opens a TCP listener on addr. purpose and variable name the listener
// and its setting in the error, which is a full sentence for the terminal.
func Open(ctx context.Context, addr, purpose, variable string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, listenError(err, addr, purpose, variable)
	}
	return l, nil
}

// listenError returns an error that says why an address can't be listened on, and what to do.
func listenError(err error, addr, purpose, variable string) error {
	switch {
	case socket.InUse(err):
		return fmt.Errorf("%s for %s is in use by another program: stop that program, or name another address in %s", addr,
			purpose, variable)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s for %s is at a port that needs a right on this system: give the program "+
			"CAP_NET_BIND_SERVICE, as its systemd unit does, or name a port from 1024 on in %s", addr, purpose, variable)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("%s for %s cannot be listened on (%w): name another address in %s", addr, purpose, err, variable)
}

// IDs creates identifiers that are hard to guess. Source of package ids implements it.
type IDs interface{ UUID() string }

// Options are the dependencies and settings of a Server. Handler, Settings, IDs and Log are required.
type Options struct {
	Handler  http.Handler
	Settings config.Listener
	// IDs creates the IDs of refusals. A refused request has no request ID.
	IDs IDs
	Log *slog.Logger
	// TLS is the configuration for TLS, nil for plain HTTP. HTTP/2 is used if
	// its NextProtos contain h2 and the client offers h2, and never without TLS.
	TLS *tls.Config
	// Bodies limits the memory of request bodies that handlers hold completely. The listeners of a
	// process share a budget. nil means a budget of Settings.BufferedBodyBytes for this listener alone.
	Bodies *bodies.Budget
	// Misdirected reports whether an HTTP/2 request needs another connection (421). Clients can send requests for all
	// hosts of a certificate over one connection. nil means that no request needs another connection.
	Misdirected func(*http.Request) bool
	// Budget limits the connections of all listeners of the process together.
	// nil means a budget of Settings.Connections for this listener alone.
	Budget *Budget
	// PathBytes is the maximum size of a request's path. 0 means framing.MaxPathBytes.
	PathBytes int
}

// Server serves a handler. Create one with New.
type Server struct {
	handler  http.Handler
	settings config.Listener
	limits   framing.Limits
	tls      *tls.Config
	refusals refusals
	http     http.Server
	// http2 serves the connections of http2Listener.
	http2         *http.Server
	http2Listener chanListener
	misdirected   func(*http.Request) bool
	parked        parkedConns
	bufs          bufPool
	counts        counts
	bodies        *bodies.Budget
	// draining is set by AnnounceShutdown: each HTTP/1.1 connection then ends after its next response.
	draining atomic.Bool
	shutdown shutdownState
	// closed is set by Close: connections then end immediately, without a TLS close_notify alert.
	closed atomic.Bool
}

// New returns a Server.
func New(o Options) *Server {
	s := &Server{
		handler: o.Handler, settings: o.Settings,
		limits: framing.Limits{Bytes: o.Settings.HeaderBytes, Fields: o.Settings.HeaderFields, Path: o.PathBytes},
		tls:    o.TLS, misdirected: o.Misdirected, parked: newParkedConns(), http2Listener: newChanListener(),
	}
	s.counts = counts{
		Budget: o.Budget, maxPerAddress: o.Settings.ConnectionsPerAddress,
		perAddress: make(map[netip.Addr]int),
	}
	if s.counts.Budget == nil {
		s.counts.Budget = NewBudget(o.Settings.Connections)
	}
	s.counts.addListener(&s.counts)
	if s.bodies = o.Bodies; s.bodies == nil {
		s.bodies = bodies.New(int64(cmp.Or(o.Settings.BufferedBodyBytes, config.DefaultListener().BufferedBodyBytes)))
	}
	s.refusals = refusals{ids: o.IDs, log: o.Log, logLimiter: rate.NewLimiter(logLinesPerSecond, logBurst)}
	s.http = http.Server{ //nolint:gosec // G112: conn enforces the timeout of heads
		Handler:     http.HandlerFunc(s.serveHTTP),
		IdleTimeout: o.Settings.IdleTimeout,
		// Our code limits heads exactly: before net/http reads them, or before the handler begins.
		MaxHeaderBytes:               2 * o.Settings.HeaderBytes,
		DisableGeneralOptionsHandler: true, // net/http's handler would respond instead of ours
		ErrorLog:                     slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			wrapped, ok := c.(*conn)
			if !ok {
				return ctx
			}
			ctx, wrapped.fail = context.WithCancelCause(ctx)
			return context.WithValue(ctx, connKey{}, wrapped)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			wrapped, ok := c.(*conn)
			if !ok {
				return
			}
			s.shutdown.trackConn(wrapped, state)
			switch state { //nolint:exhaustive // the other states do not affect reads
			case http.StateIdle:
				wrapped.onIdle()
			case http.StateHijacked:
				wrapped.onHijacked()
			}
		},
	}
	if o.Settings.StandardHTTP {
		s.http.MaxHeaderBytes = o.Settings.HeaderBytes
	}
	s.http2 = s.newHTTP2()
	return s
}

// Serve serves l until Shutdown or Close, and then returns http.ErrServerClosed. If l fails before, Serve returns the
// error of l. Call Serve only once.
func (s *Server) Serve(l net.Listener) error {
	go func() { _ = s.http.Serve(&s.parked) }()
	go func() { _ = s.http2.Serve(&s.http2Listener) }()
	err := s.http.Serve(&limitedListener{Listener: s.shutdown.wrapListener(l), server: s})
	if s.shutdown.listenerClosed.Load() {
		return http.ErrServerClosed
	}
	return err
}

// AnnounceShutdown announces the shutdown; further calls have no effect. The next response of each HTTP/1.1
// connection whose head is not written yet has the field Connection: close, and the connection ends after it. HTTP/2
// clients receive a GOAWAY: they start no further requests, and the requests that they have started get responses.
// Clients then open new connections, for which a load balancer chooses another server. So Shutdown does not close a
// connection on which a request is about to arrive.
func (s *Server) AnnounceShutdown() {
	s.draining.Store(true)
	s.shutdown.announce(time.Now())
}

// Connections returns the number of open connections that count for the limits.
func (s *Server) Connections() int {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	return s.counts.total - s.counts.streams
}

// Shutdown closes the listener and idle connections, and waits until all requests have responses, or until ctx ends.
// HTTP/2 clients receive a GOAWAY with the last stream that is served, and can send later requests to another server.
//
// After AnnounceShutdown, an HTTP/1.1 connection ends after its next response. If it has no further
// request, Shutdown closes it when it has been idle for the time between AnnounceShutdown and Shutdown.
func (s *Server) Shutdown(ctx context.Context) error {
	s.shutdown.waitForConns(ctx)
	s.parked.closeAll()
	if s.settings.StandardHTTP {
		closeAllGracefully(s.shutdown.idleStandardConns())
	}
	var g errgroup.Group
	g.Go(func() error { return s.http2.Shutdown(ctx) })
	g.Go(func() error { return s.http.Shutdown(ctx) })
	return g.Wait()
}

// Close closes the listener and all connections immediately. It sends no TLS
// close_notify alert, because with the alert a truncated response would look complete.
func (s *Server) Close() error {
	s.closed.Store(true)
	s.parked.closeAll()
	return errors.Join(s.http2.Close(), s.http.Close())
}

// connKey is the key of the connection in a request's context.
type connKey struct{}

// serveHTTP calls the handler.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if c.standard != nil {
		s.enterStandard(c, r)
	} else if !c.enterHandler() {
		panic(http.ErrAbortHandler)
	}
	r.TLS = c.state
	rw := &responseWriter{ResponseWriter: w, conn: c, hasBody: r.ContentLength != 0}
	if rw.hasBody {
		defer c.markBodyUnneeded()
		tracked, done := s.bodies.Begin(r, s.clientAddr(r), c.stallBody)
		defer done()
		r = tracked
	}
	if r.Method == http.MethodOptions && r.RequestURI == "*" {
		rw.WriteHeader(http.StatusNoContent) // "*" means the server as a whole, which has no options
		return
	}
	s.handler.ServeHTTP(rw, r)
	rw.beginResponse() // needed if the handler has written nothing
}

// clientAddr returns an address that represents all addresses of a request's client. It returns the zero value if the
// client is not known: if a trusted proxy has not sent the client's address, or if the peer is not a trusted proxy
// and there is no limit per address. In the second case, the peer can be a load balancer.
func (s *Server) clientAddr(r *http.Request) netip.Addr {
	origin := forwarded.Parse(r, s.settings.TrustedProxies)
	if origin.Trusted && origin.Client == origin.Peer || !origin.Trusted && s.settings.ConnectionsPerAddress == 0 {
		return netip.Addr{}
	}
	return clientaddr.Canonical(origin.Client)
}

// responseWriter writes the response to a request. When the response begins, the rest of the
// request's body is not needed any more, unless duplex is set. Without this, net/http would read the
// rest first, and a client that sends slowly or waits for status 100 would receive a refusal late.
type responseWriter struct {
	http.ResponseWriter
	conn *conn
	// hasBody is set if the request has a body. duplex is set if the handler reads the body while it writes the
	// response. headWritten is set when the response begins.
	hasBody, duplex, headWritten bool
}

// beginResponse is called before each write of the response. At its first call, it decides whether the connection ends
// after the response.
func (w *responseWriter) beginResponse() {
	if !w.headWritten {
		w.headWritten = true
		w.conn.releaseHead()
		if w.conn.server.draining.Load() || w.conn.closesAfterResponse() {
			w.Header().Set("Connection", "close")
			w.conn.idleSince.Store(0)
		} else {
			w.conn.idleSince.Store(responseInFlight)
		}
	}
	if w.hasBody && !w.duplex {
		w.conn.markBodyUnneeded()
	}
}

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	if status >= http.StatusOK {
		w.beginResponse()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *responseWriter) Write(p []byte) (int, error) {
	w.beginResponse()
	return w.ResponseWriter.Write(p)
}

// FlushError flushes the response. http.ResponseController.Flush calls it.
func (w *responseWriter) FlushError() error {
	w.beginResponse()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *responseWriter) Flush() { _ = w.FlushError() }

// EnableFullDuplex lets the handler read the body while it writes
// the response. http.ResponseController.EnableFullDuplex calls it.
func (w *responseWriter) EnableFullDuplex() error {
	w.duplex = true
	return http.NewResponseController(w.ResponseWriter).EnableFullDuplex()
}

// Unwrap returns the wrapped ResponseWriter, on which http.ResponseController calls all other methods.
func (w *responseWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
