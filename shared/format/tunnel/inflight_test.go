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

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestRequestIsInFlightUntilBodyEnds checks several ways to end a request. Draining a connection must wait for its
// requests in flight, and for nothing else.
func TestRequestIsInFlightUntilBodyEnds(t *testing.T) {
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
	canceled := func(r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		time.AfterFunc(10*time.Millisecond, cancel)
		*r = *r.WithContext(ctx)
	}
	for _, tt := range []struct {
		name, target string
		option       func(*http.Request)
		read         bool // whether the body is read to its end before it is closed
	}{
		{name: "read and closed", read: true},
		{name: "closed", target: "/wait"},
		{name: "aborted by the service", target: "/break"},
		{name: "canceled", target: "/wait", option: canceled, read: true},
		{name: "canceled before the response", target: "/silent", option: canceled},
		{name: "switched and closed", option: upgrade("odd")},
		{name: "refused switch", option: upgrade("even"), read: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t, service)
			fx.run(fx.options())
			fx.get("/") // waits until the agent knows its services
			option := tt.option
			if option == nil {
				option = func(*http.Request) {}
			}
			for range 4 { // over any of the connections
				response, err := fx.do(http.MethodGet, tt.target, nil, option)
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
			for _, l := range fx.relay.ForTunnel(tunnelID) {
				for range 2 { // Drain can be called several times
					if err := l.Drain(ctx); err != nil {
						t.Errorf("Drain() = %v, want nil: the request has ended", err)
					}
				}
			}
		})
	}
}

// TestDrainEnds checks that Drain ends with its context and with the
// connection, while a response is in flight that the client does not read.
func TestDrainEnds(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	o := fx.options()
	o.Backoff = func(ctx context.Context, _ int) error { // the agent does not connect again
		<-ctx.Done()
		return ctx.Err()
	}
	fx.run(o)
	response, err := fx.do(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	errTimeout := errors.New("enough")
	for _, l := range fx.relay.ForTunnel(tunnelID) {
		ctx, cancel := context.WithCancelCause(t.Context())
		drained := make(chan error, 1)
		go func() { drained <- l.Drain(ctx) }()
		time.AfterFunc(10*time.Millisecond, func() { cancel(errTimeout) })
		// Drain returns context.Canceled if the context ends while the agent is being notified.
		if err := <-drained; err != nil && !errors.Is(err, errTimeout) && !errors.Is(err, context.Canceled) {
			t.Errorf("Drain() = %v, want nil, %v or %v", err, errTimeout, context.Canceled)
		}
		go func() { drained <- l.Drain(t.Context()) }()
		l.Close()
		<-drained
	}
}

// TestUnconfiguredAgentGetsNoRequests checks that an agent that refuses its list of services gets no requests.
func TestUnconfiguredAgentGetsNoRequests(t *testing.T) {
	for _, endpoint := range []string{"ftp://files.internal", "http://", "/path", "%", "http://[::1"} {
		fx := newFixture(t, http.NotFoundHandler())
		fx.services[0].Endpoint = endpoint
		var failed, open atomic.Int64
		o := fx.options()
		o.Notify = func(n int) { open.Add(int64(n)) }
		o.OnFailure = func(error, int, time.Duration) { failed.Add(1) }
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = tunnel.NewAgent(o).Run(ctx, time.Millisecond)
		}()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		fx.waitFor(func() bool {
			if response, err := fx.relay.RoundTrip(r, tunnelID, "api", shop); !errors.Is(err, tunnel.ErrNoAgent) {
				t.Fatalf("RoundTrip() with endpoint %q = %v, %v, want %v", endpoint, response, err, tunnel.ErrNoAgent)
			}
			return failed.Load() > 4
		})
		stop()
		<-done
		if open.Load() != 0 {
			t.Errorf("open connections with endpoint %q = %d, want 0", endpoint, open.Load())
		}
	}
}
