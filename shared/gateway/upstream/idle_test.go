package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// near is a round trip to a peer that needs no goroutine, and so lets a test's
// clock stand still: each request is answered with reply.
type near struct {
	direct
	peer *peer
}

func newNear(perHost, most int) *near {
	n := &near{peer: newPeer(script{method: http.MethodGet, bytes: []byte(reply)}, nil)}
	n.direct = direct{maxHeaderBytes: responseHeaderBytes}
	n.pool = pool{dial: n.peer.dial, perHost: perHost, most: most}
	return n
}

func (n *near) ask(t *testing.T, account string) *http.Response {
	t.Helper()
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "up.test", Path: "/"}, Header: http.Header{}}
	response, err := n.send(way{account: account}, time.Minute, r.WithContext(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// end reads a response, which gives its connection back.
func end(t *testing.T, response *http.Response) {
	t.Helper()
	if all, err := io.ReadAll(response.Body); err != nil || string(all) != "own" {
		t.Errorf("read %q, %v", all, err)
	}
	_ = response.Body.Close()
}

// holds reports what the pool keeps and how many connections were ever made. While
// it keeps any, it looks after them.
func (n *near) holds(t *testing.T, kept, dialed int) {
	t.Helper()
	n.pool.mu.Lock()
	defer n.pool.mu.Unlock()
	all := 0
	for _, stack := range n.pool.idle {
		all += len(stack)
	}
	if all != kept || n.pool.count != kept || n.peer.dialed != dialed {
		t.Errorf("%d are kept, counted as %d, and %d were made; want %d of %d", all, n.pool.count, n.peer.dialed, kept, dialed)
	}
	if n.pool.sweeping != (kept > 0) || kept == 0 && len(n.pool.idle) > 0 {
		t.Errorf("sweeping: %v, over %d hosts", n.pool.sweeping, len(n.pool.idle))
	}
}

// TestAConnectionIsUsedAgainUntilItsTime, and not at it: a server may close its
// end at any moment from then on.
func TestAConnectionIsUsedAgainUntilItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNear(4, 4)
		defer n.pool.close()
		end(t, n.ask(t, "a"))
		n.holds(t, 1, 1)
		time.Sleep(idleTimeout - time.Nanosecond) // the sweep comes before this use is too old for it
		end(t, n.ask(t, "a"))
		n.holds(t, 1, 1)
		time.Sleep(idleTimeout - time.Nanosecond)
		end(t, n.ask(t, "a"))
		n.holds(t, 1, 1)
		time.Sleep(idleTimeout)
		end(t, n.ask(t, "a"))
		n.holds(t, 1, 2)
	})
}

// TestIdleConnectionsEndAtTheirTime: each by its own, and none stays behind.
func TestIdleConnectionsEndAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNear(4, 4)
		end(t, n.ask(t, "a"))
		time.Sleep(time.Nanosecond)
		end(t, n.ask(t, "b"))
		n.holds(t, 2, 2)
		time.Sleep(idleTimeout - time.Nanosecond)
		synctest.Wait()
		n.holds(t, 1, 2)
		end(t, n.ask(t, "b")) // over the one that is left
		n.holds(t, 1, 2)
		time.Sleep(idleTimeout)
		synctest.Wait()
		n.holds(t, 0, 2)
	})
}

// TestEachHostOfAnAccountKeepsSoManyConnections and the pool so many in all.
func TestEachHostOfAnAccountKeepsSoManyConnections(t *testing.T) {
	n := newNear(2, 3)
	t.Cleanup(n.pool.close)
	all := func(account string, times int) {
		open := make([]*http.Response, times)
		for i := range open {
			open[i] = n.ask(t, account)
		}
		for _, response := range open {
			end(t, response)
		}
	}
	all("a", 1)
	n.holds(t, 1, 1)
	all("a", 2)
	n.holds(t, 2, 2)
	all("a", 3)
	n.holds(t, 2, 3)
	all("b", 1)
	n.holds(t, 3, 4)
	all("b", 2)
	n.holds(t, 3, 5)
	end(t, n.ask(t, "b")) // which has the newest
	n.holds(t, 3, 5)
}

// TestReadingDoesNotBeginWhereItHasEnded: a deadline must not undo the mark that the
// end of the request left before.
func TestReadingDoesNotBeginWhereItHasEnded(t *testing.T) {
	gone := errors.New("the caller is gone")
	for name, test := range map[string]struct {
		end  func(*conn, context.CancelCauseFunc)
		want error
	}{
		"going on":   {func(*conn, context.CancelCauseFunc) {}, nil},
		"caller":     {func(_ *conn, cancel context.CancelCauseFunc) { cancel(gone) }, gone},
		"connection": {func(c *conn, _ context.CancelCauseFunc) { _ = c.Close() }, net.ErrClosed},
	} {
		n := newNear(1, 1)
		c, _, err := n.pool.get(t.Context(), way{account: "a"}, &url.URL{Scheme: "http", Host: "up.test"}, true)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := c.begin(ctx, 0, responseHeaderBytes); err != nil { // under watch from the start
			t.Fatal(err)
		}
		test.end(c, cancel)
		if err := c.readUntil(time.Now().Add(time.Hour)); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: got %v", name, err)
		}
		c.discard()
		cancel(nil)
	}
}

// TestADeadlineThatHasPassedIsNoSilence: that of a response which was there in time
// may pass while its connection is idle, and past it a socket can't be looked at.
func TestADeadlineThatHasPassedIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, until := range map[string]time.Time{"none": {}, "to come": now.Add(time.Hour), "now": now, "passed": now.Add(-time.Second)} {
			for _, where := range []depth{inMemory, onSocket} {
				n := newNear(1, 1)
				c, _, err := n.pool.get(t.Context(), way{account: "a"}, &url.URL{Scheme: "http", Host: "up.test"}, true)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(c.begin(t.Context(), 0, responseHeaderBytes), c.readUntil(until)); err != nil {
					t.Fatal(err)
				}
				if !c.quiet(where) {
					t.Errorf("a deadline %s: the connection is not used again", name)
				}
				c.discard()
				if c.quiet(onSocket) {
					t.Errorf("a deadline %s: a closed connection is used again", name)
				}
			}
		}
	})
}

// TestADeadlineIsLiftedForWhatIsStillToCome: a body may take any time, and one that
// has come with its head needs none.
func TestADeadlineIsLiftedForWhatIsStillToCome(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		lifted bool
	}{
		"all is there":   {"Content-Length: 2\r\n\r\nok", false},
		"more is there":  {"Content-Length: 2\r\n\r\nokay", false},
		"a byte misses":  {"Content-Length: 3\r\n\r\nok", true},
		"nothing yet":    {"Content-Length: 2\r\n\r\n", true},
		"in chunks":      {"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		"until it ends":  {"\r\nok", true},
		"there is none":  {"Content-Length: 0\r\n\r\n", false},
		"none in chunks": {"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+test.answer)
					_, _ = io.Copy(io.Discard, conn)
				}
			})
			var lifted bool
			d := &direct{maxHeaderBytes: responseHeaderBytes}
			d.pool = pool{perHost: 1, most: 1, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return deadlines{conn, &lifted}, err
			}}
			response, err := d.send(way{account: "a"}, time.Hour, request(t, t.Context(), http.MethodGet, address), nil)
			if err != nil {
				t.Fatal(err)
			}
			if lifted != test.lifted {
				t.Errorf("lifted: %v", lifted)
			}
			response.Body.Close()
			d.pool.close()
		})
	}
}

// deadlines tells whether reading has no deadline.
type deadlines struct {
	net.Conn
	lifted *bool
}

func (d deadlines) SetReadDeadline(t time.Time) error {
	*d.lifted = t.IsZero()
	return d.Conn.SetReadDeadline(t)
}

// TestTransportsAreForgottenAtTheirTime, each by its own.
func TestTransportsAreForgottenAtTheirTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ts transports
		ts.of(way{account: "a"})
		time.Sleep(time.Nanosecond)
		b := ts.of(way{account: "b"})
		time.Sleep(idleTimeout - time.Nanosecond)
		synctest.Wait()
		if len(ts.byAccount) != 1 || ts.of(way{account: "b"}) != b {
			t.Errorf("%d are kept", len(ts.byAccount))
		}
		time.Sleep(idleTimeout)
		synctest.Wait()
		if len(ts.byAccount) != 0 || ts.sweeping {
			t.Errorf("%d are kept, sweeping: %v", len(ts.byAccount), ts.sweeping)
		}
	})
}

// TestNoMoreIdleConnectionsAreClosedThanHaveTo: those of whom was not heard for
// longest, until there is room.
func TestNoMoreIdleConnectionsAreClosedThanHaveTo(t *testing.T) {
	url, connections := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
		for {
			request, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, request.Body)
			_, _ = io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		}
	})
	c := newClient(t, Options{MaxIdle: 3})
	for i, test := range []struct {
		account    string
		made, open int
	}{
		{"a", 1, 1},
		{"b", 2, 2},
		{"c", 3, 3}, // as many as may be
		{"a", 3, 3},
		{"d", 4, 3}, // in the place of b's
		{"c", 4, 3},
		{"a", 4, 3},
		{"d", 4, 3},
		{"b", 5, 3}, // in the place of c's
		{"a", 5, 3},
		{"d", 5, 3},
	} {
		response, err := c.Client.Account(test.account).Send(post(t, url), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if made, open := int(connections.Load()), int(c.transports.open.Load()); made != test.made || open != test.open {
			t.Errorf("request %d, of %s: %d connections were made and %d are open, want %d and %d", i, test.account, made, open, test.made, test.open)
		}
	}
}

// TestADeadHTTP2ConnectionIsFound: many requests share one, and each would wait
// for all of its time. A ping goes out after 15 s without a byte and has 10 s.
func TestADeadHTTP2ConnectionIsFound(t *testing.T) {
	server, client := certificates(t)
	server.NextProtos, server.SessionTicketsDisabled = []string{"h2"}, true
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		ts := transports{options: Options{TLS: client, TLSTimeout: time.Minute, ResponseTimeout: time.Hour, MaxIdle: 1}}
		ts.dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			wg.Go(func() {
				conn := tls.Server(theirs, server)
				wg.Go(func() { _, _ = io.Copy(io.Discard, conn) })
				_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS, and not another word
			})
			return ours, nil
		}
		start := time.Now()
		r := request(t, t.Context(), http.MethodGet, "https://up.test/")
		response, err := ts.of(way{account: "a"}).RoundTrip(r)
		if err == nil {
			response.Body.Close()
		}
		if took := time.Since(start); err == nil || took != 25*time.Second {
			t.Errorf("it ended after %v with %v", took, err)
		}
		ts.close()
		wg.Wait()
	})
}
