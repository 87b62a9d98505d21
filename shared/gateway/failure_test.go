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

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/gateway/upstream/upstreamtest"
	"github.com/gatewright/gatewright/shared/pki/pkitest"
	"github.com/gatewright/gatewright/shared/project"
)

func TestFailuresOfTheUpstreamAreProblems(t *testing.T) {
	silent := rawUpstream(t, func(_ *bufio.Reader, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	closing := rawUpstream(t, func(r *bufio.Reader, _ net.Conn) { _, _ = http.ReadRequest(r) })
	garbage := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		say(conn, "SSH-2.0-OpenSSH\r\n")
	})
	huge := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		say(conn, "HTTP/1.1 200 OK\r\nX-Huge: %s\r\n\r\n", strings.Repeat("x", 300<<10))
	})
	endless := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		say(conn, "HTTP/1.1 200 OK\r\n")
		for {
			if _, err := io.WriteString(conn, "X-A: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
				return
			}
		}
	})
	// Each ends within a line, which a parser would have to call malformed.
	within := func(ending func(net.Conn)) string {
		return rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			_, _ = http.ReadRequest(r)
			say(conn, "HTTP/1.")
			ending(conn)
		})
	}
	dribbling := within(func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	breaking := within(func(net.Conn) {})
	plain := serve(t, echo)
	untrusted := httptest.NewTLSServer(http.HandlerFunc(echo))
	t.Cleanup(untrusted.Close)
	ca := pkitest.CA(t, "CA", time.Now())
	// It reads on, so that its alert is not lost with the connection.
	demanding := func(version uint16) string {
		config := &tls.Config{
			Certificates: []tls.Certificate{ca.Server(t, time.Now()).TLS(t)}, ClientAuth: tls.RequireAnyClientCert,
			MinVersion: tls.VersionTLS12, MaxVersion: version,
		}
		return strings.Replace(rawUpstream(t, func(_ *bufio.Reader, conn net.Conn) {
			_ = tls.Server(conn, config).HandshakeContext(t.Context())
			_, _ = io.Copy(io.Discard, conn)
		}), "http:", "https:", 1)
	}
	for _, test := range []struct {
		name, address string
		status        int
		detail        string
	}{
		{"refused", "http://127.0.0.1:1", 502, "refuses connections"},
		{"no such host", "http://nothing.invalid", 502, "can't be resolved"},
		{"silent", silent, 504, "did not answer in time"},
		{"silent within a line", dribbling, 504, "did not answer in time"},
		{"closing within a line", breaking, 502, "closed the connection"},
		{"closing", closing, 502, "closed the connection"},
		{"garbage", garbage, 502, "does not follow HTTP"},
		{"huge header", huge, 502, "header is too large"},
		{"endless header", endless, 502, "header is too large"},
		{"no TLS", strings.Replace(plain.URL, "http:", "https:", 1), 502, "No secure connection"},
		{"untrusted", untrusted.URL, 502, "No secure connection"},
		{"wants a certificate", demanding(tls.VersionTLS13), 502, "which CAs the upstream trusts"},
		{"wants a certificate in the handshake", demanding(tls.VersionTLS12), 502, "which CAs the upstream trusts"},
		{"TLS where plain is asked", strings.Replace(untrusted.URL, "https:", "http:", 1), 400, ""},
		{"not allowed", "http://169.254.169.254/latest/meta-data", 502, "but never link-local ones and those where a cloud answers its machines"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHouse(t, artifact(route("GET /x", component("urlForwardHandler", map[string]any{"baseUrl": test.address, "followRedirects": true}))),
				func(_ *gateway.Config, o *upstream.Options) {
					if strings.HasPrefix(test.name, "silent") {
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
					t.Errorf("got %d, want %d", response.StatusCode, test.status)
				}
				return
			}
			if test.name == "closing within a line" && overStandard(t) {
				test.detail = "does not follow HTTP" // net/http drops the reason
			}
			p := problemOf(t, response)
			if p.Status != test.status || !strings.Contains(p.Detail, test.detail) || p.Trace.BuildID != buildID {
				t.Errorf("got %d %q, want %d %q", p.Status, p.Detail, test.status, test.detail)
			}
			if !strings.Contains(h.log.String(), "request failed") || strings.Contains(h.log.String(), "s3cret") {
				t.Errorf("log: %s", h.log.String())
			}
		})
	}
}

// TestARouteHasATimeoutOfItsOwn, by either handler, for requests with a body and
// without: what is late is a 504, and nothing is asked twice.
func TestARouteHasATimeoutOfItsOwn(t *testing.T) {
	asked := make(chan string, 100)
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked <- r.Method + " " + r.URL.Path
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
				route(method+" /forward/"+timeout, component("urlForwardHandler", map[string]any{"baseUrl": up.URL, "timeoutSeconds": seconds})),
				route(method+" /rewrite/"+timeout, component("urlRewriteHandler", map[string]any{"rewritePattern": up.URL + "/rewrite/" + timeout, "followRedirects": true, "timeoutSeconds": seconds})))
		}
	}
	h := newHouse(t, artifact(routes...), func(_ *gateway.Config, o *upstream.Options) { o.ResponseTimeout = 500 * time.Millisecond })
	for _, method := range []string{"GET", "POST", "DELETE"} {
		for _, path := range []string{"/forward/short", "/rewrite/short", "/forward/quoted", "/forward/long", "/rewrite/long"} {
			response := h.do(t, method, path, func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
				}
			})
			if strings.HasSuffix(path, "/long") {
				if got := body(t, response); response.StatusCode != http.StatusOK || got != "late" {
					t.Errorf("%s %s: %d %s", method, path, response.StatusCode, got)
				}
			} else if p := problemOf(t, response); p.Status != http.StatusGatewayTimeout || !strings.Contains(p.Detail, "did not answer in time") {
				t.Errorf("%s %s: %d %s", method, path, p.Status, p.Detail)
			}
			if got := <-asked; got != method+" "+path || len(asked) > 0 {
				t.Errorf("%s %s: asked for %s, and %d more", method, path, got, len(asked))
			}
		}
	}
}

func TestANameThatMovesToAPrivateAddressIsRefused(t *testing.T) {
	up := serve(t, echo)
	port := up.URL[strings.LastIndex(up.URL, ":"):]
	var names upstreamtest.Records
	names.Set("rebind.example.", "127.0.0.1")
	h := newHouse(t, artifact(route("GET /x", forward("http://rebind.example"+port))), func(_ *gateway.Config, o *upstream.Options) {
		o.Guard = upstream.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
		o.Resolver = names.Resolver(t)
	})
	noReuse := header("Connection", "close")
	if response := h.do(t, "GET", "/x", noReuse); response.StatusCode != http.StatusOK {
		t.Fatalf("the allowed address: got %d", response.StatusCode)
	}
	up.CloseClientConnections() // what is pooled stays good: force a new dial
	names.Set("rebind.example.", "127.0.0.2")
	if p := problemOf(t, h.do(t, "GET", "/x", noReuse)); !strings.Contains(p.Detail, "does not allow") {
		t.Errorf("after the name has moved: %d %s", p.Status, p.Detail)
	}
}

func TestRedirectsAreGuardedToo(t *testing.T) {
	var target atomic.Value
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target.Load().(string), http.StatusFound)
	})
	h := newHouse(t, artifact(
		route("GET /follow", component("urlRewriteHandler", map[string]any{"rewritePattern": up.URL, "followRedirects": true})),
		route("GET /pass", rewrite(up.URL)),
	))
	target.Store("http://169.254.169.254/latest/meta-data")
	if p := problemOf(t, h.do(t, "GET", "/follow")); p.Status != http.StatusBadGateway || !strings.Contains(p.Detail, "does not allow") {
		t.Errorf("followed to the metadata service: %d %s", p.Status, p.Detail)
	}
	if response := h.do(t, "GET", "/pass"); response.StatusCode != http.StatusFound || response.Header.Get("Location") != "http://169.254.169.254/latest/meta-data" {
		t.Errorf("not followed: got %d to %s", response.StatusCode, response.Header.Get("Location"))
	}
	target.Store(serve(t, echo).URL + "/there")
	if got := body(t, h.do(t, "GET", "/follow")); !strings.Contains(got, " /there ") {
		t.Errorf("followed: got %q", got)
	}
}

func TestARedirectFromHTTPSToHTTPIsNotFollowed(t *testing.T) {
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	}))
	t.Cleanup(up.Close)
	h := newHouse(t, artifact(route("GET /x", component("urlForwardHandler", map[string]any{"baseUrl": up.URL, "followRedirects": true}))), trust(up))
	if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusFound {
		t.Errorf("got %d", response.StatusCode)
	}
}

func TestUpstreamsMaySpeakHTTP2(t *testing.T) {
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		w.Header().Set("Trailer", "X-Sum")
		say(w, "%s %s", r.Proto, all)
		w.Header().Set("X-Sum", "7")
	}))
	up.EnableHTTP2 = true
	up.StartTLS()
	t.Cleanup(up.Close)
	h := newHouse(t, artifact(route("GET /x", forward(up.URL)), route("POST /x", forward(up.URL))), trust(up))
	for method, want := range map[string]string{"GET": "HTTP/2.0 ", "POST": "HTTP/2.0 body"} {
		for range 2 {
			response := h.do(t, method, "/x", func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), -1
				}
			})
			if got := body(t, response); got != want || response.Trailer.Get("X-Sum") != "7" {
				t.Errorf("%s: got %q, trailer %q", method, got, response.Trailer.Get("X-Sum"))
			}
		}
	}
}

func TestTheProcessesProxyIsNotUsed(t *testing.T) {
	proxy := serve(t, func(w http.ResponseWriter, _ *http.Request) { say(w, "through the proxy") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("http_proxy", proxy.URL)
	var names upstreamtest.Records
	names.Set("up.example.", "127.0.0.1")
	h := newHouse(t, artifact(route("GET /x", forward("http://up.example:1"))), func(_ *gateway.Config, o *upstream.Options) {
		o.Resolver = names.Resolver(t)
	})
	if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusBadGateway {
		t.Errorf("got %d %s", response.StatusCode, body(t, response))
	}
}

// TestABrokenIdleConnectionIsReplaced: an upstream may close a pooled connection
// at any time, also just when the next request is on its way.
func TestABrokenIdleConnectionIsReplaced(t *testing.T) {
	var served atomic.Int32
	up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		served.Add(1)
		say(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		// The second request of a connection is read and never answered.
		_, _ = http.ReadRequest(r)
	})
	h := newHouse(t, artifact(route("GET /x", forward(up))))
	for i := range 6 {
		if response := h.do(t, "GET", "/x"); response.StatusCode != http.StatusOK || body(t, response) != "ok" {
			t.Fatalf("request %d: got %d", i, response.StatusCode)
		}
	}
	if served.Load() != 6 {
		t.Errorf("served %d times", served.Load())
	}
}

// TestARequestWithABodyIsNotSentTwice: nobody knows what the upstream did.
func TestARequestWithABodyIsNotSentTwice(t *testing.T) {
	var seen atomic.Int32
	up := rawUpstream(t, func(r *bufio.Reader, _ net.Conn) {
		request, err := http.ReadRequest(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, request.Body)
			seen.Add(1)
		}
	})
	h := newHouse(t, artifact(route("POST /x", forward(up)), route("GET /x", forward(up))))
	if p := problemOf(t, h.do(t, "POST", "/x", func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
	})); p.Status != http.StatusBadGateway {
		t.Errorf("got %d", p.Status)
	}
	if n := seen.Load(); n != 1 {
		t.Errorf("the upstream got the request %d times", n)
	}
}

// trust makes a gateway trust a test server's certificate.
func trust(up *httptest.Server) setting {
	roots := x509.NewCertPool()
	roots.AddCert(up.Certificate())
	return func(_ *gateway.Config, o *upstream.Options) {
		o.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
}
