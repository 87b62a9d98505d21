package gateway_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/pki/pkitest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream/upstreamtest"
	"github.com/gatewright/gatewright/shared/format/project"
)

// failingUpstream is an upstream that fails. status is the status of the response to the client, and detail is a part
// of the problem's detail. If detail is "", the client receives the upstream's own response.
type failingUpstream struct {
	name, address string
	status        int
	detail        string
}

// failingUpstreams returns upstreams that fail in different ways, some with certificates of ca.
func failingUpstreams(t *testing.T, ca pkitest.Cert) []failingUpstream {
	t.Helper()
	unresponsive := rawUpstream(t, func(_ *bufio.Reader, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	closing := rawUpstream(t, func(r *bufio.Reader, _ net.Conn) { _, _ = http.ReadRequest(r) })
	garbage := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		writef(conn, "SSH-2.0-OpenSSH\r\n")
	})
	huge := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		writef(conn, "HTTP/1.1 200 OK\r\nX-Huge: %s\r\n\r\n", strings.Repeat("x", 300<<10))
	})
	endless := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		writef(conn, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := io.WriteString(conn, "X-A: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	})
	// respondPartOfLine starts an upstream that sends only the beginning of the status line and then calls end. The
	// gateway must report how the response ended, not that the line is malformed.
	respondPartOfLine := func(end func(net.Conn)) string {
		return rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			_, _ = http.ReadRequest(r)
			writef(conn, "HTTP/1.")
			end(conn)
		})
	}
	slowHead := respondPartOfLine(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	truncating := respondPartOfLine(func(net.Conn) {})
	plain := serve(t, echo)
	untrusted := httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(untrusted.Close)
	// requiringCertificate starts a server that requires client certificates, with at most this version of TLS. The
	// server reads after its handshake has failed, so that its alert is not lost when the connection ends.
	requiringCertificate := func(version uint16) string {
		config := &tls.Config{
			Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)}, ClientAuth: tls.RequireAnyClientCert,
			MinVersion: tls.VersionTLS12, MaxVersion: version,
		}
		return strings.Replace(rawUpstream(t, func(_ *bufio.Reader, conn net.Conn) {
			_ = tls.Server(conn, config).HandshakeContext(t.Context())
			_, _ = io.Copy(io.Discard, conn)
		}), "http:", "https:", 1)
	}
	return []failingUpstream{
		{"refused connections", "http://127.0.0.1:1", 502, "refuses connections"},
		{"no such host", "http://nothing.invalid", 502, "can't be resolved"},
		{"no response", unresponsive, 504, "did not answer in time"},
		{"no response after a part of a line", slowHead, 504, "did not answer in time"},
		{"closed after a part of a line", truncating, 502, "closed the connection"},
		{"closed without a response", closing, 502, "closed the connection"},
		{"a response that is not HTTP", garbage, 502, "does not follow HTTP"},
		{"huge header", huge, 502, "header is too large"},
		{"endless header", endless, 502, "header is too large"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), 502, "No secure connection"},
		{"an untrusted certificate", untrusted.URL, 502, "No secure connection"},
		{"wants a certificate", requiringCertificate(tls.VersionTLS13), 502, "which CAs the upstream trusts"},
		{
			"wants a certificate in the handshake", requiringCertificate(tls.VersionTLS12), 502,
			"which CAs the upstream trusts",
		},
		{"TLS at an http address", strings.Replace(untrusted.URL, "https:", "http:", 1), 400, ""},
		{
			"not allowed", "http://169.254.169.254/latest/meta-data", 502,
			"but never link-local ones and those where a cloud answers its machines",
		},
	}
}

func TestUpstreamFailuresAreProblems(t *testing.T) {
	ca := pkitest.CA(t, "CA", time.Now())
	for _, test := range failingUpstreams(t, ca) {
		t.Run(test.name, func(t *testing.T) {
			h := newFixture(t,
				artifact(route("GET /x", component("urlForwardHandler",
					map[string]any{"baseUrl": test.address, "followRedirects": true}))),
				func(_ *gateway.Config, o *upstream.Options) {
					if strings.HasPrefix(test.name, "no response") {
						o.ResponseTimeout = 100 * time.Millisecond
					}
					o.Resolver = new(upstreamtest.Records).Resolver(t)
					if strings.HasPrefix(test.name, "wants") {
						o.TLS = &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS12}
					}
				})
			response := h.do(t, "GET", "/x?token=s3cret")
			if test.detail == "" {
				if response.StatusCode != test.status {
					t.Errorf("GET /x: status = %d, want %d", response.StatusCode, test.status)
				}
				return
			}
			if test.name == "closed after a part of a line" && isStandardRun(t) {
				test.detail = "does not follow HTTP" // net/http does not report the reason
			}
			p := problemOf(t, response)
			if p.Status != test.status || !strings.Contains(p.Detail, test.detail) {
				t.Errorf("GET /x: problem = %d %q, want %d %q", p.Status, p.Detail, test.status, test.detail)
			}
			if p.Trace.BuildID != buildID {
				t.Errorf("GET /x: build ID of the problem = %q, want %q", p.Trace.BuildID, buildID)
			}
			if !strings.Contains(h.log.String(), "request failed") || strings.Contains(h.log.String(), "s3cret") {
				t.Errorf("log after a failed request = %s, want \"request failed\" and no query", h.log.String())
			}
		})
	}
}

// TestRouteTimeout checks that a request gets a 504 if the upstream has not responded within the route's timeout, and
// that the request is sent once. A route's timeout can be longer than Options.ResponseTimeout. The test uses the
// forward and the rewrite handler, and requests with and without a body.
func TestRouteTimeout(t *testing.T) {
	received := make(chan string, 100)
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		received <- r.Method + " " + r.URL.Path
		select {
		case <-r.Context().Done():
		case <-time.After(time.Second):
		}
		_, _ = io.WriteString(w, "late")
	})
	var routes []project.Route
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for timeout, seconds := range map[string]any{"short": 0.2, "quoted": "0.2", "long": 60} {
			routes = append(routes,
				route(method+" /forward/"+timeout,
					component("urlForwardHandler", map[string]any{"baseUrl": backend.URL, "timeoutSeconds": seconds})),
				route(method+" /rewrite/"+timeout,
					component("urlRewriteHandler", map[string]any{
						"rewritePattern":  backend.URL + "/rewrite/" + timeout,
						"followRedirects": true, "timeoutSeconds": seconds,
					})))
		}
	}
	h := newFixture(t, artifact(routes...), func(_ *gateway.Config, o *upstream.Options) {
		o.ResponseTimeout = 500 * time.Millisecond
	})
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, path := range []string{
			"/forward/short", "/rewrite/short", "/forward/quoted", "/rewrite/quoted", "/forward/long",
			"/rewrite/long",
		} {
			response := h.do(t, method, path, func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
				}
			})
			if strings.HasSuffix(path, "/long") {
				if got := body(t, response); response.StatusCode != http.StatusOK || got != "late" {
					t.Errorf("%s %s: status = %d, body = %q, want 200 %q", method, path, response.StatusCode, got, "late")
				}
			} else if p := problemOf(t, response); p.Status != http.StatusGatewayTimeout ||
				!strings.Contains(p.Detail, "did not answer in time") {
				t.Errorf("%s %s: problem = %d %q, want 504 and \"did not answer in time\"", method, path, p.Status, p.Detail)
			}
			if got := <-received; got != method+" "+path || len(received) > 0 {
				t.Errorf("%s %s: the upstream got %s and %d more, want this request once", method, path, got, len(received))
			}
		}
	}
}

// TestNameThatResolvesToPrivateAddressIsRefused changes the address of a name between two requests, from an allowed
// address to one that is not allowed.
func TestNameThatResolvesToPrivateAddressIsRefused(t *testing.T) {
	backend := serve(t, echo)
	port := backend.URL[strings.LastIndex(backend.URL, ":"):]
	var names upstreamtest.Records
	names.Set("rebind.example.", "127.0.0.1")
	h := newFixture(t, artifact(route("GET /x", forward("http://rebind.example"+port))),
		func(_ *gateway.Config, o *upstream.Options) {
			o.Guard = upstream.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
			o.Resolver = names.Resolver(t)
		})
	noReuse := header("Connection", "close")
	if response := h.do(t, "GET", "/x", noReuse); response.StatusCode != http.StatusOK {
		t.Fatalf("GET /x at an allowed address: status = %d, want 200", response.StatusCode)
	}
	backend.CloseClientConnections() // close pooled connections, so that the next request dials again
	names.Set("rebind.example.", "127.0.0.2")
	if p := problemOf(t, h.do(t, "GET", "/x", noReuse)); !strings.Contains(p.Detail, "does not allow") {
		t.Errorf("GET /x after the name has changed to a private address: problem = %d %q, want one about an address that "+
			"is not allowed",
			p.Status, p.Detail)
	}
}

func TestRedirectTargetsAreChecked(t *testing.T) {
	var target atomic.Value
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.Load().(string), http.StatusFound)
	})
	h := newFixture(t, artifact(
		route("GET /follow",
			component("urlRewriteHandler", map[string]any{"rewritePattern": backend.URL, "followRedirects": true})),
		route("GET /pass", rewrite(backend.URL)),
	))
	target.Store("http://169.254.169.254/latest/meta-data")
	if p := problemOf(t, h.do(t, "GET", "/follow")); p.Status != http.StatusBadGateway ||
		!strings.Contains(p.Detail, "does not allow") {
		t.Errorf("GET /follow with a redirect to the metadata service: problem = %d %q, want 502 about an address that is "+
			"not allowed",
			p.Status, p.Detail)
	}
	if response := h.do(t, "GET", "/pass"); response.StatusCode != http.StatusFound ||
		response.Header.Get("Location") != "http://169.254.169.254/latest/meta-data" {
		t.Errorf("GET /pass: status = %d, Location = %s, want 302 and the upstream's location",
			response.StatusCode, response.Header.Get("Location"))
	}
	target.Store(serve(t, echo).URL + "/there")
	if got := body(t, h.do(t, "GET", "/follow")); !strings.Contains(got, " /there ") {
		t.Errorf("GET /follow: body = %q, want the response of /there", got)
	}
}

func TestARedirectFromHTTPSToHTTPIsNotFollowed(t *testing.T) {
	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	}))
	t.Cleanup(backend.Close)
	h := newFixture(t,
		artifact(route("GET /x", component("urlForwardHandler",
			map[string]any{"baseUrl": backend.URL, "followRedirects": true}))), trust(backend))
	if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusFound {
		t.Errorf("GET /x with a redirect from HTTPS to HTTP: status = %d, want 302", response.StatusCode)
	}
}

// TestHTTP2Upstreams checks that HTTP/2 is used with an upstream that supports it, with bodies and trailers.
func TestHTTP2Upstreams(t *testing.T) {
	backend := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		writef(w, "%s %s", r.Proto, all)
		w.Header().Set("X-Sum", "7")
	}))
	backend.EnableHTTP2 = true
	backend.StartTLS()
	t.Cleanup(backend.Close)
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL)), route("POST /x", forward(backend.URL))),
		trust(backend))
	for method, want := range map[string]string{"GET": "HTTP/2.0 ", "POST": "HTTP/2.0 body"} {
		for range 2 {
			response := h.do(t, method, "/x", func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
				}
			})
			if got := body(t, response); got != want || response.Trailer.Get("X-Sum") != "7" {
				t.Errorf("%s: body = %q, trailer X-Sum = %q, want %q and 7", method, got, response.Trailer.Get("X-Sum"), want)
			}
		}
	}
}

func TestProxyEnvironmentIsIgnored(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { writef(w, "through the proxy") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	var names upstreamtest.Records
	names.Set("up.example.", "127.0.0.1")
	h := newFixture(t, artifact(route("GET /x", forward("http://up.example:1"))),
		func(_ *gateway.Config, o *upstream.Options) {
			o.Resolver = names.Resolver(t)
		})
	if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusBadGateway {
		t.Errorf("GET /x with a proxy in the environment: status = %d, body = %s, want 502",
			response.StatusCode, body(t, response))
	}
}

// TestABrokenIdleConnectionIsReplaced checks that a request is repeated on another
// connection if the upstream closes a pooled connection when it receives the request.
func TestABrokenIdleConnectionIsReplaced(t *testing.T) {
	var served atomic.Int32
	backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		served.Add(1)
		writef(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		// Read the second request on the connection, and close the connection without a response.
		_, _ = http.ReadRequest(r)
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend))))
	for i := range 6 {
		response := h.do(t, "GET", "/x")
		if got := body(t, response); response.StatusCode != http.StatusOK || got != "ok" {
			t.Fatalf("GET /x, request %d: status = %d, body = %q, want 200 and \"ok\"", i, response.StatusCode, got)
		}
	}
	if served.Load() != 6 {
		t.Errorf("6 times GET /x: requests at the upstream = %d, want 6", served.Load())
	}
}

// TestRequestWithBodyIsNotRetried checks that a request with a body is sent once, even if the
// upstream closes the connection without a response. The upstream may have executed the request.
func TestRequestWithBodyIsNotRetried(t *testing.T) {
	var received atomic.Int32
	backend := rawUpstream(t, func(r *bufio.Reader, _ net.Conn) {
		request, err := http.ReadRequest(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, request.Body)
			received.Add(1)
		}
	})
	h := newFixture(t, artifact(route("POST /x", forward(backend))))
	if p := problemOf(t, h.do(t, "POST", "/x", func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
	})); p.Status != http.StatusBadGateway {
		t.Errorf("POST /x with a broken connection: status = %d, want 502", p.Status)
	}
	if n := received.Load(); n != 1 {
		t.Errorf("POST /x with a broken connection: requests at the upstream = %d, want 1", n)
	}
}

// trust makes a gateway trust a test server's certificate.
func trust(backend *httptest.Server) setting {
	roots := x509.NewCertPool()
	roots.AddCert(backend.Certificate())
	return func(_ *gateway.Config, o *upstream.Options) {
		o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
}
