package listen_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// dialFrames opens a connection in memory, for tests in a synctest bubble.
func (p pipes) dialFrames(t *testing.T, s *tlsServer, settings ...http2.Setting) *frameClient {
	t.Helper()
	clientEnd, serverEnd := net.Pipe()
	p <- serverEnd
	return s.handshakeFrames(t, clientEnd, settings...)
}

// TestHTTP2StalledBodyTimesOut checks that the request of a stalled body
// ends after BodyTimeout, and that the connection serves further requests.
func TestHTTP2StalledBodyTimesOut(t *testing.T) {
	runHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
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
	}, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s)
		id := f.request(true, postFields("/")...)
		synctest.Wait()
		time.Sleep(15 * time.Second)
		f.must(f.WriteData(id, false, []byte("a")))
		if got := f.waitResult(id); got.status != "408" {
			t.Errorf("POST with a stalled body: result = %+v, want status 408", got)
		}
		if got := f.waitResult(f.request(false, getFields("/")...)); got.status != "200" {
			t.Errorf("GET / after the POST: result = %+v, want status 200", got)
		}
	})
}

// TestHTTP2SlowClientIsNotStalled checks that a body does not time out if the
// client sends a byte in each BodyTimeout, or while the handler does not read.
func TestHTTP2SlowClientIsNotStalled(t *testing.T) {
	runHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		if body, err := io.ReadAll(r.Body); string(body) != "aaaaa" || err != nil {
			t.Errorf("ReadAll(slow body) = %q, %v, want %q", body, err, "aaaaa")
		}
	}, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s)
		id := f.request(true, postFields("/")...)
		time.Sleep(time.Hour)
		for i := range 5 {
			f.must(f.WriteData(id, i == 4, []byte("a")))
			time.Sleep(19 * time.Second)
		}
		if got := f.waitResult(id); got.status != "200" {
			t.Errorf("POST with a slow body: result = %+v, want status 200", got)
		}
	})
}

// TestHTTP2StalledReaderTimesOut checks that a stream ends if its client never
// enlarges the window, and that other requests on the connection are served meanwhile.
func TestHTTP2StalledReaderTimesOut(t *testing.T) {
	type writeResult struct {
		took time.Duration
		err  error
	}
	for name, write := range map[string]func(http.ResponseWriter) error{
		"a long response": func(w http.ResponseWriter) error {
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			return err
		},
		"a flush": func(w http.ResponseWriter) error {
			_, _ = io.WriteString(w, "x")
			return http.NewResponseController(w).Flush()
		},
	} {
		results := make(chan writeResult, 1)
		runHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/other" {
				return
			}
			startTime := time.Now()
			err := write(w)
			<-r.Context().Done()
			results <- writeResult{time.Since(startTime), err}
		}, func(t *testing.T, s *tlsServer, p pipes) {
			f := p.dialFrames(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			id := f.request(false, getFields("/")...)
			synctest.Wait()
			if got := f.waitResult(f.request(false, getFields("/other")...)); got.status != "200" {
				t.Errorf("%s: GET /other: result = %+v, want status 200", name, got)
			}
			if got := f.waitResult(id); !got.reset {
				t.Errorf("%s: GET / of a client that does not read: result = %+v, want a reset", name, got)
			}
			if got := <-results; got.took != time.Minute || !errors.Is(got.err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: write ended after %v with %v, want %v after 1 minute",
					name, got.took, got.err, os.ErrDeadlineExceeded)
			}
		})
	}
	// Also check bytes that are not sent when the handler returns.
	runHTTP2(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "x")
	}, func(t *testing.T, s *tlsServer, p pipes) {
		f, startTime := p.dialFrames(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), time.Now()
		if got := f.waitResult(f.request(false, getFields("/")...)); !got.reset || time.Since(startTime) != time.Minute {
			t.Errorf("GET / of a client that does not read: result = %+v after %v, want a reset after 1 minute",
				got, time.Since(startTime))
		}
	})
}

// TestHTTP2QuietStreamsStayOpen checks that a stream without data for hours stays
// open, even if the client waits for almost SendTimeout before it enlarges the window.
func TestHTTP2QuietStreamsStayOpen(t *testing.T) {
	runHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, strings.Repeat("x", 16<<10))
			if err := http.NewResponseController(w).Flush(); err != nil || r.Context().Err() != nil {
				t.Errorf("Flush() = %v, error of the context = %v, want none", err, r.Context().Err())
			}
			time.Sleep(5 * time.Hour)
		}
	}, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		id := f.request(false, getFields("/")...)
		go func() {
			for range 3 {
				time.Sleep(59 * time.Second)
				f.must(f.WriteWindowUpdate(id, 16<<10))
				time.Sleep(5*time.Hour - 59*time.Second)
			}
		}()
		if got := f.waitResult(id); len(got.body) != 3*16<<10 || got.reset {
			t.Errorf("GET of a quiet stream: result = %d bytes, reset %t with %v, want %d bytes and no reset",
				len(got.body), got.reset, got.code, 3*16<<10)
		}
	})
}

// TestHTTP2ConnectionWithoutHeadTimesOut checks when connections without a head, or with an incomplete head, are closed.
func TestHTTP2ConnectionWithoutHeadTimesOut(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(*testing.T, *frameClient)
		want time.Duration // plus at most two seconds
	}{
		"only settings":   {func(*testing.T, *frameClient) {}, 20 * time.Second},
		"half of a frame": {func(t *testing.T, f *frameClient) { _, _ = f.Conn.Write([]byte{0, 0, 9, 1}) }, 20 * time.Second},
		"an incomplete head": {func(_ *testing.T, f *frameClient) {
			f.must(f.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 1, BlockFragment: f.encode(getFields("/")...),
				EndStream: true,
			}))
		}, 20 * time.Second},
		"idle": {func(t *testing.T, f *frameClient) {
			if got := f.waitResult(f.request(false, getFields("/")...)); got.status != "200" {
				t.Errorf("GET /: result = %+v, want status 200", got)
			}
		}, 2 * time.Minute},
		"an incomplete second head": {func(_ *testing.T, f *frameClient) {
			f.waitResult(f.request(false, getFields("/")...))
			f.must(f.WriteHeaders(http2.HeadersFrameParam{
				StreamID: 3, BlockFragment: f.encode(getFields("/")...),
				EndStream: true,
			}))
		}, 2 * time.Minute},
	} {
		runHTTP2(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s *tlsServer, p pipes) {
			f, startTime := p.dialFrames(t, s), time.Now()
			synctest.Wait()
			tt.do(t, f)
			f.waitClosed()
			if elapsed := time.Since(startTime); elapsed < tt.want || elapsed > tt.want+2*time.Second {
				t.Errorf("%s: closed after %v, want %v to %v", name, elapsed, tt.want, tt.want+2*time.Second)
			}
			synctest.Wait()
			if n := s.Connections(); n != 0 {
				t.Errorf("%s: Connections() = %d, want 0", name, n)
			}
		})
	}
	runHTTP2(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s *tlsServer, p pipes) {
		clientEnd, serverEnd := net.Pipe()
		p <- serverEnd
		f, startTime := s.handshake(t, clientEnd), time.Now()
		f.waitClosed()
		if elapsed := time.Since(startTime); elapsed != 20*time.Second {
			t.Errorf("connection without a preface closed after %v, want 20 s", elapsed)
		}
	})
}

// TestHTTP2ClientThatDoesNotReadIsClosed checks that the connection of a client
// that reads nothing is closed after SendTimeout.
func TestHTTP2ClientThatDoesNotReadIsClosed(t *testing.T) {
	var endedAfter atomic.Int64 // in nanoseconds
	runHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		startTime := time.Now()
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		<-r.Context().Done()
		endedAfter.Store(int64(time.Since(startTime)))
	}, func(t *testing.T, s *tlsServer, p pipes) {
		clientEnd, serverEnd := net.Pipe()
		p <- serverEnd
		pausable := &pausableConn{Conn: clientEnd, resume: make(chan struct{})}
		f := s.handshakeFrames(t, pausable, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4 << 20})
		f.must(f.WriteWindowUpdate(0, 4<<20))
		synctest.Wait()
		pausable.paused.Store(true)
		f.request(false, getFields("/")...)
		time.Sleep(2 * time.Minute)
		if elapsed := time.Duration(endedAfter.Load()); elapsed < time.Minute || elapsed > 72*time.Second {
			t.Errorf("request canceled after %v, want 60 to 72 s (0: not canceled in 2 minutes)", elapsed)
		}
		close(pausable.resume)
		f.waitClosed()
		if n := s.Connections(); n != 0 {
			t.Errorf("Connections() = %d, want 0", n)
		}
	})
}

// pausableConn is a connection whose reads, while it is paused, return only after resume is closed.
type pausableConn struct {
	net.Conn
	paused atomic.Bool
	resume chan struct{}
}

func (c *pausableConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.paused.Load() {
		<-c.resume
	}
	return n, err
}
