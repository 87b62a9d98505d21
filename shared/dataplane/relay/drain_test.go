package relay_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestDrainingRelayFinishesAndForwards checks that a draining relay finishes the
// requests in flight of all callers, and that new requests still get responses.
func TestDrainingRelayFinishesAndForwards(t *testing.T) {
	var release chan struct{}
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/slow" {
			<-release
		}
		_, _ = io.WriteString(w, "done")
	})
	withFixture(t, service, func(fx *fixture) {
		release = make(chan struct{})
		a, b := fx.relay("a:443"), fx.relay("b:443")
		fx.agent("", 4)
		for len(fx.addresses()) < 2 { // until both relays have a connection
			fx.agent("", 2)
		}
		results := make(chan string, 8)
		for range 2 {
			for _, client := range []roundTripper{a, b, fx.client("a:443"), fx.client("b:443")} {
				go func() {
					text, err := read(client.RoundTrip(fx.request(http.MethodPost, "/slow", strings.NewReader("x")), account, "api",
						shop))
					if err != nil {
						text = err.Error()
					}
					results <- text
				}()
			}
		}
		synctest.Wait()
		drained := make(chan struct{})
		fx.removeFromBalancer(a)
		go func() {
			defer close(drained)
			a.Drain(fx.Context())
		}()
		synctest.Wait()
		for caller, client := range map[string]roundTripper{
			"the draining relay": a, "a client of the draining relay": fx.client("a:443"), "another relay": b,
		} {
			if text, err := fx.get(client, "/"); text != "done" || err != nil {
				fx.Errorf("GET / by %s while the relay drains = %q, %v, want done", caller, text, err)
			}
		}
		select {
		case <-drained:
			fx.Error("Drain() returned with requests in flight, want it to wait")
		default:
		}
		if got := fx.addresses(); len(got) != 1 || got[0] != "https://b:443" {
			fx.Errorf("addresses of the rows while the relay drains = %q, want only https://b:443", got)
		}
		close(release)
		for range 8 {
			if text := <-results; text != "done" {
				fx.Errorf("request in flight: body or error = %q, want done", text)
			}
		}
		<-drained
	})
}

// addresses returns the addresses of the relays that hold the tunnel.
func (fx *fixture) addresses() []string {
	fx.Helper()
	synctest.Wait()
	addresses, _ := fx.holders()
	return addresses
}

// TestDrainWaitsForForwardedRequests checks that Drain waits for a request that the relay forwards to another relay.
func TestDrainWaitsForForwardedRequests(t *testing.T) {
	var release chan struct{}
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }), func(fx *fixture) {
		release = make(chan struct{})
		a, b := fx.relay("a:443"), fx.relay("b:443")
		fx.agent(b.name, 2)
		result, drained := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := fx.get(fx.client(a.name), "/")
			result <- err
		}()
		synctest.Wait()
		go func() {
			defer close(drained)
			a.Drain(fx.Context())
		}()
		synctest.Wait()
		select {
		case <-drained:
			fx.Error("Drain() returned with a request in flight, want it to wait")
		default:
		}
		close(release)
		if err := <-result; err != nil {
			fx.Errorf("request in flight: error = %v, want none", err)
		}
		<-drained
	})
}

// TestDrainEndsWithItsContext checks that Drain breaks requests that are still in flight when its context ends.
func TestDrainEndsWithItsContext(t *testing.T) {
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	withFixture(t, service, func(fx *fixture) {
		a := fx.relay("a:443")
		fx.agent("a:443", 2)
		result := make(chan error, 1)
		go func() {
			_, err := read(fx.client("a:443").RoundTrip(fx.request(http.MethodPost, "/", strings.NewReader("x")), account, "api",
				shop))
			result <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(fx.Context(), 110*time.Second)
		defer cancel()
		a.Drain(ctx)
		if err := <-result; !errors.Is(err, tunnel.ErrBroken) {
			fx.Errorf("request that Drain() has ended: error = %v, want %v", err, tunnel.ErrBroken)
		}
	})
}

// TestReconnectingAgentIsAwaited sends a request with a body just after the agent's
// connections have broken, and checks that the request waits for the agent.
func TestReconnectingAgentIsAwaited(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), func(fx *fixture) {
		a, b := fx.relay("a:443"), fx.relay("b:443")
		fx.agent("", 2)
		for caller, client := range map[string]roundTripper{
			"the first relay": a, "the second relay": b,
			"a client of the first relay": fx.client("a:443"), "a client of the second relay": fx.client("b:443"),
		} {
			time.Sleep(2 * time.Minute) // an agent that was disconnected shortly before waits longer
			fx.net.forEach(func(wire *wire) bool { return wire.from == "agent" }, (*wire).cut)
			synctest.Wait()
			text, err := read(client.RoundTrip(fx.request(http.MethodPost, "/", strings.NewReader("text")), account, "api",
				shop))
			if text != "text" || err != nil {
				fx.Errorf("POST / by %s while the agent reconnects = %q, %v, want text", caller, text, err)
			}
		}
	})
}

// TestBodyIsSentToTheRelayThatReadsIt checks that a request's body reaches the relay with an agent, even if
// relays without an agent are tried first. It also checks that the body is closed once, after an error as well.
func TestBodyIsSentToTheRelayThatReadsIt(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}), func(fx *fixture) {
		a, b, c := fx.relay("a:443"), fx.relay("b:443"), fx.relay("c:443")
		fx.agent("c:443", 2)
		fx.writeRow(a.name, "rly_0") // an outdated row: this relay has no agent
		fx.writeRow("nobody:443", "rly_00")
		for caller, client := range map[string]roundTripper{"a relay": b, "a client": fx.client("b:443")} {
			body := &closeCounter{Reader: strings.NewReader("text")}
			r := fx.request(http.MethodPost, "/", body)
			r.ContentLength = 4
			text, err := read(client.RoundTrip(r, account, "api", shop))
			if text != "text" || err != nil {
				fx.Errorf("POST / by %s = %q, %v, want text", caller, text, err)
			}
			if n := body.n.Load(); n != 1 {
				fx.Errorf("POST / by %s: body closed %d times, want 1", caller, n)
			}
		}
		if a.requests.Load() != 2 || c.requests.Load() != 2 {
			fx.Errorf("requests at the relays = %d and %d, want 2 and 2", a.requests.Load(), c.requests.Load())
		}
		body := &closeCounter{Reader: strings.NewReader("text")}
		if _, err := b.RoundTrip(fx.request(http.MethodPost, "/", body), account, "other", shop); err == nil ||
			body.n.Load() != 1 {
			fx.Errorf("POST / to an unknown service: error = %v, body closed %d times, want an error and 1", err, body.n.Load())
		}
	})
}

// closeCounter is a body that counts the calls of Close.
type closeCounter struct {
	io.Reader
	n atomic.Int64
}

func (c *closeCounter) Close() error {
	c.n.Add(1)
	return nil
}

// TestRetriesAreLimited checks that a request reaches the service more than once, but at most
// relay.MaxAttempts times, if each attempt breaks the connections of the agents.
func TestRetriesAreLimited(t *testing.T) {
	var received atomic.Int64
	var running *fixture
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		received.Add(1)
		running.net.forEach(func(wire *wire) bool {
			return wire.from == "agent" && strings.HasSuffix(wire.to, ":443")
		}, (*wire).cut)
		<-r.Context().Done()
	})
	withFixture(t, service, func(fx *fixture) {
		running = fx
		_, _, clients := newCallers(fx)
		for caller, client := range clients {
			time.Sleep(2 * time.Minute)
			received.Store(0)
			if _, err := fx.get(client, "/"); !errors.Is(err, tunnel.ErrBroken) {
				fx.Errorf("GET / by %s: error = %v, want %v", caller, err, tunnel.ErrBroken)
			}
			if n := received.Load(); n < 2 || n > relay.MaxAttempts {
				fx.Errorf("GET / by %s: requests at the service = %d, want 2 to %d", caller, n, relay.MaxAttempts)
			}
		}
	})
}

// TestAgentWaitRestartsWithEachAttempt checks that a request succeeds whose connection
// breaks, is then in flight for longer than relay.AgentWait, and breaks again.
func TestAgentWaitRestartsWithEachAttempt(t *testing.T) {
	var received atomic.Int64
	var running *fixture
	service := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := received.Add(1)
		if n == 2 {
			time.Sleep(2 * relay.AgentWait)
		}
		if n < 3 {
			running.net.forEach(func(wire *wire) bool { return wire.from == "gateway" }, (*wire).cut)
		}
	})
	withFixture(t, service, func(fx *fixture) {
		running = fx
		fx.relay("a:443")
		fx.agent("a:443", 2)
		if _, err := fx.get(fx.client("a:443"), "/"); err != nil || received.Load() != 3 {
			fx.Errorf("GET /: error = %v, requests at the service = %d, want none and 3", err, received.Load())
		}
	})
}

// TestNetHTTPDoesNotRetry breaks a reused connection during a request that net/http
// would repeat over HTTP/1.1, and checks that the service receives the request once.
func TestNetHTTPDoesNotRetry(t *testing.T) {
	var received atomic.Int64
	var running *fixture
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/once" {
			_, _ = io.Copy(io.Discard, r.Body)
			received.Add(1)
			running.net.forEach(func(wire *wire) bool { return wire.from == "gateway" }, (*wire).cut)
		}
	})
	withFixture(t, service, func(fx *fixture) {
		running = fx
		a := fx.relay("a:443")
		fx.agent("a:443", 2)
		client := fx.plainClient(a)
		if _, err := fx.get(client, "/"); err != nil {
			fx.Fatalf("GET / before the requests: error = %v, want none", err)
		}
		for name, r := range map[string]*http.Request{
			"Idempotency-Key":     fx.request(http.MethodPost, "/once", nil),
			"X-Idempotency-Key":   fx.request(http.MethodPost, "/once", nil),
			"a body with GetBody": fx.request(http.MethodGet, "/once", strings.NewReader("text")),
		} {
			received.Store(0)
			if r.Body == nil {
				r.Header.Set(name, "k")
			}
			if _, err := client.RoundTrip(r, account, "api", shop); !errors.Is(err, tunnel.ErrBroken) {
				fx.Errorf("request with %s: error = %v, want %v", name, err, tunnel.ErrBroken)
			}
			if n := received.Load(); n != 1 {
				fx.Errorf("request with %s: requests at the service = %d, want 1", name, n)
			}
			if _, err := fx.get(client, "/"); err != nil {
				fx.Fatalf("GET / after the request with %s: error = %v, want none", name, err)
			}
		}
	})
}

// TestUnresponsiveAgentDoesNotBlockRequests makes one of an agent's connections half-open, and then changes the
// services. The next request must not wait forever for the agent to accept the services over that connection.
func TestUnresponsiveAgentDoesNotBlockRequests(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.URL.Path)
	}), func(fx *fixture) {
		a := fx.relay("a:443")
		fx.agent("a:443", 2)
		found := false
		fx.net.forEach(func(wire *wire) bool {
			isFirst := !found && wire.to == "a:443"
			found = found || isFirst
			return isFirst
		}, (*wire).dropBytes)
		if !found {
			fx.Fatal("the agent has no connection to a:443, want 2")
		}
		fx.directory.set(api("http://service.internal/other"))
		if text, err := fx.get(a, "/x"); text != "/other/x" || err != nil {
			fx.Errorf("GET /x = %q, %v, want /other/x", text, err)
		}
	})
}

// TestAgentsOfDeletedTunnelAreDisconnected deletes a tunnel, and checks that its requests in flight end and
// that its token is refused. It also checks that agents stay connected while their services can't be looked up.
func TestAgentsOfDeletedTunnelAreDisconnected(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	withFixture(t, service, func(fx *fixture) {
		a := fx.relay("a:443")
		_, result := fx.agentWithResult("a:443", 2)
		stream, err := a.RoundTrip(fx.request(http.MethodGet, "/", nil), account, "api", shop)
		if err != nil {
			fx.Fatalf("RoundTrip() of the stream: error = %v, want none", err)
		}
		defer func() { _ = stream.Body.Close() }()
		fx.directory.fail(errTableDown)
		time.Sleep(3 * relay.RenewInterval)
		fx.directory.fail(nil)
		select {
		case err := <-result:
			fx.Fatalf("the agent ended during the outage: %v, want it connected", err)
		default:
		}
		fx.directory.remove()
		// The timeout is a minute longer than the longest possible time, by the bubble's clock.
		select {
		case err := <-result:
			if !errors.Is(err, tunnel.ErrRefused) {
				fx.Errorf("the agent ended with %v, want %v", err, tunnel.ErrRefused)
			}
		case <-time.After(relay.RenewInterval + time.Minute):
			fx.Error("the agent is connected after the renewal, want it disconnected")
		}
		if _, err := io.ReadAll(stream.Body); err == nil {
			fx.Error("ReadAll(stream in flight) error = nil, want an error")
		}
	})
}
