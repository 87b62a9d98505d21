package relay_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/internal/printed"
	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
	"github.com/gatewright/gatewright/shared/tunnel"
	"github.com/gatewright/gatewright/shared/tunnels"
)

const (
	// balancer is where agents and gateways find relays; certificates of httptest are for it.
	balancer = "example.com:443"
	account  = "a-1"
	ref      = account + "/tnl_1"
	token    = "token-of-tnl-1"
)

var shop = tunnel.Caller{Project: "shop", Environment: "production"}

type rootKey byte

func (k rootKey) Root(context.Context) ([]byte, error) {
	return bytes.Repeat([]byte{byte(k)}, 32), nil
}

// directory has one tunnel, with the services that it is given.
type directory struct {
	mu       sync.Mutex
	services []tunnel.Service
	agents   []tunnel.Service // what agents are told, nil for services
	down     error
	deleted  bool  // the tunnel
	untold   error // why agents can't be told anything
}

var errDown = errors.New("the table is down")

func (d *directory) Authorize(_ context.Context, text string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text == token && !d.deleted {
		return ref, nil
	}
	return "", nil
}

func (d *directory) Services(context.Context, string) ([]tunnel.Service, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deleted && d.down == nil {
		return nil, tunnels.ErrNoTunnel
	}
	err := errors.Join(d.down, d.untold)
	if d.agents != nil || err != nil {
		return d.agents, err
	}
	return d.services, nil
}

func (d *directory) Find(_ context.Context, accountID, service string, c tunnel.Caller) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return "", d.down
	}
	for _, s := range d.services {
		switch {
		case accountID != account || s.Name != service:
		case !s.Allows(c):
			return "", &tunnel.Error{Failure: tunnel.NotAllowed}
		default:
			return ref, nil
		}
	}
	return "", &tunnel.Error{Failure: tunnel.UnknownService}
}

func (d *directory) set(services ...tunnel.Service) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.services = services
}

// remove deletes the tunnel.
func (d *directory) remove() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.services, d.deleted = nil, true
}

func (d *directory) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = err
}

// world is relays over one table, behind a load balancer, with a service. It lives in a
// synctest bubble.
type world struct {
	*testing.T
	net       *network
	directory *directory
	items     *memory.Backend
	log       *slog.Logger
	logged    printed.Text

	mu    sync.Mutex
	roots *x509.CertPool
}

// inWorld runs a test in a bubble, with a service called api.
func inWorld(t *testing.T, service http.Handler, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: newNetwork(1), directory: &directory{}, items: memory.New(), roots: x509.NewCertPool()}
		w.log = slog.New(slog.NewTextHandler(&w.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		w.directory.set(api("http://service.internal/base"))
		upstream := &http.Server{Handler: service, ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug)}
		l := w.net.listen("service.internal:80")
		go func() { _ = upstream.Serve(l) }()
		defer w.net.end()
		defer func() { _ = upstream.Close() }()
		test(w)
	})
}

// api is the service at an endpoint.
func api(endpoint string) tunnel.Service {
	return tunnel.Service{Name: "api", Endpoint: endpoint, Access: []tunnel.Access{{Project: shop.Project, Environments: []string{shop.Environment}}}}
}

// process is a relay as one process of it.
type process struct {
	*relay.Relay
	world   *world
	name    string
	server  *httptest.Server
	table   *mortal
	stop    context.CancelFunc
	stopped chan struct{}
	asked   atomic.Int64 // requests for AskPath
}

// mostAsked is how often a process is asked at most, so that all tests have an end.
const mostAsked = 100_000

// mortal is a table that a process reaches for as long as it lives.
type mortal struct {
	*memory.Backend
	dead atomic.Bool
}

func (m *mortal) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if m.dead.Load() {
		return nil, "", errDown
	}
	return m.Backend.Query(ctx, q)
}

func (m *mortal) Transact(ctx context.Context, token string, writes []store.Write) error {
	if m.dead.Load() {
		return errDown
	}
	return m.Backend.Transact(ctx, token, writes)
}

// relay starts a process of a relay, of which others and the balancer know.
func (w *world) relay(name string) *process {
	w.Helper()
	p := &process{world: w, name: name, table: &mortal{Backend: w.items}, stopped: make(chan struct{})}
	p.Relay = relay.New(relay.Options{
		Directory: w.directory, Table: storetest.Over(w.T, p.table, storetest.Clock(time.Now)), Key: rootKey(1),
		Address: "https://" + name, Now: time.Now, Random: storetest.Random(&named{w.T, name + time.Now().String()}), Log: w.log.With("on", name),
		TLS: w.tls(), Dial: w.net.dialler(name),
	})
	p.server = &httptest.Server{Listener: w.net.listen(name), EnableHTTP2: true, Config: &http.Server{
		Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path != tunnel.ConnectPath && p.asked.Add(1) > mostAsked {
				http.Error(out, "they go round in circles", http.StatusLoopDetected)
				return
			}
			p.ServeHTTP(out, r)
		}),
		ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug),
	}}
	p.server.StartTLS()
	w.mu.Lock()
	w.roots.AddCert(p.server.Certificate())
	w.mu.Unlock()
	w.net.mu.Lock()
	w.net.balanced[balancer] = append(w.net.balanced[balancer], name)
	w.net.mu.Unlock()
	ctx, cancel := context.WithCancel(w.Context())
	p.stop = cancel
	go func() {
		defer close(p.stopped)
		p.Run(ctx)
	}()
	w.Cleanup(p.kill)
	return p
}

func (w *world) tls() *tls.Config {
	return &tls.Config{RootCAs: w.roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
}

// die has a process fall silent as in a power cut: its balancer does not know yet.
func (p *process) die() {
	p.table.dead.Store(true)
	_ = p.server.Listener.Close()
	p.world.net.each(func(w *wire) bool { return w.to == p.name || w.from == p.name }, (*wire).cut)
}

// kill ends a process that died, or has it die.
func (p *process) kill() {
	p.die()
	p.stop()
	<-p.stopped
	_ = p.server.Config.Close()
	p.world.forget(p)
}

// end ends a process as SIGTERM does.
func (p *process) end(grace time.Duration) {
	ctx, cancel := context.WithTimeout(p.world.Context(), grace)
	defer cancel()
	p.world.forget(p) // its health check fails
	p.Drain(ctx)
	_ = p.server.Config.Shutdown(ctx)
	p.kill()
}

// forget takes a process from the balancer.
func (w *world) forget(p *process) {
	w.net.mu.Lock()
	defer w.net.mu.Unlock()
	var left []string
	for _, name := range w.net.balanced[balancer] {
		if name != p.name {
			left = append(left, name)
		}
	}
	w.net.balanced[balancer] = left
}

// agent starts an agent that finds relays by an address, the balancer's for "".
func (w *world) agent(at string, connections int) (stop func()) {
	w.Helper()
	stop, _ = w.agentTold(at, connections)
	return stop
}

// agentTold is agent, and gives what the agent ended with, when it has.
func (w *world) agentTold(at string, connections int) (stop func(), why <-chan error) {
	w.Helper()
	if at == "" {
		at = balancer
	}
	return w.agentAt(&url.URL{Scheme: "https", Host: at}, connections)
}

// plainAgent starts an agent that speaks no TLS.
func (w *world) plainAgent(at string) (stop func()) {
	w.Helper()
	stop, _ = w.agentAt(&url.URL{Scheme: "http", Host: at}, 2)
	return stop
}

func (w *world) agentAt(at *url.URL, connections int) (stop func(), why <-chan error) {
	w.Helper()
	ctx, cancel := context.WithCancel(w.Context())
	ended, told := make(chan struct{}), make(chan error, 1)
	a := tunnel.NewAgent(tunnel.AgentOptions{
		Relay: at, Token: func() (string, error) { return token, nil },
		Connections: connections, Log: w.log, TLS: w.tls(), Dial: w.net.dialler("agent"),
		Transport: &http.Transport{DialContext: w.net.dialler("agent"), DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute},
	})
	go func() {
		defer close(ended)
		told <- a.Run(ctx, time.Second)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	w.Cleanup(stop)
	synctest.Wait()
	return stop, told
}

// client asks a relay by its address, the balancer for "", as the changes have it.
func (w *world) client(at string, changes ...func(o *relay.ClientOptions)) *relay.Client {
	if at == "" {
		at = balancer
	}
	o := relay.ClientOptions{
		Relay: &url.URL{Scheme: "https", Host: at}, Directory: w.directory, Key: rootKey(1), Now: time.Now,
		TLS: w.tls(), Dial: w.net.dialler("gateway"),
	}
	for _, change := range changes {
		change(&o)
	}
	cl := relay.NewClient(o)
	w.Cleanup(cl.Close)
	return cl
}

// clientWith is a client of another installation's key.
func (w *world) clientWith(at string, key rootKey) *relay.Client {
	return w.client(at, func(o *relay.ClientOptions) { o.Key = key })
}

// plain is a client of a relay's process that speaks no TLS, and so no HTTP/2.
func (w *world) plain(p *process) *relay.Client {
	const at = "plain:80"
	server := &http.Server{Handler: p.Relay, ErrorLog: slog.NewLogLogger(w.log.Handler(), slog.LevelDebug)}
	l := w.net.listen(at)
	go func() { _ = server.Serve(l) }()
	w.Cleanup(func() { _ = server.Close() })
	return w.client(at, func(o *relay.ClientOptions) { o.Relay.Scheme = "http" })
}

// connections counts those that a machine has made.
func (w *world) connections(from string) (n int) {
	w.net.each(func(wire *wire) bool { return wire.from == from }, func(*wire) { n++ })
	return n
}

// named is a test of another name, whose randomness is another.
type named struct {
	testing.TB
	name string
}

func (n *named) Name() string { return n.name }

// asks is who sends requests to services: a Relay or a Client.
type asks interface {
	RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error)
}

// request makes a request for the service, which ends some time.
func (w *world) request(method, target string, body io.Reader) *http.Request {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), 10*time.Minute)
	w.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "service://api"+target, body)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

// get asks for a path of the service and answers the body of its answer.
func (w *world) get(by asks, target string) (string, error) {
	w.Helper()
	return read(by.RoundTrip(w.request(http.MethodGet, target, nil), account, "api", shop))
}

func read(response *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// raw asks a relay as anybody can.
func (w *world) raw(at, method, target string, header http.Header) *http.Response {
	w.Helper()
	u, err := url.Parse("https://" + at + target)
	if err != nil {
		w.Fatal(err)
	}
	if header == nil {
		header = http.Header{}
	}
	transport := &http.Transport{DialContext: w.net.dialler("stranger"), TLSClientConfig: w.tls(), ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip((&http.Request{Method: method, URL: u, Header: header}).WithContext(w.Context()))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := read(response, nil); err != nil {
		w.Fatal(err)
	}
	return response
}

// claim writes a row that says that a process holds the tunnel.
func (w *world) claim(address, id string) {
	w.Helper()
	relay.NewLeases(relay.Options{
		Table: storetest.Over(w.T, w.items, storetest.Clock(time.Now)), Address: "https://" + address, Now: time.Now, Log: w.log,
	}, id, func(string) bool { return true }).Settle(w.Context(), ref)
}
