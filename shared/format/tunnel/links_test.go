package tunnel_test

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestLoadIsBalanced counts the requests of two agents on one tunnel.
func TestLoadIsBalanced(t *testing.T) {
	release := make(chan struct{})
	fx := newFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	var requestCounts [2]atomic.Int64
	for i := range requestCounts {
		o := fx.options()
		o.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			requestCounts[i].Add(1)
			return http.DefaultTransport.RoundTrip(r)
		})
		fx.run(o)
	}
	const requests = 40
	results := make(chan error, requests)
	for i := range requests {
		go func() {
			response, err := fx.do(http.MethodGet, "/", nil)
			if err == nil {
				_ = response.Body.Close()
			}
			results <- err
		}()
		fx.waitFor(func() bool { return requestCounts[0].Load()+requestCounts[1].Load() == int64(i+1) })
	}
	if a, b := requestCounts[0].Load(), requestCounts[1].Load(); a != requests/2 || b != requests/2 {
		t.Errorf("requests per agent = %d, %d, want %d each", a, b, requests/2)
	}
	close(release)
	for range requests {
		if err := <-results; err != nil {
			t.Errorf("request error = %v, want none", err)
		}
	}
}

// TestDrainLosesNoRequests drains a relay while requests are in flight, and checks that all of them succeed.
func TestDrainLosesNoRequests(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, 100)
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		started <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "done")
	}))
	fx.run(fx.options())
	type result struct {
		text string
		err  error
	}
	results := make(chan result, 10)
	for range 10 {
		go func() {
			response, err := fx.do(http.MethodPost, "/", strings.NewReader("x"))
			if err != nil {
				results <- result{"", err}
				return
			}
			b, err := io.ReadAll(response.Body)
			results <- result{string(b), err}
		}()
		<-started
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		fx.relay.Drain(t.Context())
	}()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
	fx.waitFor(func() bool {
		response, err := fx.relay.RoundTrip(r, tunnelID, "api", shop)
		if err == nil {
			_ = response.Body.Close()
		}
		return errors.Is(err, tunnel.ErrNoAgent)
	})
	close(release)
	for range 10 {
		if a := <-results; a.err != nil || a.text != "done" {
			t.Errorf("in-flight request = %q, %v, want \"done\" and no error", a.text, a.err)
		}
	}
	<-drained
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 0 })
}

// TestDrainedConnectionIsReplacedByOne drains the connections of a relay many times, while
// the relay continues to run. The agent must keep its configured number of connections.
func TestDrainedConnectionIsReplacedByOne(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	fx.run(fx.options())
	for range 6 {
		drained := fx.relay.ForTunnel(tunnelID)[0]
		fx.get("/")
		if err := drained.Drain(t.Context()); err != nil {
			t.Fatalf("Drain() = %v, want nil", err)
		}
		fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) >= 3 }) // including the draining connection
		drained.Close()
		fx.waitFor(func() bool { return !slices.Contains(fx.relay.ForTunnel(tunnelID), drained) })
	}
	time.Sleep(100 * time.Millisecond) // ten times the agent's delay before dialing
	if n := len(fx.relay.ForTunnel(tunnelID)); n != 2 {
		t.Errorf("connections = %d, want 2", n)
	}
}

// TestRepeatableRequestSurvivesItsConnection breaks all connections while
// a request is in flight, and checks that the repeated request succeeds.
func TestRepeatableRequestSurvivesItsConnection(t *testing.T) {
	var requests atomic.Int64
	started := make(chan struct{}, 10)
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) == 1 {
			started <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "second")
	}))
	fx.run(fx.options())
	go func() {
		<-started
		fx.closeConns()
	}()
	if got := fx.get("/"); got != "second" {
		t.Errorf("response body = %q, want \"second\"", got)
	}
	if n := requests.Load(); n != 2 {
		t.Errorf("requests to the service = %d, want 2", n)
	}
}

// TestUnsafeRequestIsNotRepeated checks that a POST reaches the service at most once.
func TestUnsafeRequestIsNotRepeated(t *testing.T) {
	var requests atomic.Int64
	started := make(chan struct{}, 10)
	fx := newFixture(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the client's connection only while it reads
		started <- struct{}{}
		<-r.Context().Done()
	}))
	fx.run(fx.options())
	go func() {
		<-started
		fx.closeConns()
	}()
	if _, err := fx.do(http.MethodPost, "/", strings.NewReader("x")); !errors.Is(err, tunnel.ErrBroken) {
		t.Errorf("response error = %v, want ErrBroken", err)
	}
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 2 })
	if n := requests.Load(); n != 1 {
		t.Errorf("requests to the service = %d, want 1", n)
	}
}

// TestChangedServicesTakeEffect sends a new configuration to connected agents.
func TestChangedServicesTakeEffect(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	fx.run(fx.options())
	fx.get("/") // waits until the agent knows its services
	fx.mu.Lock()
	fx.services = nil
	fx.mu.Unlock()
	if err := fx.relay.Configure(t.Context(), tunnelID); err != nil {
		t.Fatalf("Configure() = %v, want nil", err)
	}
	_, err := fx.do(http.MethodGet, "/", nil)
	if failed, ok := errors.AsType[*tunnel.Error](err); !ok || failed.Failure != tunnel.UnknownService {
		t.Errorf("response error for a missing service = %v, want %v", err, tunnel.UnknownService)
	}
}

// TestInvalidAgentsGetStatus sends invalid requests for a
// connection to the relay, and checks the status of the responses.
func TestInvalidAgentsGetStatus(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	connect := func(scheme string) http.Header {
		return http.Header{"Authorization": {scheme + " " + token}, "Connection": {"Upgrade"}, "Upgrade": {tunnel.Protocol}}
	}
	setAuthErr := func(err error) {
		fx.mu.Lock()
		defer fx.mu.Unlock()
		fx.authErr = err
	}
	for _, c := range []struct {
		name   string
		header http.Header
		want   int
	}{
		{"a valid agent", connect("bearer"), http.StatusSwitchingProtocols},
		{"no credentials", nil, http.StatusUnauthorized},
		{"another scheme", http.Header{"Authorization": {"Basic " + token}}, http.StatusUnauthorized},
		{"another token", http.Header{"Authorization": {"Bearer x"}}, http.StatusUnauthorized},
		{"two tokens", http.Header{
			"Authorization": {"Bearer " + token, "Bearer x"}, "Connection": {"Upgrade"},
			"Upgrade": {tunnel.Protocol},
		}, http.StatusUnauthorized},
		{"no upgrade", http.Header{"Authorization": {"Bearer " + token}}, http.StatusUpgradeRequired},
		{
			"another protocol",
			http.Header{"Authorization": {"Bearer " + token}, "Connection": {"Upgrade"}, "Upgrade": {"h2c"}},
			http.StatusUpgradeRequired,
		},
		// Agents end after 401, and connect again after 503.
		{"an agent while tokens can't be looked up", connect("Bearer"), http.StatusServiceUnavailable},
		{"an agent while the relay drains", connect("Bearer"), http.StatusServiceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case strings.HasSuffix(c.name, "looked up"):
				setAuthErr(errors.New("the table is down"))
			case strings.HasSuffix(c.name, "drains"):
				setAuthErr(nil)
				fx.relay.Drain(t.Context())
			}
			u, _ := url.Parse(fx.server.URL + tunnel.ConnectPath)
			r := (&http.Request{Method: http.MethodGet, URL: u, Header: c.header}).WithContext(t.Context())
			response, err := fx.server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != c.want {
				t.Errorf("response = %s, want %d", response.Status, c.want)
			}
		})
	}
}

// TestHostDoesNotChangeService sends requests whose address is that of
// the agent itself, or has another scheme. They must reach the service.
func TestHostDoesNotChangeService(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Method+" "+r.URL.Path)
	}))
	fx.run(fx.options())
	for _, address := range []string{
		"http://agent.gatewright/services", "service://agent.gatewright/services",
		"service://api/services",
	} {
		response, err := fx.do(http.MethodPut, "/", strings.NewReader("[]"), func(r *http.Request) {
			u, _ := url.Parse(address)
			r.URL, r.Host = u, u.Host
		})
		if err != nil {
			t.Errorf("%s: response error = %v, want none", address, err)
			continue
		}
		if got := readBody(t, response, nil); got != "PUT /base/services" {
			t.Errorf("%s: response body = %q, want \"PUT /base/services\"", address, got)
		}
	}
}
