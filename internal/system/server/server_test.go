package server_test

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/resource/issuance/pebbletest"
)

// serveWithACME starts a server whose certificates an authority issues.
func serveWithACME(t *testing.T, env ...string) (*server, *pebbletest.Authority) {
	t.Helper()
	return serveInstalledWithACME(t, "", env...)
}

// serveInstalledWithACME is serveWithACME for the binary at a path.
func serveInstalledWithACME(t *testing.T, path string, env ...string) (*server, *pebbletest.Authority) {
	t.Helper()
	a := pebbletest.Start(t)
	roots := writeFile(t, filepath.Join(t.TempDir(), "authority.pem"), a.Certificate)
	s := newStoppedServer(t, filepath.Join(t.TempDir(), "data"))
	s.path = path
	// do this before the first request, because after a refusal the server retries only after a minute
	a.ValidateAt(t, portOf(t, s.plain), portOf(t, s.secure))
	return s.serve(append(env, config.VarACMEDirectory+"="+a.Directory, "SSL_CERT_FILE="+roots)...), a
}

// portOf returns the port of a host:port.
func portOf(t *testing.T, address string) int {
	t.Helper()
	n, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestServerObtainsItsCertificates checks that the server obtains certificates from an authority, only for its own names, and keeps the
// certificates after a restart.
func TestServerObtainsItsCertificates(t *testing.T) {
	t.Parallel()
	s, a := serveWithACME(t)
	c := s.client(a.Roots())
	s.until("the management API has a certificate", func() bool {
		resp, body, err := ask(t, c, http.MethodGet, "https://api."+domain+"/v1/who-am-i", s.key())
		return err == nil && resp.StatusCode == http.StatusOK && strings.Contains(body, `"demo"`)
	})
	s.until("the relay has a certificate", func() bool {
		resp, _, err := ask(t, c, http.MethodGet, "https://relay."+domain+"/health", "")
		return err == nil && resp.StatusCode == http.StatusOK
	})
	for _, name := range []string{
		domain, "x." + domain, "shop-main-0a1b2c3." + domain, "example.com",
		"api.api." + domain,
	} {
		if resp, _, err := ask(t, c, http.MethodGet, "https://"+name+"/", ""); err == nil {
			t.Errorf("GET https://%s/: status = %d, want a failed handshake, because the name belongs to nobody", name,
				resp.StatusCode)
		}
	}
	if strings.Contains(s.output(), s.key()) {
		t.Error("the server prints the account key, want none in its output")
	}
	s.stop()
	restarted := serve(t, s.data, config.VarACMEDirectory+"=https://127.0.0.1:9/away")
	resp, _, err := ask(t, restarted.client(a.Roots()), http.MethodGet, "https://api."+domain+"/openapi", "")
	if err != nil {
		t.Errorf("GET /openapi while the authority is unavailable: error = %v, want the stored certificate", err)
	} else if resp.StatusCode != http.StatusOK {
		t.Errorf("GET /openapi while the authority is unavailable: status = %d, want 200", resp.StatusCode)
	}
	restarted.stop()
}
