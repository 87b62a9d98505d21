package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// post returns a POST with a body, which goes through http.Transport.
func post(t testing.TB, url string) *http.Request {
	t.Helper()
	r := request(t, t.Context(), http.MethodPost, url)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
	return r
}

// requestMakers create a request that is sent directly, and one that goes through http.Transport.
var requestMakers = map[string]func(testing.TB, string) *http.Request{
	"directly":    func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) },
	"with a body": post,
}

// TestAccountsDoNotShareConnections sends requests to one server for several accounts in turn,
// directly and through http.Transport, and checks that only one account has used each connection.
func TestAccountsDoNotShareConnections(t *testing.T) {
	for name, c := range map[string]struct {
		start      func(*httptest.Server)
		newRequest func(t testing.TB, url string) *http.Request
		proto      string
	}{
		"directly": {(*httptest.Server).Start, func(t testing.TB, url string) *http.Request {
			return request(t, t.Context(), "GET", url)
		}, "HTTP/1.1"},
		"directly over TLS": {(*httptest.Server).StartTLS, func(t testing.TB, url string) *http.Request {
			return request(t, t.Context(), "GET", url)
		}, "HTTP/1.1"},
		"with a body":     {(*httptest.Server).Start, post, "HTTP/1.1"},
		"a body over TLS": {(*httptest.Server).StartTLS, post, "HTTP/1.1"},
		"HTTP/2": {
			func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
			func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) }, "HTTP/2.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			// byConnection has the number of requests of each account, by the client's address.
			byConnection := map[string]map[string]int{}
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				mu.Lock()
				defer mu.Unlock()
				if byConnection[r.RemoteAddr] == nil {
					byConnection[r.RemoteAddr] = map[string]int{}
				}
				byConnection[r.RemoteAddr][r.Header.Get("X-Account")]++
				if r.Proto != c.proto {
					t.Errorf("request protocol = %s, want %s", r.Proto, c.proto)
				}
			}))
			c.start(server)
			t.Cleanup(server.Close)
			o := Options{}
			if server.TLS != nil {
				o.TLS = server.Client().Transport.(*http.Transport).TLSClientConfig
			}
			client := newClient(t, o)
			for i := range 30 {
				account := fmt.Sprint("account", i%3)
				r := c.newRequest(t, server.URL)
				r.Header.Set("X-Account", account)
				response, err := client.Client.Account(account).Send(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
			}
			for connection, requests := range byConnection {
				if len(requests) != 1 {
					t.Errorf("requests by account on the connection %s = %v, want one account", connection, requests)
				}
			}
			// An account's first request over TLS can go through another
			// transport than its next ones, so that it needs a second connection.
			if n := len(byConnection); n < 3 || n > 6 {
				t.Errorf("connections for three accounts = %d, want 3 to 6", n)
			}
		})
	}
}

func TestInvalidStatusesAreRefused(t *testing.T) {
	for _, status := range []string{"000", "001", "099", "600", "999"} {
		for name, newRequest := range requestMakers {
			t.Run(status+" "+name, func(t *testing.T) {
				url, connections := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
					for {
						request, err := http.ReadRequest(r)
						if err != nil {
							return
						}
						_, _ = io.Copy(io.Discard, request.Body)
						_, _ = fmt.Fprintf(conn, "HTTP/1.1 %s Odd\r\nContent-Length: 2\r\n\r\nok", status)
					}
				})
				c := newClient(t, Options{ResponseTimeout: 2 * time.Second})
				for i := range 2 {
					response, err := c.Send(newRequest(t, url), func(status int, _ http.Header) {
						t.Errorf("informational response %d, want none", status)
					})
					if !errors.Is(err, errStatus) {
						t.Errorf("Send() error = %v, want %v", err, errStatus)
					}
					if err == nil {
						response.Body.Close()
						continue
					}
					if failure := Explain(t.Context(), err); failure.Status != http.StatusBadGateway {
						t.Errorf("Explain(%v) status = %d, want 502", err, failure.Status)
					}
					if n := connections.Load(); int(n) != i+1 {
						t.Errorf("connections after %d requests = %d, want as many", i+1, n)
					}
				}
			})
		}
	}
}

// TestEveryStatusOfHTTPPasses checks, for both transports, that a response with
// a valid status is returned, and that a 100 before it does not change its status.
func TestEveryStatusOfHTTPPasses(t *testing.T) {
	for _, status := range []int{200, 204, 299, 304, 418, 599} {
		for name, newRequest := range requestMakers {
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if request, err := http.ReadRequest(r); err == nil {
					_, _ = io.Copy(io.Discard, request.Body)
				}
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 %d Fine\r\nContent-Length: 0\r\n\r\n", status)
			})
			response, err := newClient(t, Options{}).Send(newRequest(t, url), nil)
			if err != nil {
				t.Errorf("Send() with the status %d %s: error = %v, want none", status, name, err)
				continue
			}
			response.Body.Close()
			if response.StatusCode != status {
				t.Errorf("status %d %s: response status = %d, want it unchanged", status, name, response.StatusCode)
			}
		}
	}
}

// TestInformationalResponsesAreBounded checks, for both transports, that the maximum number
// of 1xx responses before the final response is accepted, and that more are an error.
func TestInformationalResponsesAreBounded(t *testing.T) {
	for count, want := range map[int]bool{maxInformational: true, maxInformational + 1: false, 10_000: false} {
		for name, newRequest := range requestMakers {
			for _, withCallback := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d %s, with a callback: %t", count, name, withCallback), func(t *testing.T) {
					url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
						if request, err := http.ReadRequest(r); err == nil {
							_, _ = io.Copy(io.Discard, request.Body)
						}
						_, _ = io.WriteString(conn, strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n",
							count)+"HTTP/1.1 204 No Content\r\n\r\n")
						_, _ = io.Copy(io.Discard, conn)
					})
					received := 0
					var onInformational func(int, http.Header)
					if withCallback {
						onInformational = func(int, http.Header) { received++ }
					}
					_, err := newClient(t, Options{}).Send(newRequest(t, url), onInformational)
					if (err == nil) != want || err != nil && !errors.Is(err, errTooManyInformational) {
						t.Errorf("Send() with %d informational responses: error = %v, want success: %t, else %v",
							count, err, want, errTooManyInformational)
					}
					if withCallback && received != min(count, maxInformational) &&
						!(count > maxInformational && received == maxInformational+1) {
						t.Errorf("informational responses = %d, want %d, or one more if there are too many",
							received, min(count, maxInformational))
					}
				})
			}
		}
	}
}

// TestAtMostTwoStaleConnectionsAreTried checks a server that closes many idle connections, each only
// when it receives another request. After two such failures, the third try uses a new connection.
func TestAtMostTwoStaleConnectionsAreTried(t *testing.T) {
	const pooled = 6
	// fresh counts the requests on new connections, and tried the requests on stale connections.
	var accepted, fresh, tried atomic.Int32
	together := make(chan struct{})
	url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		if accepted.Add(1) > pooled {
			fresh.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			return
		}
		if accepted.Load() == pooled {
			close(together)
		}
		<-together
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		if _, err := http.ReadRequest(r); err == nil {
			tried.Add(1) // the connection closes without a response
		}
	})
	c := newClient(t, Options{})
	var wg sync.WaitGroup
	for range pooled {
		wg.Go(func() {
			if _, err := c.Send(request(t, t.Context(), "GET", url), nil); err != nil {
				t.Errorf("Send() error = %v, want none", err)
			}
		})
	}
	wg.Wait()
	if _, err := c.Send(request(t, t.Context(), "GET", url), nil); err != nil {
		t.Errorf("Send() with %d stale connections: error = %v, want none", pooled, err)
	}
	if tried.Load() != maxStale || fresh.Load() != 1 {
		t.Errorf("stale connections tried = %d, new ones = %d, want %d and 1", tried.Load(), fresh.Load(), maxStale)
	}
}

// TestIdleConnectionsAreBounded checks the limit of idle connections for all accounts together.
func TestIdleConnectionsAreBounded(t *testing.T) {
	var open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		default:
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	for name, newRequest := range requestMakers {
		t.Run(name, func(t *testing.T) {
			const maxIdle = 8
			c := newClient(t, Options{MaxIdle: maxIdle})
			for i := range 5 * maxIdle {
				response, err := c.Client.Account(fmt.Sprint(i)).Send(newRequest(t, server.URL), nil)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
			}
			for range 100 {
				if open.Load() <= maxIdle+1 {
					break
				}
				time.Sleep(10 * time.Millisecond) // the server notices a closed connection a bit later
			}
			if n := open.Load(); n > maxIdle+1 {
				t.Errorf("%s: open connections = %d, want at most %d", name, n, maxIdle+1)
			}
			if name == "directly" && !isStandardRun(t) && c.direct.pool.count != maxIdle {
				t.Errorf("connections in the pool = %d, want %d", c.direct.pool.count, maxIdle)
			}
			if name != "directly" && c.transports.openConns.Load() > maxIdle+1 {
				t.Errorf("%s: open connections of the transports = %d, want at most %d",
					name, c.transports.openConns.Load(), maxIdle+1)
			}
			c.Close()
			for range 100 {
				if open.Load() == 0 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("open connections after Close() = %d, want 0", open.Load())
		})
	}
}

func TestLeastRecentlyUsedTransportIsRemoved(t *testing.T) {
	c := newClient(t, Options{})
	ts := &c.transports
	first := ts.get(identity{account: "0"})
	for i := range 2 * maxTransports {
		ts.get(identity{account: fmt.Sprint(i)})
	}
	if n := len(ts.byIdentity); n != maxTransports || !ts.sweeping {
		t.Errorf("transports = %d, sweeping = %t, want %d and true", n, ts.sweeping, maxTransports)
	}
	if ts.get(identity{account: "0"}) == first {
		t.Error("get(0) = the first transport, want a new one, since it was least recently used")
	}
	last := ts.get(identity{account: "last"})
	if ts.get(identity{account: "last"}) != last {
		t.Error("get(last) = another transport, want the same")
	}
	for key, tr := range ts.byIdentity {
		if key.account != "last" {
			tr.lastUsed = time.Now().Add(-idleTimeout)
		}
	}
	ts.sweep()
	if len(ts.byIdentity) != 1 || !ts.sweeping {
		t.Errorf("sweep(): transports = %d, sweeping = %t, want 1 and true", len(ts.byIdentity), ts.sweeping)
	}
	if ts.get(identity{account: "last"}) != last {
		t.Error("get(last) after sweep() = another transport, want the same")
	}
	ts.byIdentity[identityKey{account: "last"}].lastUsed = time.Time{}
	if ts.sweep(); len(ts.byIdentity) != 0 || ts.sweeping {
		t.Errorf("sweep() of an unused transport: transports = %d, sweeping = %t, want 0 and false",
			len(ts.byIdentity), ts.sweeping)
	}
}

// TestCloseDoesNotBlockOnUnresponsiveServer checks that closing a TLS connection writes nothing, because a write would
// block if the server does not read.
func TestCloseDoesNotBlockOnUnresponsiveServer(t *testing.T) {
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(trusted.Close)
	p := pool{
		dial: (&net.Dialer{}).DialContext,
		tls:  onlyHTTP1(trusted.Client().Transport.(*http.Transport).TLSClientConfig), tlsTimeout: time.Minute, perHost: 1,
		maxIdle: 1,
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, _, err := p.get(ctx, identity{account: "demo"}, request(t, ctx, "GET", trusted.URL).URL, true)
	if err != nil {
		t.Fatal(err)
	}
	wrote := false
	c.below.Conn = writeRecorder{c.below.Conn, func() { wrote = true }}
	if err := c.Close(); err != nil || wrote {
		t.Errorf("Close() = %v, wrote %t, want no error and false", err, wrote)
	}
}

// writeRecorder calls onWrite before each write.
type writeRecorder struct {
	net.Conn
	onWrite func()
}

func (r writeRecorder) Write(p []byte) (int, error) {
	r.onWrite()
	return r.Conn.Write(p)
}

// TestUnreadBodyClosesItsConnection checks that a connection is not used again after an unread
// body. Otherwise the rest of the body would be read as the beginning of the next response.
func TestUnreadBodyClosesItsConnection(t *testing.T) {
	for name, head := range map[string]string{
		"a length": "Content-Length: 10\r\n\r\nsome",
		"chunks":   "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			url, connections := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				for {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+head)
				}
			})
			c := newClient(t, Options{})
			for range 2 {
				response, err := c.Send(request(t, t.Context(), "GET", url), nil)
				if err != nil {
					t.Fatal(err)
				}
				prefix := make([]byte, len("some"))
				if _, err := io.ReadFull(response.Body, prefix); err != nil || string(prefix) != "some" {
					t.Fatalf("ReadFull() = %q, %v, want some", prefix, err)
				}
				if err := response.Body.Close(); err != nil {
					t.Errorf("Close() of an unread body: error = %v, want none", err)
				}
			}
			if n := connections.Load(); n != 2 {
				t.Errorf("connections for 2 requests with unread bodies = %d, want 2", n)
			}
		})
	}
}

// TestRequestIsNotRetriedAfterResponseBytes checks that a request is not sent again once a byte of its
// response has arrived. The server has then received the request, and the client could receive hints twice.
func TestRequestIsNotRetriedAfterResponseBytes(t *testing.T) {
	for name, prefix := range map[string]string{
		"a hint":                       "HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n",
		"a byte":                       "H",
		"a head without its last line": "HTTP/1.1 200 OK\r\nX-A: b\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var received atomic.Int32
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				for {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					if received.Add(1) == 2 {
						_, _ = io.WriteString(conn, prefix)
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
				}
			})
			c := newClient(t, Options{})
			if _, err := c.Send(request(t, t.Context(), "GET", url), nil); err != nil {
				t.Fatal(err)
			}
			response, err := c.Send(request(t, t.Context(), "GET", url), nil)
			if err == nil {
				_ = response.Body.Close()
			}
			if err == nil || received.Load() != 2 {
				t.Errorf("Send() error = %v, requests at the server = %d, want an error and 2", err, received.Load())
			}
		})
	}
}
