package tunnel_test

import (
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestRotationKeepsConnections rotates the token and breaks one of two connections before
// the agent has the new token. The agent must keep the other connection. Then it rotates
// the token again and breaks all connections, and the agent must end with ErrRefused.
func TestRotationKeepsConnections(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	var mu sync.Mutex
	presented, refusals := token, 0
	o := fx.options()
	o.Token = func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return presented, nil
	}
	o.OnFailure = func(err error, _ int, _ time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		if errors.Is(err, tunnel.ErrRefused) {
			refusals++
		}
	}
	agent := fx.run(o)
	fx.mu.Lock()
	fx.token = "rotated"
	first := fx.conns[0]
	fx.mu.Unlock()
	_ = first.Close()
	fx.waitFor(func() bool {
		select {
		case <-agent.done:
			t.Fatalf("Run() = %v with one connection left, want it running", agent.err)
		default:
		}
		mu.Lock()
		defer mu.Unlock()
		return refusals > 1
	})
	response, err := fx.do(http.MethodGet, "/", nil)
	_ = readBody(t, response, err)

	mu.Lock()
	presented = "rotated"
	mu.Unlock()
	fx.waitFor(func() bool { return len(fx.relay.ForTunnel(tunnelID)) == 2 })

	fx.mu.Lock()
	fx.token = "rotated again"
	fx.mu.Unlock()
	fx.closeConns()
	<-agent.done
	if !errors.Is(agent.err, tunnel.ErrRefused) {
		t.Errorf("Run() without connections = %v, want %v", agent.err, tunnel.ErrRefused)
	}
}
