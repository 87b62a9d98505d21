// Package listen is what stands between clients and the product's handlers: it
// listens, and serves HTTP/1.1 and HTTP/2 to clients that are slow, greedy or hostile. The
// management API and the gateway are served by it alike.
//
// What it adds to net/http: requests that two programs could frame differently are
// refused (package framing); every refusal is a problem document, and no byte of a
// handler's answer is touched; a refusal does not wait for the request's body; what
// stalls is ended, in either direction; connections are bounded.
//
// With Options.TLS it speaks TLS below all that, and the rest is the same: heads are
// looked at as they come out of it. A client that asks for HTTP/2 there is served by
// net/http's own, whose frames leave no doubt where a request ends; what holds of heads,
// of the slow and of the many holds of them too.
//
// What it is not: a parser, or a server of its own. net/http reads every request
// that comes through, and handlers see nothing of this package but timeouts. Which
// certificate a handshake is answered with is package handshake's.
//
// With config.Listener.StandardHTTP net/http reads connections itself (standard.go). It is for incidents in
// which our own parser has a fault.
//
// Read listen.go first, then conn.go (what net/http gets to read), heads.go (the memory of large heads), deadline.go (how
// long it waits), secure.go (TLS), http2.go and stream.go (HTTP/2), leave.go and goaway.go (how a
// server ends), introduce.go (the PROXY protocol) and bound.go. The rules are those of contract 1.2 (every error is
// a problem), design, section 4 (a bare % is a 400), RFC 9112 and
// docs/decisions/0026-heads-before-the-server.md, for HTTP/2
// docs/decisions/0058-http2-is-net-http-s-own.md.
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

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/forwarded"
	"github.com/gatewright/gatewright/shared/listen/framing"
	"github.com/gatewright/gatewright/shared/socket"
	"github.com/gatewright/gatewright/shared/subscriber"
)

// On opens a TCP listener on addr. purpose and variable name the listener and its
// setting in the error, which is a full sentence for the terminal.
func On(ctx context.Context, addr, purpose, variable string) (net.Listener, error) {
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, refused(err, addr, purpose, variable)
	}
	return l, nil
}

// refused says why an address cannot be listened on, and what to do.
func refused(err error, addr, purpose, variable string) error {
	switch {
	case socket.InUse(err):
		return fmt.Errorf("%s for %s is in use by another program: stop that program, or name another address in %s", addr, purpose, variable)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s for %s is at a port that needs a right on this system: give the program CAP_NET_BIND_SERVICE, as its systemd unit does, or name a port from 1024 on in %s", addr, purpose, variable)
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err
	}
	return fmt.Errorf("%s for %s cannot be listened on (%w): name another address in %s", addr, purpose, err, variable)
}

// IDs makes identifiers that nobody can guess: package ids' Source.
type IDs interface{ UUID() string }

// Options are what a Server is made of. All but TLS are needed.
type Options struct {
	Handler  http.Handler
	Settings config.Listener
	// IDs are what refusals are known by, which come before there is a request.
	IDs IDs
	Log *slog.Logger
	// TLS has the listener speak TLS by it, nil for plain HTTP. HTTP/2 is spoken where its
	// NextProtos have h2 and the client asks for it, and over plain HTTP never.
	TLS *tls.Config
	// Bodies bounds the memory of request bodies that handlers hold whole. The listeners of a process share one. nil means
	// a budget of Settings.BufferedBodyBytes for this listener alone.
	Bodies *bodies.Budget
	// Misdirected reports whether a request by HTTP/2 has to come again on another connection
	// (421), nil for none ever: clients send there what is for any host of the certificate.
	Misdirected func(*http.Request) bool
	// Budget bounds the connections of all listeners of the process together. nil means a budget of Settings.Connections for this
	// listener alone.
	Budget *Budget
	// PathBytes is the size of the longest path of a request. 0 means framing.MaxPathBytes.
	PathBytes int
}

// Server serves a handler. Make one with New.
type Server struct {
	handler  http.Handler
	settings config.Listener
	limits   framing.Limits
	tls      *tls.Config
	refusals refusals
	http     http.Server
	// http2 serves what passage brings.
	http2       *http.Server
	passage     passage
	misdirected func(*http.Request) bool
	sleepers    sleepers
	stashes     stashes
	counts      counts
	bodies      *bodies.Budget
	// leaving says that no further request is wanted on a connection.
	leaving   atomic.Bool
	departure departure
	// closed says that connections end at once, without the goodbye of TLS.
	closed atomic.Bool
}

// New makes a Server.
func New(o Options) *Server {
	s := &Server{
		handler: o.Handler, settings: o.Settings,
		limits: framing.Limits{Bytes: o.Settings.HeaderBytes, Fields: o.Settings.HeaderFields, Path: o.PathBytes},
		tls:    o.TLS, misdirected: o.Misdirected, sleepers: newSleepers(), passage: newPassage(),
	}
	s.counts = counts{Budget: o.Budget, mostOfOne: o.Settings.ConnectionsPerAddress, of: make(map[netip.Addr]int)}
	if s.counts.Budget == nil {
		s.counts.Budget = NewBudget(o.Settings.Connections)
	}
	s.counts.join(&s.counts)
	if s.bodies = o.Bodies; s.bodies == nil {
		s.bodies = bodies.New(int64(cmp.Or(o.Settings.BufferedBodyBytes, config.DefaultListener().BufferedBodyBytes)))
	}
	s.refusals = refusals{ids: o.IDs, log: o.Log, lines: rate.NewLimiter(linesPerSecond, linesAtOnce)}
	s.http = http.Server{ //nolint:gosec // G112: heads have their timeout before the server reads them
		Handler:     http.HandlerFunc(s.serveHTTP),
		IdleTimeout: o.Settings.IdleTimeout,
		// Our code limits heads exactly: before net/http reads them, or before the handler begins.
		MaxHeaderBytes:               2 * o.Settings.HeaderBytes,
		DisableGeneralOptionsHandler: true, // which would answer with no handler running
		ErrorLog:                     slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			own, ok := c.(*conn)
			if !ok {
				return ctx
			}
			ctx, own.fail = context.WithCancelCause(ctx)
			return context.WithValue(ctx, connKey{}, own)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			own, ok := c.(*conn)
			if !ok {
				return
			}
			s.departure.follow(own, state)
			switch state { //nolint:exhaustive // the others say nothing of what is read
			case http.StateIdle:
				own.idle()
			case http.StateHijacked:
				own.tunnel()
			}
		},
	}
	if o.Settings.StandardHTTP {
		s.http.MaxHeaderBytes = o.Settings.HeaderBytes
	}
	s.http2 = s.newHTTP2()
	return s
}

// Serve answers on l until Shutdown or Close, whose http.ErrServerClosed it returns.
// It is called once.
func (s *Server) Serve(l net.Listener) error {
	go func() { _ = s.http.Serve(&s.sleepers) }()
	go func() { _ = s.http2.Serve(&s.passage) }()
	err := s.http.Serve(&bounded{Listener: s.departure.listens(l), server: s})
	if s.departure.over.Load() {
		return http.ErrServerClosed
	}
	return err
}

// Leave announces the end, from the first call on. Each answer whose head is not written yet is its
// connection's last, as the answer says; clients by HTTP/2 are told to begin no request there any
// more (GOAWAY), and what they have begun by then is answered. All come again by whatever sends them
// elsewhere, and Shutdown finds no connection on which a request may be under way to us.
func (s *Server) Leave() {
	s.leaving.Store(true)
	s.departure.begin(time.Now())
}

// Connections is how many there are.
func (s *Server) Connections() int {
	s.counts.mu.Lock()
	defer s.counts.mu.Unlock()
	return s.counts.all - s.counts.streams
}

// Shutdown ends the listener and idle connections, and waits until all requests are
// answered. Clients by HTTP/2 are told which are (GOAWAY), and that others may go elsewhere.
//
// After Leave a connection by HTTP/1.1 ends with an answer that says so, or when it has been idle for as long
// as it is since Leave: one whose last answer began before it is served for that long.
func (s *Server) Shutdown(ctx context.Context) error {
	s.departure.settle(ctx)
	s.sleepers.end()
	if s.settings.StandardHTTP {
		partAll(s.departure.idle())
	}
	var both errgroup.Group
	both.Go(func() error { return s.http2.Shutdown(ctx) })
	both.Go(func() error { return s.http.Shutdown(ctx) })
	return both.Wait()
}

// Close ends the listener and all connections, at once: by TLS it says no goodbye, which would
// have an answer that is cut off look whole.
func (s *Server) Close() error {
	s.closed.Store(true)
	s.sleepers.end()
	return errors.Join(s.http2.Close(), s.http.Close())
}

// connKey finds the connection in a request's context.
type connKey struct{}

// serveHTTP stands before the handler.
func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) {
	c, ok := r.Context().Value(connKey{}).(*conn)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if c.standard != nil {
		s.enterStandard(c, r)
	} else if !c.enter() {
		panic(http.ErrAbortHandler)
	}
	r.TLS = c.state
	a := &answer{ResponseWriter: w, conn: c, reading: r.ContentLength != 0}
	if a.reading {
		defer c.hurry()
		begun, over := s.bodies.Begin(r, s.clientOf(r), c.stall)
		defer over()
		r = begun
	}
	if r.Method == http.MethodOptions && r.RequestURI == "*" {
		a.WriteHeader(http.StatusNoContent) // of the server as a whole, which has no options
		return
	}
	s.handler.ServeHTTP(a, r)
	a.begin() // of a handler that has said nothing
}

// clientOf returns the address that stands for all addresses of a request's client. It returns the zero value if the client is
// not known: a trusted proxy has not sent its address, or connections of one address have no limit, as behind a balancer.
func (s *Server) clientOf(r *http.Request) netip.Addr {
	from := forwarded.Of(r, s.settings.TrustedProxies)
	if from.Trusted && from.Client == from.Peer || !from.Trusted && s.settings.ConnectionsPerAddress == 0 {
		return netip.Addr{}
	}
	return subscriber.Of(from.Client)
}

// answer is the answer to a request. When it begins, nobody asks for the rest of the
// request's body any more: net/http would wait for it first, so that a client
// which sends slowly, or waits to be asked, would wait for its refusal.
type answer struct {
	http.ResponseWriter
	conn *conn
	// reading says that there is a body that the handler may read, duplex that it reads on while it
	// answers, begun that the head is written.
	reading, duplex, begun bool
}

func (a *answer) begin() {
	if !a.begun {
		a.begun = true
		a.conn.releaseHead()
		if a.conn.server.leaving.Load() || a.conn.isLast() {
			a.Header().Set("Connection", "close")
			a.conn.untold.Store(0)
		} else {
			a.conn.untold.Store(underWay)
		}
	}
	if a.reading && !a.duplex {
		a.conn.hurry()
	}
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if status >= http.StatusOK {
		a.begin()
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	return a.ResponseWriter.Write(p)
}

// FlushError is what http.ResponseController calls.
func (a *answer) FlushError() error {
	a.begin()
	return http.NewResponseController(a.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// EnableFullDuplex is what http.ResponseController calls.
func (a *answer) EnableFullDuplex() error {
	a.duplex = true
	return http.NewResponseController(a.ResponseWriter).EnableFullDuplex()
}

// Unwrap is what http.ResponseController calls for everything else.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
