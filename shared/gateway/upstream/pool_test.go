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

// post is a request that goes the long way, by http.Transport.
func post(t testing.TB, url string) *http.Request {
	t.Helper()
	r := request(t, t.Context(), http.MethodPost, url)
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader("body")), 4
	return r
}

// ways are the two by which a request goes.
var ways = map[string]func(testing.TB, string) *http.Request{
	"directly":    func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) },
	"with a body": post,
}

// TestAccountsShareNoConnection asks one server for several accounts in turn,
// by each way that a request can go, and looks who came over which connection.
func TestAccountsShareNoConnection(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*httptest.Server)
		make  func(t testing.TB, url string) *http.Request
		proto string
	}{
		"directly":          {(*httptest.Server).Start, func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) }, "HTTP/1.1"},
		"directly over TLS": {(*httptest.Server).StartTLS, func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) }, "HTTP/1.1"},
		"with a body":       {(*httptest.Server).Start, post, "HTTP/1.1"},
		"a body over TLS":   {(*httptest.Server).StartTLS, post, "HTTP/1.1"},
		"HTTP/2": {
			func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
			func(t testing.TB, url string) *http.Request { return request(t, t.Context(), "GET", url) }, "HTTP/2.0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			accounts := map[string]map[string]int{} // by the connection's other end
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				mu.Lock()
				defer mu.Unlock()
				if accounts[r.RemoteAddr] == nil {
					accounts[r.RemoteAddr] = map[string]int{}
				}
				accounts[r.RemoteAddr][r.Header.Get("X-Account")]++
				if r.Proto != c.proto {
					t.Errorf("asked by %s", r.Proto)
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
				r := c.make(t, server.URL)
				r.Header.Set("X-Account", account)
				response, err := client.Client.Account(account).Send(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
			}
			for connection, by := range accounts {
				if len(by) != 1 {
					t.Errorf("over %s came %v", connection, by)
				}
			}
			// The first request over TLS goes another way than the next ones.
			if n := len(accounts); n < 3 || n > 6 {
				t.Errorf("%d connections for three accounts", n)
			}
		})
	}
}

func TestOddStatusesAreRefused(t *testing.T) {
	for _, status := range []string{"000", "001", "099", "600", "999"} {
		for name, make := range ways {
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
					response, err := c.Send(make(t, url), func(status int, _ http.Header) { t.Errorf("told of %d", status) })
					if !errors.Is(err, errStatus) {
						t.Errorf("got %v", err)
					}
					if err == nil {
						response.Body.Close()
						continue
					}
					if failure := Explain(t.Context(), err); failure.Status != http.StatusBadGateway {
						t.Errorf("the client gets %d", failure.Status)
					}
					if n := connections.Load(); int(n) != i+1 {
						t.Errorf("%d connections after %d requests", n, i+1)
					}
				}
			})
		}
	}
}

// TestEveryStatusOfHTTPPasses by each way, and behind a 100.
func TestEveryStatusOfHTTPPasses(t *testing.T) {
	for _, status := range []int{200, 204, 299, 304, 418, 599} {
		for name, make := range ways {
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if request, err := http.ReadRequest(r); err == nil {
					_, _ = io.Copy(io.Discard, request.Body)
				}
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 %d Fine\r\nContent-Length: 0\r\n\r\n", status)
			})
			response, err := newClient(t, Options{}).Send(make(t, url), nil)
			if err != nil {
				t.Errorf("%d %s: %v", status, name, err)
				continue
			}
			response.Body.Close()
			if response.StatusCode != status {
				t.Errorf("%d %s: it arrives as %d", status, name, response.StatusCode)
			}
		}
	}
}

// TestInformationalResponsesAreBounded by each way.
func TestInformationalResponsesAreBounded(t *testing.T) {
	for count, want := range map[int]bool{maxInformational: true, maxInformational + 1: false, 10_000: false} {
		for name, make := range ways {
			for _, told := range []bool{true, false} {
				t.Run(fmt.Sprintf("%d %s, told %v", count, name, told), func(t *testing.T) {
					url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
						if request, err := http.ReadRequest(r); err == nil {
							_, _ = io.Copy(io.Discard, request.Body)
						}
						_, _ = io.WriteString(conn, strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: y\r\n\r\n", count)+"HTTP/1.1 204 No Content\r\n\r\n")
						_, _ = io.Copy(io.Discard, conn)
					})
					seen := 0
					var tell func(int, http.Header)
					if told {
						tell = func(int, http.Header) { seen++ }
					}
					_, err := newClient(t, Options{}).Send(make(t, url), tell)
					if (err == nil) != want || err != nil && !errors.Is(err, errTooManyInformational) {
						t.Errorf("got %v", err)
					}
					if told && seen != min(count, maxInformational) && !(count > maxInformational && seen == maxInformational+1) {
						t.Errorf("told of %d", seen)
					}
				})
			}
		}
	}
}

// TestAtMostTwoStaleConnectionsAreTried: a server has closed many, as each
// request on one of them shows; the third try gets a new one.
func TestAtMostTwoStaleConnectionsAreTried(t *testing.T) {
	const pooled = 6
	var old, fresh, tried atomic.Int32
	together := make(chan struct{})
	url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		if old.Add(1) > pooled {
			fresh.Add(1)
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			return
		}
		if old.Load() == pooled {
			close(together)
		}
		<-together
		_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		if _, err := http.ReadRequest(r); err == nil {
			tried.Add(1) // and no answer
		}
	})
	c := newClient(t, Options{})
	var wg sync.WaitGroup
	for range pooled {
		wg.Go(func() {
			if _, err := c.Send(request(t, t.Context(), "GET", url), nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := c.Send(request(t, t.Context(), "GET", url), nil); err != nil {
		t.Errorf("got %v", err)
	}
	if tried.Load() != maxStale || fresh.Load() != 1 {
		t.Errorf("%d stale connections were tried, %d new ones", tried.Load(), fresh.Load())
	}
}

// TestIdleConnectionsAreBounded over accounts and hosts.
func TestIdleConnectionsAreBounded(t *testing.T) {
	var open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
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
	for name, make := range ways {
		t.Run(name, func(t *testing.T) {
			const most = 8
			c := newClient(t, Options{MaxIdle: most})
			for i := range 5 * most {
				response, err := c.Client.Account(fmt.Sprint(i)).Send(make(t, server.URL), nil)
				if err != nil {
					t.Fatal(err)
				}
				response.Body.Close()
			}
			for range 100 {
				if open.Load() <= most+1 {
					break
				}
				time.Sleep(10 * time.Millisecond) // the server sees it a little later
			}
			if n := open.Load(); n > most+1 {
				t.Errorf("%d connections are open", n)
			}
			if name == "directly" && !overStandard(t) && c.direct.pool.count != most {
				t.Errorf("%d are kept", c.direct.pool.count)
			}
			if name != "directly" && c.transports.open.Load() > most+1 {
				t.Errorf("%d are kept", c.transports.open.Load())
			}
			c.Close()
			for range 100 {
				if open.Load() == 0 {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			t.Errorf("%d connections are left open", open.Load())
		})
	}
}

func TestTransportsOfAccountsAreForgotten(t *testing.T) {
	c := newClient(t, Options{})
	ts := &c.transports
	first := ts.of(way{account: "0"})
	for i := range 2 * maxTransports {
		ts.of(way{account: fmt.Sprint(i)})
	}
	if n := len(ts.byAccount); n != maxTransports || !ts.sweeping {
		t.Errorf("%d are kept, sweeping %v", n, ts.sweeping)
	}
	if ts.of(way{account: "0"}) == first {
		t.Error("the oldest has stayed")
	}
	last := ts.of(way{account: "last"})
	if ts.of(way{account: "last"}) != last {
		t.Error("an account's changes")
	}
	for account, its := range ts.byAccount {
		if account.account != "last" {
			its.used = time.Now().Add(-idleTimeout)
		}
	}
	ts.sweep()
	if len(ts.byAccount) != 1 || !ts.sweeping || ts.of(way{account: "last"}) != last {
		t.Errorf("%d are kept, sweeping %v", len(ts.byAccount), ts.sweeping)
	}
	ts.byAccount[wayKey{account: "last"}].used = time.Time{}
	if ts.sweep(); len(ts.byAccount) != 0 || ts.sweeping {
		t.Errorf("%d are kept, sweeping %v", len(ts.byAccount), ts.sweeping)
	}
}

// TestAServerThatReadsNothingHoldsNobodyUp: closing a connection says nothing
// on it that would have to wait.
func TestAServerThatReadsNothingHoldsNobodyUp(t *testing.T) {
	trusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(trusted.Close)
	p := pool{dial: (&net.Dialer{}).DialContext, tls: onlyHTTP1(trusted.Client().Transport.(*http.Transport).TLSClientConfig), tlsTime: time.Minute, perHost: 1, most: 1}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, _, err := p.get(ctx, way{account: "demo"}, request(t, ctx, "GET", trusted.URL).URL, true)
	if err != nil {
		t.Fatal(err)
	}
	wrote := false
	c.below.Conn = spy{c.below.Conn, func() { wrote = true }}
	if err := c.Close(); err != nil || wrote {
		t.Errorf("closed with %v, wrote %v", err, wrote)
	}
}

type spy struct {
	net.Conn
	wrote func()
}

func (s spy) Write(p []byte) (int, error) {
	s.wrote()
	return s.Conn.Write(p)
}

// TestABodyThatIsLeftEndsItsConnection: what the server still sends of it would be
// the beginning of the next answer.
func TestABodyThatIsLeftEndsItsConnection(t *testing.T) {
	for name, head := range map[string]string{
		"of a length": "Content-Length: 10\r\n\r\nsome",
		"in chunks":   "Transfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n",
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
				begun := make([]byte, len("some"))
				if _, err := io.ReadFull(response.Body, begun); err != nil || string(begun) != "some" {
					t.Fatalf("read %q, %v", begun, err)
				}
				if err := response.Body.Close(); err != nil {
					t.Error(err)
				}
			}
			if n := connections.Load(); n != 2 {
				t.Errorf("%d connections for 2 requests", n)
			}
		})
	}
}

// TestARequestIsNotRepeatedOnceItsAnswerHasBegun: whoever has begun to answer it
// has got it, and hints would be told twice.
func TestARequestIsNotRepeatedOnceItsAnswerHasBegun(t *testing.T) {
	for name, begun := range map[string]string{
		"a hint":                "HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n",
		"a byte":                "H",
		"a head but for a line": "HTTP/1.1 200 OK\r\nX-A: b\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			var seen atomic.Int32
			url, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				for {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					if seen.Add(1) == 2 {
						_, _ = io.WriteString(conn, begun)
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
			if err == nil || seen.Load() != 2 {
				t.Errorf("got %v, and the server %d requests", err, seen.Load())
			}
		})
	}
}
