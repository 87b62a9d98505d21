package gateway_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

func TestTheBodyIsAskedForOnlyWhenTheUpstreamWantsIt(t *testing.T) {
	for _, test := range []struct {
		name, want string
		reads      bool
	}{{"wanted", "HTTP/1.1 100 Continue", true}, {"refused", "HTTP/1.1 403 Forbidden", false}} {
		t.Run(test.name, func(t *testing.T) {
			up := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if !test.reads {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				all, _ := io.ReadAll(r.Body)
				say(w, "%s", all)
			})
			h := newHouse(t, artifact(route("POST /x", forward(up.URL))))
			r, conn := raw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
			line, err := r.ReadString('\n')
			if err != nil || strings.TrimSpace(line) != test.want {
				t.Fatalf("got %q, %v", line, err)
			}
			if !test.reads {
				return
			}
			say(conn, "body")
			if _, err := r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := body(t, response); got != "body" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestAResponseThatBreaksOffBeforeAByteIsSentIsAProblem, however much of it was
// there by then: the client would get nothing at all.
func TestAResponseThatBreaksOffBeforeAByteIsSentIsAProblem(t *testing.T) {
	for _, test := range []struct{ length, sent int }{{1, 0}, {100, 0}, {100, 99}, {2048, 2047}, {100_000, 0}, {100_000, 2047}} {
		up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			request, _ := http.ReadRequest(r)
			_, _ = io.Copy(io.Discard, request.Body)
			say(conn, "HTTP/1.1 200 OK\r\nX-Secret: 1\r\nContent-Length: %d\r\n\r\n%s", test.length, strings.Repeat("x", test.sent))
		})
		h := newHouse(t, artifact(route("GET /x", forward(up)), route("POST /x", forward(up))))
		for _, method := range []string{"GET", "POST"} {
			response := h.do(t, method, "/x", func(r *http.Request) {
				if method == "POST" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader("x")), 1
				}
			})
			if p := problemOf(t, response); p.Status != http.StatusBadGateway || !strings.Contains(p.Detail, "broke off") || response.Header.Get("X-Secret") != "" {
				t.Errorf("%s, %d bytes of %d: got %d %s with %v", method, test.sent, test.length, p.Status, p.Detail, response.Header)
			}
			if !strings.Contains(h.log.String(), "request failed") {
				t.Errorf("the log has %s", h.log)
			}
		}
	}
}

func TestAResponseThatBreaksOffIsNoWholeOne(t *testing.T) {
	for name, head := range map[string]string{
		"length": "Content-Length: 100000\r\n\r\n" + strings.Repeat("x", 50_000), "chunked": "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
		"events": "Content-Type: text/event-stream\r\nContent-Length: 100\r\n\r\ndata: x",
	} {
		t.Run(name, func(t *testing.T) {
			up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
				_, _ = http.ReadRequest(r)
				say(conn, "HTTP/1.1 200 OK\r\n%s", head)
			})
			h := newHouse(t, artifact(route("GET /x", forward(up))))
			r, _ := raw(t, h.URL, "GET /x HTTP/1.1\r\nHost: shop.test\r\n\r\n")
			response, err := http.ReadResponse(r, nil)
			if err != nil || response.StatusCode != http.StatusOK {
				t.Fatalf("got %v, %v", response, err)
			}
			if _, err = io.ReadAll(response.Body); err == nil {
				t.Error("the client took half a body for the whole")
			}
		})
	}
}

func TestAResponseIsWholeBeforeTheBodyIs(t *testing.T) {
	for _, length := range []string{"Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"} {
		up := rawUpstream(t, func(r *bufio.Reader, conn net.Conn) {
			_, _ = http.ReadRequest(r)
			say(conn, "HTTP/1.1 200 OK\r\n%s", length)
			_, _ = io.Copy(io.Discard, r)
		})
		h := newHouse(t, artifact(route("POST /x", forward(up))))
		// The client sends the rest, which looks like a request, only when it has
		// got the whole response.
		r, conn := raw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1000\r\n\r\nbegin")
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := body(t, response); got != "hello" || !response.Close {
			t.Errorf("got %q, closing %v", got, response.Close)
		}
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("the gateway waits for the rest of the body: %v", err)
		}
		say(conn, "GET /x HTTP/1.1\r\nHost: shop.test\r\n\r\n")
		if again, err := http.ReadResponse(r, nil); err == nil {
			t.Errorf("a part of a body was answered as a request: %d", again.StatusCode)
		}
	}
}

// TestARefusingHandlerWaitsForNoBody: the client may send the rest only when it
// is told to, which it never is.
func TestARefusingHandlerWaitsForNoBody(t *testing.T) {
	h := newHouse(t, artifact(route("POST /x", rewrite("http://127.0.0.1:1/${query.up}"))))
	r, _ := raw(t, h.URL, "POST /x?up=.. HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 1000\r\n\r\nbegin")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if p := problemOf(t, response); p.Status != http.StatusBadRequest {
		t.Errorf("got %d", p.Status)
	}
	if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the gateway waits for the rest of the body: %v", err)
	}
}

func TestARefusalLeavesTheConnectionUsable(t *testing.T) {
	a := artifact(route("POST /x", forward("http://127.0.0.1:1"), "key"))
	declare(a, "key", "api-key-inbound", map[string]any{})
	h := newHouse(t, a)
	r, conn := raw(t, h.URL, "")
	for range 2 {
		say(conn, "POST /x HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 4\r\n\r\nbody")
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = body(t, response)
		if response.StatusCode != http.StatusUnauthorized || response.Close {
			t.Errorf("got %d, closing %v", response.StatusCode, response.Close)
		}
	}
}

func TestBodiesOverTheLimitAreRefused(t *testing.T) {
	up := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			say(w, "whole")
		}
	})
	limit := func(c *gateway.Config, _ *upstream.Options) { c.MaxBodyBytes = 1000 }
	h := newHouse(t, artifact(route("POST /x", forward(up.URL))), limit)
	for _, test := range []struct {
		size   int
		length int64
		status int
	}{{1000, 1000, 200}, {1000, -1, 200}, {1001, 1001, 413}, {1001, -1, 413}, {1 << 20, -1, 413}} {
		response := h.do(t, "POST", "/x", func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", test.size))), test.length
		})
		if response.StatusCode != test.status {
			t.Errorf("%d bytes, declared %d: got %d, want %d", test.size, test.length, response.StatusCode, test.status)
		}
		if test.status == http.StatusRequestEntityTooLarge {
			problemOf(t, response)
		}
	}
}

func TestAMalformedBodyIsTheClientsFault(t *testing.T) {
	up := serve(t, echo)
	h := newHouse(t, artifact(route("POST /x", forward(up.URL))))
	r, _ := raw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("got %d", response.StatusCode)
	}
}
