package listen_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/gatewright/gatewright/shared/dataplane/listen"
)

// TestHTTP2FloodsCloseTheConnection sends many frames that cost their sender next to nothing, and checks
// that the server closes the connection before it has accepted frames with 4 MiB of frame headers.
func TestHTTP2FloodsCloseTheConnection(t *testing.T) {
	for name, send := range map[string]func(f *frameClient, open uint32) error{
		"pings":           func(f *frameClient, _ uint32) error { return f.WritePing(false, [8]byte{}) },
		"acknowledgments": func(f *frameClient, _ uint32) error { return f.WritePing(true, [8]byte{}) },
		"settings": func(f *frameClient, _ uint32) error {
			return f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 16})
		},
		"priorities": func(f *frameClient, open uint32) error {
			return f.WritePriority(open, http2.PriorityParam{Weight: 1})
		},
		"window updates": func(f *frameClient, _ uint32) error { return f.WriteWindowUpdate(0, 1) },
		"empty data":     func(f *frameClient, open uint32) error { return f.WriteData(open, false, nil) },
		"padding": func(f *frameClient, open uint32) error {
			return f.WriteDataPadded(open, false, nil, make([]byte, 255))
		},
		"frames of an unknown type": func(f *frameClient, _ uint32) error {
			return f.WriteRawFrame(0xfa, 0, 0, make([]byte, 1<<10))
		},
		"resets of idle streams": func(f *frameClient, open uint32) error {
			return f.WriteRSTStream(open+2, http2.ErrCodeCancel)
		},
		"a head without end": func(f *frameClient, _ uint32) error {
			return f.WriteContinuation(f.lastStream+2, false, f.encode("x", "y"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			runHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
			}, func(t *testing.T, s *tlsServer, p pipes) {
				f := p.dialFrames(t, s)
				open := f.request(true, postFields("/")...)
				synctest.Wait()
				if name == "a head without end" {
					f.must(f.WriteHeaders(http2.HeadersFrameParam{StreamID: open + 2, BlockFragment: f.encode(getFields("/")...)}))
				}
				const limit = 4 << 20 / 9
				sent := 0
				for sent < limit && send(f, open) == nil {
					sent++
				}
				if sent == limit {
					t.Errorf("the server accepted all %d frames, want the connection closed before", sent)
				}
				f.waitClosed()
				synctest.Wait()
				if n := s.Connections(); n != 0 {
					t.Errorf("Connections() = %d, want 0", n)
				}
			})
		})
	}
}

// TestHTTP2NormalTrafficIsNotAFlood checks that the server does not close connections
// with long responses, refused bodies, bodies in many small frames, and many pings.
func TestHTTP2NormalTrafficIsNotAFlood(t *testing.T) {
	const size = 16 << 20
	s := newHTTP2Server(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.Copy(w, io.LimitReader(zeros{}, size))
			return
		}
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}, nil)
	transport := s.transport(t)
	if _, body := s.do(t, transport, http.MethodGet, "/", ""); len(body) != size {
		t.Errorf("GET /: %d bytes, want %d", len(body), size)
	}
	for range 10 {
		if response, _ := s.do(t, transport, http.MethodPost, "/refused",
			strings.Repeat("x", 1<<20)); response.StatusCode != http.StatusForbidden {
			t.Errorf("POST /refused: status = %s, want 403", response.Status)
		}
	}
	f := s.dialFrames(t)
	id := f.request(true, postFields("/")...)
	for range 20_000 { // each message is a frame and a TLS record
		f.must(f.WriteData(id, false, []byte("message")))
	}
	f.must(f.WriteData(id, true, nil))
	if got := f.waitResult(id); got.status != "200" {
		t.Errorf("many messages in one request: result = %+v, want status 200", got)
	}
	if text := s.log.String(); strings.Contains(text, "floods") { // the transport would have opened another connection
		t.Errorf("log = %s, want no connection that was ended because of a flood", text)
	}
	runHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s)
		f.request(false, getFields("/")...)
		for range 20_000 {
			f.must(f.WritePing(false, [8]byte{}))
			time.Sleep(10 * time.Millisecond)
		}
		if n := s.Connections(); n != 1 {
			t.Errorf("Connections() = %d, want 1", n)
		}
	})
}

// zeros is a reader without an end. Its bytes do not matter, so Read leaves p unchanged.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestHTTP2RapidResetClosesTheConnection checks that the connection of a client that cancels very many
// requests is closed, with fast and slow handlers. A client that cancels every second request is served.
func TestHTTP2RapidResetClosesTheConnection(t *testing.T) {
	for name, tc := range map[string]struct {
		delay   time.Duration // how long a handler continues after its request was canceled
		started bool          // whether the test waits until a request has started before it cancels the request
	}{
		"fast handlers": {}, "slow handlers": {delay: time.Second},
		"requests one after another": {started: true},
	} {
		var handled atomic.Int32
		runHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
			handled.Add(1)
			<-r.Context().Done()
			time.Sleep(tc.delay)
		}, func(t *testing.T, s *tlsServer, p pipes) {
			f := p.dialFrames(t, s)
			for range 10_000 {
				f.lastStream += 2
				id := f.lastStream + 1
				if f.WriteHeaders(http2.HeadersFrameParam{
					StreamID: id, BlockFragment: f.encode(getFields("/")...),
					EndHeaders: true, EndStream: true,
				}) != nil {
					break
				}
				if tc.started {
					synctest.Wait()
				}
				if f.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
					break
				}
			}
			startTime := time.Now()
			f.waitClosed()
			if elapsed := time.Since(startTime); elapsed > 2*time.Second || handled.Load() > 1000 {
				t.Errorf("%s: closed after %v and %d handler calls, want at most 2 s and 1000", name, elapsed, handled.Load())
			}
			time.Sleep(tc.delay)
			synctest.Wait()
			if n := s.Connections(); n != 0 {
				t.Errorf("%s: Connections() = %d, want 0", name, n)
			}
		})
	}
	runHTTP2(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/waits" {
			<-r.Context().Done()
		}
	}, func(t *testing.T, s *tlsServer, p pipes) {
		f := p.dialFrames(t, s)
		for range 1000 {
			f.must(f.WriteRSTStream(f.request(false, getFields("/waits")...), http2.ErrCodeCancel))
			synctest.Wait()
			if got := f.waitResult(f.request(false, getFields("/")...)); got.status != "200" {
				t.Fatalf("GET / after a reset: result = %+v, want status 200", got)
			}
		}
	})
}

// TestHTTP2ConcurrentRequestsAreLimited checks the limit of 100 concurrent requests per connection, and
// the total limit, for which each concurrent request of a connection after the first counts as a connection.
func TestHTTP2ConcurrentRequestsAreLimited(t *testing.T) {
	release := make(chan struct{})
	var waiting sync.WaitGroup
	s := newHTTP2Server(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			waiting.Done()
			<-release
		}
	}, func(o *listen.Options) { o.Settings.Connections = 110 })
	first := s.dialFrames(t)
	waiting.Add(100)
	var firstIDs []uint32
	for range 100 {
		firstIDs = append(firstIDs, first.request(false, getFields("/")...))
	}
	waiting.Wait()
	if got := first.waitResult(first.request(false, getFields("/")...)); !got.reset {
		t.Errorf("GET / over the limit of the connection: result = %+v, want a reset", got)
	}
	// Open nine more connections. The limit of 110 then allows two requests on one of them.
	second := s.dialFrames(t)
	for range 8 {
		s.dialFrames(t)
	}
	eventually(t, func() bool { return s.Connections() == 10 })
	waiting.Add(2)
	secondIDs := []uint32{second.request(false, getFields("/")...), second.request(false, getFields("/")...)}
	waiting.Wait()
	if got := second.waitResult(second.request(false, getFields("/")...)); got.status != "503" ||
		got.contentType != "application/problem+json" {
		t.Errorf("GET / over the limit of the server: result = %+v, want 503 as application/problem+json", got)
	}
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(newClient(t, c)); len(b) > 0 {
		t.Errorf("connection over the limit: response = %q, want none", b)
	}
	close(release)
	for _, id := range firstIDs {
		if got := first.waitResult(id); got.status != "200" {
			t.Fatalf("GET / within the limits: result = %+v, want status 200", got)
		}
	}
	for _, id := range secondIDs {
		if got := second.waitResult(id); got.status != "200" {
			t.Fatalf("GET / of the second connection within the limits: result = %+v, want status 200", got)
		}
	}
	waiting.Add(20)
	for range 20 {
		secondIDs = append(secondIDs, second.request(false, getFields("/")...))
	}
	if got := second.waitResult(secondIDs[len(secondIDs)-1]); got.status != "200" {
		t.Errorf("GET / after the others have ended: result = %+v, want status 200", got)
	}
}
