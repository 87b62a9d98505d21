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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestStoppedAgentLosesNothing stops one of two agents again and again while requests are
// sent that nobody may send twice.
func TestStoppedAgentLosesNothing(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	w.run(w.options())
	response, err := w.ask(http.MethodGet, "/", nil) // until the agent knows its services, nobody is told that it is there
	text(t, response, err)
	ctx, over := context.WithCancel(t.Context())
	defer over()
	var asked atomic.Int64
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://api.service/", strings.NewReader("x"))
				response, err := w.relay.RoundTrip(r, tunnelID, "api", shop)
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("RoundTrip() = %v, want a response", err)
						over()
					}
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				asked.Add(1)
			}
		})
	}
	for range 20 {
		second := w.run(w.options())
		before := asked.Load()
		w.until(func() bool { return asked.Load() > before+20 || ctx.Err() != nil })
		_ = second.end()
		w.until(func() bool { return len(w.relay.Of(tunnelID)) == 2 || ctx.Err() != nil })
	}
	over()
	work.Wait()
}

// TestGraceEndsRequests stops an agent whose service does not answer.
func TestGraceEndsRequests(t *testing.T) {
	began, ended := make(chan struct{}), make(chan struct{})
	w := newWorld(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server looks for its client's end
		close(began)
		<-r.Context().Done()
		close(ended)
	}))
	ctx, stop := context.WithCancel(t.Context())
	agent := make(chan error, 1)
	go func() { agent <- tunnel.NewAgent(w.options()).Run(ctx, time.Millisecond) }()
	w.until(func() bool { return len(w.relay.Of(tunnelID)) == 2 })
	answer := make(chan error, 1)
	go func() {
		_, err := w.ask(http.MethodPost, "/", strings.NewReader("x"))
		answer <- err
	}()
	<-began
	stop()
	if err := <-agent; !errors.Is(err, tunnel.ErrCut) || !errors.Is(err, context.Canceled) {
		t.Errorf("the agent ends with %v, want ErrCut", err)
	}
	if err := <-answer; !errors.Is(err, tunnel.ErrBroken) {
		t.Errorf("the request ends with %v, want ErrBroken", err)
	}
	<-ended
}

// TestAgentEndsWithoutItsRelay stops one whose relay is gone, and expects it not to wait for
// an answer as long as it would for requests.
func TestAgentEndsWithoutItsRelay(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *tunnel.Relay, ws *wires, end func()) {
		for _, w := range ws.all() {
			w.cut()
		}
		began := time.Now()
		if end(); time.Since(began) > 10*time.Second {
			t.Errorf("it took %v", time.Since(began))
		}
	})
}

// TestIdleAgentEndsAtOnce: its relay, which hears that it leaves, ends connections on which nothing is
// under way.
func TestIdleAgentEndsAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *tunnel.Relay, _ *wires, end func()) {
		began := time.Now()
		if end(); !time.Now().Equal(began) {
			t.Errorf("it ends after %v", time.Since(began))
		}
	})
}
