package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/config"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/resource/clientcas"
	"github.com/gatewright/gatewright/shared/resource/customdomains"
)

// The custom domains and the deployments of two accounts. One certificate covers both custom domains. The account of
// mtlsDomain has a CA for its clients.
const (
	openDomain, mtlsDomain = "open.shared.test", "asking.shared.test"
	openName, mtlsName     = "open-main-0a1b2c3", "asking-main-0a1b2c3"
)

// serveDomain creates a deployment of an account, and a custom domain of this deployment with the certificate cert. If
// clientCA is not nil, the deployment requires client certificates from this CA.
func (fx *processFixture) serveDomain(account, domain, deployment string, cert pkitest.Cert, clientCA *pkitest.Cert) {
	fx.Helper()
	a := &project.Artifact{Routes: []project.Route{route("/x", fx.upstream)}}
	if clientCA != nil {
		a.Routes[0].Inbound = []string{"mtls"}
		a.Policies = map[string]project.Policy{"mtls": {Name: "mtls", Type: "mtls-auth-inbound", Handler: component("{}")}}
	}
	fx.deployFor(account, deployment, a)
	owner := auth.Owner{AccountID: account, Account: account, Viewer: auth.Principal{Permissions: auth.Full()}}
	requestCtx := func() context.Context {
		return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
			AccountID: account, Time: time.Now(), RequestID: fx.parts.IDs.UUID(),
		}))
	}
	proof, err := customdomains.Open(fx.parts).Proof(fx.Context(), account, domain)
	fx.must(err)
	parts := fx.parts
	parts.DNS = proofDNS{proof}
	domains := customdomains.Open(parts)
	_, err = domains.Create(requestCtx(), owner, customdomains.CreateInput{Hostname: domain, Deployment: deployment})
	fx.must(err)
	_, err = domains.Verify(requestCtx(), owner, domain)
	fx.must(err)
	_, err = domains.Upload(requestCtx(), owner, domain, cert.PEM(), cert.KeyPEM(fx.T))
	fx.must(err)
	if clientCA != nil {
		_, err = clientcas.Open(fx.parts).Create(requestCtx(), owner,
			clientcas.CreateInput{Name: "clients", Certificate: clientCA.PEM()})
		fx.must(err)
	}
}

// TestCoalescedRequestWithoutClientCertificateIsMisdirected uses a client that sends requests for all names in a
// server's certificate on one connection, as browsers do. On a connection to a name whose account requires no client
// certificates, a request for a name whose account requires them must get 421. The client must be accepted on a new
// connection, on which it presents its certificate. HTTP/1.1 clients do not share connections between names, so such a
// request by HTTP/1.1 must get 401, like a request without a certificate.
func TestCoalescedRequestWithoutClientCertificateIsMisdirected(t *testing.T) {
	s := newProcessFixture(t, 10)
	ca := pkitest.CA(t, "CA", time.Now())
	newCert := func(names ...string) pkitest.Cert {
		return ca.Client(t, "gateway", time.Now(), func(x *x509.Certificate) {
			x.DNSNames, x.ExtKeyUsage = names, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})
	}
	serverCert := newCert("*." + processDomain)
	for name, text := range map[string]string{
		config.VarTLSCertificate: serverCert.PEM(),
		config.VarTLSKey:         serverCert.KeyPEM(t),
	} {
		file := filepath.Join(t.TempDir(), "pem")
		s.must(os.WriteFile(file, []byte(text), 0o600))
		s.env = append(s.env, name+"="+file)
	}
	domainCert, clientCA := newCert("*.shared.test"), pkitest.CA(t, "clients", time.Now())
	s.serveDomain("a-1", openDomain, openName, domainCert, nil)
	s.serveDomain("a-2", mtlsDomain, mtlsName, domainCert, &clientCA)
	p := s.start()
	clientCert := clientCA.Client(t, "a client", time.Now()).TLS(t)
	for _, hosts := range []struct{ open, mtls string }{
		{openDomain, mtlsDomain}, {openName + "." + processDomain, mtlsName + "." + processDomain},
	} {
		c := &coalescingClient{T: t, address: p.address, roots: ca.Pool(), clientCert: &clientCert}
		if got := c.get(hosts.open); got != http.StatusOK || len(c.connections) != 1 {
			t.Fatalf("GET %s = %d on %d connections, want 200 on 1", hosts.open, got, len(c.connections))
		}
		if got := c.get(hosts.mtls); got != http.StatusOK || len(c.connections) != 2 || c.misdirected != 1 {
			t.Errorf("GET %s = %d on %d connections with %d misdirected requests, want 200 on 2 with 1",
				hosts.mtls, got, len(c.connections), c.misdirected)
		}
		// On the second connection, the client has presented a certificate. It can be used for both names.
		_ = c.connections[0].Close()
		c.connections = c.connections[1:]
		if got := c.get(hosts.open); got != http.StatusOK || c.misdirected != 1 {
			t.Errorf("GET %s with a certificate = %d with %d misdirected requests, want 200 with 1",
				hosts.open, got, c.misdirected)
		}
		if got := c.get(hosts.mtls); got != http.StatusOK || c.misdirected != 1 {
			t.Errorf("GET %s on its connection = %d with %d misdirected requests, want 200 with 1",
				hosts.mtls, got, c.misdirected)
		}
		c.close()
		for name, want := range map[string]int{hosts.open: http.StatusUnauthorized, hosts.mtls: http.StatusOK} {
			if got := getHTTP1(t, p.address, name, hosts.mtls, ca.Pool(), &clientCert); got != want {
				t.Errorf("GET %s by HTTP/1.1 on a connection to %s = %d, want %d", hosts.mtls, name, got, want)
			}
		}
	}
	p.stop()
}

// proofDNS resolves every name to the TXT record that proves the ownership of one custom domain.
type proofDNS struct{ customdomains.Proof }

var _ installation.Resolver = proofDNS{}

// LookupTXT implements installation.Resolver.
func (p proofDNS) LookupTXT(context.Context, string) ([]string, error) { return []string{p.Value}, nil }

// coalescingClient is an HTTP/2 client that sends requests for a host on any open connection whose certificate covers
// the host, as browsers do (RFC 9113, section 9.1.1). After a 421 response, it opens a new connection for the host
// (section 9.1.2).
type coalescingClient struct {
	*testing.T
	address     string
	roots       *x509.CertPool
	clientCert  *tls.Certificate
	connections []coalescedConn
	misdirected int
}

type coalescedConn struct {
	*http.ClientConn
	leaf *x509.Certificate
}

// get requests /x of a host, and returns the status of the response.
func (c *coalescingClient) get(host string) int {
	c.Helper()
	for _, conn := range c.connections {
		if conn.leaf.VerifyHostname(host) != nil {
			continue
		}
		if got := c.getOn(conn, host); got != http.StatusMisdirectedRequest {
			return got
		}
		c.misdirected++
	}
	return c.getOn(c.connect(host), host)
}

func (c *coalescingClient) getOn(conn coalescedConn, host string) int {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "https://"+host+"/x", http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	resp, err := conn.RoundTrip(r)
	if err != nil {
		c.Fatalf("GET %s: error = %v, want none", host, err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, resp.Body)
	if resp.ProtoMajor != 2 {
		c.Errorf("protocol of the response = %s, want HTTP/2", resp.Proto)
	}
	return resp.StatusCode
}

func (c *coalescingClient) connect(host string) coalescedConn {
	c.Helper()
	var leaf *x509.Certificate
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			d := &tls.Dialer{Config: &tls.Config{
				MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: c.roots,
				NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*c.clientCert},
			}}
			conn, err := d.DialContext(ctx, "tcp", c.address)
			if err == nil {
				leaf = conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
			}
			return conn, err
		},
	}
	conn, err := transport.NewClientConn(c.Context(), "https", host+":443")
	if err != nil {
		c.Fatalf("connection to %s: error = %v, want none", host, err)
	}
	client := coalescedConn{conn, leaf}
	c.connections = append(c.connections, client)
	return client
}

func (c *coalescingClient) close() {
	for _, conn := range c.connections {
		_ = conn.Close()
	}
}

// getHTTP1 requests /x of host with HTTP/1.1 on a new TLS connection, and returns the status. name is the server name
// that the client sends in the TLS handshake.
func getHTTP1(t *testing.T, address, name, host string, roots *x509.CertPool, clientCert *tls.Certificate) int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: roots, Certificates: []tls.Certificate{*clientCert},
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("GET %s on a connection to %s: error = %v, want none", host, name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.ProtoMajor != 1 {
		t.Errorf("protocol of the response of %s = %s, want HTTP/1.1", host, resp.Proto)
	}
	return resp.StatusCode
}
