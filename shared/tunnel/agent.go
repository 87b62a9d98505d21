package tunnel

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// AgentOptions are what an Agent takes from outside. Relay, Token and Log are needed.
type AgentOptions struct {
	// Relay is the relay's address, https://host[:port]; http for tests and on a machine
	// of one's own.
	Relay *url.URL
	// Token reads the tunnel's token, each time that a connection is opened: one that was
	// rotated in its file holds from the next connection on.
	Token func() (string, error)
	// Connections is how many are kept open at once, 2 to 4; 0 means 2.
	Connections int
	// WebSocket has the connection go in WebSocket messages, for proxies that let through
	// nothing else.
	WebSocket bool
	// Dial opens TCP connections to the relay; nil dials as net.Dialer does, through the
	// proxy of HTTPS_PROXY where one is set.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is for roots of one's own; nil trusts the system's.
	TLS *tls.Config
	// Transport asks services; nil has defaults of its own.
	Transport http.RoundTripper
	// Log hears of connections that open and end.
	Log *slog.Logger
	// Notify is called when the number of open connections changes; nil for nobody.
	Notify func(open int)
	// Pause waits between attempts; nil waits for a random part of a time that doubles up
	// to half a minute.
	Pause func(ctx context.Context, attempt int) error
}

// ErrRefused says that the relay does not know the token (any more).
var ErrRefused = errors.New("the relay refuses the token: it is no tunnel's, or it was rotated. Take the tunnel's present one from the management API")

// Agent connects services of its network to a relay.
type Agent struct {
	options AgentOptions
	known   known
	server  *http.Server

	mu      sync.Mutex
	open    int
	serving sync.WaitGroup // of connections, those included that drain
}

// NewAgent makes an Agent.
func NewAgent(o AgentOptions) *Agent {
	if o.Connections == 0 {
		o.Connections = 2
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	if o.Transport == nil {
		o.Transport = serviceTransport()
	}
	a := &Agent{options: o}
	control := http.NewServeMux()
	control.HandleFunc("PUT /services", a.configure)
	control.HandleFunc("POST /drain", drain)
	services := newForwarder(&a.known, o.Transport, o.Log)
	a.server = &http.Server{
		// Requests for services meet no mux, which redirects from paths that it would write otherwise.
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Host == controlHost {
				control.ServeHTTP(w, r)
				return
			}
			services.ServeHTTP(w, r)
		}),
		Protocols:      new(http.Protocols),
		ConnContext:    func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
		MaxHeaderBytes: maxHeaderBytes, ReadHeaderTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingEvery, PingTimeout: pingTimeout, WriteByteTimeout: pingEvery + pingTimeout,
			MaxConcurrentStreams:      maxStreams,
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		},
	}
	a.server.Protocols.SetUnencryptedHTTP2(true) // within TLS
	return a
}

// Run keeps connections open until ctx ends, whose cause it answers then, or until the
// relay refuses the token: ErrRefused. When ctx ends it takes no new requests, and waits
// for those under way for as long as grace.
func (a *Agent) Run(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var work sync.WaitGroup
	for range a.options.Connections {
		work.Go(func() { a.keep(ctx, cancel) })
	}
	<-ctx.Done()
	down, stop := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer stop()
	if err := a.server.Shutdown(down); err != nil {
		_ = a.server.Close()
	}
	work.Wait()
	a.serving.Wait()
	return context.Cause(ctx)
}

// keep opens one connection after the other.
func (a *Agent) keep(ctx context.Context, cancel context.CancelCauseFunc) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		began := time.Now()
		err := a.once(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrRefused):
			cancel(ErrRefused)
			return
		}
		if time.Since(began) > settled {
			attempt = 0
		}
		if a.options.Pause(ctx, attempt) != nil {
			return
		}
	}
}

// settled is how long a connection lasts that was a good one: the next attempt is a
// first one again.
const settled = time.Minute

// once opens a connection and serves on it until it ends, or until its relay drains: then it
// is served on beside the one that takes its place.
func (a *Agent) once(ctx context.Context) error {
	conn, err := a.connect(ctx)
	if err != nil {
		a.options.Log.LogAttrs(ctx, slog.LevelWarn, "tunnel: no connection to the relay", slog.Any("error", err))
		return err
	}
	a.count(1)
	a.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: connected", slog.String("relay", a.options.Relay.Host))
	l := serveOne(conn)
	a.serving.Go(func() {
		_ = a.server.Serve(l)
		<-l.ended
		a.count(-1)
		a.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: a connection has ended", slog.String("relay", a.options.Relay.Host))
	})
	select {
	case <-l.ended:
	case <-l.draining:
	}
	return nil
}

func (a *Agent) count(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open += n
	if a.options.Notify != nil {
		a.options.Notify(a.open)
	}
}

// configure takes the services that the relay tells of.
func (a *Agent) configure(w http.ResponseWriter, r *http.Request) {
	var services []Service
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxConfiguration)).Decode(&services); err != nil {
		http.Error(w, "no services", http.StatusBadRequest)
		return
	}
	services = slices.DeleteFunc(services, func(s Service) bool { return LeadsTo(s.Endpoint, a.options.Relay) })
	if err := a.known.set(services); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// maxConfiguration bounds what a relay tells of services, in bytes.
const maxConfiguration = 1 << 20

// connKey is where a request has the connection that it came on.
type connKey struct{}

// drain has another connection take the place of this one, which the relay will end.
func drain(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*told); ok {
		c.drains()
	}
	w.WriteHeader(http.StatusNoContent)
}

// pause is the time before an attempt: a random part, so that the agents of a relay that
// was restarted do not come all at once.
func pause(ctx context.Context, attempt int) error {
	const first, longest = time.Second, 30 * time.Second
	limit := longest
	if attempt < 5 {
		limit = min(longest, first<<attempt)
	}
	timer := time.NewTimer(limit/4 + rand.N(limit*3/4)) //nolint:gosec // no secret
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// oneConn is a listener that accepts one connection: what http.Server serves on.
type oneConn struct {
	conn chan net.Conn
	// ended is closed when the connection has ended, draining when its relay takes no more.
	ended, draining chan struct{}
	addr            net.Addr
}

// serveOne makes the listener of a connection.
func serveOne(conn net.Conn) *oneConn {
	l := &oneConn{conn: make(chan net.Conn, 1), ended: make(chan struct{}), draining: make(chan struct{}), addr: conn.LocalAddr()}
	l.conn <- &told{
		Conn: conn, ended: sync.OnceFunc(func() { close(l.ended) }), drains: sync.OnceFunc(func() { close(l.draining) }),
	}
	return l
}

// Accept gives the connection, and then waits for its end.
func (l *oneConn) Accept() (net.Conn, error) {
	select {
	case c := <-l.conn:
		return c, nil
	case <-l.ended:
		return nil, net.ErrClosed
	}
}

func (l *oneConn) Close() error   { return nil }
func (l *oneConn) Addr() net.Addr { return l.addr }

// told is a connection that tells of its end.
type told struct {
	net.Conn
	ended, drains func()
}

func (c *told) Close() error {
	c.ended()
	return c.Conn.Close()
}

// known are the services that an agent was told of.
type known struct {
	mu     sync.RWMutex
	byName map[string]service
}

type service struct {
	Service
	endpoint *url.URL
}

func (k *known) set(services []Service) error {
	byName := make(map[string]service, len(services))
	for _, s := range services {
		u, err := url.Parse(s.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("the endpoint of the service %s is no URL of a server", s.Name)
		}
		byName[s.Name] = service{s, u}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byName = byName
	return nil
}

func (k *known) of(name string) (service, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	s, ok := k.byName[name]
	return s, ok
}
