package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// recorder starts an upstream. received receives each request as text: its head, its body and its trailer fields. The
// upstream's responses have fields that the gateway must remove, and the field X-End.
func recorder(t testing.TB) (address string, received <-chan string) {
	requests := make(chan string, 16)
	address = rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		for {
			var text strings.Builder
			request, err := http.ReadRequest(bufio.NewReader(io.TeeReader(r, &text)))
			if err != nil {
				return
			}
			all, _ := io.ReadAll(request.Body)
			head, _, _ := strings.Cut(text.String(), "\r\n\r\n")
			for name, values := range request.Trailer {
				all = fmt.Appendf(all, "\n%s: %s", name, values)
			}
			requests <- head + "\n\n" + string(all)
			writef(conn, "HTTP/1.1 200 OK\r\nConnection: X-Response-Hop, keep-alive\r\nX-Response-Hop: 1\r\nKeep-Alive: "+
				"timeout=5\r\n"+
				"Proxy-Authenticate: Basic\r\nAlt-Svc: h3=\":443\"\r\nX-End: 1\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	return address, requests
}

func TestHopByHopFieldsAreNotForwarded(t *testing.T) {
	backend, received := recorder(t)
	h := newFixture(t, artifact(route("GET /x", forward(backend))))
	r, _ := sendRaw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\nConnection: keep-alive, X-Hop, x-ANOTHER\r\nX-Hop: "+
		"1\r\nX-Another: 1\r\n"+
		"Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nProxy-Authenticate: "+
		"x\r\nTE: trailers, deflate\r\n"+
		"Upgrade: h2c\r\nHTTP2-Settings: x\r\nTrailer: X-T\r\nX-End: 1\r\nX-End: 2\r\nCookie: a=1\r\n\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("GET /x: ReadResponse() error = %v, want a response", err)
	}
	got := <-received
	for _, removed := range []string{
		"X-Hop", "X-Another", "Keep-Alive", "Proxy-", "deflate", "Upgrade", "Http2",
		"Trailer:", "Connection:", "User-Agent", "Accept-Encoding",
	} {
		if strings.Contains(strings.ToLower(got), strings.ToLower(removed)) {
			t.Errorf("GET /x: the upstream got the field or value %s, want it neither forwarded nor added:\n%s", removed, got)
		}
	}
	for _, forwarded := range []string{"X-End: 1\r\nX-End: 2", "Cookie: a=1", "Te: trailers"} {
		if !strings.Contains(got, forwarded) {
			t.Errorf("GET /x: the upstream did not get %q, want it forwarded:\n%s", forwarded, got)
		}
	}
	for _, removed := range []string{"X-Response-Hop", "Keep-Alive", "Proxy-Authenticate", "Alt-Svc", "Connection"} {
		if _, exists := response.Header[removed]; exists {
			t.Errorf("GET /x: response header has %s, want it removed", removed)
		}
	}
	if response.Header.Get("X-End") != "1" {
		t.Errorf("GET /x: response header X-End = %q, want 1", response.Header.Get("X-End"))
	}
}

// TestRequestSmugglingIsPrevented checks that the upstream receives no request if the client's request declares the
// length of its body ambiguously, or has another malformed head. A valid request must arrive as one request.
func TestRequestSmugglingIsPrevented(t *testing.T) {
	const smuggled = "0\r\n\r\nGET /admin HTTP/1.1\r\nHost: up\r\n\r\n"
	for _, test := range []struct {
		name, head, body string
		status           int    // the usual status; a refused request can have any status of 4xx or 5xx
		upstream         string // a part of the request at the upstream, "" for no request
	}{
		{"length and chunked", "Content-Length: 4\r\nTransfer-Encoding: chunked", smuggled, 400, ""},
		{"two lengths", "Content-Length: 4\r\nContent-Length: 5", "bodyx", 400, ""},
		{"two equal lengths", "Content-Length: 4\r\nContent-Length: 4", "body", 400, ""},
		{"a list of lengths", "Content-Length: 4, 4", "body", 400, ""},
		{"signed length", "Content-Length: +4", "body", 400, ""},
		{"unknown coding", "Transfer-Encoding: xchunked", smuggled, 501, ""},
		{"coding twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", smuggled, 400, ""},
		{"space before the colon", "Transfer-Encoding : chunked", smuggled, 400, ""},
		{"folded line", "X-A: 1\r\n Transfer-Encoding: chunked", smuggled, 400, ""},
		{"NUL in a value", "X-A: 1\x002", "", 400, ""},
		{"bare carriage return", "X-A: 1\rX-B: 2", "", 400, ""},
		{"two hosts", "Host: other.test", "", 400, ""},
		{"chunk extension", "Transfer-Encoding: chunked", "4;ext=1\r\nbody\r\n0\r\n\r\n", 200, "Transfer-Encoding: chunked"},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend, received := recorder(t)
			h := newFixture(t, artifact(route("POST /x", forward(backend))))
			r, _ := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\n"+test.head+"\r\n\r\n"+test.body)
			response, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("POST /x: ReadResponse() error = %v, want a response", err)
			}
			if response.StatusCode != test.status && (test.upstream != "" || response.StatusCode/100 != 4 &&
				response.StatusCode/100 != 5) {
				t.Errorf("POST /x: status = %d, want %d or, for a refused request, any 4xx or 5xx",
					response.StatusCode, test.status)
			}
			_ = body(t, response)
			select {
			case got := <-received:
				if test.upstream == "" || !strings.Contains(got, test.upstream) || strings.Contains(got, "/admin") {
					t.Errorf("POST /x: the upstream got a request, want %q (none if empty) and no /admin:\n%s", test.upstream, got)
				}
				if strings.Contains(got, "Content-Length") && strings.Contains(got, "\r\nTransfer-Encoding: chunked") {
					t.Errorf("POST /x: the upstream got Content-Length and Transfer-Encoding, want one of them:\n%s", got)
				}
			default:
				if test.upstream != "" {
					t.Errorf("POST /x: the upstream got no request, want %q", test.upstream)
				}
			}
			select {
			case more := <-received:
				t.Errorf("POST /x: the upstream got a second request, want one:\n%s", more)
			default:
			}
		})
	}
}

// TestForwardedHostAndUserAgent checks that the upstream gets its own host, and the client's User-Agent.
func TestForwardedHostAndUserAgent(t *testing.T) {
	backend, received := recorder(t)
	h := newFixture(t, artifact(route("GET /x", forward(backend))))
	_ = body(t, h.do(t, "GET", "/x", header("User-Agent", "mine/1")))
	got := <-received
	if !strings.Contains(got, "User-Agent: mine/1") ||
		!strings.Contains(got, "Host: "+strings.TrimPrefix(backend, "http://")) {
		t.Errorf("GET /x: the upstream got a request, want the client's User-Agent and the upstream's Host:\n%s", got)
	}
}
