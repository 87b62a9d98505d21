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
	// Log hears of connections that open and end, and as warnings of services that do
	// not answer.
	Log *slog.Logger
	// Notify is called when the number of connections changes on which requests may come:
	// their relay has told the services. nil for nobody.
	Notify func(open int)
	// Failed is called when no connection was made, and when one has ended that its relay
	// did not drain: why, how many attempts in a row were in vain before, and how long it
	// is until the next one. nil for nobody. Neither it nor Notify is called twice at once.
	Failed func(err error, attempt int, wait time.Duration)
	// Pause waits between attempts; nil waits for a random part of a time that doubles up
	// to half a minute.
	Pause func(ctx context.Context, attempt int) error
}

var (
	// ErrCut says that requests were under way when an agent's grace was over.
	ErrCut = errors.New("requests under way did not end in time, and were cut")
	// ErrLost says that a connection to the relay has ended by itself.
	ErrLost = errors.New("the connection to the relay has ended")
	// ErrNoRelay says that what was connected to does not speak as a relay does.
	ErrNoRelay = errors.New("what answers there is no relay")
	// ErrRefused says that the relay does not know the token (any more).
	ErrRefused = errors.New("the relay refuses the token: it is no tunnel's, or it was rotated. Take the tunnel's present one from the management API")
	// errRefusedBeside is ErrRefused while there is another connection, which a token that was
	// rotated does not end (contract 2.8).
	errRefusedBeside = fmt.Errorf("%w. Connections that are there stay", ErrRefused)
)

// Agent connects services of its network to a relay.
type Agent struct {
	options AgentOptions
	known   known
	server  *http.Server
	busy    atomic.Int64  // requests
	leaving chan struct{} // closed when it takes no more

	// held counts connections until they end, and attempts at one while they last.
	held atomic.Int64

	mu      sync.Mutex
	open    int
	serving sync.WaitGroup // of connections, those included that drain
}

// NewAgent makes an Agent.
func NewAgent(o AgentOptions) *Agent {
	if o.Connections == 0 {
		o.Connections = 2
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
			MaxConcurrentStreams: maxStreams,
			MaxReadFrameSize:     frameBytes, MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: connectionWindow,
		},
	}
	a.server.Protocols.SetUnencryptedHTTP2(true) // within TLS
	a.leaving = make(chan struct{})
	a.server.Handler = a.counted(a.server.Handler)
	return a
}

// counted counts requests for services, which an agent's end waits for, and answers the one
// that asks for its end.
func (a *Agent) counted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Host != controlHost:
			a.busy.Add(1)
			defer a.busy.Add(-1)
		case r.URL.Path == "/leaving":
			a.leaves(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Run keeps connections open until ctx ends, whose cause it answers then, or until the
// relay refuses the token and no connection is left: ErrRefused. Then it has the relay send no new requests, and waits
// for those under way for as long as grace; with those that it cut then it answers ErrCut as
// well. It is called once.
func (a *Agent) Run(ctx context.Context, grace time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	var work sync.WaitGroup
	for range a.options.Connections {
		work.Go(func() { a.keep(ctx, over, cancel) })
	}
	<-ctx.Done()
	close(a.leaving)
	gone := make(chan struct{})
	go func() {
		work.Wait()
		a.serving.Wait()
		close(gone)
	}()
	down, stop := context.WithTimeout(over, grace)
	defer stop()
	a.drained(down, gone)
	cut := a.busy.Load() > 0
	end()
	<-gone
	if cut {
		return fmt.Errorf("%w: %w", context.Cause(ctx), ErrCut)
	}
	return context.Cause(ctx)
}

// farewell is how long a relay may take to hear that an agent leaves. After that one that
// sends nothing, such as one that is gone, is not waited for.
const farewell = 2 * time.Second

// drained returns when relays have ended all connections, and when nothing was under way for
// as long as farewell, or ctx has ended.
func (a *Agent) drained(ctx context.Context, gone <-chan struct{}) {
	const looks = 20
	ticker := time.NewTicker(farewell / looks)
	defer ticker.Stop()
	for idle := 0; idle < looks; idle++ {
		select {
		case <-gone:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
			if a.busy.Load() > 0 {
				idle = 0
			}
		}
	}
}

// keep opens one connection after the other.
func (a *Agent) keep(ctx, over context.Context, cancel context.CancelCauseFunc) {
	for attempt := 0; ctx.Err() == nil; attempt++ {
		good, err := a.once(ctx, over)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, ErrRefused) && !errors.Is(err, errRefusedBeside):
			cancel(ErrRefused)
			return
		}
		if good {
			attempt = 0
		}
		wait := delay(attempt)
		if err != nil {
			a.failed(ctx, err, attempt, wait)
		}
		if a.pause(ctx, attempt, wait) != nil {
			return
		}
	}
}

// settled is how long requests may come on a connection that was a good one: the next attempt is a
// first one again. What it took until they could is not part of it, since attempts in vain may take long.
// Requests wait for an agent for some seconds only, and connections break several times a minute while
// relays are replaced; one that breaks at once is not dialled for ever as often as that.
const settled = 5 * time.Second

// once opens a connection and serves on it until it ends, or until its relay drains: then it
// is served on beside the one that takes its place, and there is no error. It ends with over
// at the latest: the server does not know of one that it was given as it was shut down. good
// says that the next attempt is a first one.
func (a *Agent) once(ctx, over context.Context) (good bool, err error) {
	a.held.Add(1)
	conn, err := a.connect(ctx)
	if err != nil {
		// An attempt beside this one may succeed yet: the last of them decides.
		if a.held.Add(-1) > 0 && errors.Is(err, ErrRefused) {
			return false, errRefusedBeside
		}
		return false, err
	}
	l := serveOne(conn, func() { a.count(ctx, 1) })
	a.serving.Go(func() {
		defer context.AfterFunc(over, func() { _ = l.told.Close() })()
		_ = a.server.Serve(l)
		<-l.ended
		a.held.Add(-1)
		if known, _ := l.told.over(); known {
			a.count(ctx, -1)
		}
	})
	select {
	case <-l.ended:
	case <-l.draining:
		return true, nil
	}
	known, lasted := l.told.over()
	if !known {
		return false, ErrNoRelay
	}
	return lasted > settled, ErrLost
}

func (a *Agent) count(ctx context.Context, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open += n
	a.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: connections", slog.Int("open", a.open), slog.String("relay", a.options.Relay.Host))
	if a.options.Notify != nil {
		a.options.Notify(a.open)
	}
}

func (a *Agent) failed(ctx context.Context, err error, attempt int, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.options.Log.LogAttrs(ctx, slog.LevelInfo, "tunnel: no connection to the relay", slog.Any("error", err))
	if a.options.Failed != nil {
		a.options.Failed(err, attempt, wait)
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
	if c, ok := r.Context().Value(connKey{}).(*told); ok {
		c.knows()
	}
	w.WriteHeader(http.StatusNoContent)
}

// maxConfiguration bounds what a relay tells of services, in bytes. The largest configuration of
// package tunnels has half as many.
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

// leaves answers when the agent takes no more requests. So a relay hears of it before the
// connection ends, and nothing that nobody may send twice is on its way then: a GOAWAY of
// HTTP/2 crosses with requests.
func (a *Agent) leaves(w http.ResponseWriter, r *http.Request) {
	select {
	case <-a.leaving:
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done():
	}
}

// delay is the time before an attempt: a random part, so that the agents of a relay that
// was restarted do not come all at once.
func delay(attempt int) time.Duration {
	const first, longest = time.Second, 30 * time.Second
	limit := longest
	if attempt < 5 {
		limit = min(longest, first<<attempt)
	}
	return limit/4 + rand.N(limit*3/4) //nolint:gosec // no secret
}

func (a *Agent) pause(ctx context.Context, attempt int, wait time.Duration) error {
	if a.options.Pause != nil {
		return a.options.Pause(ctx, attempt)
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
