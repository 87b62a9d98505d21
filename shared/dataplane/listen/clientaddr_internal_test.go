package listen

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
)

// TestClientAddrIsNotOfAProxy checks that clientAddr returns the client's address, and not the address of a
// trusted proxy, which many clients share. If the client's address is not known, clientAddr returns no address.
func TestClientAddrIsNotOfAProxy(t *testing.T) {
	proxies := []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	for name, c := range map[string]struct {
		peer, forwarded string
		perAddress      int
		want            string
	}{
		"a client":                                {"192.0.2.1:5000", "203.0.113.9", 1000, "192.0.2.1"},
		"a client with IPv6":                      {"[2001:db8::1:2:3:4]:5000", "", 1000, "2001:db8::"},
		"a client behind a trusted proxy":         {"198.51.100.1:5000", "203.0.113.9", 0, "203.0.113.9"},
		"a trusted proxy without X-Forwarded-For": {"198.51.100.1:5000", "", 1000, "invalid IP"},
		"a load balancer, no limit per address":   {"192.0.2.1:5000", "203.0.113.9", 0, "invalid IP"},
	} {
		s := &Server{settings: config.Listener{ConnectionsPerAddress: c.perAddress, TrustedProxies: proxies}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := s.clientAddr(r).String(); got != c.want {
			t.Errorf("clientAddr(%s) = %s, want %s", name, got, c.want)
		}
	}
}
