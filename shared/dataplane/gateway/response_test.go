package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestListedResponseFieldsAreNotForwarded checks that fields that the response's Connection field
// lists are not forwarded. If a Connection field contains "close", net/http removes it, and the names in it are lost.
func TestListedResponseFieldsAreNotForwarded(t *testing.T) {
	const fields = "X-Listed: 1\r\nX-More: 1\r\nX-Kept: 1\r\n"
	for name, reply := range map[string]string{
		"one Connection field": "HTTP/1.1 200 OK\r\nConnection: x-listed, X-More\r\n" +
			fields + "Content-Length: 2\r\n\r\nok",
		"two Connection fields": "HTTP/1.1 200 OK\r\nConnection: x-listed\r\nconnection: keep-alive,X-More\r\n" +
			fields + "Content-Length: 2\r\n\r\nok",
		"close as the first name": "HTTP/1.1 200 OK\r\nConnection: close, x-listed\r\nConnection: X-More\r\n" +
			fields + "Content-Length: 2\r\n\r\nok",
		"close as the last name": "HTTP/1.1 200 OK\r\n" + fields + "Connection: x-listed,\tX-More , close\r\n\r\nok",
		"a folded Connection field": "HTTP/1.1 200 OK\r\nConnection: close,\r\n x-listed,\r\n\tx-more\r\n" +
			fields + "Content-Length: 2\r\n\r\nok",
		"HTTP/1.0": "HTTP/1.0 200 OK\r\nConnection: close, x-listed, x-more\r\n" + fields + "\r\nok",
		"a response after hints": "HTTP/1.1 103 Early Hints\r\nLink: x\r\nConnection: x-kept, close\r\n\r\nHTTP/1.1 200 " +
			"OK\r\nConnection: close, x-listed, x-more\r\n" + fields + "\r\nok",
		"a long field before Connection": "HTTP/1.1 200 OK\r\nX-Long: " + strings.Repeat("x", 100_000) +
			"\r\nConnection: close, x-listed, x-more\r\n" + fields + "\r\nok",
		"trailers": "HTTP/1.1 200 OK\r\nConnection: close, x-listed, x-more\r\nTransfer-Encoding: chunked\r\nTrailer: " +
			"X-Listed, X-Kept\r\n\r\n2\r\nok\r\n0\r\n" +
			fields + "Content-Length: 5\r\nSet-Cookie: a=1\r\n\r\n",
		"one byte at a time": "HTTP/1.1 200 OK\r\nConnection: close, x-listed, x-more\r\n" +
			fields + "Content-Length: 2\r\n\r\nok",
	} {
		for _, method := range []string{"GET", "POST"} {
			t.Run(name+"/"+method, func(t *testing.T) {
				backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
					request, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, request.Body)
					if name == "one byte at a time" {
						for i := range len(reply) {
							writef(conn, "%s", reply[i:i+1])
							time.Sleep(time.Millisecond / 10)
						}
						return
					}
					writef(conn, "%s", reply)
				})
				h := newFixture(t, artifact(route(method+" /x", forward(backend))))
				response := h.do(t, method, "/x", func(r *http.Request) {
					if method == "POST" {
						r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
					}
				})
				if got := body(t, response); got != "ok" || response.StatusCode != http.StatusOK {
					t.Errorf("%s /x: status = %d, body = %q, want 200 ok", method, response.StatusCode, got)
				}
				all := response.Header.Clone()
				for name, values := range response.Trailer {
					all[name] = values
				}
				if all.Get("X-Listed") != "" || all.Get("X-More") != "" || all.Get("X-Kept") != "1" || all.Get("Set-Cookie") != "" {
					t.Errorf("%s /x: header and trailer = %v, want X-Kept and no X-Listed, X-More or Set-Cookie", method, all)
				}
			})
		}
	}
}

// TestListedResponseFieldsAreNotForwardedOverTLS checks the same as TestListedResponseFieldsAreNotForwarded over TLS.
// The first request to a server uses http.Transport, because the server's protocol is not known yet.
func TestListedResponseFieldsAreNotForwardedOverTLS(t *testing.T) {
	backend := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Errorf("Hijack() at the upstream: error = %v, want nil", err)
			return
		}
		defer func() { _ = conn.Close() }()
		writef(conn, "HTTP/1.1 103 Early Hints\r\nConnection: close, x-kept\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close, "+
			"x-listed\r\nX-Listed: 1\r\nX-Kept: 1\r\nContent-Length: 2\r\n\r\nok")
	}))
	t.Cleanup(backend.Close)
	follow := component("urlForwardHandler", map[string]any{"baseUrl": backend.URL, "followRedirects": true})
	h := newFixture(t, artifact(route("GET /x", forward(backend.URL)), route("POST /x", forward(backend.URL)),
		route("GET /follow", follow)), trust(backend))
	for _, target := range []string{"POST /x", "GET /follow", "GET /x", "GET /x", "POST /x"} {
		method, path, _ := strings.Cut(target, " ")
		response := h.do(t, method, path, func(r *http.Request) {
			if method == "POST" {
				r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
			}
		})
		if got := body(t, response); got != "ok" || response.Header.Get("X-Listed") != "" ||
			response.Header.Get("X-Kept") != "1" {
			t.Errorf("%s: body = %q, header = %v, want ok, X-Kept and no X-Listed", target, got, response.Header)
		}
	}
}

func TestListedEarlyHintFieldsAreNotForwarded(t *testing.T) {
	backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
		if request, err := http.ReadRequest(r); err == nil {
			_, _ = io.Copy(io.Discard, request.Body)
			writef(conn, "HTTP/1.1 103 Early Hints\r\nConnection: close, x-listed\r\nX-Listed: 1\r\nLink: x\r\nKeep-Alive: "+
				"1\r\nContent-Length: 5\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	h := newFixture(t, artifact(route("GET /x", forward(backend)), route("POST /x", forward(backend))))
	for _, head := range []string{"GET /x HTTP/1.1\r\n", "POST /x HTTP/1.1\r\nContent-Length: 0\r\n"} {
		_, conn := sendRaw(t, h.URL, head+"Host: shop.test\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(conn)
		hint, final, _ := strings.Cut(string(all), "\r\n\r\n")
		if err != nil || !strings.Contains(hint, " 103 ") || !strings.Contains(hint, "Link: x") {
			t.Errorf("%q with early hints: hint (%v), want 103 with Link:\n%s", head, err, hint)
		}
		for _, removed := range []string{"Keep-Alive", "Content-Length", "X-Listed"} {
			if strings.Contains(hint, removed) {
				t.Errorf("%q with early hints: hint has %s, want it removed:\n%s", head, removed, hint)
			}
		}
		if !strings.HasPrefix(final, "HTTP/1.1 200") {
			t.Errorf("%q with early hints: final response, want status 200:\n%s", head, final)
		}
	}
}
