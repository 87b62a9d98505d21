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

	"github.com/gatewright/gatewright/internal/deadline"
)

// hop is an upstream's answer in a chain, which leads to the next one.
type hop struct {
	status   int
	location string
}

// answers answers requests hop by hop and remembers them.
type answers struct {
	hops []hop
	seen []*http.Request
}

func (c *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	c.seen = append(c.seen, r.Clone(r.Context()))
	response := &http.Response{StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, Request: r}
	if i := len(c.seen) - 1; i < len(c.hops) {
		response.StatusCode = c.hops[i].status
		response.Header.Set("Location", c.hops[i].location)
		response.Header.Set("Set-Cookie", "upstream=1")
	}
	return response, nil
}

// origins are written as a browser's address bar would have them, and by their
// scheme, host and port.
var origins = []struct{ text, origin string }{
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

// TestRedirectsCarryNothingToAnotherOrigin follows generated chains over origins
// and compares each request's fields with what an oracle of a few lines says.
func TestRedirectsCarryNothingToAnotherOrigin(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 8))
	fields := []string{
		"Accept", "Accept-Encoding", "Accept-Language", "User-Agent", "Authorization", "Cookie", "Cookie2", "Www-Authenticate", "Proxy-Authorization",
		"Referer", "Origin", "X-Api-Key", "X-Custom", "X-Forwarded-For", "X-Request-Id", "Traceparent", "Tracestate", "Range", "If-None-Match", "Content-Type", "Te",
	}
	safe := []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}
	away, home := 0, 0
	for n := range 2_000 {
		at := origins[random.IntN(len(origins))]
		if strings.Contains(at.text, "@") {
			at = origins[0]
		}
		r, err := http.NewRequestWithContext(t.Context(), []string{"GET", "HEAD", "POST", "DELETE"}[random.IntN(4)], at.text+"/first?q=1", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range fields {
			if random.IntN(3) > 0 {
				r.Header[name] = []string{fmt.Sprint(n, name), "again"}
			}
		}
		if _, named := r.Header["User-Agent"]; !named {
			r.Header["User-Agent"] = []string{""} // as the gateway says that there is none
		}
		sent := r.Header.Clone()
		var c answers
		// What the oracle expects of each request: whether it is still at home.
		expect := []bool{true}
		first, stray, method := at, false, r.Method
		methods := []string{method}
		last := at
		for i := range 1 + random.IntN(6) {
			h := hop{status: []int{301, 302, 303, 307, 308}[random.IntN(5)]}
			next := last
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
			if strings.HasPrefix(last.origin, "https ") && strings.HasPrefix(next.origin, "http ") {
				break
			}
			stray = stray || next.origin != first.origin
			if h.status < 307 && method != "GET" && method != "HEAD" {
				method = "GET"
			}
			expect, methods, last = append(expect, !stray), append(methods, method), next
		}
		response, err := follow(r, alike(c.RoundTrip))
		if err != nil {
			t.Fatalf("chain %d: %v", n, err)
		}
		response.Body.Close()
		if len(c.seen) != len(expect) {
			t.Fatalf("chain %d, %v: %d requests, want %d", n, c.hops, len(c.seen), len(expect))
		}
		for i, got := range c.seen {
			want := sent.Clone()
			if !expect[i] {
				maps.DeleteFunc(want, func(name string, _ []string) bool { return !slices.Contains(safe, name) })
				away++
			} else if i > 0 {
				home++
			}
			if methods[i] != r.Method {
				delete(want, "Content-Type")
			}
			if !maps.EqualFunc(got.Header, want, slices.Equal) || got.Method != methods[i] {
				t.Fatalf("chain %d from %s, %v: request %d, %s with %v, want %s with %v", n, first.text, c.hops, i, got.Method, got.Header, methods[i], want)
			}
			if got.URL.User != nil && i > 0 || got.Body != nil && got.Body != http.NoBody {
				t.Fatalf("chain %d: request %d has user %v or a body", n, i, got.URL.User)
			}
		}
	}
	if away < 2_000 || home < 500 {
		t.Errorf("%d requests went to another origin, %d stayed: the test has become one-sided", away, home)
	}
}

// TestABodyIsNotSentToARedirect: it was not kept, and it was for the first
// address. A redirect that asks for the body again is the response.
func TestABodyIsNotSentToARedirect(t *testing.T) {
	for status, want := range map[int]int{301: 200, 302: 200, 303: 200, 307: 307, 308: 308} {
		c := answers{hops: []hop{{status, "https://elsewhere.test/"}}}
		r := post(t, "https://shop.test/")
		r.Header.Set("Content-Type", "application/json")
		response, err := follow(r, alike(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%d: got %d", status, response.StatusCode)
		}
		for _, next := range c.seen[1:] {
			if next.Method != http.MethodGet || next.ContentLength != 0 || next.Body != nil && next.Body != http.NoBody || len(next.Header) != 0 {
				t.Errorf("%d: the next request is %s with %d bytes and %v", status, next.Method, next.ContentLength, next.Header)
			}
		}
	}
}

// TestARedirectThatLeadsNowhereIsTheResponse: what can't be asked, what may not,
// and what was asked just now.
func TestARedirectThatLeadsNowhereIsTheResponse(t *testing.T) {
	for _, location := range []string{
		"ftp://shop.test/", "file:///etc/passwd", "gopher://shop.test/", "javascript:alert(1)", "http://shop.test/",
		"", "http://[", "https://a b/", "https://shop.test/%zz", "https://shop.test:port/", ":", "https:", "https:///x", "https:x", "//", "https://:443/", "/?a b", "/\x00",
		"#f", "/", "https://shop.test/", "https://user@shop.test/#f", "//shop.test/",
	} {
		c := answers{hops: []hop{{302, location}}}
		response, err := follow(request(t, t.Context(), "GET", "https://shop.test/"), alike(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusFound || len(c.seen) != 1 {
			t.Errorf("%s: got %d after %d requests", location, response.StatusCode, len(c.seen))
		}
	}
}

// TestRedirectsOnTheWire: the same through both ways of a client, with servers
// that repeat what they got.
func TestRedirectsOnTheWire(t *testing.T) {
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
	for _, make := range []func(testing.TB, string) *http.Request{
		func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) }, post,
	} {
		r := make(t, up.URL+"/secret-path")
		for name := range maps.Keys(http.Header{"Authorization": nil, "Cookie": nil, "X-Api-Key": nil, "Referer": nil, "Content-Type": nil}) {
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
		if strings.Contains(text, "secret") || !strings.Contains(text, "Accept: text/plain") || strings.Contains(text, "User-Agent") {
			t.Errorf("the target got\n%s", text)
		}
	}
}

// TestTenRedirectsAreFollowed, and the eleventh is the response.
func TestTenRedirectsAreFollowed(t *testing.T) {
	for n := range 14 {
		var c answers
		for i := range n {
			c.hops = append(c.hops, hop{http.StatusFound, fmt.Sprint("/", i)})
		}
		response, err := follow(request(t, t.Context(), "GET", "https://shop.test/"), alike(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if want := min(n, 10) + 1; len(c.seen) != want || (response.StatusCode == http.StatusFound) != (n > 10) {
			t.Errorf("%d redirects: %d after %d requests", n, response.StatusCode, len(c.seen))
		}
	}
}

// TestAChainThatComesBackEnds where it would begin again; what has become another
// request goes on.
func TestAChainThatComesBackEnds(t *testing.T) {
	for name, test := range map[string]struct {
		method    string
		hops      []hop
		want, all int
	}{
		"in a circle":      {"GET", []hop{{302, "/b"}, {302, "/c"}, {302, "/"}}, 302, 3},
		"as a GET":         {"DELETE", []hop{{303, "/"}}, 200, 2},
		"as a GET, twice":  {"DELETE", []hop{{303, "/"}, {303, "/"}}, 303, 2},
		"without headers":  {"GET", []hop{{302, "https://else.test/"}, {302, "https://shop.test/"}}, 200, 3},
		"twice without":    {"GET", []hop{{302, "https://else.test/"}, {302, "https://shop.test/"}, {302, "https://else.test/"}}, 302, 3},
		"HEAD stays HEAD":  {"HEAD", []hop{{303, "/b"}, {303, "/"}}, 303, 2},
		"no redirect":      {"GET", []hop{{304, "/b"}}, 304, 1},
		"one with choices": {"GET", []hop{{300, "/b"}}, 300, 1},
	} {
		c := answers{hops: test.hops}
		response, err := follow(request(t, t.Context(), test.method, "https://shop.test/"), alike(c.RoundTrip))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != test.want || len(c.seen) != test.all {
			t.Errorf("%s: %d after %d requests", name, response.StatusCode, len(c.seen))
		}
	}
}

// TestARedirectsBodyIsNotWaitedFor by any of the ways, and a connection is used
// again where nothing is left on it.
func TestARedirectsBodyIsNotWaitedFor(t *testing.T) {
	for name, head := range map[string]string{
		"a length":       "Content-Length: 100\r\n\r\nmoved",
		"a large length": "Content-Length: 100000000\r\n\r\nmoved",
		"chunks":         "Transfer-Encoding: chunked\r\n\r\n5\r\nmoved",
		"up to the end":  "Connection: close\r\n\r\nmoved",
	} {
		for way, make := range map[string]func(testing.TB, string) *http.Request{
			"directly": func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) }, "with a body": post,
		} {
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
				_, _ = io.Copy(io.Discard, r) // until the client goes
			})
			c := newClient(t, Options{})
			ctx, cancel := context.WithTimeout(t.Context(), deadline.Long())
			response, err := c.Follow(make(t, up+"/").WithContext(ctx))
			if err != nil {
				t.Fatalf("%s, %s: %v", name, way, err)
			}
			response.Body.Close()
			cancel()
			if response.StatusCode != http.StatusOK {
				t.Errorf("%s, %s: got %d", name, way, response.StatusCode)
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
	if n := connections.Load(); n != 1 && !overStandard(t) { // http.Transport may dial before it has one back
		t.Errorf("%d connections", n)
	}
}

// alike sends all requests of a chain in the same way.
func alike(send func(*http.Request) (*http.Response, error)) func(*http.Request, bool) (*http.Response, error) {
	return func(r *http.Request, _ bool) (*http.Response, error) { return send(r) }
}
