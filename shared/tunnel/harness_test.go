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

	"github.com/gatewright/gatewright/shared/tunnel"
)

const (
	tunnelID = "tnl_1"
	token    = "token-of-tnl-1"
	timeout  = 60 * time.Second
	grace    = time.Second
)

var shop = tunnel.Caller{Project: "shop", Environment: "production"}

// world is a relay with agents and a service.
type world struct {
	t      testing.TB
	relay  *tunnel.Relay
	server *httptest.Server
	log    *slog.Logger

	mu       sync.Mutex
	token    string
	down     error // why no token can be looked up
	services []tunnel.Service
	conns    []net.Conn // of agents to the relay
}

// newWorld starts a relay, over TLS, and a service called api.
func newWorld(t testing.TB, service http.Handler) *world {
	t.Helper()
	w := &world{t: t, token: token, log: slog.New(slog.DiscardHandler)}
	upstream := httptest.NewServer(service)
	t.Cleanup(upstream.Close)
	w.services = []tunnel.Service{{Name: "api", Endpoint: upstream.URL + "/base", Access: []tunnel.Access{{Project: "shop", Environments: []string{"production"}}}}}
	w.relay = tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: func(_ context.Context, text string) (string, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			if text == w.token {
				return tunnelID, w.down
			}
			return "", w.down
		},
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.services, nil
		},
		Log: w.log,
	})
	w.server = httptest.NewUnstartedServer(w.relay)
	w.server.EnableHTTP2 = false
	w.server.Config.ErrorLog = slog.NewLogLogger(w.log.Handler(), slog.LevelDebug)
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	return w
}

// options are an agent's.
func (w *world) options() tunnel.AgentOptions {
	at, err := url.Parse(w.server.URL)
	if err != nil {
		w.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(w.server.Certificate())
	return tunnel.AgentOptions{
		Relay: at, Token: func() (string, error) { return token, nil }, Log: w.log,
		TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err == nil {
				w.mu.Lock()
				w.conns = append(w.conns, c)
				w.mu.Unlock()
			}
			return c, err
		},
		Pause: func(ctx context.Context, _ int) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Millisecond):
				return nil
			}
		},
	}
}

// cut breaks all connections of agents that are there.
func (w *world) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// running is an agent.
type running struct {
	stop  context.CancelFunc
	ended chan struct{}
	err   error // once it has ended
}

// end stops the agent.
func (r *running) end() error {
	r.stop()
	<-r.ended
	return r.err
}

// run starts an agent, and waits for its connections.
func (w *world) run(o tunnel.AgentOptions) *running {
	w.t.Helper()
	before := len(w.relay.Of(tunnelID))
	ctx, cancel := context.WithCancel(w.t.Context())
	r := &running{stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(r.ended)
		r.err = tunnel.NewAgent(o).Run(ctx, grace)
	}()
	want := before + max(o.Connections, 2)
	w.until(func() bool { return len(w.relay.Of(tunnelID)) >= want })
	w.t.Cleanup(func() { _ = r.end() })
	return r
}

// until waits for something to become true.
func (w *world) until(what func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(timeout); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatal("it did not come true")
		}
	}
}

// ask sends a request through the tunnel.
func (w *world) ask(method, target string, body io.Reader, with ...func(*http.Request)) (*http.Response, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), timeout)
	w.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, "http://api.service"+target, body)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, do := range with {
		do(r)
	}
	// A link is there a moment before its agent knows its services.
	broke := false
	for deadline := time.Now().Add(timeout); ; time.Sleep(time.Millisecond) {
		response, err := w.relay.RoundTrip(r, tunnelID, "api", shop)
		// What may be repeated waits for another link, as it does at a relay.
		again := errors.Is(err, tunnel.ErrBroken) && tunnel.Repeatable(r) && r.Context().Err() == nil
		broke = broke || again
		absent := errors.Is(err, tunnel.ErrNoAgent) && (broke || len(w.relay.Of(tunnelID)) > 0)
		if !again && !absent || time.Now().After(deadline) {
			return response, err
		}
	}
}

// text reads an answer.
func text(t testing.TB, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
