package tunnel_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestStoppedAgentLosesNoRequests repeatedly stops one of two agents while
// clients send requests that cannot be repeated. All requests must succeed.
func TestStoppedAgentLosesNoRequests(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	fx.run(fx.options())
	response, err := fx.do(http.MethodGet, "/", nil) // wait until the agent knows its services
	readBody(t, response, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var requests atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.service/", strings.NewReader("x"))
				response, err := fx.relay.RoundTrip(r, tunnelID, "api", shop)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("RoundTrip() = %v, want a response", err)
						cancel()
					}
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				requests.Add(1)
			}
		})
	}
	for range 20 {
		second := fx.run(fx.options())
		before := requests.Load()
		fx.waitFor(func() bool { return requests.Load() > before+20 || ctx.Err() != nil })
		_ = second.stopAndWait()
		fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 2 || ctx.Err() != nil })
	}
	cancel()
	wg.Wait()
}

// TestGracePeriodAbortsRequests stops an agent whose service does not respond,
// and checks that the agent aborts the request after its grace period.
func TestGracePeriodAbortsRequests(t *testing.T) {
	started, done := make(chan struct{}), make(chan struct{})
	fx := newFixture(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end of the client's connection only while it reads
		close(started)
		<-r.Context().Done()
		close(done)
	}))
	ctx, stop := context.WithCancel(t.Context())
	agent := make(chan error, 1)
	go func() { agent <- tunnel.NewAgent(fx.options()).Run(ctx, time.Millisecond) }()
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 2 })
	result := make(chan error, 1)
	go func() {
		_, err := fx.do(http.MethodPost, "/", strings.NewReader("x"))
		result <- err
	}()
	<-started
	stop()
	if err := <-agent; !errors.Is(err, tunnel.ErrAborted) || !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v, want %v and %v", err, context.Canceled, tunnel.ErrAborted)
	}
	if err := <-result; !errors.Is(err, tunnel.ErrBroken) {
		t.Errorf("error of the aborted request = %v, want %v", err, tunnel.ErrBroken)
	}
	<-done
}

// TestAgentEndsWithoutItsRelay stops an agent whose relay is
// unreachable. The agent must not wait for its whole grace period.
func TestAgentEndsWithoutItsRelay(t *testing.T) {
	runInBubble(t, func(t *testing.T, _ *tunnel.Relay, ws *wireNetwork, end func()) {
		for _, w := range ws.all() {
			w.dropData()
		}
		start := time.Now()
		if end(); time.Since(start) > 10*time.Second {
			t.Errorf("time to stop = %v, want at most 10s", time.Since(start))
		}
	})
}

// TestIdleAgentStopsImmediately checks that the relay ends connections without requests when an agent announces its
// shutdown.
func TestIdleAgentStopsImmediately(t *testing.T) {
	runInBubble(t, func(t *testing.T, _ *tunnel.Relay, _ *wireNetwork, end func()) {
		start := time.Now()
		if end(); !time.Now().Equal(start) {
			t.Errorf("time to stop = %v, want 0", time.Since(start))
		}
	})
}
