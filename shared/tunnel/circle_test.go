package tunnel_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/gatewright/gatewright/shared/tunnel"
)

func TestARelayIsKnownInEachSpelling(t *testing.T) {
	for _, c := range []struct {
		relay, endpoint string
		want            bool
	}{
		{"https://relay.example.com", "https://relay.example.com/ask", true},
		{"https://relay.example.com", "https://Relay.Example.com.:443", true},
		{"https://relay.example.com", "http://relay.example.com:443", true},
		{"https://relay.example.com", "http://relay.example.com", false},
		{"https://relay.example.com", "https://relay.example.com:8443", false},
		{"https://relay.example.com", "https://shop.example.com", false},
		{"http://127.0.0.1:9003", "http://localhost:9003", true},
		{"http://127.0.0.1:9003", "http://[::1]:9003/x", true},
		{"http://127.0.0.1:9003", "http://127.8.0.1:9003", true},
		{"http://127.0.0.1:9003", "http://127.0.0.1:09003", true},
		{"http://127.0.0.1:9003", "http://0.0.0.0:9003", true},
		{"http://127.0.0.1:9003", "http://[::]:9003", true},
		{"http://127.0.0.1:9003", "http://[::ffff:127.0.0.1]:9003", true},
		{"http://127.0.0.1:9003", "http://127.0.0.1:9001", false},
		{"http://[2001:db8::1]", "http://[2001:0db8::0:1]:80", true},
		{"https://relay.example.com", "%", false},
	} {
		relay, err := url.Parse(c.relay)
		if err != nil {
			t.Fatal(err)
		}
		if got := tunnel.LeadsTo(c.endpoint, relay); got != c.want {
			t.Errorf("%s leads to %s: %v", c.endpoint, c.relay, got)
		}
	}
	if tunnel.LeadsTo("http://127.0.0.1", nil) {
		t.Error("it leads to no relay")
	}
}

// TestAnAgentAsksNoRelay, whoever told it to: a relay that knows itself by another name
// has let the configuration through.
func TestAnAgentAsksNoRelay(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ring := w.services[0]
	ring.Name, ring.Endpoint = "ring", w.server.URL
	w.services = append(w.services, ring)
	w.run(w.options())
	for name, want := range map[string]bool{"api": false, "ring": true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.until(func() bool { // a link is there a moment before its agent knows its services
			answer, asked := w.relay.RoundTrip(r, tunnelID, name, shop)
			if err = asked; err == nil {
				_ = answer.Body.Close()
			}
			return !errors.Is(err, tunnel.ErrNoAgent)
		})
		failure, ok := errors.AsType[*tunnel.Error](err)
		if refused := ok && failure.Failure == tunnel.UnknownService; refused != want {
			t.Errorf("%s is answered with the error %v", name, err)
		}
	}
}
