package listen_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener for connections in memory, for tests with a fake clock.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// dial opens a connection in memory.
func (p pipes) dial(t *testing.T) *client {
	t.Helper()
	clientEnd, serverEnd := net.Pipe()
	p <- serverEnd
	return newClient(t, clientEnd)
}

// runWithPipes runs a test in a synctest bubble, with a server.
func runWithPipes(t *testing.T, h http.HandlerFunc, test func(*testing.T, pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		start(t, p, h)
		test(t, p)
	})
}

// untilClosed waits until the server ends the connection, and returns how long that took.
func (c *client) untilClosed() time.Duration {
	c.t.Helper()
	startTime := time.Now()
	c.mustEnd()
	return time.Since(startTime)
}

// post is the head of a POST with a body of 100 bytes.
const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"

// TestStalledBodyTimesOut checks that reading a body fails BodyTimeout after its last byte, and that the connection
// ends after the response.
func TestStalledBodyTimesOut(t *testing.T) {
	for name, head := range map[string]string{
		"length":  post,
		"chunked": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			runWithPipes(t, func(w http.ResponseWriter, r *http.Request) {
				startTime := time.Now()
				_, err := io.ReadAll(r.Body)
				if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(context.Cause(r.Context()), os.ErrDeadlineExceeded) {
					t.Errorf("ReadAll(stalled body) error = %v, cause of the request's context = %v, want %v",
						err, context.Cause(r.Context()), os.ErrDeadlineExceeded)
				}
				if elapsed := time.Since(startTime); elapsed != 35*time.Second { // 20 s after the last byte
					t.Errorf("ReadAll(stalled body) took %v, want 35 s", elapsed)
				}
				w.WriteHeader(http.StatusRequestTimeout)
			}, func(t *testing.T, p pipes) {
				c := p.dial(t).send(head)
				time.Sleep(15 * time.Second)
				c.send("a")
				if response, _ := c.readResponse(); response.StatusCode != http.StatusRequestTimeout || !response.Close {
					t.Errorf("POST with a stalled body: status = %s, Close = %t, want 408 and true", response.Status, response.Close)
				}
				c.mustEnd()
			})
		})
	}
}

// TestSlowClientIsNotStalled checks that a body does not time out if the client sends a byte in each
// BodyTimeout, or while the handler does not read. A client that reads the response slowly receives all of it.
func TestSlowClientIsNotStalled(t *testing.T) {
	runWithPipes(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) != 100 {
			t.Errorf("ReadAll(slow body) = %d bytes, %v, want 100", len(body), err)
		}
		w.Header().Set("Content-Length", "1000")
		for range 1000 {
			if _, err := io.WriteString(w, "x"); err != nil {
				t.Errorf("WriteString() to a slow client: error = %v, want none", err)
			}
			_ = http.NewResponseController(w).Flush()
		}
	}, func(t *testing.T, p pipes) {
		c := p.dial(t).send(post)
		time.Sleep(time.Hour)
		for range 100 {
			time.Sleep(19 * time.Second)
			c.send("a")
		}
		reader := bufio.NewReaderSize(slow{c}, 16)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Fatalf("ReadResponse() of a slow client: error = %v, want none", err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || len(body) != 1000 {
			t.Errorf("ReadAll(response) = %d bytes, %v, want 1000", len(body), err)
		}
	})
}

// slow waits for 50 s before each read, and then reads at most 16 bytes.
type slow struct{ r io.Reader }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(50 * time.Second)
	return s.r.Read(p[:min(len(p), 16)])
}

// TestStalledReaderTimesOut checks that a write fails after SendTimeout if the client does not read, and that the
// context of the request is then canceled.
func TestStalledReaderTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, elapsedTimes := make(pipes), make(chan time.Duration)
		start(t, p, func(w http.ResponseWriter, r *http.Request) {
			startTime := time.Now()
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("WriteString() to a client that does not read: error = %v, want %v", err, os.ErrDeadlineExceeded)
			}
			<-r.Context().Done()
			elapsedTimes <- time.Since(startTime)
		})
		c := p.dial(t).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
			t.Fatalf("reading the first 100 bytes: error = %v, want none", err)
		}
		if elapsed := <-elapsedTimes; elapsed < time.Minute || elapsed > 66*time.Second {
			t.Errorf("WriteString() returned and the request's context was canceled after %v, want 60 to 66 s", elapsed)
		}
	})
}

// limitedBufferConn is a connection that accepts one byte of each of the next *bufferedWrites writes even if
// the client does not read, like the system's buffer of a TCP connection while it grows.
type limitedBufferConn struct {
	net.Conn
	bufferedWrites *int
}

func (c limitedBufferConn) Write(p []byte) (int, error) {
	if *c.bufferedWrites == 0 {
		return c.Conn.Write(p)
	}
	*c.bufferedWrites--
	n, err := c.Conn.Write(p[1:]) // the first byte stays in the buffer
	return n + 1, err
}

// TestStalledReaderTimeoutIsPrecise checks that a write to a client that no longer reads ends after 60 to
// 72 s, for different times of the client's last read, and even if the system still accepts a few bytes.
func TestStalledReaderTimeoutIsPrecise(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Second, 4 * time.Second, 59 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p, elapsedTimes, bufferedWrites := make(pipes), make(chan time.Duration), 0
			start(t, p, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("x", 10))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(delay)
				startTime := time.Now()
				bufferedWrites = 2
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
				elapsedTimes <- time.Since(startTime)
			})
			clientEnd, serverEnd := net.Pipe()
			p <- limitedBufferConn{serverEnd, &bufferedWrites}
			c := newClient(t, clientEnd)
			c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if response, err := http.ReadResponse(c.r, nil); err != nil {
				t.Fatalf("client that stops reading after %v: ReadResponse() error = %v, want none", delay, err)
			} else if _, err := io.ReadFull(response.Body, make([]byte, 10)); err != nil {
				t.Fatalf("client that stops reading after %v: reading 10 bytes: error = %v, want none", delay, err)
			}
			if elapsed := <-elapsedTimes; elapsed < time.Minute || elapsed > 72*time.Second {
				t.Errorf("write %v after the client's last read took %v, want 60 to 72 s", delay, elapsed)
			}
		})
	}
}

// TestQuietStreamsStayOpen checks that streams without data for hours stay open, in both directions.
func TestQuietStreamsStayOpen(t *testing.T) {
	runWithPipes(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.URL.Path == "/tunnel" {
			conn, buffered, err := control.Hijack()
			if err != nil {
				t.Errorf("Hijack(GET /tunnel) error = %v, want none", err)
				return
			}
			defer func() { _ = conn.Close() }()
			for range 3 {
				line, err := buffered.ReadString('\n')
				if err != nil {
					t.Errorf("ReadString() of the tunnel: error = %v, want none", err)
				}
				time.Sleep(5 * time.Hour)
				_, _ = io.WriteString(conn, line)
			}
			return
		}
		for range 3 {
			_, _ = io.WriteString(w, "x")
			if err := control.Flush(); err != nil || r.Context().Err() != nil {
				t.Errorf("Flush() = %v, error of the context = %v, want none", err, r.Context().Err())
			}
			time.Sleep(5 * time.Hour)
		}
	}, func(t *testing.T, p pipes) {
		if _, body := p.dial(t).send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n").readResponse(); body != "xxx" {
			t.Errorf("GET /events: body = %q, want %q", body, "xxx")
		}
		c := p.dial(t).send("GET /tunnel HTTP/1.1\r\nHost: a\r\n\r\n")
		for range 3 {
			time.Sleep(5 * time.Hour)
			if line, err := c.send("GET /\n").r.ReadString('\n'); err != nil || line != "GET /\n" {
				t.Errorf("GET /tunnel: line = %q, %v, want %q", line, err, "GET /\n")
			}
		}
	})
}

// TestIncompleteHeadTimesOut checks that HeaderTimeout limits the time for a head: the first and a later one, even if
// the client continues to send. A new connection without any byte is closed after the same time.
func TestIncompleteHeadTimesOut(t *testing.T) {
	runWithPipes(t, echo, func(t *testing.T, p pipes) {
		if elapsed := p.dial(t).untilClosed(); elapsed != 20*time.Second {
			t.Errorf("connection without a request closed after %v, want 20 s", elapsed)
		}
		// drip sends an incomplete head, one byte per second, and checks that the head is refused after 20 s.
		drip := func(c *client) {
			startTime, closed := time.Now(), make(chan struct{})
			go func() {
				defer close(closed)
				for _, b := range strings.Repeat("GET / HTTP/1.1\r\n", 3) {
					if _, err := io.WriteString(c, string(b)); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			defer func() {
				_ = c.Close()
				<-closed
			}()
			c.wantRefusal(http.StatusRequestTimeout)
			if elapsed := time.Since(startTime); elapsed != 20*time.Second {
				t.Errorf("incomplete head refused after %v, want 20 s", elapsed)
			}
		}
		drip(p.dial(t))
		c := p.dial(t).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		c.readResponse()
		time.Sleep(time.Minute)
		drip(c)
	})
}

// TestIdleConnectionTimesOut checks that a connection is closed IdleTimeout after its last response, and serves
// requests until then.
func TestIdleConnectionTimesOut(t *testing.T) {
	runWithPipes(t, echo, func(t *testing.T, p pipes) {
		c := p.dial(t)
		for range 3 {
			c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").readResponse()
			time.Sleep(119 * time.Second)
		}
		c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").readResponse()
		if elapsed := c.untilClosed(); elapsed != 2*time.Minute {
			t.Errorf("idle connection closed after %v, want 2 minutes", elapsed)
		}
	})
}

// TestRefusalDoesNotWaitForTheBody checks that a handler's refusal is sent before
// the request's body has arrived, for different bodies and sizes of the refusal.
func TestRefusalDoesNotWaitForTheBody(t *testing.T) {
	bodies := map[string]string{
		"no byte of the body":    "Content-Length: 1000\r\n\r\n",
		"a part":                 "Content-Length: 1000\r\n\r\nabc",
		"a part of a large body": "Content-Length: 100000000\r\n\r\nabc",
		"a part of a chunk":      "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
		"a whole chunk":          "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"Expect and a length":    "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
		"Expect and chunked":     "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	}
	for name, body := range bodies {
		for _, size := range []int{0, 10, 10_000} {
			t.Run(name+", refusal of "+strconv.Itoa(size)+" bytes", func(t *testing.T) {
				runWithPipes(t, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = io.WriteString(w, strings.Repeat("x", size))
				}, func(t *testing.T, p pipes) {
					startTime := time.Now()
					c := p.dial(t).send("POST / HTTP/1.1\r\nHost: a\r\n" + body)
					response, text := c.readResponse()
					if response.StatusCode != http.StatusUnauthorized || len(text) != size || !response.Close {
						t.Errorf("POST /: status = %s, %d bytes, Close = %t, want 401, %d bytes and true",
							response.Status, len(text), response.Close, size)
					}
					if elapsed := time.Since(startTime); elapsed > 10*time.Millisecond {
						t.Errorf("POST /: response after %v, want at most 10 ms", elapsed)
					}
					c.mustEnd()
				})
			})
		}
	}
}

// TestSendingClientReceivesTheRefusal checks that a client that continues to send receives the refusal, and not a reset.
func TestSendingClientReceivesTheRefusal(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	for head, want := range map[string]int{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n":     http.StatusUnauthorized,
		"POST / HTTP/1.1\r\nHost: a:80x\r\nContent-Length: 8000000\r\n\r\n": http.StatusBadRequest,
	} {
		c := dial(t, addr).send(head)
		for range 80 {
			c.send(strings.Repeat("x", 100_000))
		}
		if response, _ := c.readResponse(); response.StatusCode != want {
			t.Errorf("%q of a client that is sending: status = %s, want %d", head, response.Status, want)
		}
		c.mustEnd()
	}
}

// TestConnectionIsReusableAfterRefusalWithCompleteBody checks that a connection can
// be reused if a handler has not read the body, but all of the body has arrived.
func TestConnectionIsReusableAfterRefusalWithCompleteBody(t *testing.T) {
	c := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	for range 3 {
		for _, body := range []string{
			"Content-Length: 3\r\n\r\nabc",
			"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		} {
			if chunkedIsLast(t, body) {
				continue
			}
			if response, _ := c.send("POST / HTTP/1.1\r\nHost: a\r\n" +
				body).readResponse(); response.StatusCode != http.StatusUnauthorized || response.Close {
				t.Errorf("POST / with a complete body: status = %s, Close = %t, want 401 and false",
					response.Status, response.Close)
			}
		}
	}
}

// TestContinueIsSentWhenTheHandlerReads checks that the server sends 100 Continue when the handler reads the body.
func TestContinueIsSentWhenTheHandlerReads(t *testing.T) {
	c := dial(t, serve(t, echo)).send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n")
	if line, err := c.r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("POST / with Expect: first line = %q, %v, want 100 Continue", line, err)
	}
	if _, err := c.r.ReadString('\n'); err != nil {
		t.Fatalf("reading the empty line after 100 Continue: error = %v, want none", err)
	}
	if _, body := c.send("abc").readResponse(); body != "POST a / abc" {
		t.Errorf("POST /: body = %q, want %q", body, "POST a / abc")
	}
}

// TestFullDuplexHandlerKeepsReading checks that a handler with EnableFullDuplex can read the body while it writes the response.
func TestFullDuplexHandlerKeepsReading(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Errorf("EnableFullDuplex() error = %v, want none", err)
		}
		_ = control.Flush()
		_, _ = io.Copy(flushing{w}, r.Body)
	})
	c := dial(t, addr).send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatalf("ReadResponse() before the body was sent: error = %v, want none", err)
	}
	for range 10 {
		time.Sleep(3 * time.Millisecond) // the ten pauses together are longer than gracePeriod
		c.send("3\r\nabc\r\n")
		if _, err := io.ReadFull(response.Body, make([]byte, 3)); err != nil {
			t.Fatalf("reading the response to a chunk: error = %v, want none", err)
		}
	}
	c.send("0\r\n\r\n")
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("ReadAll() after the last chunk = %q, %v, want nothing and no error", rest, err)
	}
}

// flushing flushes the response after each write.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
