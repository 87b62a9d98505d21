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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	sharedlimits "github.com/gatewright/gatewright/shared/limits"
)

// TestWhatWasAnnouncedAndIsNoStreamCountsNoLonger: an ordinary answer that takes its time has no room that a stream needs, nor has the head of a
// stream, or one without a body.
func TestWhatWasAnnouncedAndIsNoStreamCountsNoLonger(t *testing.T) {
	var asked atomic.Int64
	up := streamer(t, &asked)
	nothing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") }))
	t.Cleanup(nothing.Close)
	a := artifact(route("GET /nothing", rewrite(nothing.URL)), route("HEAD /events", rewrite(nothing.URL)))
	for _, path := range []string{"/long", "/events"} {
		a.Routes = append(a.Routes, route("GET "+path, rewrite(up.URL+path)))
	}
	h := newHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Streams = gateway.ProcessStreams(1) })
	announces := "Accept: text/event-stream"
	if status, line, _ := begin(t, h, "/long", announces); status != http.StatusOK || line != "data: one\n" {
		t.Fatalf("a long answer is %d, %q", status, line)
	}
	if status, line, _ := begin(t, h, "/events", announces); status != http.StatusOK || line != "data: one\n" {
		t.Fatalf("a stream beside it is %d, %q", status, line)
	}
	if status, line, _ := begin(t, h, "/events", announces); status != http.StatusTooManyRequests {
		t.Fatalf("a second stream is %d, %q", status, line)
	}
	if r := h.do(t, http.MethodGet, "/nothing"); r.StatusCode != http.StatusOK {
		t.Errorf("an answer without a body is %d", r.StatusCode)
	}
	if r := h.do(t, http.MethodHead, "/events"); r.StatusCode != http.StatusOK {
		t.Errorf("the head of a stream is %d", r.StatusCode)
	}
}

// asking tells what streams are begun with, and refuses them once blocked is closed, or will not be: one that is
// counted before its head is there waits for this.
type asking struct {
	contexts chan context.Context
	blocked  chan struct{}
}

func (a asking) Begin(ctx context.Context, _ string) (func(), *fault.Fault, error) {
	a.contexts <- ctx
	select {
	case <-a.blocked:
	case <-time.After(deadline.Long()):
	}
	return nil, sharedlimits.FunctionStreams.Refusal(3, 3, time.Second), nil
}

// unread is a connection whose client reads nothing: a write goes on until its deadline.
type unread struct {
	net.Conn
	once    sync.Once
	blocked chan struct{}
}

func (u *unread) Write(p []byte) (int, error) {
	u.once.Do(func() { close(u.blocked) })
	return u.Conn.Write(p)
}

// single is a listener with one connection.
type single chan net.Conn

func (s single) Accept() (net.Conn, error) {
	if conn, ok := <-s; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (s single) Addr() net.Addr { return &net.TCPAddr{} }

func (s single) Close() error {
	close(s)
	return nil
}

// TestLongAnswerIsEndedThatItsClientDoesNotRead: the gateway waits for the client then, and not for the upstream. Who counts has the request's
// context, which knows when an invocation ends.
func TestLongAnswerIsEndedThatItsClientDoesNotRead(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := make([]byte, 64<<10)
		for {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	}))
	t.Cleanup(up.Close)
	streams := asking{make(chan context.Context, 1), make(chan struct{})}
	h := newHouse(t, artifact(route("GET /long", rewrite(up.URL))), func(c *gateway.Config, _ *upstream.Options) {
		c.Streams, c.StreamsAfter = streams, 100*time.Millisecond
	})
	type mark struct{}
	ended := make(chan struct{})
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			defer close(ended)
			h.gateway.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), mark{}, "the request's")))
		}),
	}
	client, its := net.Pipe()
	listener := make(single, 1)
	listener <- &unread{Conn: its, blocked: streams.blocked}
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
		if ctx.Value(mark{}) == nil {
			t.Error("a stream is counted without the request's context")
		}
	case <-time.After(deadline.Long()):
		t.Fatal("a long answer is not counted")
	}
	select {
	case <-ended:
	case <-time.After(deadline.Long()):
		t.Error("it goes on for as long as its client likes")
	}
	if log := h.log.String(); !strings.Contains(log, "a long answer was ended") {
		t.Errorf("the log says %q", log)
	}
}
