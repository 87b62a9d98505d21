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

// pipes is a listener in memory, for tests whose time is not the world's.
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

func (p pipes) dial(t *testing.T) *client {
	t.Helper()
	ours, theirs := net.Pipe()
	p <- theirs
	return newClient(t, ours)
}

// inTime runs a test in a bubble, with a server there.
func inTime(t *testing.T, h http.HandlerFunc, test func(*testing.T, pipes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := make(pipes)
		start(t, p, h)
		test(t, p)
	})
}

// ends waits until the server ends the connection, and answers after how long.
func (c *client) ends() time.Duration {
	c.t.Helper()
	began := time.Now()
	c.end()
	return time.Since(began)
}

const post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n"

func TestBodyThatStallsIsEnded(t *testing.T) {
	for name, head := range map[string]string{"length": post, "chunked": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"} {
		t.Run(name, func(t *testing.T) {
			inTime(t, func(w http.ResponseWriter, r *http.Request) {
				began := time.Now()
				_, err := io.ReadAll(r.Body)
				if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(context.Cause(r.Context()), os.ErrDeadlineExceeded) {
					t.Errorf("the body ended with %v, the request with %v", err, context.Cause(r.Context()))
				}
				if took := time.Since(began); took != 35*time.Second { // from the last byte on
					t.Errorf("it stalled for %v", took)
				}
				w.WriteHeader(http.StatusRequestTimeout)
			}, func(t *testing.T, p pipes) {
				c := p.dial(t).send(head)
				time.Sleep(15 * time.Second)
				c.send("a")
				if response, _ := c.answer(); response.StatusCode != http.StatusRequestTimeout || !response.Close {
					t.Errorf("got %s, closing %v", response.Status, response.Close)
				}
				c.end()
			})
		})
	}
}

// TestSlowIsNotStalled: a byte now and then is enough, and a body that nobody reads
// for a while is not the client's fault.
func TestSlowIsNotStalled(t *testing.T) {
	inTime(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		body, err := io.ReadAll(r.Body)
		if err != nil || len(body) != 100 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		w.Header().Set("Content-Length", "1000")
		for range 1000 {
			if _, err := io.WriteString(w, "x"); err != nil {
				t.Errorf("write: %v", err)
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
		answer := bufio.NewReaderSize(slow{c}, 16)
		response, err := http.ReadResponse(answer, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(response.Body); err != nil || len(body) != 1000 {
			t.Errorf("%d bytes, %v", len(body), err)
		}
	})
}

// slow reads a little and then waits.
type slow struct{ r io.Reader }

func (s slow) Read(p []byte) (int, error) {
	time.Sleep(50 * time.Second)
	return s.r.Read(p[:min(len(p), 16)])
}

func TestReaderThatStallsIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, ended := make(pipes), make(chan time.Duration)
		start(t, p, func(w http.ResponseWriter, r *http.Request) {
			began := time.Now()
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("write: %v", err)
			}
			<-r.Context().Done()
			ended <- time.Since(began)
		})
		c := p.dial(t).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		if took := <-ended; took < time.Minute || took > 66*time.Second {
			t.Errorf("it stalled for %v", took)
		}
	})
}

// sparing is a connection whose system's buffer takes a little of each of the first
// writes, as TCP's does while it grows.
type sparing struct {
	net.Conn
	left *int
}

func (s sparing) Write(p []byte) (int, error) {
	if *s.left == 0 {
		return s.Conn.Write(p)
	}
	*s.left--
	n, err := s.Conn.Write(p[1:]) // which nobody reads
	return n + 1, err
}

// TestReaderThatStallsHasItsTimeAndLittleMore, also where the system goes on taking
// bytes for it, and wherever in a client's time it has taken something last.
func TestReaderThatStallsHasItsTimeAndLittleMore(t *testing.T) {
	for _, pause := range []time.Duration{0, time.Second, 4 * time.Second, 59 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			p, ended, left := make(pipes), make(chan time.Duration), 0
			start(t, p, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("x", 10))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(pause)
				began := time.Now()
				left = 2
				_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
				ended <- time.Since(began)
			})
			ours, theirs := net.Pipe()
			p <- sparing{theirs, &left}
			c := newClient(t, ours)
			c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if response, err := http.ReadResponse(c.r, nil); err != nil {
				t.Fatal(err)
			} else if _, err := io.ReadFull(response.Body, make([]byte, 10)); err != nil {
				t.Fatal(err)
			}
			if took := <-ended; took < time.Minute || took > 72*time.Second {
				t.Errorf("after %v it stalled for %v", pause, took)
			}
		})
	}
}

// TestQuietStreamsLive: nothing comes for hours, from either side.
func TestQuietStreamsLive(t *testing.T) {
	inTime(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if r.URL.Path == "/tunnel" {
			conn, buffered, err := control.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			for range 3 {
				line, err := buffered.ReadString('\n')
				if err != nil {
					t.Error(err)
				}
				time.Sleep(5 * time.Hour)
				_, _ = io.WriteString(conn, line)
			}
			return
		}
		for range 3 {
			_, _ = io.WriteString(w, "x")
			if err := control.Flush(); err != nil || r.Context().Err() != nil {
				t.Errorf("flush: %v, %v", err, r.Context().Err())
			}
			time.Sleep(5 * time.Hour)
		}
	}, func(t *testing.T, p pipes) {
		if _, body := p.dial(t).send("GET /events HTTP/1.1\r\nHost: a\r\n\r\n").answer(); body != "xxx" {
			t.Errorf("got %q", body)
		}
		c := p.dial(t).send("GET /tunnel HTTP/1.1\r\nHost: a\r\n\r\n")
		for range 3 {
			time.Sleep(5 * time.Hour)
			if line, err := c.send("GET /\n").r.ReadString('\n'); err != nil || line != "GET /\n" {
				t.Errorf("got %q, %v", line, err)
			}
		}
	})
}

func TestHeadThatIsNeverWholeIsRefused(t *testing.T) {
	inTime(t, echo, func(t *testing.T, p pipes) {
		if took := p.dial(t).ends(); took != 20*time.Second {
			t.Errorf("a connection without a request ends after %v", took)
		}
		drip := func(c *client) {
			began, gone := time.Now(), make(chan struct{})
			go func() {
				defer close(gone)
				for _, b := range strings.Repeat("GET / HTTP/1.1\r\n", 3) {
					if _, err := io.WriteString(c, string(b)); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			defer func() {
				_ = c.Close()
				<-gone
			}()
			c.refused(http.StatusRequestTimeout)
			if took := time.Since(began); took != 20*time.Second {
				t.Errorf("the head took %v", took)
			}
		}
		drip(p.dial(t))
		c := p.dial(t).send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		c.answer()
		time.Sleep(time.Minute)
		drip(c)
	})
}

func TestIdleConnectionEnds(t *testing.T) {
	inTime(t, echo, func(t *testing.T, p pipes) {
		c := p.dial(t)
		for range 3 {
			c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer()
			time.Sleep(119 * time.Second)
		}
		c.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n").answer()
		if took := c.ends(); took != 2*time.Minute {
			t.Errorf("it was idle for %v", took)
		}
	})
}

// TestRefusalWaitsForNoBody, however much of it was announced, and however large
// the refusal is.
func TestRefusalWaitsForNoBody(t *testing.T) {
	bodies := map[string]string{
		"nothing":        "Content-Length: 1000\r\n\r\n",
		"a part":         "Content-Length: 1000\r\n\r\nabc",
		"a part of much": "Content-Length: 100000000\r\n\r\nabc",
		"chunked":        "Transfer-Encoding: chunked\r\n\r\n5\r\nabc",
		"a whole chunk":  "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
		"asks":           "Content-Length: 1000\r\nExpect: 100-continue\r\n\r\n",
		"asks in chunks": "Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n",
	}
	for name, body := range bodies {
		for _, size := range []int{0, 10, 10_000} {
			t.Run(name+" "+strconv.Itoa(size), func(t *testing.T) {
				inTime(t, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(http.StatusUnauthorized)
					_, _ = io.WriteString(w, strings.Repeat("x", size))
				}, func(t *testing.T, p pipes) {
					began := time.Now()
					c := p.dial(t).send("POST / HTTP/1.1\r\nHost: a\r\n" + body)
					response, text := c.answer()
					if response.StatusCode != http.StatusUnauthorized || len(text) != size || !response.Close {
						t.Errorf("got %s, %d bytes, closing %v", response.Status, len(text), response.Close)
					}
					if took := time.Since(began); took > 10*time.Millisecond {
						t.Errorf("the answer took %v", took)
					}
					c.end()
				})
			})
		}
	}
}

// TestRefusalIsReadByWhoSendsOn: no reset of the connection takes it away.
func TestRefusalIsReadByWhoSendsOn(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	for _, head := range []string{
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8000000\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a:80x\r\nContent-Length: 8000000\r\n\r\n",
	} {
		c := dial(t, addr).send(head)
		for range 80 {
			c.send(strings.Repeat("x", 100_000))
		}
		if response, _ := c.answer(); response.StatusCode/100 != 4 {
			t.Errorf("got %s", response.Status)
		}
		c.end()
	}
}

// TestRefusalLeavesAConnectionThatHasTheWholeBody usable.
func TestRefusalLeavesAConnectionThatHasTheWholeBody(t *testing.T) {
	c := dial(t, serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	for range 3 {
		for _, body := range []string{"Content-Length: 3\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"} {
			if chunkedIsLast(t, body) {
				continue
			}
			if response, _ := c.send("POST / HTTP/1.1\r\nHost: a\r\n" + body).answer(); response.StatusCode != http.StatusUnauthorized || response.Close {
				t.Errorf("got %s, closing %v", response.Status, response.Close)
			}
		}
	}
}

// TestBodyIsAskedForByWhoReadsIt: 100 Continue is a handler's.
func TestBodyIsAskedForByWhoReadsIt(t *testing.T) {
	c := dial(t, serve(t, echo)).send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-Continue\r\n\r\n")
	if line, err := c.r.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if _, err := c.r.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, body := c.send("abc").answer(); body != "POST a / abc" {
		t.Errorf("got %q", body)
	}
}

// TestDuplexHandlerReadsOn while it answers.
func TestDuplexHandlerReadsOn(t *testing.T) {
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		if err := control.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		_ = control.Flush()
		_, _ = io.Copy(flushing{w}, r.Body)
	})
	c := dial(t, addr).send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	response, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		time.Sleep(3 * time.Millisecond) // longer, together, than a refusal waits for a body
		c.send("3\r\nabc\r\n")
		if _, err := io.ReadFull(response.Body, make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
	}
	c.send("0\r\n\r\n")
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
}

type flushing struct{ http.ResponseWriter }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	_ = http.NewResponseController(f.ResponseWriter).Flush()
	return n, err
}
