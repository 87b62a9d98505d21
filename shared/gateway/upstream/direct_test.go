package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// testClient is a client and the way of one account.
type testClient struct {
	*Client
	*Account
}

func newClient(t testing.TB, o Options) testClient {
	t.Helper()
	o.Guard.AllowPrivate = true
	o.Standard = overStandard(t)
	c := New(o)
	t.Cleanup(c.Close)
	return testClient{c, c.Account("demo")}
}

// bytesServer answers each connection by f, which speaks bytes.
func bytesServer(t testing.TB, f func(r *bufio.Reader, conn net.Conn)) (url string, connections *atomic.Int32) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	connections = new(atomic.Int32)
	var wg sync.WaitGroup
	t.Cleanup(wg.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer func() { _ = conn.Close() }()
				f(bufio.NewReader(conn), conn)
			}()
		}
	})
	return "http://" + listener.Addr().String(), connections
}

func request(t testing.TB, ctx context.Context, method, url string) *http.Request { //nolint:revive // t comes first in tests
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func get(t testing.TB, c testClient, url string) (*http.Response, string, error) {
	t.Helper()
	response, err := c.Send(request(t, t.Context(), http.MethodGet, url), nil)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response, string(all), err
}

// TestEveryResponseBelongsToItsRequest drives what can go wrong on shared
// connections at once: clients that leave at any moment, bodies left unread,
// servers that close, responses of every framing. Each answer that arrives is
// the one to its own request, and nothing hangs.
func TestEveryResponseBelongsToItsRequest(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.URL.Query().Get("id")
		w.Header().Set("X-Id", id)
		text := strings.Repeat(id+";", 200)
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", fmt.Sprint(len(text)))
		case "/chunked":
			_ = http.NewResponseController(w).Flush()
		case "/close":
			w.Header().Set("Connection", "close")
		case "/none":
			w.WriteHeader(http.StatusNoContent)
			return
		case "/early":
			w.Header().Set("X-Early", id)
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("X-Early")
		case "/abort":
			_, _ = io.WriteString(w, text[:len(text)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/slow":
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, Options{MaxIdlePerHost: 8})
	paths := []string{"/length", "/chunked", "/close", "/none", "/early", "/abort", "/slow", "/plain"}
	methods := []string{http.MethodGet, http.MethodGet, http.MethodHead, http.MethodDelete, http.MethodPost}
	var answered, left atomic.Int32
	var wg sync.WaitGroup
	for worker := range 16 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range 250 {
				id := fmt.Sprintf("%d-%d", worker, i)
				path, method := paths[random.IntN(len(paths))], methods[random.IntN(len(methods))]
				if path == "/abort" {
					method = http.MethodGet // a HEAD has no body that could tell that the server is closing
				}
				ctx, cancel := context.WithCancel(t.Context())
				if random.IntN(4) == 0 {
					time.AfterFunc(time.Duration(random.IntN(1500))*time.Microsecond, cancel)
				}
				hint := ""
				response, err := c.Send(request(t, ctx, method, server.URL+path+"?id="+id), func(_ int, h http.Header) { hint = h.Get("X-Early") })
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Errorf("%s %s: %v", method, path, err)
					}
					left.Add(1)
					cancel()
					continue
				}
				if response.Header.Get("X-Id") != id || hint != "" && hint != id {
					t.Errorf("%s %s: the response is that of %s, the hint that of %s", method, path, response.Header.Get("X-Id"), hint)
				}
				if random.IntN(5) > 0 { // otherwise the body is left unread
					all, err := io.ReadAll(response.Body)
					whole := strings.Repeat(id+";", 200)
					switch {
					case err != nil && path != "/abort" && ctx.Err() == nil:
						t.Errorf("%s %s: %v", method, path, err)
					case err == nil && path == "/abort":
						t.Errorf("half a body was taken for the whole")
					case err == nil && method != http.MethodHead && path != "/none" && string(all) != whole:
						t.Errorf("%s %s: the body is %.40q", method, path, all)
					case err == nil:
						answered.Add(1)
					}
				}
				response.Body.Close()
				cancel()
			}
		})
	}
	wg.Wait()
	if answered.Load() < 1000 || left.Load() < 10 {
		t.Errorf("%d answered, %d left: the test has become one-sided", answered.Load(), left.Load())
	}
}

func TestAConnectionIsUsedAgain(t *testing.T) {
	url, connections := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
		for i := 0; ; i++ {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d", i)
		}
	})
	c := newClient(t, Options{})
	for i := range 5 {
		if _, got, err := get(t, c, url); err != nil || got != fmt.Sprint(i) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

// TestBytesThatNobodyAskedForAreNoAnswer: a response that a server sends on an
// idle connection, or more than it announced, never becomes another request's.
func TestBytesThatNobodyAskedForAreNoAnswer(t *testing.T) {
	for name, extra := range map[string]string{
		"with the response": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright" + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
		"on its heels":      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright",
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{}, 16)
			url, connections := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(conn, extra)
				if name == "on its heels" {
					// After the client has put the connection away, mostly.
					time.Sleep(5 * time.Millisecond)
					_, _ = io.WriteString(conn, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 5\r\n\r\nwrong")
				}
				sent <- struct{}{}
				_, _ = io.Copy(io.Discard, conn)
			})
			c := newClient(t, Options{})
			for range 3 {
				if _, got, err := get(t, c, url); err != nil || got != "right" {
					t.Fatalf("got %q, %v", got, err)
				}
				<-sent
			}
			if n := connections.Load(); n != 3 {
				t.Errorf("%d connections: one with bytes left on it was used again", n)
			}
		})
	}
}

func TestOnlySafeMethodsAreRepeated(t *testing.T) {
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "DELETE": false, "POST": false, "PUT": false} {
		t.Run(method, func(t *testing.T) {
			var seen atomic.Int32
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				if _, err := http.ReadRequest(r); err == nil {
					seen.Add(1) // read and never answered
				}
			})
			c := newClient(t, Options{})
			if _, err := c.Send(request(t, t.Context(), method, url), nil); err != nil {
				t.Fatal(err)
			}
			response, err := c.Send(request(t, t.Context(), method, url), nil)
			if err == nil {
				response.Body.Close()
			}
			if (err == nil) != want || seen.Load() != 1 {
				t.Errorf("repeated: %v (%v), the broken connection saw %d", err == nil, err, seen.Load())
			}
		})
	}
}

// TestADeadConnectionIsNoticedBeforeItIsUsed: a DELETE that was never sent may
// go another way.
func TestADeadConnectionIsNoticedBeforeItIsUsed(t *testing.T) {
	closed := make(chan struct{}, 16)
	url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		}
		_ = conn.Close()
		closed <- struct{}{}
	})
	c := newClient(t, Options{})
	for range 5 {
		if _, err := c.Send(request(t, t.Context(), http.MethodDelete, url), nil); err != nil {
			t.Fatal(err)
		}
		<-closed
	}
}

func TestAResponseThatDoesNotBeginTimesOut(t *testing.T) {
	url, _ := bytesServer(t, func(_ *bufio.Reader, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	c := newClient(t, Options{ResponseTimeout: 20 * time.Millisecond})
	if _, _, err := get(t, c, url); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestABodyMayTakeLongerThanItsBeginning(t *testing.T) {
	begin := make(chan struct{})
	url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
		<-begin
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(conn, "body")
	})
	c := newClient(t, Options{ResponseTimeout: 20 * time.Millisecond})
	response, err := c.Send(request(t, t.Context(), http.MethodGet, url), nil)
	if err != nil {
		// The machine was too slow for the beginning: not what this is about.
		close(begin)
		t.Skipf("no response within its time: %v", err)
	}
	defer response.Body.Close()
	close(begin)
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != "body" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestFieldsThatWouldBreakTheFramingAreNotSent(t *testing.T) {
	url, connections := bytesServer(t, func(*bufio.Reader, net.Conn) {})
	c := newClient(t, Options{})
	for name, spoil := range map[string]func(*http.Request){
		"value":  func(r *http.Request) { r.Header["X-A"] = []string{"1\r\nX-B: 2"} },
		"name":   func(r *http.Request) { r.Header["X-A: 1\r\nX-B"] = []string{"2"} },
		"method": func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\n" },
		"host":   func(r *http.Request) { r.Host = "a\r\nX-B: 2" },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nX-B: 2" },
	} {
		r := request(t, t.Context(), http.MethodGet, url)
		spoil(r)
		if _, err := c.Send(r, nil); err == nil {
			t.Errorf("%s: sent", name)
		}
	}
	if n := connections.Load(); n != 0 && !overStandard(t) { // http.Transport may connect before it looks
		t.Errorf("%d connections were made", n)
	}
}

// TestOnlyWhatCanNotWaitGoesTheShortWay: sending must not depend on the answer, and
// a host that has to be encoded first is left to http.Transport.
func TestOnlyWhatCanNotWaitGoesTheShortWay(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*http.Request)
		direct bool
	}{
		"as it is":        {func(*http.Request) {}, true},
		"nil body":        {func(r *http.Request) { r.Body = nil }, true},
		"a body":          {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("")) }, false},
		"a length":        {func(r *http.Request) { r.ContentLength = 1 }, false},
		"no known length": {func(r *http.Request) { r.ContentLength = -1 }, false},
		"chunked":         {func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, false},
		"a trailer":       {func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} }, false},
		"the last one":    {func(r *http.Request) { r.Close = true }, false},
		"CONNECT":         {func(r *http.Request) { r.Method = http.MethodConnect }, false},
		"an upgrade":      {func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, false},
		"expecting":       {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, false},
		"the last ASCII":  {func(r *http.Request) { r.URL.Host = "a\x7f.test" }, true},
		"the next byte":   {func(r *http.Request) { r.URL.Host = "a\x80.test" }, false},
		"the next letter": {func(r *http.Request) { r.URL.Host = "a\u0080.test" }, false},
		"first letter":    {func(r *http.Request) { r.URL.Host = "é.test" }, false},
		"another scheme":  {func(r *http.Request) { r.URL.Scheme = "ftp" }, false},
		"unknown TLS":     {func(r *http.Request) { r.URL.Scheme = "https" }, false},
	} {
		r := request(t, t.Context(), http.MethodGet, "http://up.test/")
		test.change(r)
		if got := newClient(t, Options{}).isDirect(r); got != test.direct {
			t.Errorf("%s: sent directly: %v", name, got)
		}
	}
}

// TestTheUserAgentIsTheCallers, and none where it says none: net/http would add its own.
func TestTheUserAgentIsTheCallers(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%q", r.Header["User-Agent"])
	}))
	t.Cleanup(server.Close)
	c := newClient(t, Options{})
	for _, test := range []struct {
		sent []string
		want string
	}{
		{[]string{"curl/8"}, `["curl/8"]`},
		{[]string{"a", "b"}, twoAgents(t)},
		{[]string{""}, `[]`},
		{[]string{}, `[]`},
		{nil, `[]`},
	} {
		r := request(t, t.Context(), http.MethodGet, server.URL)
		r.Header["User-Agent"] = test.sent
		response, err := c.Send(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(got) != test.want {
			t.Errorf("%q arrives as %s, %v", test.sent, got, err)
		}
	}
}

func TestPathsAreSentEscaped(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }))
	t.Cleanup(server.Close)
	c := newClient(t, Options{})
	for path, want := range map[string]string{"": "/", "?a=b": "/?a=b", "/a%2Fb%20c": "/a%2Fb%20c", "/a b\r\n": "/a%20b%0D%0A"} {
		r := request(t, t.Context(), http.MethodGet, server.URL)
		r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
		if strings.Contains(path, "%") {
			r.URL.Path, r.URL.RawPath = "/a/b c", path
		}
		response, err := c.Send(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v", path, got, err)
		}
	}
}

func TestTLSServersOfHTTP1AreReachedDirectlyAfterTheFirstRequest(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	t.Cleanup(server.Close)
	c := newClient(t, Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
	for i := range 4 {
		_, got, err := get(t, c, server.URL)
		if err != nil || got != "HTTP/1.1" {
			t.Fatalf("request %d: got %q, %v", i, got, err)
		}
		if direct := c.isDirect(request(t, t.Context(), http.MethodGet, server.URL)); !direct {
			t.Errorf("after request %d it is not known that the server speaks HTTP/1", i)
		}
	}
	if n := len(c.direct.pool.idle[poolKey{wayKey{account: "demo"}, strings.TrimPrefix(server.URL, "https://"), true}]); n != 1 {
		t.Errorf("%d idle connections", n)
	}
}

func TestATLSServerMayChangeItsProtocol(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if !slices.Contains(hello.SupportedProtos, "h2") {
			return nil, errors.New("this server no longer speaks HTTP/1")
		}
		return nil, nil // go on with the configuration as it is
	}}
	server.StartTLS()
	t.Cleanup(server.Close)
	c := newClient(t, Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
	c.http1.set(strings.TrimPrefix(server.URL, "https://"), true)
	if _, got, err := get(t, c, server.URL); err != nil || got != "HTTP/2.0" {
		t.Errorf("got %q, %v", got, err)
	}
	if c.isDirect(request(t, t.Context(), http.MethodGet, server.URL)) {
		t.Error("it is still taken for a server of HTTP/1")
	}
}

func TestWhatRedirectsLeadToIsRememberedWithinABound(t *testing.T) {
	var h http1Hosts
	for i := range 3 * maxHTTP1Hosts {
		h.set(fmt.Sprint(i), true)
		if i == maxHTTP1Hosts-1 && (!h.has("0") || !h.has(fmt.Sprint(i))) {
			t.Error("it forgets before it has to")
		}
		if n := len(h.known); n > maxHTTP1Hosts {
			t.Fatalf("%d hosts are remembered", n)
		}
	}
	if !h.has(fmt.Sprint(3*maxHTTP1Hosts-1)) || h.has("other") {
		t.Error("the last host is forgotten, or another known")
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	c := newClient(t, Options{MaxIdlePerHost: 1})
	if _, _, err := get(t, c, server.URL); err != nil {
		t.Fatal(err)
	}
	p := &c.direct.pool
	for _, stack := range p.idle {
		stack[0].since = time.Now().Add(-idleTimeout)
	}
	p.sweep()
	if len(p.idle) != 0 || p.sweeping {
		t.Errorf("%d hosts with idle connections, sweeping %v", len(p.idle), p.sweeping)
	}
	if _, _, err := get(t, c, server.URL); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if len(p.idle) != 0 {
		t.Error("closing leaves idle connections")
	}
}
