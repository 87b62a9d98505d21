package scenario_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// failingProxy is a proxy that no request may be sent to, as variables of an environment: what is sent fails there,
// and the test with it.
func failingProxy(t *testing.T) []string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s is sent to the proxy", r.Method, r.URL)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	// curl reads the first in small letters alone. Those for HTTPS are left out: Go's modules may come by them.
	return []string{"http_proxy=" + proxy.URL, "HTTP_PROXY=" + proxy.URL, "NO_PROXY=", "no_proxy="}
}

// TestOwnAddressesAreAskedWithoutTheProxy at the start, which waits for an answer of each: they may be other ones
// than the loopback's, which Go itself asks no proxy for.
func TestOwnAddressesAreAskedWithoutTheProxy(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip("it is about the local run")
	}
	t.Parallel()
	own := net.JoinHostPort(ownAddress(t), "0")
	running(t, t.TempDir(), append(append([]string{"env"}, failingProxy(t)...),
		"GATEWRIGHT_API_ADDR="+own, "GATEWRIGHT_GATEWAY_ADDR="+own, "dist/local")...)
}

// ownAddress is one of this machine's that is not the loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	t.Skip("this machine has the loopback alone")
	return ""
}
