package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// switching is an upstream that switches to any protocol it is asked for, says
// which, and then repeats what it is told. To ordinary requests it answers with
// their headers.
func switching(t *testing.T) string {
	t.Helper()
	return rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		request, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, request.Body)
		if protocol := request.Header.Get("Upgrade"); protocol != "" {
			say(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: %s\r\nX-Got: %s %s\r\n\r\n",
				protocol, request.Header.Get("Connection"), protocol)
			_, _ = io.Copy(conn, r)
			return
		}
		request.Header.Del("X-Request-Id")
		say(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nX-Got: upgrade %v, connection %v, settings %v\r\n\r\n",
			request.Header["Upgrade"], request.Header["Connection"], request.Header["Http2-Settings"])
	})
}

// TestOnlyProtocolsThatARouteNamesAreTunnelled asks with an Upgrade of each kind.
func TestOnlyProtocolsThatARouteNamesAreTunnelled(t *testing.T) {
	up := switching(t)
	with := func(names ...string) map[string]any { return map[string]any{"baseUrl": up, "upgrades": names} }
	h := newHouse(t, artifact(
		route("GET /x", forward(up)), route("POST /x", forward(up)), route("HEAD /x", forward(up)),
		route("GET /tcp", component("urlForwardHandler", with("websocket", "Tcp/1"))), route("POST /tcp", component("urlForwardHandler", with("Tcp/1"))),
		route("GET /none", component("urlForwardHandler", map[string]any{"baseUrl": up, "upgrades": []string{}})),
	))
	const ordinary = "upgrade [], connection [], settings []"
	for _, c := range []struct{ name, request, want string }{ // want is what the upstream switched to, or ordinary
		{"a WebSocket", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", "websocket"},
		{"in other letters", "GET /x HTTP/1.1\nConnection: keep-alive, upgrade\nUpgrade: WebSocket", "websocket"},
		{"offered among others", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c, websocket", "websocket"},
		{"offered in a second line", "GET /x HTTP/1.1\nConnection: keep-alive\nConnection: Upgrade\nUpgrade: h2c\nUpgrade: tcp\nUpgrade: websocket", "websocket"},
		{"h2c", "GET /x HTTP/1.1\nConnection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", ordinary},
		{"h2c alone", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c", ordinary},
		{"h2c by POST", "POST /x HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c\nContent-Length: 0", ordinary},
		{"h2c without a word of Connection", "GET /x HTTP/1.1\nUpgrade: h2c", ordinary},
		{"TLS", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: TLS/1.0", ordinary},
		{"HTTP/2.0", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: HTTP/2.0", ordinary},
		{"nearly a WebSocket", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket/13", ordinary},
		{"h2c behind a WebSocket", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket h2c", ordinary},
		{"a WebSocket by POST", "POST /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nContent-Length: 0", ordinary},
		{"a WebSocket with a body", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nContent-Length: 4\n\nbody", ordinary},
		{"a WebSocket with chunks", "GET /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket\nTransfer-Encoding: chunked\n\n0\n\n", ordinary},
		{"a WebSocket by HTTP/1.0", "GET /x HTTP/1.0\nConnection: Upgrade\nUpgrade: websocket", ordinary},
		{"a WebSocket without Connection", "GET /x HTTP/1.1\nUpgrade: websocket", ordinary},
		{"a WebSocket by HEAD", "HEAD /x HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", ordinary},
		{"what a route names", "POST /tcp HTTP/1.1\nConnection: Upgrade\nUpgrade: tcp/1\nContent-Length: 0", "tcp/1"},
		{"what a route names, and a WebSocket", "GET /tcp HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", "websocket"},
		{"not what it names", "POST /tcp HTTP/1.1\nConnection: Upgrade\nUpgrade: udp\nContent-Length: 0", ordinary},
		{"where a route names none", "GET /none HTTP/1.1\nConnection: Upgrade\nUpgrade: websocket", ordinary},
	} {
		t.Run(c.name, func(t *testing.T) {
			head, body, _ := strings.Cut(c.request, "\n\n")
			r, conn := raw(t, h.URL, strings.ReplaceAll(head+"\nHost: shop.test\n\n"+body, "\n", "\r\n"))
			method, _, _ := strings.Cut(head, " ")
			response, err := http.ReadResponse(r, &http.Request{Method: method})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == ordinary {
				if got := response.Header.Get("X-Got"); response.StatusCode != http.StatusOK || got != ordinary {
					t.Errorf("got %d, the upstream got %q", response.StatusCode, got)
				}
				return
			}
			if got := response.Header.Get("X-Got"); response.StatusCode != http.StatusSwitchingProtocols || got != "Upgrade "+c.want {
				t.Fatalf("got %d, the upstream got %q", response.StatusCode, got)
			}
			if got := response.Header; got.Get("Connection") != "Upgrade" || got.Get("Upgrade") != c.want || got.Get("X-Hop") != "" {
				t.Errorf("got %v", got)
			}
			say(conn, "hello")
			if got, err := io.ReadAll(io.LimitReader(r, 5)); string(got) != "hello" {
				t.Errorf("through the tunnel: %q, %v", got, err)
			}
		})
	}
}

// TestASwitchToAnotherProtocolIsRefused: an upstream that takes no part in what
// is asked, and switches by itself.
func TestASwitchToAnotherProtocolIsRefused(t *testing.T) {
	for _, head := range []string{"Connection: Upgrade\r\nUpgrade: h2c\r\n", "Connection: Upgrade\r\nUpgrade: tcp\r\n", "Connection: Upgrade\r\n", "Upgrade: websocket, h2c\r\nConnection: Upgrade\r\n"} {
		up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			if request, err := http.ReadRequest(r); err == nil {
				_, _ = io.Copy(io.Discard, request.Body)
			}
			say(conn, "HTTP/1.1 101 Switching Protocols\r\n%s\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden", head)
			_, _ = io.Copy(io.Discard, r)
		})
		h := newHouse(t, artifact(route("GET /x", forward(up)), route("POST /x", forward(up))))
		for _, set := range [][]func(*http.Request){
			nil,
			{header("Connection", "Upgrade"), header("Upgrade", "websocket")},
			{header("Connection", "Upgrade"), header("Upgrade", "h2c")},
		} {
			for _, method := range []string{"GET", "POST"} {
				p := problemOf(t, h.do(t, method, "/x", append(set, func(r *http.Request) {
					if method == "POST" {
						r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
					}
				})...))
				if p.Status != http.StatusBadGateway || !strings.Contains(p.Detail, "did not ask for") {
					t.Errorf("%s to %q: got %d %s", method, head, p.Status, p.Detail)
				}
			}
		}
	}
}

func TestRedirectsOfUpgradesReachTheClient(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/there", http.StatusFound) })
	h := newHouse(t, artifact(route("GET /x", component("urlForwardHandler", map[string]any{"baseUrl": up.URL, "followRedirects": true}))))
	response := h.do(t, "GET", "/x", header("Connection", "Upgrade"), header("Upgrade", "websocket"))
	if response.StatusCode != http.StatusFound || response.Header.Get("Location") != "/there" {
		t.Errorf("got %d to %q", response.StatusCode, response.Header.Get("Location"))
	}
}

// TestAnOddStatusIsAProblem: a server of net/http panics when it is told to
// write some of them.
func TestAnOddStatusIsAProblem(t *testing.T) {
	for _, status := range []string{"000", "099", "600", "999"} {
		up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			if request, err := http.ReadRequest(r); err == nil {
				_, _ = io.Copy(io.Discard, request.Body)
			}
			say(conn, "HTTP/1.1 %s Odd\r\nContent-Length: 0\r\n\r\n", status)
		})
		h := newHouse(t, artifact(route("GET /x", forward(up)), route("POST /x", forward(up))))
		for _, method := range []string{"GET", "POST"} {
			p := problemOf(t, h.do(t, method, "/x", func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
				}
			}))
			if p.Status != http.StatusBadGateway {
				t.Errorf("%s, %s: got %d", method, status, p.Status)
			}
		}
		if log := h.log.String(); strings.Contains(log, "panic") {
			t.Errorf("%s: %s", status, log)
		}
	}
}

// TestHalfOfASwitchedConnectionEnds by a client that has said all, and still hears the answer.
func TestHalfOfASwitchedConnectionEnds(t *testing.T) {
	up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		say(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp/1\r\n\r\n")
		all, err := io.ReadAll(r)
		say(conn, "heard %s, %v", all, err)
	})
	overBothWays(t, func(t *testing.T, to reach) {
		base, set := to(up)
		h := newHouse(t, artifact(route("GET /x", component("urlForwardHandler", map[string]any{"baseUrl": base, "upgrades": []string{"tcp/1"}}))), set)
		r, conn := raw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: Upgrade\r\nUpgrade: tcp/1\r\n\r\n")
		response, err := http.ReadResponse(r, nil)
		if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("got %+v, %v", response, err)
		}
		say(conn, "hello")
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if all, err := io.ReadAll(r); err != nil || string(all) != "heard hello, <nil>" {
			t.Errorf("got %q, %v", all, err)
		}
	})
}
