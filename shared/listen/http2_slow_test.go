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

// dialFrames opens a connection in a bubble.
func (p pipes) dialFrames(t *testing.T, s *secure, settings ...http2.Setting) *framed {
	t.Helper()
	ours, theirs := net.Pipe()
	p <- theirs
	return s.framesOver(t, ours, settings...)
}

// TestHTTP2BodyThatStallsIsEnded, and with it its request alone.
func TestHTTP2BodyThatStallsIsEnded(t *testing.T) {
	inFrames(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			return
		}
		began := time.Now()
		_, err := io.ReadAll(r.Body)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(context.Cause(r.Context()), os.ErrDeadlineExceeded) {
			t.Errorf("the body ended with %v, the request with %v", err, context.Cause(r.Context()))
		}
		if took := time.Since(began); took != 35*time.Second { // from the last byte on
			t.Errorf("it stalled for %v", took)
		}
		w.WriteHeader(http.StatusRequestTimeout)
	}, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s)
		id := f.request(true, posted("/")...)
		synctest.Wait()
		time.Sleep(15 * time.Second)
		f.must(f.WriteData(id, false, []byte("a")))
		if got := f.answer(id); got.status != "408" {
			t.Errorf("got %+v", got)
		}
		if got := f.answer(f.request(false, usual("/")...)); got.status != "200" {
			t.Errorf("the next is told %+v", got)
		}
	})
}

// TestHTTP2SlowIsNotStalled: a byte now and then is enough, and a body that nobody reads for a
// while is not the client's fault.
func TestHTTP2SlowIsNotStalled(t *testing.T) {
	inFrames(t, func(_ http.ResponseWriter, r *http.Request) {
		time.Sleep(time.Hour)
		if body, err := io.ReadAll(r.Body); string(body) != "aaaaa" || err != nil {
			t.Errorf("the body is %q, %v", body, err)
		}
	}, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s)
		id := f.request(true, posted("/")...)
		time.Sleep(time.Hour)
		for i := range 5 {
			f.must(f.WriteData(id, i == 4, []byte("a")))
			time.Sleep(19 * time.Second)
		}
		if got := f.answer(id); got.status != "200" {
			t.Errorf("got %+v", got)
		}
	})
}

// TestHTTP2ReaderThatStallsIsEnded: a window that is never opened holds its own stream up, for a
// while, and no other.
func TestHTTP2ReaderThatStallsIsEnded(t *testing.T) {
	type end struct {
		took time.Duration
		err  error
	}
	for name, write := range map[string]func(http.ResponseWriter) error{
		"a long answer": func(w http.ResponseWriter) error {
			_, err := io.WriteString(w, strings.Repeat("x", 1<<20))
			return err
		},
		"a flush": func(w http.ResponseWriter) error {
			_, _ = io.WriteString(w, "x")
			return http.NewResponseController(w).Flush()
		},
	} {
		ended := make(chan end, 1)
		inFrames(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/other" {
				return
			}
			began := time.Now()
			err := write(w)
			<-r.Context().Done()
			ended <- end{time.Since(began), err}
		}, func(t *testing.T, s *secure, p pipes) {
			f := p.dialFrames(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			id := f.request(false, usual("/")...)
			synctest.Wait()
			if got := f.answer(f.request(false, usual("/other")...)); got.status != "200" {
				t.Errorf("%s: another is told %+v", name, got)
			}
			if got := f.answer(id); !got.reset {
				t.Errorf("%s: %+v", name, got)
			}
			if got := <-ended; got.took != time.Minute || !errors.Is(got.err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: it stalled for %v: %v", name, got.took, got.err)
			}
		})
	}
	// What is left when the handler has returned.
	inFrames(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "x") }, func(t *testing.T, s *secure, p pipes) {
		f, began := p.dialFrames(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}), time.Now()
		if got := f.answer(f.request(false, usual("/")...)); !got.reset || time.Since(began) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(began), got)
		}
	})
}

// TestHTTP2QuietStreamsLive: nothing comes for hours, and what was written is taken little by
// little.
func TestHTTP2QuietStreamsLive(t *testing.T) {
	inFrames(t, func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, strings.Repeat("x", 16<<10))
			if err := http.NewResponseController(w).Flush(); err != nil || r.Context().Err() != nil {
				t.Errorf("flush: %v, %v", err, r.Context().Err())
			}
			time.Sleep(5 * time.Hour)
		}
	}, func(t *testing.T, s *secure, p pipes) {
		f := p.dialFrames(t, s, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		id := f.request(false, usual("/")...)
		go func() {
			for range 3 {
				time.Sleep(59 * time.Second)
				f.must(f.WriteWindowUpdate(id, 16<<10))
				time.Sleep(5*time.Hour - 59*time.Second)
			}
		}()
		if got := f.answer(id); len(got.body) != 3*16<<10 || got.reset {
			t.Errorf("got %d bytes, %+v", len(got.body), got.code)
		}
	})
}

// TestHTTP2ConnectionWithoutAHeadEnds: what has begun none, or comes to no end with it.
func TestHTTP2ConnectionWithoutAHeadEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(*testing.T, *framed)
		want time.Duration // and two seconds
	}{
		"settings alone":  {func(*testing.T, *framed) {}, 20 * time.Second},
		"half of a frame": {func(t *testing.T, f *framed) { _, _ = f.Conn.Write([]byte{0, 0, 9, 1}) }, 20 * time.Second},
		"a head without its end": {func(_ *testing.T, f *framed) {
			f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: f.encode(usual("/")...), EndStream: true}))
		}, 20 * time.Second},
		"idle": {func(t *testing.T, f *framed) {
			if got := f.answer(f.request(false, usual("/")...)); got.status != "200" {
				t.Errorf("%+v", got)
			}
		}, 2 * time.Minute},
		"the second head without its end": {func(_ *testing.T, f *framed) {
			f.answer(f.request(false, usual("/")...))
			f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: f.encode(usual("/")...), EndStream: true}))
		}, 2 * time.Minute},
	} {
		inFrames(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s *secure, p pipes) {
			f, began := p.dialFrames(t, s), time.Now()
			synctest.Wait()
			tt.do(t, f)
			f.ends()
			if took := time.Since(began); took < tt.want || took > tt.want+2*time.Second {
				t.Errorf("%s: it ends after %v", name, took)
			}
			synctest.Wait()
			if n := s.Connections(); n != 0 {
				t.Errorf("%s: %d connections are left", name, n)
			}
		})
	}
	inFrames(t, func(http.ResponseWriter, *http.Request) {}, func(t *testing.T, s *secure, p pipes) {
		ours, theirs := net.Pipe()
		p <- theirs
		f, began := s.handshakeOver(t, ours), time.Now()
		f.ends()
		if took := time.Since(began); took != 20*time.Second {
			t.Errorf("without a preface it ends after %v", took)
		}
	})
}

// TestHTTP2ClientThatTakesNothingIsEnded: the connection is the one that stands still.
func TestHTTP2ClientThatTakesNothingIsEnded(t *testing.T) {
	var stalled atomic.Int64
	inFrames(t, func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		_, _ = io.WriteString(w, strings.Repeat("x", 1<<20))
		<-r.Context().Done()
		stalled.Store(int64(time.Since(began)))
	}, func(t *testing.T, s *secure, p pipes) {
		ours, theirs := net.Pipe()
		p <- theirs
		stopping := &stopped{Conn: ours, open: make(chan struct{})}
		f := s.framesOver(t, stopping, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4 << 20})
		f.must(f.WriteWindowUpdate(0, 4<<20))
		synctest.Wait()
		stopping.stop.Store(true)
		f.request(false, usual("/")...)
		time.Sleep(2 * time.Minute)
		if took := time.Duration(stalled.Load()); took < time.Minute || took > 72*time.Second {
			t.Errorf("it stalled for %v", took)
		}
		close(stopping.open)
		f.ends()
		if n := s.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
}

// stopped is a connection of which no more is read once it is to stop.
type stopped struct {
	net.Conn
	stop atomic.Bool
	open chan struct{}
}

func (s *stopped) Read(p []byte) (int, error) {
	n, err := s.Conn.Read(p)
	if s.stop.Load() {
		<-s.open
	}
	return n, err
}
