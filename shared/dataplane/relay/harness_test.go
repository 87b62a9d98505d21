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

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
	"github.com/gatewright/gatewright/shared/resource/tunnels"
	"github.com/gatewright/gatewright/shared/testing/syncbuffer"
)

const (
	// balancer is the load balancer's address for agents and gateways. The certificates of httptest are valid for it.
	balancer = "example.com:443"
	account  = "a-1"
	ref      = account + "/tnl_1"
	token    = "token-of-tnl-1"
)

var shop = tunnel.Caller{Project: "shop", Environment: "production"}

// rootKey is a seal.KeySource whose root key repeats one byte.
type rootKey byte

func (k rootKey) Root(context.Context) ([]byte, error) {
	return bytes.Repeat([]byte{byte(k)}, 32), nil
}

// directory has one tunnel with services.
type directory struct {
	mu          sync.Mutex
	services    []tunnel.Service
	forAgents   []tunnel.Service // the services that agents receive, nil for the same as services
	err         error            // the error of Services and Find
	deleted     bool             // whether the tunnel was deleted
	servicesErr error            // another error of Services
}

var errTableDown = errors.New("the table is down")

func (d *directory) Authenticate(_ context.Context, text string) (string, error) {
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
	if d.deleted && d.err == nil {
		return nil, tunnels.ErrNoTunnel
	}
	err := errors.Join(d.err, d.servicesErr)
	if d.forAgents != nil || err != nil {
		return d.forAgents, err
	}
	return d.services, nil
}

func (d *directory) Find(_ context.Context, accountID, service string, c tunnel.Caller) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return "", d.err
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

// set sets the services of the tunnel.
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

// fail makes Services and Find return err, or work again if err is nil.
func (d *directory) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

// fixture has relays with a common table behind a load balancer, and a service. It runs in a synctest bubble.
type fixture struct {
	*testing.T
	net       *network
	directory *directory
	backend   *memory.Backend
	log       *slog.Logger
	logged    syncbuffer.Text

	mu    sync.Mutex
	roots *x509.CertPool
}

// withFixture runs a test in a bubble, with a service called api.
func withFixture(t *testing.T, service http.Handler, test func(fx *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fx := &fixture{T: t, net: newNetwork(1), directory: &directory{}, backend: memory.New(), roots: x509.NewCertPool()}
		fx.log = slog.New(slog.NewTextHandler(&fx.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
		fx.directory.set(api("http://service.internal/base"))
		upstream := &http.Server{Handler: service, ErrorLog: slog.NewLogLogger(fx.log.Handler(), slog.LevelDebug)}
		l := fx.net.listen("service.internal:80")
		go func() { _ = upstream.Serve(l) }()
		defer fx.net.closeAll()
		defer func() { _ = upstream.Close() }()
		test(fx)
	})
}

// api returns the service called api with an endpoint.
func api(endpoint string) tunnel.Service {
	return tunnel.Service{
		Name: "api", Endpoint: endpoint,
		Access: []tunnel.Access{{Project: shop.Project, Environments: []string{shop.Environment}}},
	}
}

// process is one process of a relay.
type process struct {
	*relay.Relay
	fixture  *fixture
	name     string // also its address
	server   *httptest.Server
	table    *killableTable
	stop     context.CancelFunc
	stopped  chan struct{}
	requests atomic.Int64 // all requests except connections of agents
}

// maxRequests is the maximum number of requests to a process, so that a loop of requests ends.
const maxRequests = 100_000

// killableTable is a table that a process can use until it dies.
type killableTable struct {
	*memory.Backend
	dead atomic.Bool
}

func (t *killableTable) Query(ctx context.Context, q store.Query) ([]store.Item, string, error) {
	if t.dead.Load() {
		return nil, "", errTableDown
	}
	return t.Backend.Query(ctx, q)
}

func (t *killableTable) Transact(ctx context.Context, token string, writes []store.Write) error {
	if t.dead.Load() {
		return errTableDown
	}
	return t.Backend.Transact(ctx, token, writes)
}

// relay starts a process of a relay, and adds it to the load balancer.
func (fx *fixture) relay(name string) *process {
	fx.Helper()
	p := &process{fixture: fx, name: name, table: &killableTable{Backend: fx.backend}, stopped: make(chan struct{})}
	p.Relay = relay.New(relay.Options{
		Directory: fx.directory, Table: storetest.NewWithBackend(fx.T, p.table, storetest.Clock(time.Now)), Key: rootKey(1),
		Address: "https://" + name, Now: time.Now, Random: storetest.Random(&named{fx.T, name + time.Now().String()}),
		Log: fx.log.With("on", name),
		TLS: fx.tls(), Dial: fx.net.dialer(name),
	})
	p.server = &httptest.Server{Listener: fx.net.listen(name), EnableHTTP2: true, Config: &http.Server{
		Handler: http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if r.URL.Path != tunnel.ConnectPath && p.requests.Add(1) > maxRequests {
				http.Error(out, "the relays forward a request in a loop", http.StatusLoopDetected)
				return
			}
			p.ServeHTTP(out, r)
		}),
		ErrorLog: slog.NewLogLogger(fx.log.Handler(), slog.LevelDebug),
	}}
	p.server.StartTLS()
	fx.mu.Lock()
	fx.roots.AddCert(p.server.Certificate())
	fx.mu.Unlock()
	fx.net.mu.Lock()
	fx.net.balancers[balancer] = append(fx.net.balancers[balancer], name)
	fx.net.mu.Unlock()
	ctx, cancel := context.WithCancel(fx.Context())
	p.stop = cancel
	go func() {
		defer close(p.stopped)
		p.Run(ctx)
	}()
	fx.Cleanup(p.kill)
	return p
}

// tls returns the TLS configuration of clients of relays.
func (fx *fixture) tls() *tls.Config {
	return &tls.Config{RootCAs: fx.roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
}

// crash makes a process unresponsive as in a power outage. The load balancer still uses the process.
func (p *process) crash() {
	p.table.dead.Store(true)
	_ = p.server.Listener.Close()
	p.fixture.net.forEach(func(w *wire) bool { return w.to == p.name || w.from == p.name }, (*wire).cut)
}

// kill ends a process, which may have crashed before.
func (p *process) kill() {
	p.crash()
	p.stop()
	<-p.stopped
	_ = p.server.Config.Close()
	p.fixture.removeFromBalancer(p)
}

// shutDown ends a process like SIGTERM.
func (p *process) shutDown(grace time.Duration) {
	ctx, cancel := context.WithTimeout(p.fixture.Context(), grace)
	defer cancel()
	p.fixture.removeFromBalancer(p) // its health check fails now
	p.Drain(ctx)
	_ = p.server.Config.Shutdown(ctx)
	p.kill()
}

// removeFromBalancer removes a process from the balancer.
func (fx *fixture) removeFromBalancer(p *process) {
	fx.net.mu.Lock()
	defer fx.net.mu.Unlock()
	var remaining []string
	for _, name := range fx.net.balancers[balancer] {
		if name != p.name {
			remaining = append(remaining, name)
		}
	}
	fx.net.balancers[balancer] = remaining
}

// agent starts an agent that connects to an address, or to the load balancer for "".
func (fx *fixture) agent(addr string, connections int) (stop func()) {
	fx.Helper()
	stop, _ = fx.agentWithResult(addr, connections)
	return stop
}

// agentWithResult starts an agent like agent. It also returns a channel that
// receives the error with which the agent ends.
func (fx *fixture) agentWithResult(addr string, connections int) (stop func(), result <-chan error) {
	fx.Helper()
	if addr == "" {
		addr = balancer
	}
	return fx.agentAt(&url.URL{Scheme: "https", Host: addr}, connections)
}

// plainAgent starts an agent without TLS.
func (fx *fixture) plainAgent(addr string) (stop func()) {
	fx.Helper()
	stop, _ = fx.agentAt(&url.URL{Scheme: "http", Host: addr}, 2)
	return stop
}

// agentAt starts an agent that connects to relayURL. It returns the results of agentWithResult.
func (fx *fixture) agentAt(relayURL *url.URL, connections int) (stop func(), result <-chan error) {
	fx.Helper()
	ctx, cancel := context.WithCancel(fx.Context())
	done, runErr := make(chan struct{}), make(chan error, 1)
	a := tunnel.NewAgent(tunnel.AgentOptions{
		Relay: relayURL, Token: func() (string, error) { return token, nil },
		Connections: connections, Log: fx.log, TLS: fx.tls(), Dial: fx.net.dialer("agent"),
		Transport: &http.Transport{
			DialContext: fx.net.dialer("agent"), DisableCompression: true, MaxIdleConnsPerHost: 256,
			IdleConnTimeout: time.Minute,
		},
	})
	go func() {
		defer close(done)
		runErr <- a.Run(ctx, time.Second)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	fx.Cleanup(stop)
	synctest.Wait()
	return stop, runErr
}

// client returns a client for a relay's address, or for the load balancer if addr is "". changes change its options.
func (fx *fixture) client(addr string, changes ...func(o *relay.ClientOptions)) *relay.Client {
	if addr == "" {
		addr = balancer
	}
	o := relay.ClientOptions{
		Relay: &url.URL{Scheme: "https", Host: addr}, Directory: fx.directory, Key: rootKey(1), Now: time.Now,
		TLS: fx.tls(), Dial: fx.net.dialer("gateway"),
	}
	for _, change := range changes {
		change(&o)
	}
	cl := relay.NewClient(o)
	fx.Cleanup(cl.Close)
	return cl
}

// clientWith returns a client like client, but with the root key key.
func (fx *fixture) clientWith(addr string, key rootKey) *relay.Client {
	return fx.client(addr, func(o *relay.ClientOptions) { o.Key = key })
}

// plainClient returns a client that calls a relay's process without TLS, and so over HTTP/1.1.
func (fx *fixture) plainClient(p *process) *relay.Client {
	const addr = "plain:80"
	server := &http.Server{Handler: p.Relay, ErrorLog: slog.NewLogLogger(fx.log.Handler(), slog.LevelDebug)}
	l := fx.net.listen(addr)
	go func() { _ = server.Serve(l) }()
	fx.Cleanup(func() { _ = server.Close() })
	return fx.client(addr, func(o *relay.ClientOptions) { o.Relay.Scheme = "http" })
}

// connections returns the number of open connections that a machine has opened.
func (fx *fixture) connections(from string) (n int) {
	fx.net.forEach(func(wire *wire) bool { return wire.from == from }, func(*wire) { n++ })
	return n
}

// named is a test with another name, for which storetest.Random returns other random numbers.
type named struct {
	testing.TB
	name string
}

func (n *named) Name() string { return n.name }

// roundTripper sends requests to services: a Relay or a Client.
type roundTripper interface {
	RoundTrip(r *http.Request, accountID, service string, c tunnel.Caller) (*http.Response, error)
}

// newCallers starts two relays and an agent that is connected to holder. It returns all kinds of callers by name.
func newCallers(fx *fixture) (holder, other *process, clients map[string]roundTripper) {
	holder, other = fx.relay("a:443"), fx.relay("b:443")
	fx.agent("a:443", 2)
	return holder, other, map[string]roundTripper{
		"the relay with the tunnel": holder, "another relay": other,
		"a client of the relay with the tunnel": fx.client("a:443"), "a client of another relay": fx.client("b:443"),
		"a client over HTTP/1.1": fx.plainClient(holder),
	}
}

// request returns a request for the service, with a timeout.
func (fx *fixture) request(method, target string, body io.Reader) *http.Request {
	fx.Helper()
	ctx, cancel := context.WithTimeout(fx.Context(), 10*time.Minute)
	fx.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "service://api"+target, body)
	if err != nil {
		fx.Fatal(err)
	}
	return r
}

// get sends a GET request to the service and returns the body of the response.
func (fx *fixture) get(client roundTripper, target string) (string, error) {
	fx.Helper()
	return read(client.RoundTrip(fx.request(http.MethodGet, target, nil), account, "api", shop))
}

// read returns the body of a response, or the error of the request if err is not nil.
func read(response *http.Response, err error) (string, error) {
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// raw sends a request directly to a relay, like any HTTP client.
func (fx *fixture) raw(addr, method, target string, header http.Header) *http.Response {
	fx.Helper()
	u, err := url.Parse("https://" + addr + target)
	if err != nil {
		fx.Fatal(err)
	}
	if header == nil {
		header = http.Header{}
	}
	transport := &http.Transport{
		DialContext: fx.net.dialer("stranger"), TLSClientConfig: fx.tls(),
		ForceAttemptHTTP2: true,
	}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip((&http.Request{Method: method, URL: u, Header: header}).WithContext(fx.Context()))
	if err != nil {
		fx.Fatalf("RoundTrip(%s %s) error = %v, want none", method, target, err)
	}
	if _, err := read(response, nil); err != nil {
		fx.Fatalf("reading the response to %s %s: error = %v, want none", method, target, err)
	}
	return response
}

// writeRow writes the row of a process at an address, which holds the tunnel.
func (fx *fixture) writeRow(address, id string) {
	fx.Helper()
	relay.NewLeases(relay.Options{
		Table: storetest.NewWithBackend(fx.T, fx.backend, storetest.Clock(time.Now)), Address: "https://" + address,
		Now: time.Now, Log: fx.log,
	}, id, func(string) bool { return true }).WriteIfDue(fx.Context(), ref)
}
