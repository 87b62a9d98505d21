package gateway_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

// TestABodyThatStallsIsA408 and ends the upstream's request.
func TestABodyThatStallsIsA408(t *testing.T) {
	ended := make(chan error, 1)
	up := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		ended <- err
	})
	h := impatientHouse(t, artifact(route("POST /x", forward(up.URL))))
	for _, framing := range []string{"Content-Length: 1000\r\n\r\nbegin", "Transfer-Encoding: chunked\r\n\r\n5\r\nbegin\r\n", "Content-Length: 1000\r\n\r\n"} {
		r, _ := raw(t, h.URL, "POST /x HTTP/1.1\r\nHost: shop.test\r\n"+framing)
		response, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		if p := problemOf(t, response); p.Status != http.StatusRequestTimeout || !response.Close {
			t.Errorf("got %d, closing %v", p.Status, response.Close)
		}
		if err := <-ended; err == nil {
			t.Error("the upstream takes the part for the whole")
		}
	}
}

// TestARefusalWaitsForNoBody, whoever refuses, and asks for none.
func TestARefusalWaitsForNoBody(t *testing.T) {
	a := artifact(route("POST /key", forward("http://127.0.0.1:1"), "key"), route("POST /open", forward("http://127.0.0.1:1")))
	declare(a, "key", "api-key-inbound", map[string]any{})
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.MaxBodyBytes = 1000 })
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
			r, _ := raw(t, h.URL, "POST "+test.path+" HTTP/1.1\r\nHost: shop.test\r\n"+expect+"Content-Length: "+test.length+"\r\n\r\n")
			response, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if p := problemOf(t, response); p.Status != test.status || !response.Close {
				t.Errorf("%.20s: got %d, closing %v", test.path, p.Status, response.Close)
			}
		}
	}
}

// TestOneHostIsRoutedByAndForwarded: that of the target, where it has one (RFC 9112,
// section 3.2.2).
func TestOneHostIsRoutedByAndForwarded(t *testing.T) {
	up, seen := recorder(t)
	h := newHouse(t, artifact(route("GET /x", forward(up))))
	r, _ := raw(t, h.URL, "GET http://shop.test:80/x HTTP/1.1\r\nHost: other.test\r\n\r\n")
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = body(t, response)
	// Fields come in any order, and the last one without its end.
	if got := strings.ReplaceAll(<-seen, "\r", "") + "\n"; !strings.Contains(got, "X-Forwarded-Host: shop.test:80\n") || strings.Contains(got, "other.test") {
		t.Errorf("the upstream got:\n%s", got)
	}
	r, _ = raw(t, h.URL, "GET http://other.test/x HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	if response, err = http.ReadResponse(r, nil); err != nil {
		t.Fatal(err)
	}
	if p := problemOf(t, response); p.Status != http.StatusNotFound {
		t.Errorf("got %d", p.Status)
	}
}

// TestAHostThatIsNoneIsRefusedOnEveryRoad: behind API Gateway there is no listener
// of ours.
func TestAHostThatIsNoneIsRefusedOnEveryRoad(t *testing.T) {
	up, seen := recorder(t)
	h := newHouse(t, artifact(route("GET /x", forward(up))))
	for _, host := range []string{"shop.test:80x", "shop.test:80:90", "shop.test:80/path", "shop .test", "[::1]x", "user@shop.test", ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.gateway.ServeHTTP(w, r)
		if p := problemOf(t, w.Result()); p.Status != http.StatusBadRequest {
			t.Errorf("%q: got %d", host, p.Status)
		}
	}
	select {
	case got := <-seen:
		t.Errorf("the upstream got:\n%s", got)
	default:
	}
}
