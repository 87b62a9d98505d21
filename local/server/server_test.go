package server_test

import (
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/issuance/pebbletest"
)

// byACME starts a server whose certificates are an authority's.
func byACME(t *testing.T, env ...string) (*server, *pebbletest.Authority) {
	t.Helper()
	return installedByACME(t, "", env...)
}

// installedByACME is byACME of a binary that is installed somewhere.
func installedByACME(t *testing.T, path string, env ...string) (*server, *pebbletest.Authority) {
	t.Helper()
	a := pebbletest.Start(t)
	roots := written(t, filepath.Join(t.TempDir(), "authority.pem"), a.Certificate)
	s := unstarted(t, filepath.Join(t.TempDir(), "data"))
	s.path = path
	a.LookAt(t, portOf(t, s.plain), portOf(t, s.secure)) // before it is asked: who is refused asks again after a minute
	return s.serve(append(env, config.VarACMEDirectory+"="+a.Directory, "SSL_CERT_FILE="+roots)...), a
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	n, err := strconv.Atoi(address[strings.LastIndexByte(address, ':')+1:])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestServerObtainsItsCertificates from an authority, for its own names alone, and has them after another start.
func TestServerObtainsItsCertificates(t *testing.T) {
	t.Parallel()
	s, a := byACME(t)
	c := s.client(a.Roots())
	s.until("the management API has a certificate", func() bool {
		out, body, err := ask(t, c, http.MethodGet, "https://api."+domain+"/v1/who-am-i", s.key())
		return err == nil && out.StatusCode == http.StatusOK && strings.Contains(body, `"demo"`)
	})
	s.until("the relay has one", func() bool {
		out, _, err := ask(t, c, http.MethodGet, "https://relay."+domain+"/health", "")
		return err == nil && out.StatusCode == http.StatusOK
	})
	for _, name := range []string{domain, "x." + domain, "shop-main-0a1b2c3." + domain, "example.com", "api.api." + domain} {
		if out, _, err := ask(t, c, http.MethodGet, "https://"+name+"/", ""); err == nil {
			t.Errorf("%s, which is nobody's, is answered by TLS with %d", name, out.StatusCode)
		}
	}
	if strings.Contains(s.printed(), s.key()) {
		t.Error("what it prints, which somebody keeps, has the account key")
	}
	s.stop()
	again := serving(t, s.data, config.VarACMEDirectory+"=https://127.0.0.1:9/away")
	if out, _, err := ask(t, again.client(a.Roots()), http.MethodGet, "https://api."+domain+"/openapi", ""); err != nil || out.StatusCode != http.StatusOK {
		t.Errorf("while its authority is away, its certificates are gone: %v", err)
	}
	again.stop()
}
