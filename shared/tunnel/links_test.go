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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestAgentsShareTheLoad counts what two agents on one tunnel get.
func TestAgentsShareTheLoad(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	var asked [2]atomic.Int64
	for i := range asked {
		o := w.options()
		o.Transport = roundTripper(func(r *http.Request) (*http.Response, error) {
			asked[i].Add(1)
			return http.DefaultTransport.RoundTrip(r)
		})
		w.run(o)
	}
	const requests = 40
	answers := make(chan error, requests)
	for i := range requests {
		go func() {
			response, err := w.ask(http.MethodGet, "/", nil)
			if err == nil {
				_ = response.Body.Close()
			}
			answers <- err
		}()
		w.until(func() bool { return asked[0].Load()+asked[1].Load() == int64(i+1) })
	}
	if a, b := asked[0].Load(), asked[1].Load(); a != requests/2 || b != requests/2 {
		t.Errorf("the agents got %d and %d requests", a, b)
	}
	close(release)
	for range requests {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// TestDrainingLosesNothing drains while requests are under way.
func TestDrainingLosesNothing(t *testing.T) {
	release, began := make(chan struct{}), make(chan struct{}, 100)
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		began <- struct{}{}
		<-release
		_, _ = io.WriteString(w, "done")
	}))
	w.run(w.options())
	type answered struct {
		text string
		err  error
	}
	answers := make(chan answered, 10)
	for range 10 {
		go func() {
			response, err := w.ask(http.MethodPost, "/", strings.NewReader("x"))
			if err != nil {
				answers <- answered{"", err}
				return
			}
			b, err := io.ReadAll(response.Body)
			answers <- answered{string(b), err}
		}()
		<-began
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.relay.Drain(t.Context())
	}()
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
	w.until(func() bool {
		response, err := w.relay.RoundTrip(r, tunnelID, "api", shop)
		if err == nil {
			_ = response.Body.Close()
		}
		return errors.Is(err, tunnel.ErrNoAgent)
	})
	close(release)
	for range 10 {
		if a := <-answers; a.err != nil || a.text != "done" {
			t.Errorf("a request under way ends with %q, %v", a.text, a.err)
		}
	}
	<-drained
	w.until(func() bool { return len(w.relay.Of(tunnelID)) == 0 })
}

// TestDrainedConnectionIsReplacedByOne counts connections over many drains of a relay that
// goes on: an agent keeps as many as it was asked for.
func TestDrainedConnectionIsReplacedByOne(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	w.run(w.options())
	for range 6 {
		drained := w.relay.Of(tunnelID)[0]
		text(t, first(w.ask(http.MethodGet, "/", nil)), nil)
		if err := drained.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.until(func() bool { return len(w.relay.Of(tunnelID)) >= 3 }) // beside the one that drains
		drained.Close()
		w.until(func() bool { return !slices.Contains(w.relay.Of(tunnelID), drained) })
	}
	time.Sleep(100 * time.Millisecond) // ten times what an agent waits before it dials
	if n := len(w.relay.Of(tunnelID)); n != 2 {
		t.Errorf("there are %d connections, want 2", n)
	}
}

// TestRepeatableRequestSurvivesItsConnection cuts the connections under it.
func TestRepeatableRequestSurvivesItsConnection(t *testing.T) {
	var asked atomic.Int64
	began := make(chan struct{}, 10)
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			began <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "second")
	}))
	w.run(w.options())
	go func() {
		<-began
		w.cut()
	}()
	if got := text(t, first(w.ask(http.MethodGet, "/", nil)), nil); got != "second" {
		t.Errorf("it answers %q", got)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the service was asked %d times", n)
	}
}

// TestUnsafeRequestIsNotRepeated expects a POST to reach the service once at most.
func TestUnsafeRequestIsNotRepeated(t *testing.T) {
	var asked atomic.Int64
	began := make(chan struct{}, 10)
	w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // only then the server looks for its client's end
		began <- struct{}{}
		<-r.Context().Done()
	}))
	w.run(w.options())
	go func() {
		<-began
		w.cut()
	}()
	if _, err := w.ask(http.MethodPost, "/", strings.NewReader("x")); !errors.Is(err, tunnel.ErrBroken) {
		t.Errorf("it answers %v, want ErrBroken", err)
	}
	w.until(func() bool { return len(w.relay.Of(tunnelID)) == 2 })
	if n := asked.Load(); n != 1 {
		t.Errorf("the service was asked %d times", n)
	}
}

// TestChangedServicesHold tells agents that are connected.
func TestChangedServicesHold(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	w.run(w.options())
	text(t, first(w.ask(http.MethodGet, "/", nil)), nil)
	w.mu.Lock()
	w.services = nil
	w.mu.Unlock()
	if err := w.relay.Configure(t.Context(), tunnelID); err != nil {
		t.Fatal(err)
	}
	_, err := w.ask(http.MethodGet, "/", nil)
	if failed, ok := errors.AsType[*tunnel.Error](err); !ok || failed.Failure != tunnel.UnknownService {
		t.Errorf("a service that is gone answers %v", err)
	}
}

// TestStrangersAreAnswered asks the relay as no agent does.
func TestStrangersAreAnswered(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	connect := func(scheme string) http.Header {
		return http.Header{"Authorization": {scheme + " " + token}, "Connection": {"Upgrade"}, "Upgrade": {tunnel.Protocol}}
	}
	down := func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.down = err
	}
	for _, c := range []struct {
		name   string
		header http.Header
		want   int
	}{
		{"an agent", connect("bearer"), http.StatusSwitchingProtocols},
		{"nobody", nil, http.StatusUnauthorized},
		{"another scheme", http.Header{"Authorization": {"Basic " + token}}, http.StatusUnauthorized},
		{"another token", http.Header{"Authorization": {"Bearer x"}}, http.StatusUnauthorized},
		{"two tokens", http.Header{"Authorization": {"Bearer " + token, "Bearer x"}, "Connection": {"Upgrade"}, "Upgrade": {tunnel.Protocol}}, http.StatusUnauthorized},
		{"no upgrade", http.Header{"Authorization": {"Bearer " + token}}, http.StatusUpgradeRequired},
		{"another protocol", http.Header{"Authorization": {"Bearer " + token}, "Connection": {"Upgrade"}, "Upgrade": {"h2c"}}, http.StatusUpgradeRequired},
		// Agents end when they are refused, and come again when they are turned away.
		{"an agent while tokens can't be looked up", connect("Bearer"), http.StatusServiceUnavailable},
		{"an agent while the relay drains", connect("Bearer"), http.StatusServiceUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			switch {
			case strings.HasSuffix(c.name, "looked up"):
				down(errors.New("the table is down"))
			case strings.HasSuffix(c.name, "drains"):
				down(nil)
				w.relay.Drain(t.Context())
			}
			u, _ := url.Parse(w.server.URL + tunnel.ConnectPath)
			r := (&http.Request{Method: http.MethodGet, URL: u, Header: c.header}).WithContext(t.Context())
			response, err := w.server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != c.want {
				t.Errorf("it answers %s, want %d", response.Status, c.want)
			}
		})
	}
}

// TestRequestIsForItsServiceWhateverItsHost has a request look like one to the agent itself,
// and one of another scheme.
func TestRequestIsForItsServiceWhateverItsHost(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method+" "+r.URL.Path) }))
	w.run(w.options())
	for _, at := range []string{"http://agent.gatewright/services", "service://agent.gatewright/services", "service://api/services"} {
		response, err := w.ask(http.MethodPut, "/", strings.NewReader("[]"), func(r *http.Request) {
			u, _ := url.Parse(at)
			r.URL, r.Host = u, u.Host
		})
		if err != nil {
			t.Errorf("%s answers %v", at, err)
			continue
		}
		if got := text(t, response, nil); got != "PUT /base/services" {
			t.Errorf("%s answers %q", at, got)
		}
	}
}
