package scenario_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/issuance/pebbletest"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/zone"
)

// TestCustomDomainByACMEForClientsWithCertificates has the product obtain the certificate of a
// custom domain from Pebble, and serves there, by HTTPS alone, who shows a certificate of the
// account's CA.
func TestCustomDomainByACMEForClientsWithCertificates(t *testing.T) {
	switch {
	case os.Getenv(varAPI) != "":
		t.Skip("it is about the local run")
	case os.Getenv(varFunctions) != "":
		t.Skip("functions in processes of their own do not get the variable that names the authority's own CA")
	case runtime.GOOS != "linux":
		t.Skip("SSL_CERT_FILE is not heeded here")
	}
	const hostname = "api.example.com"
	authority, dir := pebbletest.Start(t), t.TempDir()
	trusted := filepath.Join(dir, "authority.pem")
	if err := os.WriteFile(trusted, authority.Certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", trusted)
	t.Setenv("GATEWRIGHT_ACME_DIRECTORY", authority.Directory)
	p := running(t, dir, "dist/local")
	authority.LookAt(t, portOf(t, p.Gateway), portOf(t, p.TLS))
	in := &target{api: p.API, gateway: p.Gateway, key: p.Key, account: "demo", client: http.DefaultClient}

	ca := pkitest.CA(t, "Partners CA", time.Now())
	body, err := json.Marshal(map[string]string{"name": "partners", "certificate": ca.PEM()})
	if err != nil {
		t.Fatal(err)
	}
	in.ask(t, http.StatusCreated, http.MethodPost, in.path("/client-mtls-ca-certificates"), string(body))
	const partners = `{"name":"partners","policyType":"mtls-auth-inbound","handler":{"export":"MtlsAuthInboundPolicy","module":"$import(@gatewright/runtime)","options":{}}}`
	deployment := in.deploy(t, "partners", "main", project(t, []route{
		{path: "/partners", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": newUpstream(t)}, inbound: []string{"partners"}},
	}, partners))
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(deployment, "https://"), "http://"), ".")

	domain := in.path("/custom-domains/%s", hostname)
	made := in.ask(t, http.StatusOK, http.MethodPost, in.path("/custom-domains"), fmt.Sprintf(`{"hostname":%q,"deploymentName":%q}`, hostname, name))
	proof, _ := made["ownershipVerification"].(map[string]any)
	record := fmt.Sprintf("%s TXT %s\n", proof["name"], proof["value"])
	if err := os.WriteFile(filepath.Join(p.Data(), zone.Name), []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	in.ask(t, http.StatusOK, http.MethodPost, domain+"/verify", "")
	eventually(t, "the hostname has a certificate", 2*time.Minute, func() bool {
		certificate, _ := in.ask(t, http.StatusOK, http.MethodGet, domain, "")["certificate"].(map[string]any)
		if certificate["status"] == "failed" {
			t.Fatalf("the authority has issued none: %v", certificate)
		}
		return certificate["status"] == "active"
	})

	secure := strings.TrimPrefix(p.TLS, "https://")
	ask := func(client *pkitest.Cert) (int, string, error) {
		settings := &tls.Config{RootCAs: authority.Roots(), MinVersion: tls.VersionTLS13}
		if client != nil {
			settings.Certificates = []tls.Certificate{client.TLS(t)}
		}
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", secure)
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: settings, DialContext: dial, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+hostname+"/partners", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		out, err := c.Do(r)
		if err != nil {
			return 0, "", err
		}
		defer func() { _ = out.Body.Close() }()
		text, err := io.ReadAll(out.Body)
		return out.StatusCode, string(text), err
	}
	robot, stranger := ca.Client(t, "robot", time.Now()), pkitest.CA(t, "Another CA", time.Now()).Client(t, "robot", time.Now())
	eventually(t, "the robot is served with the authority's certificate", time.Minute, func() bool {
		status, text, err := ask(&robot)
		return err == nil && status == http.StatusOK && echoOf(t, text).Path == "/partners"
	})
	for who, client := range map[string]*pkitest.Cert{"nobody": nil, "a stranger": &stranger} {
		if status, text, err := ask(client); err == nil && status != http.StatusUnauthorized {
			t.Errorf("%s is answered %d %s", who, status, text)
		}
	}
	if r := in.call(t, http.MethodGet, "http://"+hostname+"/partners", nil, nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("by HTTP, where nobody shows a certificate, it answers %d", r.StatusCode)
	}
}

func portOf(t *testing.T, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
