package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	sharedlimits "github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// TestOrdinaryResponseStopsCountingAsStream checks that responses that are not streams do not count as streams: a
// slow ordinary response to a client that accepts only server-sent events, a response to HEAD, and a response
// without a body.
func TestOrdinaryResponseStopsCountingAsStream(t *testing.T) {
	var received atomic.Int64
	backend := newStreamServer(t, &received)
	emptyServer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
	}))
	t.Cleanup(emptyServer.Close)
	a := artifact(route("GET /nothing", rewrite(emptyServer.URL)), route("HEAD /events", rewrite(emptyServer.URL)))
	for _, path := range []string{"/long", "/events"} {
		a.Routes = append(a.Routes, route("GET "+path, rewrite(backend.URL+path)))
	}
	h := newFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.NewProcessStreams(1) })
	acceptEvents := "Accept: text/event-stream"
	if status, line, _ := openStream(t, h, "/long", acceptEvents); status != http.StatusOK || line != "data: one\n" {
		t.Fatalf("GET /long: status = %d, first line = %q, want 200 and data: one", status, line)
	}
	if status, line, _ := openStream(t, h, "/events", acceptEvents); status != http.StatusOK || line != "data: one\n" {
		t.Fatalf("GET /events during the long response: status = %d, first line = %q, want 200 and data: one", status, line)
	}
	if status, line, _ := openStream(t, h, "/events", acceptEvents); status != http.StatusTooManyRequests {
		t.Fatalf("GET /events, second stream: status = %d, first line = %q, want 429", status, line)
	}
	if r := h.do(t, http.MethodGet, "/nothing"); r.StatusCode != http.StatusOK {
		t.Errorf("GET /nothing: status = %d, want 200", r.StatusCode)
	}
	if r := h.do(t, http.MethodHead, "/events"); r.StatusCode != http.StatusOK {
		t.Errorf("HEAD /events: status = %d, want 200", r.StatusCode)
	}
}

// blockingStreams implements Streams. Begin sends its context to
// contexts, waits until blocked is closed, and then refuses the stream.
type blockingStreams struct {
	contexts chan context.Context
	blocked  chan struct{}
}

func (s blockingStreams) Begin(ctx context.Context, _ string) (func(), *fault.Fault, error) {
	s.contexts <- ctx
	select {
	case <-s.blocked:
	case <-time.After(deadline.Timeout()):
	}
	return nil, sharedlimits.FunctionStreams.Refusal(3, 3, time.Second), nil
}

// unreadConn is a connection that closes blocked at its first write.
// Its client reads nothing, so the write blocks until its deadline.
type unreadConn struct {
	net.Conn
	once    sync.Once
	blocked chan struct{}
}

func (u *unreadConn) Write(p []byte) (int, error) {
	u.once.Do(func() { close(u.blocked) })
	return u.Conn.Write(p)
}

// singleListener is a listener with one connection.
type singleListener chan net.Conn

func (s singleListener) Accept() (net.Conn, error) {
	if conn, ok := <-s; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (s singleListener) Addr() net.Addr { return &net.TCPAddr{} }

func (s singleListener) Close() error {
	close(s)
	return nil
}

// TestSlowResponseStaysAStream checks that a request stays counted as a stream until its response ends if the response
// begins after StreamThreshold.
func TestSlowResponseStaysAStream(t *testing.T) {
	streams, release := &streamRecorder{}, make(chan struct{})
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for streams.started.Load() == 0 && r.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(backend.Close)
	h := newFixture(t, artifact(route("GET /slow", rewrite(backend.URL))), func(c *gateway.Config, _ *upstream.Options) {
		c.Streams, c.StreamThreshold = streams, time.Millisecond
	})
	r := h.do(t, http.MethodGet, "/slow")
	if finished := streams.finished.Load(); finished != 0 {
		t.Errorf("streams that ended when the response began = %d, want 0", finished)
	}
	close(release)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		t.Fatalf("Copy(body of GET /slow) error = %v, want nil", err)
	}
	h.Close()
	if started, finished := streams.started.Load(), streams.finished.Load(); started != 1 || finished != 1 {
		t.Errorf("streams started = %d, ended = %d, want 1 and 1", started, finished)
	}
}

// TestUnreadLongResponseIsEnded checks that a long response that is refused as a stream ends, even if the gateway waits
// for the client to read. It also checks that Streams.Begin gets a context with the values of the request's context.
func TestUnreadLongResponseIsEnded(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 64<<10)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	t.Cleanup(backend.Close)
	streams := blockingStreams{make(chan context.Context, 1), make(chan struct{})}
	h := newFixture(t, artifact(route("GET /long", rewrite(backend.URL))), func(c *gateway.Config, _ *upstream.Options) {
		c.Streams, c.StreamThreshold = streams, 100*time.Millisecond
	})
	type contextKey struct{}
	done := make(chan struct{})
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(done)
			h.gateway.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, "the request's")))
		}),
	}
	client, serverConn := net.Pipe()
	listener := make(singleListener, 1)
	listener <- &unreadConn{Conn: serverConn, blocked: streams.blocked}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	if _, err := io.WriteString(client, "GET /long HTTP/1.1\r\nHost: shop.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case ctx := <-streams.contexts:
		if ctx.Value(contextKey{}) == nil {
			t.Error("context of Streams.Begin does not have the value of the request's context, want it")
		}
	case <-time.After(deadline.Timeout()):
		t.Fatalf("GET /long: no call of Streams.Begin within %s, want one", deadline.Timeout())
	}
	select {
	case <-done:
	case <-time.After(deadline.Timeout()):
		t.Errorf("GET /long: the refused response has not ended within %s, want it ended", deadline.Timeout())
	}
	if log := h.log.String(); !strings.Contains(log, "a long answer was ended") {
		t.Errorf("log after the response was ended = %q, want \"a long answer was ended\"", log)
	}
}
