package relay_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// cutLatest cuts the most recently used connection for which match returns true.
func (n *network) cutLatest(match func(*wire) bool) {
	var latest *wire
	lastByte := func(w *wire) time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.lastByte
	}
	n.forEach(match, func(w *wire) {
		if latest == nil || lastByte(w).After(lastByte(latest)) {
			latest = w
		}
	})
	if latest != nil {
		latest.cut()
	}
}

// breakingService is a service that breaks a connection during each request for /base/breaks.
type breakingService struct {
	fixture  *fixture
	breaks   func(*wire) bool // selects the connection to break, nil for the service's own
	received atomic.Int64     // requests to /base/breaks
}

func (s *breakingService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	if !strings.HasPrefix(r.URL.Path, "/base/breaks") {
		time.Sleep(time.Second)
		if r.Header.Get("Upgrade") != "" {
			w.WriteHeader(http.StatusUpgradeRequired)
		}
		return
	}
	s.received.Add(1)
	time.Sleep(time.Millisecond)
	if s.breaks == nil {
		panic(http.ErrAbortHandler)
	}
	s.fixture.net.cutLatest(s.breaks)
	<-r.Context().Done()
}

// retryCase is a request with a header field and a body, "" for none. notRepeatable is set if the request must be sent
// at most once.
type retryCase struct {
	method, field, body string
	notRepeatable       bool
}

func (r retryCase) request(fx *fixture, path string) *http.Request {
	var body io.Reader
	if r.body != "" {
		body = strings.NewReader(r.body)
	}
	request := fx.request(r.method, path, body)
	if r.field != "" {
		request.Header.Set(r.field, "test")
	}
	return request
}

// send first opens more idle connections than a request has attempts. Then it sends a request. At
// each attempt, the service breaks the latest connection for which breaks returns true.
func (s *breakingService) send(caller string, client roundTripper, breaks func(*wire) bool, r retryCase) error {
	fx := s.fixture
	time.Sleep(2 * time.Minute)
	var work sync.WaitGroup
	for range relay.MaxAttempts + 2 {
		work.Go(func() {
			if _, err := read(client.RoundTrip(r.request(fx, "/"), account, "api", shop)); err != nil {
				fx.Errorf("RoundTrip() by %s: error = %v, want none", caller, err)
			}
		})
	}
	work.Wait()
	time.Sleep(time.Second) // so that the next connection is the most recently used one
	s.breaks = breaks
	s.received.Store(0)
	response, err := client.RoundTrip(r.request(fx, "/breaks"), account, "api", shop)
	if err == nil {
		_ = response.Body.Close()
	}
	return err
}

// TestAttemptsPerRequestAreLimited breaks the connection of each attempt, while there are idle connections
// to the same server, and checks the number of attempts. net/http would repeat requests on such connections.
func TestAttemptsPerRequestAreLimited(t *testing.T) {
	s := &breakingService{}
	withFixture(t, s, func(fx *fixture) {
		s.fixture = fx
		_, _, clients := newCallers(fx)
		for _, link := range []struct {
			name    string
			match   func(wire *wire) bool
			callers []string
		}{
			{"connections to the service", nil, []string{"a client of another relay"}},
			{"connections from the gateway", func(wire *wire) bool {
				return wire.from == "gateway"
			}, []string{"a client of the relay with the tunnel", "a client over HTTP/1.1"}},
			{
				"connections between relays", func(wire *wire) bool { return strings.HasSuffix(wire.from, ":443") },
				[]string{"another relay"},
			},
			{"connections of the agent", func(wire *wire) bool {
				return wire.from == "agent" && wire.to != "service.internal:80"
			}, []string{"the relay with the tunnel", "a client of another relay"}},
		} {
			for _, caller := range link.callers {
				for _, tt := range []retryCase{
					{method: http.MethodGet},
					{method: http.MethodOptions, field: "Idempotency-Key"},
					{method: http.MethodGet, field: "Upgrade", notRepeatable: true},
					{method: http.MethodPost, notRepeatable: true},
					{method: http.MethodPost, field: "Idempotency-Key", notRepeatable: true},
					{method: http.MethodPost, field: "X-Idempotency-Key", notRepeatable: true},
					{method: http.MethodPost, field: "Idempotency-Key", body: "text", notRepeatable: true},
					{method: http.MethodPut, body: "text", notRepeatable: true},
				} {
					err := s.send(caller, clients[caller], link.match, tt)
					minAttempts, maxAttempts := int64(2), int64(relay.MaxAttempts)
					if tt.notRepeatable {
						minAttempts, maxAttempts = 1, 1
					}
					if n := s.received.Load(); n > maxAttempts || n < minAttempts {
						fx.Errorf("%s by %s with the field %q and the body %q while %s break: "+
							"requests at the service = %d, want %d to %d; "+
							"error = %v",
							tt.method, caller, tt.field, tt.body, link.name, n, minAttempts, maxAttempts, err)
					}
				}
			}
		}
	})
}

// TestAttemptsAreCountedOnce breaks the connections of agents or, at every interval-th
// attempt, the gateway's connections. It checks that the total number of attempts is limited.
func TestAttemptsAreCountedOnce(t *testing.T) {
	for interval := int64(1); interval <= relay.MaxAttempts; interval++ {
		var received atomic.Int64
		var running *fixture
		service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n := received.Add(1)
			running.net.forEach(func(wire *wire) bool {
				if n%interval == 0 {
					return wire.from == "gateway"
				}
				return wire.from == "agent" && strings.HasSuffix(wire.to, ":443")
			}, (*wire).cut)
			<-r.Context().Done()
		})
		withFixture(t, service, func(fx *fixture) {
			running = fx
			fx.relay("a:443")
			fx.agent("a:443", 4)
			client := fx.client("a:443")
			_, err := fx.get(client, "/")
			if n := received.Load(); n > relay.MaxAttempts || n < 2 {
				fx.Errorf("GET / with the gateway's connections broken at each attempt divisible by %d: "+
					"requests = %d, want 2 to %d; error = %v",
					interval, n, relay.MaxAttempts, err)
			}
		})
	}
}

// TestSimultaneousConnectionFailuresCountOnce breaks all connections of agents, shortly after
// each other, during a request. The request must not be sent over each of these connections.
func TestSimultaneousConnectionFailuresCountOnce(t *testing.T) {
	var received atomic.Int64
	var running *fixture
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if received.Add(1) > 1 {
			<-r.Context().Done()
			return
		}
		for range 8 {
			running.net.cutLatest(func(wire *wire) bool { return wire.from == "agent" && wire.to == "a:443" })
			time.Sleep(time.Millisecond)
		}
	})
	withFixture(t, service, func(fx *fixture) {
		running = fx
		a := fx.relay("a:443")
		fx.agent(a.name, 4)
		fx.agent(a.name, 4)
		if n := fx.connections("agent"); n < 2 {
			fx.Fatalf("connections of the agents = %d, want at least 2", n)
		}
		ctx, disconnect := context.WithTimeout(fx.Context(), 100*time.Millisecond)
		defer disconnect()
		_, _ = read(a.RoundTrip(fx.request(http.MethodGet, "/", nil).WithContext(ctx), account, "api", shop))
		if n := received.Load(); n != 1 {
			fx.Errorf("requests at the service = %d while the connections break, want 1", n)
		}
		time.Sleep(time.Second) // until the service has finished the request
	})
}

// TestBusyAgentErrorTakesPrecedence sends requests to a relay whose agents are at their limit, while
// the other relays have no agents or are down. The error must say that agents are busy. It also
// checks that requests whose connection breaks wait for the agent's next connection and are not lost.
func TestBusyAgentErrorTakesPrecedence(t *testing.T) {
	const capacity = 2 * 999 // streams of an agent's two connections, without the streams of the agent itself
	var release chan struct{}
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	withFixture(t, service, func(fx *fixture) {
		release = make(chan struct{})
		a, b := fx.relay("a:443"), fx.relay("b:443")
		fx.agent(a.name, 2)
		results := make(chan error, capacity)
		for range capacity {
			go func() {
				_, err := read(a.RoundTrip(fx.request(http.MethodGet, "/", nil), account, "api", shop))
				results <- err
			}()
		}
		synctest.Wait()
		found := false
		fx.net.forEach(func(wire *wire) bool {
			isFirst := !found && wire.to == a.name
			found = found || isFirst
			return isFirst
		}, (*wire).cut)
		if !found {
			fx.Fatal("the agent has no connection to the relay, want 2")
		}
		time.Sleep(2 * relay.AgentWait)
		fx.writeRow("nobody:443", "rly_a")
		fx.writeRow(b.name, "rly_b")
		for caller, client := range map[string]roundTripper{
			"the relay": a, "another relay": b,
			"a client of the relay": fx.client(a.name), "a client of another relay": fx.client(b.name),
		} {
			if _, err := fx.get(client, "/"); !errors.Is(err, tunnel.ErrBusy) {
				fx.Errorf("GET / by %s: error = %v, want %v", caller, err, tunnel.ErrBusy)
			}
		}
		close(release)
		lost := 0
		for range capacity {
			if err := <-results; err != nil {
				lost++
			}
		}
		if lost > 0 {
			fx.Errorf("lost requests = %d of %d when one of two connections breaks, want 0", lost, capacity)
		}
	})
}
