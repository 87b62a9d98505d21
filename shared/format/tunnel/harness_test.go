package tunnel_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

const (
	tunnelID = "tnl_1"
	token    = "token-of-tnl-1"
	timeout  = 60 * time.Second // the maximum time for which tests wait
	grace    = time.Second      // the grace period of agents
)

// shop is the caller that is allowed to use the service api.
var shop = tunnel.Caller{Project: "shop", Environment: "production"}

// fixture is a test environment: a relay with agents and a service.
type fixture struct {
	t      testing.TB
	relay  *tunnel.Relay
	server *httptest.Server
	log    *slog.Logger

	mu       sync.Mutex
	token    string
	authErr  error // returned by Authenticate
	services []tunnel.Service
	conns    []net.Conn // connections of agents to the relay
}

// newFixture starts a relay, over TLS, and a service called api.
func newFixture(t testing.TB, service http.Handler) *fixture {
	t.Helper()
	fx := &fixture{t: t, token: token, log: slog.New(slog.DiscardHandler)}
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	fx.services = []tunnel.Service{{
		Name: "api", Endpoint: upstream.URL + "/base",
		Access: []tunnel.Access{{Project: "shop", Environments: []string{"production"}}},
	}}
	fx.relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: func(_ context.Context, text string) (string, error) {
			fx.mu.Lock()
			defer fx.mu.Unlock()
			if text == fx.token {
				return tunnelID, fx.authErr
			}
			return "", fx.authErr
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			fx.mu.Lock()
			defer fx.mu.Unlock()
			return fx.services, nil
		},
		Log: fx.log,
	})
	fx.server = httptest.NewUnstartedServer(fx.relay)
	fx.server.EnableHTTP2 = false
	fx.server.Config.ErrorLog = slog.NewLogLogger(fx.log.Handler(), slog.LevelDebug)
	fx.server.StartTLS()
	t.Cleanup(fx.server.Close)
	return fx
}

// options returns options for an agent.
func (fx *fixture) options() tunnel.AgentOptions {
	relayURL, err := url.Parse(fx.server.URL)
	if err != nil {
		fx.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(fx.server.Certificate())
	return tunnel.AgentOptions{
		Relay: relayURL, Token: func() (string, error) { return token, nil }, Log: fx.log,
		TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				fx.mu.Lock()
				fx.conns = append(fx.conns, c)
				fx.mu.Unlock()
			}
			return c, err
		},
		Backoff: func(ctx context.Context, _ int) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
				return nil
			}
		},
	}
}

// closeConns breaks all existing connections of agents.
func (fx *fixture) closeConns() {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	for _, c := range fx.conns {
		_ = c.Close()
	}
	fx.conns = nil
}

// runningAgent is an agent whose method Run was called.
type runningAgent struct {
	stop context.CancelFunc
	done chan struct{}
	err  error // set when Run has returned
}

// stopAndWait stops the agent, and returns the error of Run.
func (r *runningAgent) stopAndWait() error {
	r.stop()
	<-r.done
	return r.err
}

// run starts an agent, and waits for its connections.
func (fx *fixture) run(o tunnel.AgentOptions) *runningAgent {
	fx.t.Helper()
	before := len(fx.relay.ForTunnel(tunnelID))
	ctx, cancel := context.WithCancel(fx.t.Context())
	r := &runningAgent{stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = tunnel.NewAgent(o).Run(ctx, grace)
	}()
	want := before + max(o.Connections, 2)
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) >= want })
	fx.t.Cleanup(func() { _ = r.stopAndWait() })
	return r
}

// waitFor waits until a condition is true.
func (fx *fixture) waitFor(cond func() bool) {
	fx.t.Helper()
	for deadline := time.Now().Add(timeout); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			fx.t.Fatalf("condition is false after %v, want true", timeout)
		}
	}
}

// do sends a request through the tunnel.
func (fx *fixture) do(method, target string, body io.Reader, options ...func(*http.Request)) (*http.Response, error) {
	fx.t.Helper()
	ctx, cancel := context.WithTimeout(fx.t.Context(), timeout)
	fx.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://api.service"+target, body)
	if err != nil {
		fx.t.Fatal(err)
	}
	for _, apply := range options {
		apply(r)
	}
	// A link exists shortly before its agent has the list of services, so wait and repeat the request.
	broken := false
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		response, err := fx.relay.RoundTrip(r, tunnelID, "api", shop)
		// Repeatable requests wait for another connection, as in the relay.
		retry := errors.Is(err, tunnel.ErrBroken) && tunnel.Repeatable(r) && r.Context().Err() == nil
		broken = broken || retry
		noAgent := errors.Is(err, tunnel.ErrNoAgent) && (broken || len(fx.relay.ForTunnel(tunnelID)) > 0)
		if !retry && !noAgent || time.Now().After(deadline) {
			return response, err
		}
	}
}

// get sends a GET request through the tunnel, and returns the body of the response.
func (fx *fixture) get(target string) string {
	fx.t.Helper()
	response, err := fx.do(http.MethodGet, target, nil)
	return readBody(fx.t, response, err)
}

// readBody reads the body of a response. err is the error of the request, which fails the test.
func readBody(t testing.TB, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatalf("response error = %v, want none", err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("response body after %d bytes: error = %v, want none", len(b), err)
	}
	return string(b)
}
