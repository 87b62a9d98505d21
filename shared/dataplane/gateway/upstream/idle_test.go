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

// inlineClient is a client whose peer needs no goroutine, so that a test's fake clock
// does not move during a request. The peer responds to each request with reply.
type inlineClient struct {
	direct
	peer *scriptedServer
}

func newInlineClient(perHost, maxIdle int) *inlineClient {
	n := &inlineClient{peer: newScriptedServer(script{method: http.MethodGet, bytes: []byte(reply)}, nil)}
	n.direct = direct{maxHeaderBytes: responseHeaderBytes}
	n.pool = pool{dial: n.peer.dial, perHost: perHost, maxIdle: maxIdle}
	return n
}

func (c *inlineClient) mustSend(t *testing.T, account string) *http.Response {
	t.Helper()
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Scheme: "http", Host: "up.test", Path: "/"},
		Header: http.Header{},
	}
	response, err := c.send(identity{account: account}, time.Minute, r.WithContext(t.Context()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// readReply reads a response, which releases its connection.
func readReply(t *testing.T, response *http.Response) {
	t.Helper()
	if all, err := io.ReadAll(response.Body); err != nil || string(all) != "own" {
		t.Errorf("ReadAll(response) = %q, %v, want own", all, err)
	}
	_ = response.Body.Close()
}

// wantIdle checks the number of idle connections and the number of dials. It
// also checks that the pool is sweeping exactly while it has idle connections.
func (c *inlineClient) wantIdle(t *testing.T, idle, dialed int) {
	t.Helper()
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	all := 0
	for _, stack := range c.pool.idle {
		all += len(stack)
	}
	if all != idle || c.pool.count != idle || c.peer.dialed != dialed {
		t.Errorf("idle connections = %d, counted = %d, dialed = %d, want %d idle of %d dialed",
			all, c.pool.count, c.peer.dialed, idle, dialed)
	}
	if c.pool.sweeping != (idle > 0) || idle == 0 && len(c.pool.idle) > 0 {
		t.Errorf("sweeping = %t, hosts in the pool = %d, want %t and no host without idle connections",
			c.pool.sweeping, len(c.pool.idle), idle > 0)
	}
}

// TestIdleConnectionIsReusedUntilItsTimeout checks that a connection is reused just before its timeout, but not at the
// timeout, because the server can close its end at any moment from then on.
func TestIdleConnectionIsReusedUntilItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInlineClient(4, 4)
		defer n.pool.close()
		readReply(t, n.mustSend(t, "a"))
		n.wantIdle(t, 1, 1)
		time.Sleep(idleTimeout - time.Nanosecond) // just before the connection's timeout
		readReply(t, n.mustSend(t, "a"))
		n.wantIdle(t, 1, 1)
		time.Sleep(idleTimeout - time.Nanosecond)
		readReply(t, n.mustSend(t, "a"))
		n.wantIdle(t, 1, 1)
		time.Sleep(idleTimeout)
		readReply(t, n.mustSend(t, "a"))
		n.wantIdle(t, 1, 2)
	})
}

// TestSweepRemovesOnlyExpiredConnections checks that a sweep removes the connection whose timeout has passed, and keeps
// another connection that is a nanosecond younger. A later sweep removes the younger connection, too.
func TestSweepRemovesOnlyExpiredConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newInlineClient(4, 4)
		readReply(t, n.mustSend(t, "a"))
		time.Sleep(time.Nanosecond)
		readReply(t, n.mustSend(t, "b"))
		n.wantIdle(t, 2, 2)
		time.Sleep(idleTimeout - time.Nanosecond)
		synctest.Wait()
		n.wantIdle(t, 1, 2)
		readReply(t, n.mustSend(t, "b")) // uses the remaining connection
		n.wantIdle(t, 1, 2)
		time.Sleep(idleTimeout)
		synctest.Wait()
		n.wantIdle(t, 0, 2)
	})
}

// TestIdleConnectionsPerHostAreLimited checks the limit for a host of an account, and the limit of the whole pool.
func TestIdleConnectionsPerHostAreLimited(t *testing.T) {
	n := newInlineClient(2, 3)
	t.Cleanup(n.pool.close)
	sendAll := func(account string, times int) {
		open := make([]*http.Response, times)
		for i := range open {
			open[i] = n.mustSend(t, account)
		}
		for _, response := range open {
			readReply(t, response)
		}
	}
	sendAll("a", 1)
	n.wantIdle(t, 1, 1)
	sendAll("a", 2)
	n.wantIdle(t, 2, 2)
	sendAll("a", 3)
	n.wantIdle(t, 2, 3)
	sendAll("b", 1)
	n.wantIdle(t, 3, 4)
	sendAll("b", 2)
	n.wantIdle(t, 3, 5)
	readReply(t, n.mustSend(t, "b")) // uses the newest connection
	n.wantIdle(t, 3, 5)
}

// TestDeadlineDoesNotOverrideCanceledContext checks that readUntil returns an error if the request was canceled, or if
// the connection was closed. The caller must then not read, because the new deadline may have replaced the deadline
// that ends reads.
func TestDeadlineDoesNotOverrideCanceledContext(t *testing.T) {
	errDisconnected := errors.New("the caller has disconnected")
	for name, test := range map[string]struct {
		end  func(*conn, context.CancelCauseFunc)
		want error
	}{
		"nothing ends": {func(*conn, context.CancelCauseFunc) {}, nil},
		"the caller disconnects": {
			func(_ *conn, cancel context.CancelCauseFunc) { cancel(errDisconnected) }, errDisconnected,
		},
		"the connection is closed": {func(c *conn, _ context.CancelCauseFunc) { _ = c.Close() }, net.ErrClosed},
	} {
		n := newInlineClient(1, 1)
		c, _, err := n.pool.get(t.Context(), identity{account: "a"}, &url.URL{Scheme: "http", Host: "up.test"}, true)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		if err := c.begin(ctx, 0, responseHeaderBytes); err != nil { // the context is watched at once
			t.Fatal(err)
		}
		test.end(c, cancel)
		if err := c.readUntil(time.Now().Add(time.Hour)); !errors.Is(err, test.want) || (err == nil) != (test.want == nil) {
			t.Errorf("%s: readUntil() = %v, want %v", name, err, test.want)
		}
		c.discard()
		cancel(nil)
	}
}

// TestConnectionIsIdleAfterPassedDeadline checks that a connection is usable although the deadline of its last response
// has passed while it was idle. isIdle must remove the deadline first, because a socket can't be checked after it.
func TestConnectionIsIdleAfterPassedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for name, deadline := range map[string]time.Time{
			"no deadline": {}, "a future deadline": now.Add(time.Hour), "a deadline at this moment": now,
			"a passed deadline": now.Add(-time.Second),
		} {
			for _, depth := range []checkDepth{inMemory, onSocket} {
				n := newInlineClient(1, 1)
				c, _, err := n.pool.get(t.Context(), identity{account: "a"}, &url.URL{Scheme: "http", Host: "up.test"}, true)
				if err != nil {
					t.Fatal(err)
				}
				if err := errors.Join(c.begin(t.Context(), 0, responseHeaderBytes), c.readUntil(deadline)); err != nil {
					t.Fatal(err)
				}
				if !c.isIdle(depth) {
					t.Errorf("isIdle(depth %d) with %s = false, want true", depth, name)
				}
				c.discard()
				if c.isIdle(onSocket) {
					t.Errorf("isIdle() after discard() with %s = true, want false", name)
				}
			}
		}
	})
}

// TestDeadlineIsRemovedForTheBody checks that the deadline is removed for a body, which
// may take any time, and is not changed if the whole body has arrived with the head.
func TestDeadlineIsRemovedForTheBody(t *testing.T) {
	for name, test := range map[string]struct {
		responseText string
		removed      bool
	}{
		"a complete body":                    {"Content-Length: 2\r\n\r\nok", false},
		"more bytes than the length":         {"Content-Length: 2\r\n\r\nokay", false},
		"a missing byte":                     {"Content-Length: 3\r\n\r\nok", true},
		"no byte of the body":                {"Content-Length: 2\r\n\r\n", true},
		"a chunked body":                     {"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", true},
		"a body until the connection closes": {"\r\nok", true},
		"an empty body":                      {"Content-Length: 0\r\n\r\n", false},
		"an empty chunked body":              {"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := bytesServer(t, func(r *bufio.Reader, conn net.Conn) {
				if _, err := http.ReadRequest(r); err == nil {
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\n"+test.responseText)
					_, _ = io.Copy(io.Discard, conn)
				}
			})
			var removed bool
			d := &direct{maxHeaderBytes: responseHeaderBytes}
			d.pool = pool{perHost: 1, maxIdle: 1, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
				return deadlineRecorder{conn, &removed}, err
			}}
			response, err := d.send(identity{account: "a"}, time.Hour, request(t, t.Context(), http.MethodGet, address), nil)
			if err != nil {
				t.Fatal(err)
			}
			if removed != test.removed {
				t.Errorf("deadline removed = %t, want %t", removed, test.removed)
			}
			response.Body.Close()
			d.pool.close()
		})
	}
}

// deadlineRecorder records whether the last call of SetReadDeadline has removed the deadline.
type deadlineRecorder struct {
	net.Conn
	removed *bool
}

func (d deadlineRecorder) SetReadDeadline(t time.Time) error {
	*d.removed = t.IsZero()
	return d.Conn.SetReadDeadline(t)
}

// TestUnusedTransportsAreRemovedAfterTheirTimeout checks that a transport is removed when it was unused for
// idleTimeout. A transport that was used a nanosecond later is kept, and is removed when it was unused for idleTimeout,
// too.
func TestUnusedTransportsAreRemovedAfterTheirTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ts transports
		ts.get(identity{account: "a"})
		time.Sleep(time.Nanosecond)
		b := ts.get(identity{account: "b"})
		time.Sleep(idleTimeout - time.Nanosecond)
		synctest.Wait()
		if n := len(ts.byIdentity); n != 1 {
			t.Errorf("transports after the timeout of account a = %d, want 1", n)
		}
		if ts.get(identity{account: "b"}) != b {
			t.Error("get(b) after the timeout of account a = a new transport, want the same as before")
		}
		time.Sleep(idleTimeout)
		synctest.Wait()
		if len(ts.byIdentity) != 0 || ts.sweeping {
			t.Errorf("transports after both timeouts = %d, sweeping = %t, want 0 and false", len(ts.byIdentity), ts.sweeping)
		}
	})
}

// TestOnlyExcessIdleConnectionsAreClosed checks that no more connections are closed
// than the limit requires, and those of the least recently used accounts first.
func TestOnlyExcessIdleConnectionsAreClosed(t *testing.T) {
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
		account      string
		opened, open int
	}{
		{"a", 1, 1},
		{"b", 2, 2},
		{"c", 3, 3}, // the maximum number
		{"a", 3, 3},
		{"d", 4, 3}, // closes b's connection
		{"c", 4, 3},
		{"a", 4, 3},
		{"d", 4, 3},
		{"b", 5, 3}, // closes c's connection
		{"a", 5, 3},
		{"d", 5, 3},
	} {
		response, err := c.Client.Account(test.account).Send(post(t, url), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if opened, open := int(connections.Load()), int(c.transports.openConns.Load()); opened != test.opened ||
			open != test.open {
			t.Errorf("request %d, of %s: opened connections = %d, open connections = %d, want %d and %d",
				i, test.account, opened, open, test.opened, test.open)
		}
	}
}

// TestDeadHTTP2ConnectionIsDetected checks that a request on a dead connection fails after
// 25 s: a ping is sent after 15 s without a byte, and its response has to arrive within ten
// seconds. Without pings, each request on the connection would wait for its whole timeout.
func TestDeadHTTP2ConnectionIsDetected(t *testing.T) {
	server, client := certificates(t)
	server.NextProtos, server.SessionTicketsDisabled = []string{"h2"}, true
	synctest.Test(t, func(t *testing.T) {
		var wg sync.WaitGroup
		ts := transports{options: Options{TLS: client, TLSTimeout: time.Minute, ResponseTimeout: time.Hour, MaxIdle: 1}}
		ts.dial = func(context.Context, string, string) (net.Conn, error) {
			clientEnd, serverEnd := net.Pipe()
			wg.Go(func() {
				conn := tls.Server(serverEnd, server)
				wg.Go(func() { _, _ = io.Copy(io.Discard, conn) })
				_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // a SETTINGS frame, and nothing after it
			})
			return clientEnd, nil
		}
		start := time.Now()
		r := request(t, t.Context(), http.MethodGet, "https://up.test/")
		response, err := ts.get(identity{account: "a"}).RoundTrip(r)
		if err == nil {
			response.Body.Close()
		}
		if elapsed := time.Since(start); err == nil || elapsed != 25*time.Second {
			t.Errorf("request on a dead connection ended after %v with %v, want an error after 25 s", elapsed, err)
		}
		ts.close()
		wg.Wait()
	})
}
