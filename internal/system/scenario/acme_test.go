package scenario_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/resource/issuance/pebbletest"
	"github.com/gatewright/gatewright/shared/runtime/localdns"
)

// TestACMEDomainWithClientCertificates lets the product obtain the certificate of a custom domain from Pebble. The domain
// then accepts only HTTPS, and only clients with a certificate of the account's CA.
func TestACMEDomainWithClientCertificates(t *testing.T) {
	switch {
	case os.Getenv(varAPI) != "":
		t.Skip(varAPI + " selects an installation, but this test needs the local run")
	case os.Getenv(varFunctions) != "":
		t.Skip("functions in processes of their own do not get the variable that names the authority's own CA")
	case runtime.GOOS != "linux":
		t.Skip("this operating system ignores SSL_CERT_FILE")
	}
	const hostname = "api.example.com"
	authority, dir := pebbletest.Start(t), t.TempDir()
	rootsFile := filepath.Join(dir, "authority.pem")
	if err := os.WriteFile(rootsFile, authority.Certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", rootsFile)
	t.Setenv("GATEWRIGHT_ACME_DIRECTORY", authority.Directory)
	p := startProduct(t, dir, "dist/local")
	authority.ValidateAt(t, portOf(t, p.Gateway), portOf(t, p.TLS))
	inst := &target{api: p.API, gateway: p.Gateway, key: p.Key, account: "demo", client: http.DefaultClient}

	ca := pkitest.CA(t, "Partners CA", time.Now())
	name := deployForPartners(t, inst, ca)
	inst.certify(t, hostname, name, filepath.Join(p.Data(), localdns.FileName))

	ask := func(client *pkitest.Cert) (int, string, error) {
		return getByTLS(t, "https://"+hostname+"/partners", strings.TrimPrefix(p.TLS, "https://"), authority.Roots(), client)
	}
	partner, unrelated := ca.Client(t, "robot", time.Now()),
		pkitest.CA(t, "Another CA", time.Now()).Client(t, "robot", time.Now())
	eventually(t, "the robot is served with the authority's certificate", time.Minute, func() bool {
		status, text, err := ask(&partner)
		return err == nil && status == http.StatusOK && echoOf(t, text).Path == "/partners"
	})
	for clientName, client := range map[string]*pkitest.Cert{
		"a client without a certificate": nil,
		"a client of another CA":         &unrelated,
	} {
		if status, text, err := ask(client); err == nil && status != http.StatusUnauthorized {
			t.Errorf("GET /partners as %s: status = %d, want 401 or a refused handshake: %s", clientName, status, text)
		}
	}
	if r := inst.call(t, http.MethodGet, "http://"+hostname+"/partners", nil,
		nil); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET /partners by HTTP, without a client certificate: status = %d, want 401", r.StatusCode)
	}
}

// deployForPartners deploys a project for clients with certificates of a CA, and returns the name of the deployment.
func deployForPartners(t *testing.T, inst *target, ca pkitest.Cert) string {
	t.Helper()
	body, err := json.Marshal(map[string]string{"name": "partners", "certificate": ca.PEM()})
	if err != nil {
		t.Fatal(err)
	}
	inst.ask(t, http.StatusCreated, http.MethodPost, inst.path("/client-mtls-ca-certificates"), string(body))
	const partners = `{"name":"partners","policyType":"mtls-auth-inbound",
		"handler":{"export":"MtlsAuthInboundPolicy","module":"$import(@gatewright/runtime)","options":{}}}`
	deployment := inst.deploy(t, "partners", "main", project(t, []route{
		{
			path: "/partners", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": newUpstream(t)},
			inbound: []string{"partners"},
		},
	}, partners))
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(deployment, "https://"), "http://"), ".")
	return name
}

// certify makes hostname a custom domain of a deployment, and waits for its certificate. records is the file that the
// installation reads instead of the DNS.
func (ta *target) certify(t *testing.T, hostname, deployment, records string) {
	t.Helper()
	domain := ta.path("/custom-domains/%s", hostname)
	created := ta.ask(t, http.StatusOK, http.MethodPost, ta.path("/custom-domains"),
		fmt.Sprintf(`{"hostname":%q,"deploymentName":%q}`, hostname, deployment))
	proof, _ := created["ownershipVerification"].(map[string]any)
	record := fmt.Sprintf("%s TXT %s\n", proof["name"], proof["value"])
	if err := os.WriteFile(records, []byte(record), 0o600); err != nil {
		t.Fatal(err)
	}
	ta.ask(t, http.StatusOK, http.MethodPost, domain+"/verify", "")
	eventually(t, "the hostname has a certificate", 2*time.Minute, func() bool {
		certificate, _ := ta.ask(t, http.StatusOK, http.MethodGet, domain, "")["certificate"].(map[string]any)
		if certificate["status"] == "failed" {
			t.Fatalf("the certificate of %s has failed, want it issued: %v", hostname, certificate)
		}
		return certificate["status"] == "active"
	})
}

// getByTLS sends a GET request for a URL to an address over TLS, with a client certificate unless client is nil.
func getByTLS(
	t *testing.T, target, address string, roots *x509.CertPool, client *pkitest.Cert,
) (status int, body string, err error) {
	t.Helper()
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if client != nil {
		config.Certificates = []tls.Certificate{client.TLS(t)}
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	c := &http.Client{Transport: &http.Transport{
		TLSClientConfig: config, DialContext: dial, ForceAttemptHTTP2: true,
		DisableKeepAlives: true,
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// portOf returns the port in a URL.
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
