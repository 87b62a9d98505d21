package tunnel_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestRotationLeavesWhatIsConnected rotates the token, breaks one connection of two before the
// agent has the new one, and expects the other one to be left; then without any.
func TestRotationLeavesWhatIsConnected(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	var mu sync.Mutex
	shown, refusals := token, 0
	o := w.options()
	o.Token = func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return shown, nil
	}
	o.Failed = func(err error, _ int, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, tunnel.ErrRefused) {
			refusals++
		}
	}
	agent := w.run(o)
	w.mu.Lock()
	w.token = "rotated"
	first := w.conns[0]
	w.mu.Unlock()
	_ = first.Close()
	w.until(func() bool {
		select {
		case <-agent.ended:
			t.Fatalf("it ends with %v, and one connection was left", agent.err)
		default:
		}
		mu.Lock()
		defer mu.Unlock()
		return refusals > 1
	})
	response, err := w.ask(http.MethodGet, "/", nil)
	_ = text(t, response, err)

	mu.Lock()
	shown = "rotated"
	mu.Unlock()
	w.until(func() bool { return len(w.relay.Of(tunnelID)) == 2 })

	w.mu.Lock()
	w.token = "rotated again"
	w.mu.Unlock()
	w.cut()
	<-agent.ended
	if !errors.Is(agent.err, tunnel.ErrRefused) {
		t.Errorf("it ends with %v, and no connection is left", agent.err)
	}
}
