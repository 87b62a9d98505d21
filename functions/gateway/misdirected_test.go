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

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/certificates"
	"github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/customdomains"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/store"
)

// The names of two accounts, below a domain of one certificate. One has a CA for its clients.
const (
	openDomain, askingDomain = "open.shared.test", "asking.shared.test"
	openName, askingName     = "open-main-0a1b2c3", "asking-main-0a1b2c3"
)

// TestRequestThatNobodyWasAskedForACertificateForComesAgain: a client that sends on one connection what is for any name of its
// certificate, as browsers do, is told to connect anew where the name's account asks clients for certificates,
// shows one there, and is let in. By HTTP/1.1 nobody does so, and who does is a client without a certificate.
func TestRequestThatNobodyWasAskedForACertificateForComesAgain(t *testing.T) {
	s := newSite(t, 10)
	ca := pkitest.CA(t, "CA", time.Now())
	named := func(names ...string) pkitest.Cert {
		return ca.Client(t, "gateway", time.Now(), func(x *x509.Certificate) {
			x.DNSNames, x.ExtKeyUsage = names, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})
	}
	own := named("*." + processDomain)
	for name, text := range map[string]string{config.VarTLSCertificate: own.PEM(), config.VarTLSKey: own.KeyPEM(t)} {
		file := filepath.Join(t.TempDir(), "pem")
		s.must(os.WriteFile(file, []byte(text), 0o600))
		s.env = append(s.env, name+"="+file)
	}
	shared, clients := named("*.shared.test"), pkitest.CA(t, "clients", time.Now())
	for account, of := range map[string]struct{ domain, deployment string }{"a-1": {openDomain, openName}, "a-2": {askingDomain, askingName}} {
		r := route("/x", s.upstream)
		a := &project.Artifact{Routes: []project.Route{r}}
		if account == "a-2" {
			a.Routes[0].Inbound = []string{"mtls"}
			a.Policies = map[string]project.Policy{"mtls": {Name: "mtls", Type: "mtls-auth-inbound", Handler: component("{}")}}
		}
		s.deployFor(account, of.deployment, a)
		owner := auth.Owner{AccountID: account, Account: account, Viewer: auth.Principal{Permissions: auth.Full()}}
		request := func() context.Context {
			return store.Decide(audit.With(t.Context(), &audit.Request{AccountID: account, Time: time.Now(), RequestID: s.parts.IDs.UUID()}))
		}
		proof, err := customdomains.Open(s.parts).Proof(t.Context(), account, of.domain)
		s.must(err)
		parts := s.parts
		parts.DNS = proven{proof}
		domains := customdomains.Open(parts)
		_, err = domains.Create(request(), owner, customdomains.New{Hostname: of.domain, Deployment: of.deployment})
		s.must(err)
		_, err = domains.Verify(request(), owner, of.domain)
		s.must(err)
		_, err = domains.Upload(request(), owner, of.domain, shared.PEM(), shared.KeyPEM(t))
		s.must(err)
		if account == "a-2" {
			_, err = certificates.Open(s.parts).Create(request(), owner, certificates.New{Name: "clients", Certificate: clients.PEM()})
			s.must(err)
		}
	}
	p := s.start()
	shows := clients.Client(t, "a client", time.Now()).TLS(t)
	for _, of := range []struct{ open, asking string }{
		{openDomain, askingDomain}, {openName + "." + processDomain, askingName + "." + processDomain},
	} {
		c := &coalescing{T: t, address: p.address, roots: ca.Pool(), shows: &shows}
		if got := c.get(of.open); got != http.StatusOK || len(c.connections) != 1 {
			t.Fatalf("%s is answered %d on %d connections", of.open, got, len(c.connections))
		}
		if got := c.get(of.asking); got != http.StatusOK || len(c.connections) != 2 || c.misdirected != 1 {
			t.Errorf("%s is answered %d, on %d connections and %d times of another", of.asking, got, len(c.connections), c.misdirected)
		}
		// That connection has shown a certificate, and is for both.
		_ = c.connections[0].Close()
		c.connections = c.connections[1:]
		if got := c.get(of.open); got != http.StatusOK || c.misdirected != 1 {
			t.Errorf("on a connection with a certificate %s is answered %d", of.open, got)
		}
		if got := c.get(of.asking); got != http.StatusOK || c.misdirected != 1 {
			t.Errorf("the connection that is its own answers %s %d", of.asking, got)
		}
		c.close()
		for name, want := range map[string]int{of.open: http.StatusUnauthorized, of.asking: http.StatusOK} {
			if got := byHTTP1(t, p.address, name, of.asking, ca.Pool(), &shows); got != want {
				t.Errorf("by HTTP/1.1 on a connection to %s, %s is answered %d, want %d", name, of.asking, got, want)
			}
		}
	}
	p.stop()
}

// proven is a DNS with the proof of one custom domain.
type proven struct{ customdomains.Proof }

var _ installation.Resolver = proven{}

// LookupTXT implements installation.Resolver.
func (p proven) LookupTXT(context.Context, string) ([]string, error) { return []string{p.Value}, nil }

// coalescing is a client by HTTP/2 that sends what is for a host on any connection whose certificate is the host's, as
// browsers do (RFC 9113, section 9.1.1), and connects to the host itself where it is told 421 (section 9.1.2).
type coalescing struct {
	*testing.T
	address     string
	roots       *x509.CertPool
	shows       *tls.Certificate
	connections []coalesced
	misdirected int
}

type coalesced struct {
	*http.ClientConn
	leaf *x509.Certificate
}

// get asks for /x of a host, and gives the status.
func (c *coalescing) get(host string) int {
	c.Helper()
	for _, one := range c.connections {
		if one.leaf.VerifyHostname(host) != nil {
			continue
		}
		if got := c.on(one, host); got != http.StatusMisdirectedRequest {
			return got
		}
		c.misdirected++
	}
	return c.on(c.connect(host), host)
}

func (c *coalescing) on(one coalesced, host string) int {
	c.Helper()
	r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "https://"+host+"/x", http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	out, err := one.RoundTrip(r)
	if err != nil {
		c.Fatalf("%s: %v", host, err)
	}
	defer func() { _ = out.Body.Close() }()
	_, _ = io.Copy(io.Discard, out.Body)
	if out.ProtoMajor != 2 {
		c.Errorf("it speaks %s", out.Proto)
	}
	return out.StatusCode
}

func (c *coalescing) connect(host string) coalesced {
	c.Helper()
	var leaf *x509.Certificate
	transport := &http.Transport{ForceAttemptHTTP2: true, DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := &tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, RootCAs: c.roots, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{*c.shows}}}
		conn, err := d.DialContext(ctx, "tcp", c.address)
		if err == nil {
			leaf = conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
		}
		return conn, err
	}}
	conn, err := transport.NewClientConn(c.Context(), "https", host+":443")
	if err != nil {
		c.Fatalf("connect to %s: %v", host, err)
	}
	one := coalesced{conn, leaf}
	c.connections = append(c.connections, one)
	return one
}

func (c *coalescing) close() {
	for _, one := range c.connections {
		_ = one.Close()
	}
}

// byHTTP1 asks for /x of a host on a connection to a name.
func byHTTP1(t *testing.T, address, name, host string, roots *x509.CertPool, shows *tls.Certificate) int {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: name, RootCAs: roots, Certificates: []tls.Certificate{*shows},
	}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+"/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	out, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s on a connection to %s: %v", host, name, err)
	}
	defer func() { _ = out.Body.Close() }()
	if out.ProtoMajor != 1 {
		t.Errorf("it speaks %s", out.Proto)
	}
	return out.StatusCode
}
