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
	"sync/atomic"
	"time"
)

// AgentOptions are the settings and dependencies of an Agent. Relay, Token and Log are required.
type AgentOptions struct {
	// Relay is the relay's address, https://host[:port]. Use http only for tests and on your own machine.
	Relay *url.URL
	// Token reads the tunnel's token. The agent calls it each time it opens a
	// connection, so that a rotated token takes effect with the next connection.
	Token func() (string, error)
	// Connections is the number of connections that the agent keeps open, 2 to 4. 0 means 2.
	Connections int
	// WebSocket makes the agent connect through WebSocket messages, for proxies that allow nothing else.
	WebSocket bool
	// Dial opens TCP connections to the relay, or to the proxy in HTTPS_PROXY if it is set. nil uses net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the TLS configuration, for example with other root
	// certificates. nil trusts the system's root certificates.
	TLS *tls.Config
	// Transport sends requests to services. nil uses a transport with default settings.
	Transport http.RoundTripper
	// Log gets records about connections that open and end, and about services that do not respond.
	Log *slog.Logger
	// Notify is called with the number of usable connections when the number changes. A connection
	// is usable after the relay has sent the list of services. nil means no notification.
	Notify func(open int)
	// OnFailure is called when a connection attempt fails, and when a connection ends without being drained by its relay.
	// It is not called while the agent shuts down, and not for the refusal that ends Run. err is the reason. attempt is
	// the number of consecutive attempts that failed before. wait is the time until the next attempt if Backoff is nil.
	// nil means no notification. Calls of OnFailure and Notify never overlap.
	OnFailure func(err error, attempt int, wait time.Duration)
	// Backoff waits between attempts. If it is nil, the agent waits for a partly
	// random time, whose maximum doubles with each attempt up to 30 seconds.
	Backoff func(ctx context.Context, attempt int) error
}

var (
	// ErrAborted means that requests were still in flight when the agent's grace period ended.
	ErrAborted = errors.New("requests under way did not end in time, and were cut")
	// ErrConnectionLost means that a connection to the relay ended unexpectedly.
	ErrConnectionLost = errors.New("the connection to the relay has ended")
	// ErrNotRelay means that the server at the address does not speak the relay's protocol, or that it ended a connection
	// before it sent the list of services.
	ErrNotRelay = errors.New("what answers there is no relay")
	// ErrRefused means that the relay does not accept the token, or no longer accepts it.
	ErrRefused = errors.New("the relay refuses the token: it is no tunnel's, or it was rotated. Take the tunnel's " +
		"present one from the management API")
	// errRefusedButConnected is ErrRefused while the agent has, or is opening, another
	// connection. Rotating a token does not end existing connections (contract 2.8).
	errRefusedButConnected = fmt.Errorf("%w. Connections that are there stay", ErrRefused)
)

// Agent connects the services of its network to a relay.
type Agent struct {
	options  AgentOptions
	services serviceTable
	server   *http.Server
	inFlight atomic.Int64  // number of requests in flight
	shutdown chan struct{} // closed when the agent accepts no more requests

	// active is the number of connections and of connection attempts in progress.
	active atomic.Int64

	mu          sync.Mutex
	open        int            // number of usable connections
	connections sync.WaitGroup // counts connections, including those that drain
}

// NewAgent returns an Agent that is not connected yet.
func NewAgent(o AgentOptions) *Agent {
	if o.Connections == 0 {
		o.Connections = 2
	}
	if o.Transport == nil {
		o.Transport = serviceTransport()
	}
	a := &Agent{options: o}
	control := http.NewServeMux()
	control.HandleFunc("PUT /services", a.handleServices)
	control.HandleFunc("POST /drain", handleDrain)
	services := newForwarder(&a.services, o.Transport, o.Log)
	a.server = &http.Server{
		// Requests for services bypass the mux, which would redirect paths that are not in its canonical form.
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
			SendPingTimeout: pingInterval, PingTimeout: pingTimeout, WriteByteTimeout: pingInterval + pingTimeout,
			MaxConcurrentStreams: maxStreams,
			MaxReadFrameSize:     frameBytes, MaxReceiveBufferPerStream: streamWindow,
			MaxReceiveBufferPerConnection: connectionWindow,
		},
	}
	a.server.Protocols.SetUnencryptedHTTP2(true) // within TLS
	a.shutdown = make(chan struct{})
	a.server.Handler = a.countRequests(a.server.Handler)
	return a
}

// countRequests counts requests for services, because a shutdown waits for them.
// It also serves the request with which the relay waits for the shutdown.
func (a *Agent) countRequests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != controlHost:
			a.inFlight.Add(1)
			defer a.inFlight.Add(-1)
		case r.URL.Path == "/leaving":
			a.handleLeaving(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Run keeps connections open until ctx ends, or until the relay refuses the token and no connection is left
// (ErrRefused). Then it makes the relay stop sending requests, and waits at most grace for the requests in flight.
// It returns the cause of ctx, or ErrRefused. The error also wraps ErrAborted if Run aborted requests. Call it once.
func (a *Agent) Run(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	connCtx, cancelConns := context.WithCancel(context.WithoutCancel(ctx))
	defer cancelConns()
	var wg sync.WaitGroup
	for range a.options.Connections {
		wg.Go(func() { a.maintain(ctx, connCtx, cancel) })
	}
	<-ctx.Done()
	close(a.shutdown)
	done := make(chan struct{})
	go func() {
		wg.Wait()
		a.connections.Wait()
		close(done)
	}()
	graceCtx, stop := context.WithTimeout(connCtx, grace)
	defer stop()
	a.waitDrained(graceCtx, done)
	aborted := a.inFlight.Load() > 0
	cancelConns()
	<-done
	if aborted {
		return fmt.Errorf("%w: %w", context.Cause(ctx), ErrAborted)
	}
	return context.Cause(ctx)
}

// shutdownNotice is the time that a relay has to notice that an agent shuts down. After this time without requests
// in flight, the agent no longer waits for the relay to end the connection: the relay could be unreachable.
const shutdownNotice = 2 * time.Second

// waitDrained waits until the relays have ended all connections, until no request was in flight for shutdownNotice, or
// until ctx ends.
func (a *Agent) waitDrained(ctx context.Context, done <-chan struct{}) {
	const polls = 20
	ticker := time.NewTicker(shutdownNotice / polls)
	defer ticker.Stop()
	for idle := 0; idle < polls; idle++ {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
			if a.inFlight.Load() > 0 {
				idle = 0
			}
		}
	}
}

// maintain keeps one connection open until ctx ends. When the connection ends, it opens the next one. If the relay
// refuses the token and the agent has no other connection, maintain ends Run with cancel.
func (a *Agent) maintain(ctx, connCtx context.Context, cancel context.CancelCauseFunc) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		stable, err := a.serveConnection(ctx, connCtx)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrRefused) && !errors.Is(err, errRefusedButConnected):
			cancel(ErrRefused)
			return
		}
		if stable {
			attempt = 0
		}
		delay := backoff(attempt)
		if err != nil {
			a.reportFailure(ctx, err, attempt, delay)
		}
		if a.wait(ctx, attempt, delay) != nil {
			return
		}
	}
}

// minStableTime is the minimum time for which a connection must be usable to reset the delay between attempts. The time
// until the connection became usable does not count, since failed attempts can take long. The minimum is short, because
// requests wait only some seconds for an agent, and connections break several times a minute while relays are replaced.
// A connection that breaks immediately does not reset the delay, so the agent does not keep dialing without a delay.
const minStableTime = 5 * time.Second

// serveConnection opens a connection and serves requests on it. It returns when the connection ends or its relay
// drains it. A draining connection is not an error: it still serves its requests while the next connection replaces
// it. Every connection is closed when connCtx ends. stable reports whether the delay between attempts is reset.
func (a *Agent) serveConnection(ctx, connCtx context.Context) (stable bool, err error) {
	a.active.Add(1)
	conn, err := a.connect(ctx)
	if err != nil {
		// Another connection, or an attempt in progress, could still
		// serve requests. Only the last refusal ends the agent.
		if a.active.Add(-1) > 0 && errors.Is(err, ErrRefused) {
			return false, errRefusedButConnected
		}
		return false, err
	}
	l := newSingleConnListener(conn, func() { a.addOpen(ctx, 1) })
	a.connections.Go(func() {
		defer context.AfterFunc(connCtx, func() { _ = l.tracked.Close() })()
		_ = a.server.Serve(l)
		<-l.done
		a.active.Add(-1)
		if usable, _ := l.tracked.markClosed(); usable {
			a.addOpen(ctx, -1)
		}
	})
	select {
	case <-l.done:
	case <-l.draining:
		return true, nil
	}
	usable, uptime := l.tracked.markClosed()
	if !usable {
		return false, ErrNotRelay
	}
	return uptime > minStableTime, ErrConnectionLost
}

func (a *Agent) addOpen(ctx context.Context, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open += n
	a.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: connections", slog.Int("open", a.open),
		slog.String("relay", a.options.Relay.Host))
	if a.options.Notify != nil {
		a.options.Notify(a.open)
	}
}

func (a *Agent) reportFailure(ctx context.Context, err error, attempt int, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: no connection to the relay", slog.Any("error", err))
	if a.options.OnFailure != nil {
		a.options.OnFailure(err, attempt, wait)
	}
}

// handleServices receives the list of services from the relay. It ignores services whose endpoint is the relay itself.
func (a *Agent) handleServices(w http.ResponseWriter, r *http.Request) {
	var services []Service
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxConfiguration)).Decode(&services); err != nil {
		http.Error(w, "no services", http.StatusBadRequest)
		return
	}
	services = slices.DeleteFunc(services, func(s Service) bool { return PointsToRelay(s.Endpoint, a.options.Relay) })
	if err := a.services.set(services); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if c, ok := r.Context().Value(connKey{}).(*trackedConn); ok {
		c.markConfigured()
	}
	w.WriteHeader(http.StatusNoContent)
}

// maxConfiguration is the maximum size of the list of services, in bytes.
// The largest configuration that package tunnels allows has half that size.
const maxConfiguration = 1 << 20

// connKey is the context key of the connection on which a request arrived.
type connKey struct{}

// handleDrain makes the agent open another connection in place of this one, which the relay is about to end.
func handleDrain(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*trackedConn); ok {
		c.onDrain()
	}
	w.WriteHeader(http.StatusNoContent)
}

// handleLeaving responds when the agent accepts no more requests. The relay therefore
// stops sending requests before the connection ends. An HTTP/2 GOAWAY would be too late:
// it can cross requests that are already sent, and some of these must not be sent twice.
func (a *Agent) handleLeaving(w http.ResponseWriter, r *http.Request) {
	select {
	case <-a.shutdown:
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
	}
}

// backoff returns the time before an attempt. A part of it is random, so that the agents of a restarted relay do not
// connect all at once.
func backoff(attempt int) time.Duration {
	const base, longest = time.Second, 30 * time.Second
	limit := longest
	if attempt < 5 {
		limit = min(longest, base<<attempt)
	}
	return limit/4 + rand.N(limit*3/4) //nolint:gosec // not a secret
}

// wait waits before the next attempt: with options.Backoff, or for delay. It returns an error if ctx ends first.
func (a *Agent) wait(ctx context.Context, attempt int, delay time.Duration) error {
	if a.options.Backoff != nil {
		return a.options.Backoff(ctx, attempt)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// serviceTable has the services that the relay has configured, by name.
type serviceTable struct {
	mu     sync.RWMutex
	byName map[string]service
}

// service is a Service with its parsed endpoint.
type service struct {
	Service
	endpoint *url.URL
}

// set replaces all services. It returns an error and changes nothing if an endpoint is invalid.
func (t *serviceTable) set(services []Service) error {
	byName := make(map[string]service, len(services))
	for _, s := range services {
		u, err := url.Parse(s.Endpoint)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return fmt.Errorf("the endpoint of the service %s is no URL of a server", s.Name)
		}
		byName[s.Name] = service{s, u}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName = byName
	return nil
}

func (t *serviceTable) lookup(name string) (service, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	s, ok := t.byName[name]
	return s, ok
}
