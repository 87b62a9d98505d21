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

	sharedconfig "github.com/gatewright/gatewright/shared/config"
	"github.com/gatewright/gatewright/shared/fault"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/handshake"
	"github.com/gatewright/gatewright/shared/listen"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/project"
)

// trusting are the CAs of the account a1.
type trusting struct {
	mu   sync.Mutex
	cas  []pkitest.Cert
	away bool
}

func (f *trusting) set(cas ...pkitest.Cert) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cas = cas
}

func (f *trusting) pool() *x509.CertPool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.cas) == 0 {
		return nil
	}
	out := x509.NewCertPool()
	for _, ca := range f.cas {
		out.AddCert(ca.Certificate)
	}
	return out
}

func (f *trusting) Verify(_ context.Context, accountID string, chain []*x509.Certificate) error {
	if f.away {
		return errors.New("nobody knows")
	}
	roots := f.pool()
	if accountID != "a1" || roots == nil {
		return fault.New(fault.Unauthenticated, "untrusted")
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		return fault.New(fault.Unauthenticated, "untrusted")
	}
	return nil
}

// ClientCAs implements handshake.Clients.
func (f *trusting) ClientCAs(context.Context, string) (*x509.CertPool, error) { return f.pool(), nil }

// shopSource has a certificate for shop.test.
type shopSource struct {
	pair  tls.Certificate
	asked []string
}

func (s *shopSource) Owns(name string) bool { return strings.HasSuffix(name, ".test") }

func (s *shopSource) Certificate(_ context.Context, name string) (*tls.Certificate, error) {
	s.asked = append(s.asked, name)
	return &s.pair, nil
}

// secure has the house listen by TLS too, and gives its address.
func (h *house) secure(t *testing.T, clients handshake.Clients) (url string, source *shopSource, roots *x509.CertPool) {
	t.Helper()
	ca := pkitest.CA(t, "Servers", time.Now())
	source = &shopSource{pair: ca.Client(t, "shop", time.Now(), func(c *pkitest.Template) {
		c.ExtKeyUsage, c.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{"shop.test"}
	}).TLS(t)}
	l, err := listen.On(t.Context(), "127.0.0.1:0", "the gateway", "NOTHING")
	if err != nil {
		t.Fatal(err)
	}
	bounds := sharedconfig.DefaultListener()
	bounds.StandardHTTP = overStandard(t)
	server := listen.New(listen.Options{
		Handler: h.gateway, Settings: bounds, IDs: h.ids, Log: slog.New(slog.DiscardHandler),
		TLS: handshake.Config(handshake.Options{Sources: []handshake.Source{source}, Clients: clients, Log: slog.New(slog.DiscardHandler)}),
	})
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "https://" + l.Addr().String(), source, ca.Pool()
}

func caller(roots *x509.CertPool, shown ...tls.Certificate) *http.Client {
	config := &tls.Config{RootCAs: roots, ServerName: "shop.test", ClientSessionCache: tls.NewLRUClientSessionCache(8)}
	if len(shown) > 0 {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown[0], nil }
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
}

func ask(t *testing.T, c *http.Client, url string, header ...string) (status int, body string) {
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
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

// claimed is what each of them says.
const claimed = "BEGIN CERTIFICATE"

// claims are what proxies call the fields in which they tell of certificates.
var claims = []string{
	"Client-Cert", "Client-Cert-Chain", "X-Forwarded-Client-Cert", "X-Client-Cert", "X-Ssl-Client-Cert", "Ssl-Client-Cert", "Ssl-Client-Verify",
	"Ssl-Client-Subject-Dn", "X-Ssl-Client-S-Dn", "X-Ssl-Cert", "X-Ssl-Issuer", "X-Forwarded-Tls-Client-Cert", "X-Forwarded-Tls-Client-Cert-Info",
	"X-Amzn-Mtls-Clientcert", "X-Amzn-Mtls-Clientcert-Leaf", "X-Arr-Clientcert", "Cf-Client-Cert-Sha256", "Cf-Cert-Verified", "X-Client-Cert-Chain-Verified",
	"X-Client-Certificate", "Client_Cert", "SSL_CLIENT_S_DN", "X_forwarded_client_cert",
}

// telling answers with the fields of a request that tell of certificates.
func telling(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "query "+r.URL.RawQuery+" cert ")
		for name, values := range r.Header {
			if strings.Contains(values[0], claimed) {
				_, _ = io.WriteString(w, "BEGIN of "+name)
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestClientsAreLetInByTheirCertificates(t *testing.T) {
	up := telling(t)
	a := artifact(
		route("GET /mtls", rewrite(up+"?sub=${request.user.sub}&issuer=${request.user.data.issuer}"), "mtls"),
		route("GET /maybe", rewrite(up+"?sub=${request.user.sub}"), "maybe"),
		route("GET /issuer", rewrite(up), "issuer"),
		route("GET /open", rewrite(up)),
	)
	declare(a, "mtls", "mtls-auth-inbound", map[string]any{})
	declare(a, "maybe", "mtls-auth-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	declare(a, "issuer", "mtls-auth-inbound", map[string]any{"certIssuerDN": "CN=One,O=Acme"})
	one, two := pkitest.CA(t, "One", time.Now()), pkitest.CA(t, "Two", time.Now())
	clients := &trusting{cas: []pkitest.Cert{one, two}}
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) {
		c.Clients, c.Fields, c.MaxHeaderBytes = clients, upstream.Filter{Underscores: true}, 1<<20
	})
	url, source, roots := h.secure(t, clients)
	good, other := one.Client(t, "robot", time.Now()).TLS(t), two.Client(t, "robot", time.Now()).TLS(t)
	stranger := pkitest.CA(t, "One", time.Now()).Client(t, "robot", time.Now())
	pretended := strings.ReplaceAll(one.Client(t, "robot", time.Now()).PEM(), "\n", "")
	var forged []string
	for _, name := range claims {
		forged = append(forged, name, pretended)
	}
	tests := []struct {
		name, path string
		shown      []tls.Certificate
		header     []string
		status     int
		body       string
	}{
		{"a client", "/mtls", []tls.Certificate{good}, nil, 200, "query sub=CN%3Drobot%2C%20O%3DAcme&issuer=CN%3DOne%2C%20O%3DAcme cert "},
		{"nobody", "/mtls", nil, nil, 401, "for clients with a certificate"},
		{"a stranger", "/mtls", []tls.Certificate{stranger.TLS(t)}, nil, 401, "of no CA"},
		{"nobody with a header", "/mtls", nil, forged, 401, "for clients with a certificate"},
		{"a client with a header", "/mtls", []tls.Certificate{good}, forged, 200, "cert "},
		{"nobody with a header, who may", "/maybe", nil, forged, 200, "cert "},
		{"nobody, who may", "/maybe", nil, nil, 200, "query sub= cert "},
		{"a stranger, who may", "/maybe", []tls.Certificate{stranger.TLS(t)}, nil, 200, "query sub= cert "},
		{"a client, who need not", "/maybe", []tls.Certificate{good}, nil, 200, "robot"},
		{"the issuer", "/issuer", []tls.Certificate{good}, nil, 200, "query"},
		{"another issuer", "/issuer", []tls.Certificate{other}, nil, 401, "another issuer"},
		{"nobody elsewhere", "/open", nil, nil, 200, "query"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := caller(roots, tt.shown...)
			defer c.CloseIdleConnections()
			for range 2 { // on a connection that is open too
				if status, body := ask(t, c, url+tt.path, tt.header...); status != tt.status || !strings.Contains(body, tt.body) || strings.Contains(body, "BEGIN") {
					t.Errorf("%d %s", status, body)
				}
			}
		})
	}
	// By plain HTTP nobody has a certificate, whatever is said.
	response := h.do(t, http.MethodGet, "/mtls", func(r *http.Request) { r.Header.Set("Client-Cert", pretended) })
	_ = response.Body.Close()
	if response.StatusCode != http.StatusUnauthorized {
		t.Error(response.Status)
	}
	asked := len(source.asked)
	_, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: "foreign.example"}}).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "https://"))
	if err == nil || !strings.Contains(err.Error(), "unrecognized name") || len(source.asked) != asked {
		t.Errorf("a name that is not ours: %v", err)
	}
}

// TestClientOfOneAccountIsNoneOfAnother: whatever name the handshake was made with, and also on a connection that the
// client's own account has let it in by.
func TestClientOfOneAccountIsNoneOfAnother(t *testing.T) {
	up := telling(t)
	its, others := artifact(route("GET /mtls", rewrite(up), "mtls")), artifact(route("GET /mtls", rewrite(up), "mtls"))
	declare(its, "mtls", "mtls-auth-inbound", map[string]any{})
	declare(others, "mtls", "mtls-auth-inbound", map[string]any{})
	others.Identity.AccountID = "a2"
	ca := pkitest.CA(t, "One", time.Now())
	clients := &trusting{cas: []pkitest.Cert{ca}}
	h := newHouse(t, its, func(c *gateway.Config, _ *upstream.Options) { c.Clients = clients })
	h.deployments["other.test"] = &gateway.Deployment{Digest: "two", Artifact: others}
	url, _, roots := h.secure(t, clients)
	c := caller(roots, ca.Client(t, "robot", time.Now()).TLS(t))
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
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if response.StatusCode != tt.status {
			t.Errorf("%s answers %d, want %d", tt.host, response.StatusCode, tt.status)
		}
	}
}

func TestDeletedCAIsRefusedOnOpenConnections(t *testing.T) {
	a := artifact(route("GET /mtls", rewrite(telling(t)), "mtls"))
	declare(a, "mtls", "mtls-auth-inbound", map[string]any{})
	ca := pkitest.CA(t, "CA", time.Now())
	clients := &trusting{}
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Clients = clients })
	url, _, roots := h.secure(t, clients)
	c := caller(roots, ca.Client(t, "robot", time.Now()).TLS(t))
	defer c.CloseIdleConnections()
	// Before there is a CA nobody is asked for a certificate, and the session that
	// begins then is not resumed once there is one.
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"no CA", func() {}, 401},
		{"a CA", func() { clients.set(ca); c.CloseIdleConnections() }, 200},
		{"an open connection", func() {}, 200},
		{"a new one", c.CloseIdleConnections, 200},
		{"the CA deleted", func() { clients.set() }, 401},
		{"a new one again", c.CloseIdleConnections, 401},
		{"nobody knows", func() { clients.set(ca); c.CloseIdleConnections(); clients.away = true }, 503},
	} {
		step.do()
		if status, body := ask(t, c, url+"/mtls"); status != step.want {
			t.Errorf("%s: %d %s", step.name, status, body)
		}
	}
}

func TestUpstreamIsShownTheProjectsCertificate(t *testing.T) {
	ca := pkitest.CA(t, "Warehouse", time.Now())
	roots := ca.Pool()
	demanding := func(protocols ...string) *httptest.Server {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			shown := "nobody"
			if len(r.TLS.PeerCertificates) > 0 {
				shown = r.TLS.PeerCertificates[0].Subject.CommonName
			}
			_, _ = io.WriteString(w, shown+" at "+r.RemoteAddr)
		}))
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, 0)
		s.TLS = &tls.Config{
			MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, NextProtos: protocols,
			Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)},
		}
		s.StartTLS()
		t.Cleanup(s.Close)
		return s
	}
	// It asks and does not demand, and is another origin.
	curious := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, map[bool]string{true: "nobody", false: "somebody"}[len(r.TLS.PeerCertificates) == 0])
	}))
	curious.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert, Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)}}
	curious.StartTLS()
	t.Cleanup(curious.Close)
	leading := httptest.NewUnstartedServer(http.RedirectHandler(curious.URL, http.StatusFound))
	leading.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)}}
	leading.StartTLS()
	t.Cleanup(leading.Close)
	for _, protocol := range []string{"http/1.1", "h2"} {
		t.Run(protocol, func(t *testing.T) {
			up := demanding(protocol)
			a := artifact()
			a.Certificates = map[string]project.ClientCertificate{}
			for _, name := range []string{"one", "two"} {
				its := ca.Client(t, name, time.Now())
				a.Certificates[name] = project.ClientCertificate{ID: name, Chain: its.PEM(), Key: its.KeyPEM(t)}
				a.Routes = append(a.Routes, route("GET /"+name, component("urlRewriteHandler", map[string]any{"rewritePattern": up.URL, "mtlsCertificate": name})))
			}
			a.Routes = append(a.Routes,
				route("GET /none", rewrite(up.URL)),
				route("GET /led", component("urlRewriteHandler", map[string]any{"rewritePattern": leading.URL, "mtlsCertificate": "one", "followRedirects": true})))
			h := newHouse(t, a, func(_ *gateway.Config, o *upstream.Options) {
				o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}
			})
			connections := map[string]string{}
			for _, path := range []string{"one", "two", "none", "one", "two", "none", "one"} {
				response := h.do(t, http.MethodGet, "/"+path)
				content, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				who, where, _ := strings.Cut(string(content), " at ")
				if path == "none" {
					if response.StatusCode != http.StatusBadGateway {
						t.Errorf("without a certificate: %s %s", response.Status, content)
					}
					continue
				}
				if who != path {
					t.Errorf("/%s is shown as %s", path, content)
				}
				if by, ok := connections[where]; ok && by != path {
					t.Errorf("%s and %s share a connection", by, path)
				}
				connections[where] = path
			}
			response := h.do(t, http.MethodGet, "/led")
			content, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if string(content) != "nobody" {
				t.Errorf("where a redirect leads it is shown to: %s %s", response.Status, content)
			}
		})
	}
}

func TestDeploymentWithoutItsCertificateIsNotServed(t *testing.T) {
	for name, options := range map[string]map[string]any{
		"not in the artifact": {"rewritePattern": "https://up.test", "mtlsCertificate": "one"},
		"to plain HTTP":       {"rewritePattern": "http://up.test", "mtlsCertificate": "one"},
	} {
		h := newHouse(t, artifact(route("GET /", component("urlRewriteHandler", options))))
		response := h.do(t, http.MethodGet, "/")
		_ = response.Body.Close()
		if response.StatusCode != http.StatusInternalServerError {
			t.Errorf("%s: %s", name, response.Status)
		}
	}
	problems := gateway.Verify(artifact(route("GET /", component("urlRewriteHandler", map[string]any{"rewritePattern": "https://up.test", "mtlsCertificate": "one"}))))
	if len(problems) > 0 {
		t.Errorf("a build, which puts it in later, is refused: %v", problems)
	}
	problems = gateway.Verify(artifact(route("GET /", component("urlRewriteHandler", map[string]any{"rewritePattern": "http://up.test", "mtlsCertificate": "one"}))))
	if len(problems) != 1 || !strings.HasSuffix(problems[0].Path, "/handler/options/mtlsCertificate") {
		t.Errorf("plain HTTP: %v", problems)
	}
}
