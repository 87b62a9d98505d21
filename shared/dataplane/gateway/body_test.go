package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

func TestContinueIsSentOnlyIfTheUpstreamReads(t *testing.T) {
	for _, test := range []struct {
		name, want string
		reads      bool
	}{
		{"the upstream reads the body", "HTTP/1.1 100 Continue", true},
		{"the upstream refuses the request", "HTTP/1.1 403 Forbidden", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !test.reads {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				all, _ := io.ReadAll(r.Body)
				writef(w, "%s", all)
			})
			h := newFixture(t, artifact(route("POST /x", forward(backend.URL))))
			r, conn := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\nExpect: "+
				"100-continue\r\n\r\n")
			line, err := r.ReadString('\n')
			if err != nil || strings.TrimSpace(line) != test.want {
				t.Fatalf("POST /x with Expect: 100-continue: first line = %q, %v, want %q", line, err, test.want)
			}
			if !test.reads {
				return
			}
			writef(conn, "body")
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatalf("ReadString(empty line after 100 Continue) error = %v, want nil", err)
			}
			response, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("POST /x: ReadResponse() error = %v, want a response", err)
			}
			if got := body(t, response); got != "body" {
				t.Errorf("POST /x: body = %q, want %q", got, "body")
			}
		})
	}
}

// TestResponseTruncatedBeforeFirstByteIsAProblem checks that a response becomes a problem if it breaks off before the
// gateway has forwarded a byte, for different numbers of received bytes. Otherwise the client would receive nothing.
func TestResponseTruncatedBeforeFirstByteIsAProblem(t *testing.T) {
	for _, test := range []struct{ length, sent int }{
		{1, 0},
		{100, 0},
		{100, 99},
		{2048, 2047},
		{100_000, 0},
		{100_000, 2047},
	} {
		backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			request, _ := http.ReadRequest(r)
			_, _ = io.Copy(io.Discard, request.Body)
			writef(conn, "HTTP/1.1 200 OK\r\nX-Secret: 1\r\nContent-Length: %d\r\n\r\n%s", test.length,
				strings.Repeat("x", test.sent))
		})
		h := newFixture(t, artifact(route("GET /x", forward(backend)), route("POST /x", forward(backend))))
		for _, method := range []string{"GET", "POST"} {
			logged := strings.Count(h.log.String(), "request failed")
			response := h.do(t, method, "/x", func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
				}
			})
			if p := problemOf(t, response); p.Status != http.StatusBadGateway || !strings.Contains(p.Detail, "broke off") ||
				response.Header.Get("X-Secret") != "" {
				t.Errorf("%s, %d bytes of %d: problem = %d %q, header = %v, want 502 about a response that broke off, and no "+
					"X-Secret",
					method, test.sent, test.length, p.Status, p.Detail, response.Header)
			}
			if strings.Count(h.log.String(), "request failed") <= logged {
				t.Errorf("%s, %d bytes of %d: log = %s, want a new line \"request failed\"", method, test.sent, test.length, h.log)
			}
		}
	}
}

func TestTruncatedResponseIsAborted(t *testing.T) {
	for name, head := range map[string]string{
		"a body with a length": "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 50_000),
		"a chunked body":       "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"an event stream":      "Content-Type: text/event-stream\r\nContent-Length: 100\r\n\r\ndata: x",
	} {
		t.Run(name, func(t *testing.T) {
			backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
				_, _ = http.ReadRequest(r)
				writef(conn, "HTTP/1.1 200 OK\r\n%s", head)
			})
			h := newFixture(t, artifact(route("GET /x", forward(backend))))
			r, _ := sendRaw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\n\r\n")
			response, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("GET /x with a truncated response: error = %v, want the response's head", err)
			}
			if response.StatusCode != http.StatusOK {
				t.Fatalf("GET /x with a truncated response: status = %d, want 200", response.StatusCode)
			}
			if _, err = io.ReadAll(response.Body); err == nil {
				t.Error("ReadAll(truncated body) error = nil, want an error")
			}
		})
	}
}

// TestResponseCompletesBeforeTheRequestBody checks that a response can end before the client has sent the whole body of
// its request. The connection must then end, because the rest of the body is not a request.
func TestResponseCompletesBeforeTheRequestBody(t *testing.T) {
	for _, framedBody := range []string{
		"Content-Length: 5\r\n\r\nhello",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	} {
		backend := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			_, _ = http.ReadRequest(r)
			writef(conn, "HTTP/1.1 200 OK\r\n%s", framedBody)
			_, _ = io.Copy(io.Discard, r)
		})
		h := newFixture(t, artifact(route("POST /x", forward(backend))))
		// The client sends the rest of the body, which looks like a request, only after it has received the whole response.
		r, conn := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1000\r\n\r\nbegin")
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("POST /x, response with %q: ReadResponse() error = %v, want a response", framedBody, err)
		}
		if got := body(t, response); got != "hello" || !response.Close {
			t.Errorf("POST /x: body = %q, Close = %t, want \"hello\" and true", got, response.Close)
		}
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("ReadByte() after the response: error = %v, want EOF before the rest of the body is sent", err)
		}
		writef(conn, "GET /x HTTP/1.1\r\nHost: shop.test\r\n\r\n")
		if second, err := http.ReadResponse(r, nil); err == nil {
			t.Errorf("a request within the body of another: status = %d, want no response", second.StatusCode)
		}
	}
}

// TestHandlerRefusalEndsBeforeTheBody checks that a handler's refusal is sent
// before the rest of the body arrives, and that the connection then ends.
func TestHandlerRefusalEndsBeforeTheBody(t *testing.T) {
	h := newFixture(t, artifact(route("POST /x", rewrite("http://127.0.0.1:1/${query.up}"))))
	r, _ := sendRaw(t, h.URL, "POST /x?up=.. HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1000\r\n\r\nbegin")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("POST /x?up=..: ReadResponse() error = %v, want a response", err)
	}
	if p := problemOf(t, response); p.Status != http.StatusBadRequest {
		t.Errorf("POST /x?up=..: status = %d, want 400", p.Status)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("ReadByte() after the response: error = %v, want EOF before the body is sent", err)
	}
}

func TestConnectionIsReusableAfterRefusal(t *testing.T) {
	a := artifact(route("POST /x", forward("http://127.0.0.1:1"), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{})
	h := newFixture(t, a)
	r, conn := sendRaw(t, h.URL, "")
	for range 2 {
		writef(conn, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\n\r\nbody")
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("request without a key: ReadResponse() error = %v, want a response", err)
		}
		_ = body(t, response)
		if response.StatusCode != http.StatusUnauthorized || response.Close {
			t.Errorf("request without a key: status = %d, Close = %t, want 401 and false", response.StatusCode, response.Close)
		}
	}
}

func TestBodiesOverTheLimitAreRefused(t *testing.T) {
	backend := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			writef(w, "whole")
		}
	})
	limit := func(c *gateway.Config, _ *upstream.Options) { c.MaxBodyBytes = 1000 }
	h := newFixture(t, artifact(route("POST /x", forward(backend.URL))), limit)
	for _, test := range []struct {
		size   int
		length int64
		status int
	}{{1000, 1000, 200}, {1000, -1, 200}, {1001, 1001, 413}, {1001, -1, 413}, {1 << 20, -1, 413}} {
		response := h.do(t, "POST", "/x", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", test.size))), test.length
		})
		if response.StatusCode != test.status {
			t.Errorf("POST /x of %d bytes, declared %d: status = %d, want %d",
				test.size, test.length, response.StatusCode, test.status)
		}
		if test.status == http.StatusRequestEntityTooLarge {
			problemOf(t, response)
		}
	}
}

func TestMalformedBodyIsAClientError(t *testing.T) {
	backend := serve(t, echo)
	h := newFixture(t, artifact(route("POST /x", forward(backend.URL))))
	r, _ := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("request with a malformed body: ReadResponse() error = %v, want a response", err)
	}
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("request with a malformed body: status = %d, want 400", response.StatusCode)
	}
}
