package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// newSwitchingUpstream starts an upstream that switches to any requested protocol, and then sends back all bytes. The
// field X-Got of its responses has the fields Connection and Upgrade of the request. After an ordinary request, X-Got
// also has HTTP2-Settings.
func newSwitchingUpstream(t *testing.T) string {
	t.Helper()
	return rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, request.Body)
		if protocol := request.Header.Get("Upgrade"); protocol != "" {
			writef(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: %s\r\nX-Got: "+
				"%s %s\r\n\r\n",
				protocol, request.Header.Get("Connection"), protocol)
			_, _ = io.Copy(conn, r)
			return
		}
		request.Header.Del("X-Request-Id")
		writef(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Got: upgrade %v, connection %v, settings %v\r\n\r\n",
			request.Header["Upgrade"], request.Header["Connection"], request.Header["Http2-Settings"])
	})
}

// TestOnlyAllowedUpgradesAreTunneled checks for different Upgrade fields
// whether the upstream switches protocols or receives an ordinary request.
func TestOnlyAllowedUpgradesAreTunneled(t *testing.T) {
	backend := newSwitchingUpstream(t)
	upgradeOptions := func(names ...string) map[string]any { return map[string]any{"baseUrl": backend, "upgrades": names} }
	h := newFixture(t, artifact(
		route("GET /x", forward(backend)), route("POST /x", forward(backend)), route("HEAD /x", forward(backend)),
		route("GET /tcp", component("urlForwardHandler", upgradeOptions("websocket", "Tcp/1"))),
		route("POST /tcp", component("urlForwardHandler", upgradeOptions("Tcp/1"))),
		route("GET /none", component("urlForwardHandler", map[string]any{"baseUrl": backend, "upgrades": []string{}})),
	))
	const ordinary = "upgrade [], connection [], settings []"
	for _, c := range []struct{ name, request, want string }{ // want is a protocol, or ordinary
		{"a WebSocket", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", "websocket"},
		{"a WebSocket in capitals", "GET /x HTTP/1.1\nConnection: keep-alive, upgrade\nUpgrade: WebSocket", "websocket"},
		{"a WebSocket after another offer", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c, websocket", "websocket"},
		{"a WebSocket in a second field", "GET /x HTTP/1.1\nConnection: keep-alive\nConnection: Upgrade\nUpgrade: h2c\n" +
			"Upgrade: tcp\nUpgrade: websocket", "websocket"},
		{
			"h2c",
			"GET /x HTTP/1.1\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA",
			ordinary,
		},
		{"h2c without settings", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c", ordinary},
		{"h2c by POST", "POST /x HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c\nContent-Length: 0", ordinary},
		{"h2c without Connection", "GET /x HTTP/1.1\nUpgrade: h2c", ordinary},
		{"TLS", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: TLS/1.0", ordinary},
		{"HTTP/2.0", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: HTTP/2.0", ordinary},
		{"a WebSocket with a version", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket/13", ordinary},
		{"a WebSocket and h2c without a comma", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket h2c", ordinary},
		{"a WebSocket by POST", "POST /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nContent-Length: 0", ordinary},
		{
			"a WebSocket with a body", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nContent-Length: 4\n\nbody",
			ordinary,
		},
		{
			"a WebSocket with chunks",
			"GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nTransfer-Encoding: chunked\n\n0\n\n", ordinary,
		},
		{"a WebSocket by HTTP/1.0", "GET /x HTTP/1.0\nConnection: Upgrade\nUpgrade: websocket", ordinary},
		{"a WebSocket without Connection", "GET /x HTTP/1.1\nUpgrade: websocket", ordinary},
		{"a WebSocket by HEAD", "HEAD /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", ordinary},
		{
			"a protocol that the route allows", "POST /tcp HTTP/1.1\nConnection: Upgrade\nUpgrade: tcp/1\nContent-Length: 0",
			"tcp/1",
		},
		{"a WebSocket that the route allows", "GET /tcp HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", "websocket"},
		{
			"a protocol that the route does not allow",
			"POST /tcp HTTP/1.1\nConnection: Upgrade\nUpgrade: udp\nContent-Length: 0", ordinary,
		},
		{"a WebSocket on a route without upgrades", "GET /none HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", ordinary},
	} {
		t.Run(c.name, func(t *testing.T) {
			head, body, _ := strings.Cut(c.request, "\n\n")
			r, conn := sendRaw(t, h.URL, strings.ReplaceAll(head+"\nHost: shop.test\n\n"+body, "\n", "\r\n"))
			method, _, _ := strings.Cut(head, " ")
			response, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				t.Fatalf("%s: ReadResponse() error = %v, want a response", method, err)
			}
			if c.want == ordinary {
				if got := response.Header.Get("X-Got"); response.StatusCode != http.StatusOK || got != ordinary {
					t.Errorf("%s: status = %d, the upstream got %q, want 200 and %q", method, response.StatusCode, got, ordinary)
				}
				return
			}
			if got := response.Header.Get("X-Got"); response.StatusCode != http.StatusSwitchingProtocols ||
				got != "Upgrade "+c.want {
				t.Fatalf("%s: status = %d, the upstream got %q, want 101 and %q",
					method, response.StatusCode, got, "Upgrade "+c.want)
			}
			if got := response.Header; got.Get("Connection") != "Upgrade" || got.Get("Upgrade") != c.want ||
				got.Get("X-Hop") != "" {
				t.Errorf("header of the response = %v, want Connection: Upgrade, Upgrade: %s and no X-Hop", got, c.want)
			}
			writef(conn, "hello")
			if got, err := io.ReadAll(io.LimitReader(r, 5)); string(got) != "hello" {
				t.Errorf("data from the switched connection = %q, %v, want %q", got, err, "hello")
			}
		})
	}
}

// TestSwitchToOtherProtocolIsRefused checks that a response with status 101 becomes a 502 if it does not name the
// protocol that the gateway has requested from the upstream. The gateway never requests h2c.
func TestSwitchToOtherProtocolIsRefused(t *testing.T) {
	for _, head := range []string{
		"Connection: Upgrade\r\nUpgrade: h2c\r\n", "Connection: Upgrade\r\nUpgrade: tcp\r\n",
		"Connection: Upgrade\r\n", "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n",
	} {
		backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			if request, err := http.ReadRequest(r); err == nil {
				_, _ = io.Copy(io.Discard, request.Body)
			}
			writef(conn, "HTTP/1.1 101 Switching Protocols\r\n%s\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden", head)
			_, _ = io.Copy(io.Discard, r)
		})
		h := newFixture(t, artifact(route("GET /x", forward(backend)), route("POST /x", forward(backend))))
		for _, protocol := range []string{"", "websocket", "h2c"} { // of the client's request
			var modifiers []func(*http.Request)
			if protocol != "" {
				modifiers = append(modifiers, header("Connection", "Upgrade"), header("Upgrade", protocol))
			}
			for _, method := range []string{"GET", "POST"} {
				p := problemOf(t, h.do(t, method, "/x", append(modifiers, func(r *http.Request) {
					if method == "POST" {
						r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
					}
				})...))
				if p.Status != http.StatusBadGateway || !strings.Contains(p.Detail, "did not ask for") {
					t.Errorf("%s with Upgrade: %q, upstream's 101 with %q: problem = %d %q, want 502 about the switch",
						method, protocol, head, p.Status, p.Detail)
				}
			}
		}
	}
}

// TestUpgradeRedirectsAreForwarded checks that the redirect of an upgrade request is forwarded, although the route
// follows redirects.
func TestUpgradeRedirectsAreForwarded(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) })
	h := newFixture(t,
		artifact(route("GET /x", component("urlForwardHandler",
			map[string]any{"baseUrl": backend.URL, "followRedirects": true}))))
	response := h.do(t, "GET", "/x", header("Connection", "Upgrade"), header("Upgrade", "websocket"))
	if response.StatusCode != http.StatusFound || response.Header.Get("Location") != "/there" {
		t.Errorf("GET /x with Upgrade: status = %d, Location = %q, want 302 to /there",
			response.StatusCode, response.Header.Get("Location"))
	}
}

// TestInvalidStatusIsAProblem checks that an upstream's status below 100 or above 599 becomes a 502. net/http's server
// would panic for a status below 100.
func TestInvalidStatusIsAProblem(t *testing.T) {
	for _, status := range []string{"000", "099", "600", "999"} {
		backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			if request, err := http.ReadRequest(r); err == nil {
				_, _ = io.Copy(io.Discard, request.Body)
			}
			writef(conn, "HTTP/1.1 %s Odd\r\nContent-Length: 0\r\n\r\n", status)
		})
		h := newFixture(t, artifact(route("GET /x", forward(backend)), route("POST /x", forward(backend))))
		for _, method := range []string{"GET", "POST"} {
			p := problemOf(t, h.do(t, method, "/x", func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
				}
			}))
			if p.Status != http.StatusBadGateway {
				t.Errorf("%s with the upstream's status %s: status = %d, want 502", method, status, p.Status)
			}
		}
		if log := h.log.String(); strings.Contains(log, "panic") {
			t.Errorf("upstream's status %s: log = %s, want no panic", status, log)
		}
	}
}

// TestHalfClosedUpgradeDeliversTheResponse checks that a client that has
// ended its side of a switched connection still receives the response.
func TestHalfClosedUpgradeDeliversTheResponse(t *testing.T) {
	backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		writef(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp/1\r\n\r\n")
		all, err := io.ReadAll(r)
		writef(conn, "heard %s, %v", all, err)
	})
	runDirectAndTunneled(t, func(t *testing.T, connect connector) {
		base, upstreamSetting := connect(backend)
		h := newFixture(t,
			artifact(route("GET /x", component("urlForwardHandler",
				map[string]any{"baseUrl": base, "upgrades": []string{"tcp/1"}}))), upstreamSetting)
		r, conn := sendRaw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: tcp/1\r\n\r\n")
		readSwitch(t, r)
		writef(conn, "hello")
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(r); err != nil || string(all) != "heard hello, <nil>" {
			t.Errorf("ReadAll() after CloseWrite() = %q, %v, want %q", all, err, "heard hello, <nil>")
		}
	})
}
