package upstream

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// hop is a redirect in a chain of redirects.
type hop struct {
	status   int
	location string
}

// hopTransport responds to each request with the next hop, and with a 200 after the last one. It records the requests.
type hopTransport struct {
	hops     []hop
	received []*http.Request
}

func (t *hopTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.received = append(t.received, r.Clone(r.Context()))
	response := &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{}, Body: http.NoBody, Request: r,
	}
	if i := len(t.received) - 1; i < len(t.hops) {
		response.StatusCode = t.hops[i].status
		response.Header.Set("Location", t.hops[i].location)
		response.Header.Set("Set-Cookie", "upstream=1")
	}
	return response, nil
}

// writtenOrigin is an origin as written in a URL, and in normalized form: scheme, host and port.
type writtenOrigin struct{ text, origin string }

var origins = []writtenOrigin{
	{"http://shop.test", "http shop.test 80"},
	{"http://shop.test:80", "http shop.test 80"},
	{"http://SHOP.test", "http shop.test 80"},
	{"http://user:secret@shop.test", "http shop.test 80"},
	{"http://shop.test:8080", "http shop.test 8080"},
	{"https://shop.test", "https shop.test 443"},
	{"https://shop.test:443", "https shop.test 443"},
	{"https://shop.test:80", "https shop.test 80"},
	{"https://api.shop.test", "https api.shop.test 443"},
	{"http://api.shop.test", "http api.shop.test 80"},
	{"https://shop.test.evil.test", "https shop.test.evil.test 443"},
	{"http://127.0.0.1", "http 127.0.0.1 80"},
	{"http://[::1]", "http ::1 80"},
}

// drawnChain is a generated chain of redirects, with the expected properties of each request.
type drawnChain struct {
	hops       []hop
	sameOrigin []bool // whether all requests up to this one are to the first origin
	methods    []string
}

func drawChain(random *rand.Rand, first writtenOrigin, method string) drawnChain {
	c := drawnChain{sameOrigin: []bool{true}, methods: []string{method}}
	crossOrigin, current := false, first
	for i := range 1 + random.IntN(6) {
		h := hop{status: []int{301, 302, 303, 307, 308}[random.IntN(5)]}
		next := current
		if random.IntN(3) == 0 {
			h.location = fmt.Sprint("/relative?x=", i)
		} else {
			next = origins[random.IntN(len(origins))]
			if random.IntN(3) == 0 {
				next = first
			}
			h.location = fmt.Sprint(next.text, "/next/", i)
		}
		c.hops = append(c.hops, h)
		if strings.HasPrefix(current.origin, "https ") && strings.HasPrefix(next.origin, "http ") {
			break
		}
		crossOrigin = crossOrigin || next.origin != first.origin
		if h.status < 307 && method != "GET" && method != "HEAD" {
			method = "GET"
		}
		c.sameOrigin, c.methods, current = append(c.sameOrigin, !crossOrigin), append(c.methods, method), next
	}
	return c
}

// TestRedirectsRemoveFieldsForOtherOrigins follows generated chains of redirects between
// origins, and compares each request's method and fields with the expected ones.
func TestRedirectsRemoveFieldsForOtherOrigins(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	fields := []string{
		"Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Authorization", "Cookie", "Cookie2",
		"Www-Authenticate", "Proxy-Authorization",
		"Referer", "Origin", "X-Api-Key", "X-Custom", "X-Forwarded-For", "X-Request-Id", "Traceparent", "Tracestate", "Range",
		"If-None-Match", "Content-Type", "Te",
	}
	safe := []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}
	crossOrigin, sameOrigin := 0, 0
	for n := range 2_000 {
		first := origins[random.IntN(len(origins))]
		if strings.Contains(first.text, "@") {
			first = origins[0]
		}
		r, err := http.NewRequestWithContext(t.Context(), []string{"GET", "HEAD", "POST", "DELETE"}[random.IntN(4)],
			first.text+"/first?q=1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range fields {
			if random.IntN(3) > 0 {
				r.Header[name] = []string{fmt.Sprint(n, name), "again"}
			}
		}
		if _, named := r.Header["User-Agent"]; !named {
			r.Header["User-Agent"] = []string{""} // as the gateway does if the client has sent none
		}
		sent := r.Header.Clone()
		chain := drawChain(random, first, r.Method)
		c := hopTransport{hops: chain.hops}
		response, err := follow(r, sameForAll(c.RoundTrip))
		if err != nil {
			t.Fatalf("follow(chain %d) error = %v, want none", n, err)
		}
		response.Body.Close()
		if len(c.received) != len(chain.sameOrigin) {
			t.Fatalf("chain %d, %v: %d requests, want %d", n, c.hops, len(c.received), len(chain.sameOrigin))
		}
		for i, got := range c.received {
			want := sent.Clone()
			if !chain.sameOrigin[i] {
				maps.DeleteFunc(want, func(name string, _ []string) bool { return !slices.Contains(safe, name) })
				crossOrigin++
			} else if i > 0 {
				sameOrigin++
			}
			if chain.methods[i] != r.Method {
				delete(want, "Content-Type")
			}
			if !maps.EqualFunc(got.Header, want, slices.Equal) || got.Method != chain.methods[i] {
				t.Fatalf("chain %d from %s, %v: request %d, %s with %v, want %s with %v", n, first.text, c.hops, i, got.Method,
					got.Header, chain.methods[i], want)
			}
			if got.URL.User != nil && i > 0 || got.Body != nil && got.Body != http.NoBody {
				t.Fatalf("chain %d: request %d has user %v, body %v, want no user and no body", n, i, got.URL.User, got.Body)
			}
		}
	}
	if crossOrigin < 2_000 || sameOrigin < 500 {
		t.Errorf("requests to another origin = %d, to the same = %d, want at least 2,000 and 500", crossOrigin, sameOrigin)
	}
}

// TestBodyIsNotSentToRedirectTarget checks that no redirect target gets the body. The body was meant for the
// first address, and is not kept. A redirect for which it would have to be sent again becomes the response.
func TestBodyIsNotSentToRedirectTarget(t *testing.T) {
	for status, want := range map[int]int{301: 200, 302: 200, 303: 200, 307: 307, 308: 308} {
		c := hopTransport{hops: []hop{{status, "https://elsewhere.test/"}}}
		r := post(t, "https://shop.test/")
		r.Header.Set("Content-Type", "application/json")
		response, err := follow(r, sameForAll(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("follow() with a redirect of status %d: status = %d, want %d", status, response.StatusCode, want)
		}
		for _, next := range c.received[1:] {
			if next.Method != http.MethodGet || next.ContentLength != 0 || next.Body != nil && next.Body != http.NoBody ||
				len(next.Header) != 0 {
				t.Errorf("redirect of status %d: next request = %s with %d bytes and %v, want GET without body and header",
					status, next.Method, next.ContentLength, next.Header)
			}
		}
	}
}

// TestInvalidRedirectIsReturned checks that a redirect becomes the response if
// its target is invalid, not allowed, or the address that was just requested.
func TestInvalidRedirectIsReturned(t *testing.T) {
	for _, location := range []string{
		"ftp://shop.test/", "file:///etc/passwd", "gopher://shop.test/", "javascript:alert(1)", "http://shop.test/",
		"", "http://[", "https://a b/", "https://shop.test/%zz", "https://shop.test:port/", ":", "https:", "https:///x",
		"https:x", "//", "https://:443/", "/?a b", "/\x00",
		"#f", "/", "https://shop.test/", "https://user@shop.test/#f", "//shop.test/",
	} {
		c := hopTransport{hops: []hop{{302, location}}}
		response, err := follow(request(t, t.Context(), "GET", "https://shop.test/"), sameForAll(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusFound || len(c.received) != 1 {
			t.Errorf("follow() with the Location %q: status = %d after %d requests, want 302 after 1",
				location, response.StatusCode, len(c.received))
		}
	}
}

// TestRedirectsOverBothTransports checks which fields a target at another origin receives,
// with requests that are sent directly and with requests that go through http.Transport.
func TestRedirectsOverBothTransports(t *testing.T) {
	got := make(chan string, 4)
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var text strings.Builder
		_ = r.Header.Write(&text)
		got <- text.String()
		_, _ = io.WriteString(w, "there")
	}))
	t.Cleanup(target.Close)
	up := httptest.NewServer(http.RedirectHandler(target.URL+"/next", http.StatusSeeOther))
	t.Cleanup(up.Close)
	c := newClient(t, Options{})
	for transportName, newRequest := range requestMakers {
		r := newRequest(t, up.URL+"/secret-path")
		for name := range maps.Keys(http.Header{
			"Authorization": nil, "Cookie": nil, "X-Api-Key": nil, "Referer": nil,
			"Content-Type": nil,
		}) {
			r.Header.Set(name, "secret")
		}
		r.Header.Set("Accept", "text/plain")
		r.Header.Set("User-Agent", "")
		response, err := c.Follow(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		text := <-got
		if strings.Contains(text, "secret") || !strings.Contains(text, "Accept: text/plain") ||
			strings.Contains(text, "User-Agent") {
			t.Errorf("Follow() %s: header at the target = %q, want Accept, no User-Agent and no secret", transportName, text)
		}
	}
}

// TestAtMostTenRedirectsAreFollowed checks that an eleventh redirect becomes the response.
func TestAtMostTenRedirectsAreFollowed(t *testing.T) {
	for n := range 14 {
		var c hopTransport
		for i := range n {
			c.hops = append(c.hops, hop{http.StatusFound, fmt.Sprint("/", i)})
		}
		response, err := follow(request(t, t.Context(), "GET", "https://shop.test/"), sameForAll(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if want := min(n, 10) + 1; len(c.received) != want || (response.StatusCode == http.StatusFound) != (n > 10) {
			t.Errorf("follow(%d redirects): status = %d after %d requests, want %d requests, and 302 only for more than 10",
				n, response.StatusCode, len(c.received), want)
		}
	}
}

// TestRedirectLoopEnds checks that a redirect becomes the response if following it would repeat
// an earlier request, and is followed if the request would differ, for example in its method.
func TestRedirectLoopEnds(t *testing.T) {
	for name, test := range map[string]struct {
		method             string
		hops               []hop
		want, wantRequests int
	}{
		"a loop over three paths":            {"GET", []hop{{302, "/b"}, {302, "/c"}, {302, "/"}}, 302, 3},
		"a DELETE that becomes a GET":        {"DELETE", []hop{{303, "/"}}, 200, 2},
		"a GET that is redirected to itself": {"DELETE", []hop{{303, "/"}, {303, "/"}}, 303, 2},
		"a redirect back from another origin, without most headers": {
			"GET", []hop{{302, "https://else.test/"}, {302, "https://shop.test/"}}, 200, 3,
		},
		"a loop over two origins": {"GET", []hop{
			{302, "https://else.test/"},
			{302, "https://shop.test/"},
			{302, "https://else.test/"},
		}, 302, 3},
		"HEAD":                    {"HEAD", []hop{{303, "/b"}, {303, "/"}}, 303, 2},
		"no redirect":             {"GET", []hop{{304, "/b"}}, 304, 1},
		"a redirect with choices": {"GET", []hop{{300, "/b"}}, 300, 1},
	} {
		c := hopTransport{hops: test.hops}
		response, err := follow(request(t, t.Context(), test.method, "https://shop.test/"), sameForAll(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want || len(c.received) != test.wantRequests {
			t.Errorf("follow(%s): status = %d after %d requests, want %d after %d",
				name, response.StatusCode, len(c.received), test.want, test.wantRequests)
		}
	}
}

// TestRedirectBodyIsNotAwaited checks, for both transports, that a redirect is followed before its body is
// complete. For a direct request, it also checks that the connection is reused if the body was complete.
func TestRedirectBodyIsNotAwaited(t *testing.T) {
	for name, head := range map[string]string{
		"a length":                           "Content-Length: 100\r\n\r\nmoved",
		"a large length":                     "Content-Length: 100000000\r\n\r\nmoved",
		"chunks":                             "Transfer-Encoding: chunked\r\n\r\n5\r\nmoved",
		"a body until the connection closes": "Connection: close\r\n\r\nmoved",
	} {
		for transportName, newRequest := range requestMakers {
			up, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				request, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, request.Body)
				if request.URL.Path == "/there" {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: /there\r\n"+head)
				_, _ = io.Copy(io.Discard, r) // until the client disconnects
			})
			c := newClient(t, Options{})
			ctx, cancel := context.WithTimeout(t.Context(), deadline.Timeout())
			response, err := c.Follow(newRequest(t, up+"/").WithContext(ctx))
			if err != nil {
				t.Fatalf("Follow() of a redirect with %s, sent %s: error = %v, want none", name, transportName, err)
			}
			response.Body.Close()
			cancel()
			if response.StatusCode != http.StatusOK {
				t.Errorf("Follow() of a redirect with %s, sent %s: status = %d, want 200",
					name, transportName, response.StatusCode)
			}
		}
	}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	var connections atomic.Int32
	up.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	up.Start()
	t.Cleanup(up.Close)
	c := newClient(t, Options{})
	for range 3 {
		response, err := c.Follow(request(t, t.Context(), "GET", up.URL+"/"))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	if n := connections.Load(); n != 1 && !isStandardRun(t) { // http.Transport may dial before a connection is returned
		t.Errorf("connections for 3 redirected requests = %d, want 1", n)
	}
}

// sameForAll adapts a function so that it sends all requests of a chain.
func sameForAll(send func(*http.Request) (*http.Response, error)) func(*http.Request, bool) (*http.Response, error) {
	return func(r *http.Request, _ bool) (*http.Response, error) { return send(r) }
}
