package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
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

// testClient is a client with one account.
type testClient struct {
	*Client
	*Account
}

// newClient returns a client that can dial private addresses. Below TestStandard, it has Options.Standard.
func newClient(t testing.TB, o Options) testClient {
	t.Helper()
	o.Guard.AllowPrivate = true
	o.Standard = isStandardRun(t)
	c := New(o)
	t.Cleanup(c.Close)
	return testClient{c, c.Account("demo")}
}

// bytesServer starts a server that calls f for each connection. connections is the number of connections that it has
// accepted.
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

func TestConnectionIsReused(t *testing.T) {
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
			t.Fatalf("request %d: body = %q, %v, want %q", i, got, err, fmt.Sprint(i))
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("connections for 5 requests = %d, want 1", n)
	}
}

// TestUnsolicitedBytesAreNotAResponse checks that a response on an idle connection,
// or bytes beyond the declared length, never become the response to another request.
func TestUnsolicitedBytesAreNotAResponse(t *testing.T) {
	for name, responseText := range map[string]string{
		"a second response with the first": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright" +
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong",
		"a second response right after the first": "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nright",
	} {
		t.Run(name, func(t *testing.T) {
			sent := make(chan struct{}, 16)
			url, connections := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(conn, responseText)
				if name == "a second response right after the first" {
					// Wait, so that the client has usually returned the connection to the pool.
					time.Sleep(5 * time.Millisecond)
					_, _ = io.WriteString(conn, "HTTP/1.1 408 Request Timeout\r\nContent-Length: 5\r\n\r\nwrong")
				}
				sent <- struct{}{}
				_, _ = io.Copy(io.Discard, conn)
			})
			c := newClient(t, Options{})
			for range 3 {
				if _, got, err := get(t, c, url); err != nil || got != "right" {
					t.Fatalf("get(): body = %q, %v, want right", got, err)
				}
				<-sent
			}
			if n := connections.Load(); n != 3 {
				t.Errorf("connections for 3 requests = %d, want 3, since one with bytes left is not reused", n)
			}
		})
	}
}

func TestOnlySafeMethodsAreRetried(t *testing.T) {
	for method, want := range map[string]bool{
		"GET": true, "HEAD": true, "OPTIONS": true, "DELETE": false, "POST": false,
		"PUT": false,
	} {
		t.Run(method, func(t *testing.T) {
			var received atomic.Int32
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				if _, err := http.ReadRequest(r); err == nil {
					received.Add(1) // the request is read, and gets no response
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
			if (err == nil) != want || received.Load() != 1 {
				t.Errorf("Send() error = %v, requests on the broken connection = %d, want a retry: %t, and 1",
					err, received.Load(), want)
			}
		})
	}
}

// TestClosedConnectionIsDetectedBeforeUse checks that a DELETE is not sent on a connection
// that the server has closed. A DELETE that was not sent can safely use another connection.
func TestClosedConnectionIsDetectedBeforeUse(t *testing.T) {
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
			t.Fatalf("Send(DELETE) after the previous connection was closed: error = %v, want none", err)
		}
		<-closed
	}
}

func TestMissingResponseTimesOut(t *testing.T) {
	url, _ := bytesServer(t, func(_ *bufio.Reader, conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	c := newClient(t, Options{ResponseTimeout: 20 * time.Millisecond})
	if _, _, err := get(t, c, url); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Send() error = %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

func TestBodyCanExceedTheResponseTimeout(t *testing.T) {
	release := make(chan struct{})
	url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
		_, _ = http.ReadRequest(r)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
		<-release
		time.Sleep(50 * time.Millisecond)
		_, _ = io.WriteString(conn, "body")
	})
	c := newClient(t, Options{ResponseTimeout: 20 * time.Millisecond})
	response, err := c.Send(request(t, t.Context(), http.MethodGet, url), nil)
	if err != nil {
		// The head came too late on a slow machine. This test is only about the body.
		close(release)
		t.Skipf("no response within its time: %v", err)
	}
	defer response.Body.Close()
	close(release)
	if got, err := io.ReadAll(response.Body); err != nil || string(got) != "body" {
		t.Errorf("ReadAll(slow body) = %q, %v, want %q", got, err, "body")
	}
}

func TestInvalidRequestsAreNotSent(t *testing.T) {
	url, connections := bytesServer(t, func(*bufio.Reader, net.Conn) {})
	c := newClient(t, Options{})
	for name, corrupt := range map[string]func(*http.Request){
		"value":  func(r *http.Request) { r.Header["X-A"] = []string{"1\r\nX-B: 2"} },
		"name":   func(r *http.Request) { r.Header["X-A: 1\r\nX-B"] = []string{"2"} },
		"method": func(r *http.Request) { r.Method = "GET / HTTP/1.1\r\n" },
		"host":   func(r *http.Request) { r.Host = "a\r\nX-B: 2" },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a HTTP/1.1\r\nX-B: 2" },
	} {
		r := request(t, t.Context(), http.MethodGet, url)
		corrupt(r)
		if _, err := c.Send(r, nil); err == nil {
			t.Errorf("Send(invalid %s) error = nil, want an error", name)
		}
	}
	if n := connections.Load(); n != 0 && !isStandardRun(t) { // http.Transport may connect before it checks a request
		t.Errorf("connections for invalid requests = %d, want 0", n)
	}
}

// TestOnlyBodilessRequestsAreDirect checks which requests are sent directly. All others go through http.Transport, such
// as requests with a body, upgrades, and requests whose host needs encoding.
func TestOnlyBodilessRequestsAreDirect(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*http.Request)
		direct bool
	}{
		"an unchanged request":              {func(*http.Request) {}, true},
		"nil body":                          {func(r *http.Request) { r.Body = nil }, true},
		"a body":                            {func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("")) }, false},
		"a length":                          {func(r *http.Request) { r.ContentLength = 1 }, false},
		"no known length":                   {func(r *http.Request) { r.ContentLength = -1 }, false},
		"chunked":                           {func(r *http.Request) { r.TransferEncoding = []string{"chunked"} }, false},
		"a trailer":                         {func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} }, false},
		"Connection: close":                 {func(r *http.Request) { r.Close = true }, false},
		"CONNECT":                           {func(r *http.Request) { r.Method = http.MethodConnect }, false},
		"an upgrade":                        {func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, false},
		"Expect: 100-continue":              {func(r *http.Request) { r.Header.Set("Expect", "100-continue") }, false},
		"U+007F in the host":                {func(r *http.Request) { r.URL.Host = "a\x7f.test" }, true},
		"an invalid byte in the host":       {func(r *http.Request) { r.URL.Host = "a\x80.test" }, false},
		"U+0080 in the host":                {func(r *http.Request) { r.URL.Host = "a\u0080.test" }, false},
		"a letter beyond ASCII in the host": {func(r *http.Request) { r.URL.Host = "é.test" }, false},
		"another scheme":                    {func(r *http.Request) { r.URL.Scheme = "ftp" }, false},
		"a TLS server that is not known to choose HTTP/1": {func(r *http.Request) { r.URL.Scheme = "https" }, false},
	} {
		r := request(t, t.Context(), http.MethodGet, "http://up.test/")
		test.change(r)
		if got := newClient(t, Options{}).isDirect(r); got != test.direct {
			t.Errorf("isDirect(%s) = %t, want %t", name, got, test.direct)
		}
	}
}

// TestUserAgentIsForwarded checks that the caller's User-Agent is
// sent, and none if the caller sends none: net/http would add its own.
func TestUserAgentIsForwarded(t *testing.T) {
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
			t.Errorf("User-Agent %q at the server = %s, %v, want %s", test.sent, got, err, test.want)
		}
	}
}

func TestPathsAreSentEscaped(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.RequestURI)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, Options{})
	for path, want := range map[string]string{
		"": "/", "?a=b": "/?a=b", "/a%2Fb%20c": "/a%2Fb%20c",
		"/a b\r\n": "/a%20b%0D%0A",
	} {
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
			t.Errorf("path %q at the server = %q, %v, want %q", path, got, err, want)
		}
	}
}

func TestHTTP1OverTLSIsDirectAfterFirstRequest(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	t.Cleanup(server.Close)
	c := newClient(t, Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
	for i := range 4 {
		_, got, err := get(t, c, server.URL)
		if err != nil || got != "HTTP/1.1" {
			t.Fatalf("request %d: body = %q, %v, want HTTP/1.1", i, got, err)
		}
		if direct := c.isDirect(request(t, t.Context(), http.MethodGet, server.URL)); !direct {
			t.Errorf("isDirect() after request %d = false, want true for a server of HTTP/1", i)
		}
	}
	if n := len(c.direct.pool.idle[poolKey{
		identityKey{account: "demo"},
		strings.TrimPrefix(server.URL, "https://"),
		true,
	}]); n != 1 {
		t.Errorf("idle connections = %d, want 1", n)
	}
}

func TestTLSServerCanChangeItsProtocol(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if !slices.Contains(hello.SupportedProtos, "h2") {
				return nil, errors.New("this server no longer speaks HTTP/1")
			}
			return nil, nil // the handshake continues with the same configuration
		},
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	c := newClient(t, Options{TLS: server.Client().Transport.(*http.Transport).TLSClientConfig})
	c.http1.set(strings.TrimPrefix(server.URL, "https://"), true)
	if _, got, err := get(t, c, server.URL); err != nil || got != "HTTP/2.0" {
		t.Errorf("get() from a server that changed to HTTP/2: body = %q, %v, want HTTP/2.0", got, err)
	}
	if c.isDirect(request(t, t.Context(), http.MethodGet, server.URL)) {
		t.Error("isDirect() after a response with HTTP/2 = true, want false")
	}
}

func TestHTTP1HostsAreBounded(t *testing.T) {
	var h http1Hosts
	for i := range 3 * maxHTTP1Hosts {
		h.set(fmt.Sprint(i), true)
		if i == maxHTTP1Hosts-1 && (!h.has("0") || !h.has(fmt.Sprint(i))) {
			t.Errorf("has() of the first and last of %d hosts = %t and %t, want true",
				maxHTTP1Hosts, h.has("0"), h.has(fmt.Sprint(i)))
		}
		if n := len(h.known); n > maxHTTP1Hosts {
			t.Fatalf("known hosts = %d, want at most %d", n, maxHTTP1Hosts)
		}
	}
	if !h.has(fmt.Sprint(3*maxHTTP1Hosts-1)) || h.has("other") {
		t.Errorf("has(last host), has(other) = %t, %t, want true, false",
			h.has(fmt.Sprint(3*maxHTTP1Hosts-1)), h.has("other"))
	}
}

func TestIdleConnectionsAreClosed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	c := newClient(t, Options{MaxIdlePerHost: 1})
	if _, _, err := get(t, c, server.URL); err != nil {
		t.Fatal(err)
	}
	p := &c.direct.pool
	var expired *conn
	for _, stack := range p.idle {
		expired = stack[0]
		expired.idleSince = time.Now().Add(-idleTimeout)
	}
	if expired == nil {
		t.Fatal("idle connections after a request = 0, want 1")
	}
	p.sweep()
	if expired.isIdle(onSocket) {
		t.Error("isIdle() of an expired connection after sweep() = true, want false, because sweep closes it")
	}
	if len(p.idle) != 0 || p.sweeping {
		t.Errorf("hosts with idle connections = %d, sweeping = %t, want 0 and false", len(p.idle), p.sweeping)
	}
	if _, _, err := get(t, c, server.URL); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if len(p.idle) != 0 {
		t.Errorf("hosts with idle connections after Close() = %d, want 0", len(p.idle))
	}
}
