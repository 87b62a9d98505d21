package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// TestStalledBodyIs408 checks that a stalled body gets a 408, and that the upstream's request ends.
func TestStalledBodyIs408(t *testing.T) {
	done := make(chan error, 1)
	backend := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		done <- err
	})
	h := newShortTimeoutFixture(t, artifact(route("POST /x", forward(backend.URL))))
	for _, framing := range []string{
		"Content-Length: 1000\r\n\r\nbegin",
		"Transfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", "Content-Length: 1000\r\n\r\n",
	} {
		r, _ := sendRaw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\n"+framing)
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("POST with a stalled body %q: ReadResponse() error = %v, want a response", framing, err)
		}
		if p := problemOf(t, response); p.Status != http.StatusRequestTimeout || !response.Close {
			t.Errorf("POST with a stalled body %q: status = %d, Close = %t, want 408 and true",
				framing, p.Status, response.Close)
		}
		if err := <-done; err == nil {
			t.Errorf("POST with a stalled body %q: the upstream read the body without an error, want an error", framing)
		}
	}
}

// TestRefusalDoesNotWaitForTheBody checks that refusals of policies, of the router
// and of the size limit are sent before the body arrives, without a 100 Continue.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	a := artifact(route("POST /key", forward("http://127.0.0.1:1"), "key"),
		route("POST /open", forward("http://127.0.0.1:1")))
	declare(a, "key", "api-key-inbound", map[string]any{})
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.MaxBodyBytes = 1000 })
	for _, test := range []struct {
		path, length string
		status       int
	}{
		{"/key", "1000", http.StatusUnauthorized},
		{"/absent", "1000", http.StatusNotFound},
		{"/open", "1001", http.StatusRequestEntityTooLarge},
		{"/" + strings.Repeat("x", 8000), "1000", http.StatusNotFound}, // a problem that does not fit into net/http's buffer
	} {
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			r, _ := sendRaw(t, h.URL, "POST "+test.path+" HTTP/1.1\r\nHost: shop.test\r\n"+
				expect+"Content-Length: "+test.length+"\r\n\r\n")
			response, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatalf("POST %.20s with %q: ReadResponse() error = %v, want a response", test.path, expect, err)
			}
			if p := problemOf(t, response); p.Status != test.status || !response.Close {
				t.Errorf("POST %.20s with %q: status = %d, Close = %t, want %d and true",
					test.path, expect, p.Status, response.Close, test.status)
			}
		}
	}
}

// TestHostOfTargetTakesPrecedence checks that the host of the request's
// target is used if the target has a host (RFC 9112, section 3.2.2).
func TestHostOfTargetTakesPrecedence(t *testing.T) {
	backend, received := recorder(t)
	h := newFixture(t, artifact(route("GET /x", forward(backend))))
	r, _ := sendRaw(t, h.URL, "GET http://shop.test:80/x HTTP/1.1\r\nHost: other.test\r\n\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("target http://shop.test:80/x: ReadResponse() error = %v, want a response", err)
	}
	_ = body(t, response)
	// The header fields can be in any order. recorder adds a line end to the last one.
	if got := strings.ReplaceAll(<-received, "\r", ""); !strings.Contains(got, "X-Forwarded-Host: shop.test:80\n") ||
		strings.Contains(got, "other.test") {
		t.Errorf("request with the target http://shop.test:80/x and Host: other.test: want X-Forwarded-Host: shop.test:80 "+
			"and no other.test at the upstream, which got:\n%s", got)
	}
	r, _ = sendRaw(t, h.URL, "GET http://other.test/x HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	if response, err = http.ReadResponse(r, nil); err != nil {
		t.Fatalf("target http://other.test/x: ReadResponse() error = %v, want a response", err)
	}
	if p := problemOf(t, response); p.Status != http.StatusNotFound {
		t.Errorf("request with the target http://other.test/x and Host: shop.test: status = %d, want 404", p.Status)
	}
}

// TestInvalidHostIsRefused checks that the handler refuses an invalid Host. Behind API Gateway, no listener of
// Gatewright has checked it.
func TestInvalidHostIsRefused(t *testing.T) {
	backend, received := recorder(t)
	h := newFixture(t, artifact(route("GET /x", forward(backend))))
	for _, host := range []string{
		"shop.test:80x", "shop.test:80:90", "shop.test:80/path", "shop .test", "[::1]x",
		"user@shop.test", "",
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.gateway.ServeHTTP(w, r)
		if p := problemOf(t, w.Result()); p.Status != http.StatusBadRequest {
			t.Errorf("Host %q: status = %d, want 400", host, p.Status)
		}
	}
	select {
	case got := <-received:
		t.Errorf("the upstream got a request, want none:\n%s", got)
	default:
	}
}
