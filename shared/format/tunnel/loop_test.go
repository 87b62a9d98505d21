package tunnel_test

import (
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

func TestPointsToRelay(t *testing.T) {
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
		if got := tunnel.PointsToRelay(c.endpoint, relay); got != c.want {
			t.Errorf("PointsToRelay(%s, %s) = %v, want %v", c.endpoint, c.relay, got, c.want)
		}
	}
	if tunnel.PointsToRelay("http://127.0.0.1", nil) {
		t.Error("PointsToRelay() without a relay = true, want false")
	}
}

// TestAgentRefusesLoops checks that an agent ignores a service whose endpoint is its relay. The
// relay can have accepted such a service, if it does not know the name that the agent uses for it.
func TestAgentRefusesLoops(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	loopService := fx.services[0]
	loopService.Name, loopService.Endpoint = "ring", fx.server.URL
	fx.services = append(fx.services, loopService)
	fx.run(fx.options())
	for name, want := range map[string]bool{"api": false, "ring": true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		fx.waitFor(func() bool { // a link exists a moment before its agent knows its services
			response, requestErr := fx.relay.RoundTrip(r, tunnelID, name, shop)
			if err = requestErr; err == nil {
				_ = response.Body.Close()
			}
			return !errors.Is(err, tunnel.ErrNoAgent)
		})
		failure, ok := errors.AsType[*tunnel.Error](err)
		if refused := ok && failure.Failure == tunnel.UnknownService; refused != want {
			t.Errorf("service %s: response error = %v, want %s: %t", name, err, tunnel.UnknownService, want)
		}
	}
}
