package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	sharedconfig "github.com/gatewright/gatewright/shared/core/config"

	"github.com/gatewright/gatewright/shared/base/handshake"
	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/dataplane/listen"
	"github.com/gatewright/gatewright/shared/format/project"
)

// caVerifier implements policy.ClientVerifier and handshake.Clients with the CAs of the account a1.
type caVerifier struct {
	mu          sync.Mutex
	cas         []pkitest.Cert
	unavailable bool // Verify returns an error that is no refusal
}

func (v *caVerifier) setCAs(cas ...pkitest.Cert) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.cas = cas
}

func (v *caVerifier) pool() *x509.CertPool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.cas) == 0 {
		return nil
	}
	out := x509.NewCertPool()
	for _, ca := range v.cas {
		out.AddCert(ca.Certificate)
	}
	return out
}

func (v *caVerifier) Verify(_ context.Context, accountID string, chain []*x509.Certificate) error {
	if v.unavailable {
		return errors.New("the CAs are unavailable")
	}
	roots := v.pool()
	if accountID != "a1" || roots == nil {
		return fault.New(fault.Unauthenticated, "untrusted")
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{
		Roots:     roots,
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}); err != nil {
		return fault.New(fault.Unauthenticated, "untrusted")
	}
	return nil
}

// ClientCAs implements handshake.Clients.
func (v *caVerifier) ClientCAs(context.Context, string) (*x509.CertPool, error) { return v.pool(), nil }

// shopSource implements handshake.Source with a server certificate for shop.test. It owns all names below test.
type shopSource struct {
	pair     tls.Certificate
	requests []string // the names whose certificates were requested
}

func (s *shopSource) Owns(name string) bool { return strings.HasSuffix(name, ".test") }

func (s *shopSource) Certificate(_ context.Context, name string) (*tls.Certificate, error) {
	s.requests = append(s.requests, name)
	return &s.pair, nil
}

// listenTLS starts a second listener of the fixture, with TLS. It returns the listener's URL, the source of its
// certificate, and the CA for this certificate. clients decides which client certificates are requested.
func (fx *fixture) listenTLS(
	t *testing.T, clients handshake.ClientCALookup,
) (url string, source *shopSource, roots *x509.CertPool) {
	t.Helper()
	ca := pkitest.CA(t, "Servers", time.Now())
	source = &shopSource{pair: ca.Client(t, "shop", time.Now(), func(c *pkitest.Template) {
		c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{"shop.test"}
	}).TLS(t)}
	l, err := listen.Open(t.Context(), "127.0.0.1:0", "the gateway", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	listenerSettings := sharedconfig.DefaultListener()
	listenerSettings.StandardHTTP = isStandardRun(t)
	server := listen.New(listen.Options{
		Handler: fx.gateway, Settings: listenerSettings, IDs: fx.ids, Log: slog.New(slog.DiscardHandler),
		TLS: handshake.Config(handshake.Options{
			Sources: []handshake.Source{source}, Clients: clients,
			Log: slog.New(slog.DiscardHandler),
		}),
	})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + l.Addr().String(), source, ca.Pool()
}

// newTLSClient returns a client that expects a server certificate for shop.test. It presents certificates[0], if any.
func newTLSClient(roots *x509.CertPool, certificates ...tls.Certificate) *http.Client {
	config := &tls.Config{RootCAs: roots, ServerName: "shop.test", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	if len(certificates) > 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &certificates[0], nil
		}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

// getURL sends a GET request for the host shop.test. header has names and values of fields in turn.
func getURL(t *testing.T, c *http.Client, url string, header ...string) (status int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.test"
	for i := 0; i+1 < len(header); i += 2 {
		r.Header[header[i]] = []string{header[i+1]}
	}
	response, err := c.Do(r)
	if err != nil {
		t.Fatalf("GET %s: error = %v, want a response", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("ReadAll(body of GET %s) error = %v, want nil", url, err)
	}
	return response.StatusCode, string(content)
}

// forgedClient is a text in the value of each forged certificate field.
const forgedClient = "BEGIN CERTIFICATE"

// certHeaders has names of fields that proxies use to send client certificates.
var certHeaders = []string{
	"Client-Cert", "Client-Cert-Chain", "X-Forwarded-Client-Cert", "X-Client-Cert", "X-Ssl-Client-Cert", "Ssl-Client-Cert",
	"Ssl-Client-Verify",
	"Ssl-Client-Subject-Dn", "X-Ssl-Client-S-Dn", "X-Ssl-Cert", "X-Ssl-Issuer", "X-Forwarded-Tls-Client-Cert",
	"X-Forwarded-Tls-Client-Cert-Info",
	"X-Amzn-Mtls-Clientcert", "X-Amzn-Mtls-Clientcert-Leaf", "X-Arr-Clientcert", "Cf-Client-Cert-Sha256",
	"Cf-Cert-Verified", "X-Client-Cert-Chain-Verified",
	"X-Client-Certificate", "Client_Cert", "SSL_CLIENT_S_DN", "X_forwarded_client_cert",
}

// newHeaderEcho starts an upstream that responds with the query, and
// with the names of forged certificate fields that it has received.
func newHeaderEcho(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "query "+r.URL.RawQuery+" cert ")
		for name, values := range r.Header {
			if strings.Contains(values[0], forgedClient) {
				_, _ = io.WriteString(w, "BEGIN of "+name)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestClientsAreAuthenticatedByCertificate checks the policy mtls-auth-inbound with a required and an optional
// certificate, and with a required issuer. A certificate in a header field must have no effect, and must not reach the
// upstream.
func TestClientsAreAuthenticatedByCertificate(t *testing.T) {
	backend := newHeaderEcho(t)
	a := artifact(
		route("GET /mtls", rewrite(backend+"?sub=${request.user.sub}&issuer=${request.user.data.issuer}"), "mtls"),
		route("GET /maybe", rewrite(backend+"?sub=${request.user.sub}"), "maybe"),
		route("GET /issuer", rewrite(backend), "issuer"),
		route("GET /open", rewrite(backend)),
	)
	declare(a, "mtls", "mtls-auth-inbound", map[string]any{})
	declare(a, "maybe", "mtls-auth-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	declare(a, "issuer", "mtls-auth-inbound", map[string]any{"certIssuerDN": "CN=One,O=Acme"})
	firstCA, secondCA := pkitest.CA(t, "One", time.Now()), pkitest.CA(t, "Two", time.Now())
	clients := &caVerifier{cas: []pkitest.Cert{firstCA, secondCA}}
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) {
		c.ClientVerifier, c.HeaderFilter, c.MaxHeaderBytes = clients, upstream.Filter{Underscores: true}, 1<<20
	})
	url, source, roots := h.listenTLS(t, clients)
	validCert, otherIssuer := firstCA.Client(t, "robot", time.Now()).TLS(t), secondCA.Client(t, "robot", time.Now()).TLS(t)
	unknownCert := pkitest.CA(t, "One", time.Now()).Client(t, "robot", time.Now())
	forgedValue := strings.ReplaceAll(firstCA.Client(t, "robot", time.Now()).PEM(), "\n", "")
	var forged []string
	for _, name := range certHeaders {
		forged = append(forged, name, forgedValue)
	}
	tests := []struct {
		name, path   string
		certificates []tls.Certificate
		header       []string
		status       int
		body         string
	}{
		{
			"a client", "/mtls",
			[]tls.Certificate{validCert},
			nil, 200,
			"query sub=CN%3Drobot%2C%20O%3DAcme&issuer=CN%3DOne%2C%20O%3DAcme cert ",
		},
		{"no certificate", "/mtls", nil, nil, 401, "for clients with a certificate"},
		{"a certificate of an unknown CA", "/mtls", []tls.Certificate{unknownCert.TLS(t)}, nil, 401, "of no CA"},
		{"no certificate and a forged header", "/mtls", nil, forged, 401, "for clients with a certificate"},
		{"a client with a forged header", "/mtls", []tls.Certificate{validCert}, forged, 200, "cert "},
		{"an optional certificate: none and a forged header", "/maybe", nil, forged, 200, "cert "},
		{"an optional certificate: none", "/maybe", nil, nil, 200, "query sub= cert "},
		{
			"an optional certificate: of an unknown CA", "/maybe",
			[]tls.Certificate{unknownCert.TLS(t)},
			nil, 200,
			"query sub= cert ",
		},
		{"an optional certificate: a client", "/maybe", []tls.Certificate{validCert}, nil, 200, "robot"},
		{"the required issuer", "/issuer", []tls.Certificate{validCert}, nil, 200, "query"},
		{"another issuer", "/issuer", []tls.Certificate{otherIssuer}, nil, 401, "another issuer"},
		{"a route without the policy", "/open", nil, nil, 200, "query"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := newTLSClient(roots, tt.certificates...)
			defer c.CloseIdleConnections()
			for range 2 { // the second time on the open connection
				if status, body := getURL(t, c, url+tt.path, tt.header...); status != tt.status ||
					!strings.Contains(body, tt.body) || strings.Contains(body, "BEGIN") {
					t.Errorf("GET %s: status = %d, body = %s, want %d with %q and no forged field at the upstream",
						tt.path, status, body, tt.status, tt.body)
				}
			}
		})
	}
	// A certificate in a header has no effect over plain HTTP either.
	response := h.do(t, http.MethodGet, "/mtls", func(r *http.Request) { r.Header.Set("Client-Cert", forgedValue) })
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("GET /mtls over plain HTTP with Client-Cert: status = %s, want 401", response.Status)
	}
	requests := len(source.requests)
	_, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "foreign.example"}}).DialContext(t.Context(),
		"tcp", strings.TrimPrefix(url, "https://"))
	if err == nil || !strings.Contains(err.Error(), "unrecognized name") || len(source.requests) != requests {
		t.Errorf("Dial(foreign.example) error = %v, %d certificate requests, want unrecognized name and %d",
			err, len(source.requests), requests)
	}
}

// TestClientCertificatesAreSeparatePerAccount checks that a certificate is valid only for
// the account of its CA, even on a connection that was opened for another account's host.
func TestClientCertificatesAreSeparatePerAccount(t *testing.T) {
	backend := newHeaderEcho(t)
	own, other := artifact(route("GET /mtls", rewrite(backend), "mtls")),
		artifact(route("GET /mtls", rewrite(backend), "mtls"))
	declare(own, "mtls", "mtls-auth-inbound", map[string]any{})
	declare(other, "mtls", "mtls-auth-inbound", map[string]any{})
	other.Identity.AccountID = "a2"
	ca := pkitest.CA(t, "One", time.Now())
	clients := &caVerifier{cas: []pkitest.Cert{ca}}
	h := newFixture(t, own, func(c *gateway.Config, _ *upstream.Options) { c.ClientVerifier = clients })
	h.deployments["other.test"] = &gateway.Deployment{Digest: "two", Artifact: other}
	url, _, roots := h.listenTLS(t, clients)
	c := newTLSClient(roots, ca.Client(t, "robot", time.Now()).TLS(t))
	defer c.CloseIdleConnections()
	for _, tt := range []struct {
		host   string
		status int
	}{{"shop.test", http.StatusOK}, {"other.test", http.StatusUnauthorized}, {"shop.test", http.StatusOK}} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/mtls", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = tt.host
		response, err := c.Do(r)
		if err != nil {
			t.Fatalf("GET /mtls at %s: error = %v, want a response", tt.host, err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if response.StatusCode != tt.status {
			t.Errorf("GET /mtls at %s: status = %d, want %d", tt.host, response.StatusCode, tt.status)
		}
	}
}

// TestDeletedCAIsRefusedOnOpenConnections checks a client while the CA of its certificate is added, deleted and
// unavailable. A certificate of a deleted CA must be refused on an open connection, too.
func TestDeletedCAIsRefusedOnOpenConnections(t *testing.T) {
	a := artifact(route("GET /mtls", rewrite(newHeaderEcho(t)), "mtls"))
	declare(a, "mtls", "mtls-auth-inbound", map[string]any{})
	ca := pkitest.CA(t, "CA", time.Now())
	clients := &caVerifier{}
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.ClientVerifier = clients })
	url, _, roots := h.listenTLS(t, clients)
	c := newTLSClient(roots, ca.Client(t, "robot", time.Now()).TLS(t))
	defer c.CloseIdleConnections()
	// Without a CA, the server requests no certificate in the handshake. After a CA was
	// added, a TLS session from the time without a CA must not be resumed.
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"no CA", func() {}, 401},
		{"a CA was added", func() { clients.setCAs(ca); c.CloseIdleConnections() }, 200},
		{"an open connection", func() {}, 200},
		{"a new connection", c.CloseIdleConnections, 200},
		{"the CA was deleted", func() { clients.setCAs() }, 401},
		{"a new connection after the deletion", c.CloseIdleConnections, 401},
		{"unavailable CAs", func() { clients.setCAs(ca); c.CloseIdleConnections(); clients.unavailable = true }, 503},
	} {
		step.do()
		if status, body := getURL(t, c, url+"/mtls"); status != step.want {
			t.Errorf("%s: GET /mtls: status = %d, body = %s, want %d", step.name, status, body, step.want)
		}
	}
}

// newTLSUpstream starts a TLS server with a certificate of ca, which requests client certificates of ca.
func newTLSUpstream(
	t *testing.T, ca pkitest.Cert, auth tls.ClientAuthType, handler http.HandlerFunc, protocols ...string,
) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
	s.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, ClientAuth: auth, ClientCAs: ca.Pool(), NextProtos: protocols,
		Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)},
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// writePeerCertificate responds with the common name in the client's certificate, "nobody" without one, and with the
// client's address.
func writePeerCertificate(w http.ResponseWriter, r *http.Request) {
	presented := "nobody"
	if len(r.TLS.PeerCertificates) > 0 {
		presented = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	_, _ = io.WriteString(w, presented+" at "+r.RemoteAddr)
}

// TestUpstreamReceivesTheProjectsCertificate checks that an upstream gets the certificate of the route, and that routes
// with different certificates share no connection. The target of a redirect gets no certificate.
func TestUpstreamReceivesTheProjectsCertificate(t *testing.T) {
	ca := pkitest.CA(t, "Warehouse", time.Now())
	roots := ca.Pool()
	// This server requests a certificate without requiring it.
	optional := newTLSUpstream(t, ca, tls.RequestClientCert, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, map[bool]string{true: "nobody", false: "somebody"}[len(r.TLS.PeerCertificates) == 0])
	})
	redirecting := newTLSUpstream(t, ca, tls.RequireAndVerifyClientCert,
		http.RedirectHandler(optional.URL, http.StatusFound).ServeHTTP)
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			backend := newTLSUpstream(t, ca, tls.RequireAndVerifyClientCert, writePeerCertificate, protocol)
			a := artifact()
			a.Certificates = map[string]project.ClientCertificate{}
			for _, name := range []string{"one", "two"} {
				certificate := ca.Client(t, name, time.Now())
				a.Certificates[name] = project.ClientCertificate{ID: name, Chain: certificate.PEM(), Key: certificate.KeyPEM(t)}
				a.Routes = append(a.Routes, route("GET /"+name,
					component("urlRewriteHandler", map[string]any{"rewritePattern": backend.URL, "mtlsCertificate": name})))
			}
			a.Routes = append(a.Routes,
				route("GET /none", rewrite(backend.URL)),
				route("GET /redirected", component("urlRewriteHandler",
					map[string]any{"rewritePattern": redirecting.URL, "mtlsCertificate": "one", "followRedirects": true})))
			h := newFixture(t, a, func(_ *gateway.Config, o *upstream.Options) {
				o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
			})
			connections := map[string]string{}
			for _, path := range []string{"one", "two", "none", "one", "two", "none", "one"} {
				response := h.do(t, http.MethodGet, "/"+path)
				content, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				subject, remote, _ := strings.Cut(string(content), " at ")
				if path == "none" {
					if response.StatusCode != http.StatusBadGateway {
						t.Errorf("GET /none: status = %s, body = %s, want 502", response.Status, content)
					}
					continue
				}
				if subject != path {
					t.Errorf("GET /%s: the upstream got the certificate of %s, want that of %s", path, content, path)
				}
				if connection, ok := connections[remote]; ok && connection != path {
					t.Errorf("%s and %s share a connection, want separate connections", connection, path)
				}
				connections[remote] = path
			}
			response := h.do(t, http.MethodGet, "/redirected")
			content, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if string(content) != "nobody" {
				t.Errorf("GET /redirected: status = %s, body = %s, want no certificate at the redirect's target",
					response.Status, content)
			}
		})
	}
}

// TestDeploymentWithoutItsCertificateIsNotServed checks that a deployment responds with 500 if its artifact does not
// contain the certificate of a route. Verify accepts such an artifact, because the build adds certificates later, but
// not a certificate for an upstream of plain HTTP.
func TestDeploymentWithoutItsCertificateIsNotServed(t *testing.T) {
	for name, options := range map[string]map[string]any{
		"an HTTPS upstream":     {"rewritePattern": "https://up.test", "mtlsCertificate": "one"},
		"a plain HTTP upstream": {"rewritePattern": "http://up.test", "mtlsCertificate": "one"},
	} {
		h := newFixture(t, artifact(route("GET /", component("urlRewriteHandler", options))))
		response := h.do(t, http.MethodGet, "/")
		_ = response.Body.Close()
		if response.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s: GET /: status = %s, want 500", name, response.Status)
		}
	}
	problems := gateway.Verify(t.Context(), artifact(route("GET /", component("urlRewriteHandler",
		map[string]any{"rewritePattern": "https://up.test", "mtlsCertificate": "one"}))))
	if len(problems) > 0 {
		t.Errorf("Verify(certificate that the build adds later) = %v, want no problems", problems)
	}
	problems = gateway.Verify(t.Context(), artifact(route("GET /", component("urlRewriteHandler",
		map[string]any{"rewritePattern": "http://up.test", "mtlsCertificate": "one"}))))
	if len(problems) != 1 || !strings.HasSuffix(problems[0].Path, "/handler/options/mtlsCertificate") {
		t.Errorf("Verify(certificate for plain HTTP) = %v, want one problem at mtlsCertificate", problems)
	}
}
