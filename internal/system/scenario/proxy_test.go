package scenario_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// failingProxy starts a proxy, and returns the environment variables that configure it. Each request to the proxy
// fails, and makes the test fail.
func failingProxy(t *testing.T) []string {
	t.Helper()
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("the proxy received %s %s, want no request", r.Method, r.URL)
		w.WriteHeader(http.StatusBadGateway)
	}))
	t.Cleanup(proxy.Close)
	// curl reads the first variable only in lower case. The variables for HTTPS are left out, because Go can need them to download
	// modules.
	return []string{"http_proxy=" + proxy.URL, "HTTP_PROXY=" + proxy.URL, "NO_PROXY=", "no_proxy="}
}

// TestLocalAddressesBypassTheProxy checks that a start sends no request to its own addresses through a proxy while it
// waits for them to respond. Go itself bypasses the proxy only for loopback addresses.
func TestLocalAddressesBypassTheProxy(t *testing.T) {
	if os.Getenv(varAPI) != "" {
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	}
	t.Parallel()
	address := net.JoinHostPort(localAddress(t), "0")
	startProduct(t, t.TempDir(), append(append([]string{"env"}, failingProxy(t)...),
		"GATEWRIGHT_API_ADDR="+address, "GATEWRIGHT_GATEWAY_ADDR="+address, "dist/local")...)
}

// localAddress returns an address of this machine that is not a loopback address.
func localAddress(t *testing.T) string {
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
	t.Skip("this machine has only loopback addresses")
	return ""
}
