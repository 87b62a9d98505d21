package tunnel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestRequestIsUnderWayUntilItIsOver, however it ends: a connection that drains waits for those that are,
// and for no other.
func TestRequestIsUnderWayUntilItIsOver(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/break"):
			panic(http.ErrAbortHandler)
		case strings.HasSuffix(r.URL.Path, "/wait"):
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case strings.HasSuffix(r.URL.Path, "/silent"):
			<-r.Context().Done()
		case r.Header.Get("Upgrade") == "odd":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: odd\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn)
		default:
			_, _ = io.WriteString(w, "text")
		}
	})
	upgrade := func(protocol string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Upgrade", protocol) }
	}
	cancelled := func(r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		*r = *r.WithContext(ctx)
	}
	for _, tt := range []struct {
		name, target string
		with         func(*http.Request)
		read         bool // to its end, before it is closed
	}{
		{name: "read and closed", read: true},
		{name: "closed", target: "/wait"},
		{name: "broken off by the service", target: "/break"},
		{name: "cancelled", target: "/wait", with: cancelled, read: true},
		{name: "cancelled before its answer", target: "/silent", with: cancelled},
		{name: "switched and closed", with: upgrade("odd")},
		{name: "not switched", with: upgrade("even"), read: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, service)
			w.run(w.options())
			text(t, first(w.ask(http.MethodGet, "/", nil)), nil)
			with := tt.with
			if with == nil {
				with = func(*http.Request) {}
			}
			for range 4 { // of whichever connection
				response, err := w.ask(http.MethodGet, tt.target, nil, with)
				if err != nil {
					continue
				}
				if tt.read {
					_, _ = io.Copy(io.Discard, response.Body)
				}
				_ = response.Body.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout/4)
			defer cancel()
			for _, l := range w.relay.Of(tunnelID) {
				for range 2 { // who drains may be asked to by another too
					if err := l.Drain(ctx); err != nil {
						t.Errorf("it is under way for ever: %v", err)
					}
				}
			}
		})
	}
}

// TestDrainEnds with its context and with the connection, while an answer is under way that nobody
// reads.
func TestDrainEnds(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	o := w.options()
	o.Pause = func(ctx context.Context, _ int) error { // it does not come back
		<-ctx.Done()
		return ctx.Err()
	}
	w.run(o)
	response, err := w.ask(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	enough := errors.New("enough")
	for _, l := range w.relay.Of(tunnelID) {
		ctx, cancel := context.WithCancelCause(t.Context())
		drained := make(chan error, 1)
		go func() { drained <- l.Drain(ctx) }()
		time.AfterFunc(10*time.Millisecond, func() { cancel(enough) })
		if err := <-drained; err != nil && !errors.Is(err, enough) && !errors.Is(err, context.Canceled) { // the latter while the agent is told
			t.Errorf("it ends with %v", err)
		}
		go func() { drained <- l.Drain(t.Context()) }()
		l.Close()
		<-drained
	}
}

// TestAgentThatDoesNotTakeItsServicesIsAskedNothing: it knows none of them.
func TestAgentThatDoesNotTakeItsServicesIsAskedNothing(t *testing.T) {
	for _, endpoint := range []string{"ftp://files.internal", "http://", "/path", "%", "http://[::1"} {
		w := newWorld(t, http.NotFoundHandler())
		w.services[0].Endpoint = endpoint
		var failed, open atomic.Int64
		o := w.options()
		o.Notify = func(n int) { open.Add(int64(n)) }
		o.Failed = func(error, int, time.Duration) { failed.Add(1) }
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = tunnel.NewAgent(o).Run(ctx, time.Millisecond)
		}()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		w.until(func() bool {
			if response, err := w.relay.RoundTrip(r, tunnelID, "api", shop); !errors.Is(err, tunnel.ErrNoAgent) {
				t.Fatalf("with the endpoint %q it answers %v, %v", endpoint, response, err)
			}
			return failed.Load() > 4
		})
		stop()
		<-ended
		if open.Load() != 0 {
			t.Errorf("with the endpoint %q a connection counts", endpoint)
		}
	}
}
