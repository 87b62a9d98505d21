package tunnel_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestDrainedConnectionIsNotAFailure repeatedly drains an agent's connections as soon as they exist, as relays do when
// they are replaced. Each time, the agent must count no failed attempt, so that it dials again within a second.
func TestDrainedConnectionIsNotAFailure(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	o := fx.options()
	var mu sync.Mutex
	var attempts []int
	o.Backoff = func(ctx context.Context, attempt int) error {
		mu.Lock()
		attempts = append(attempts, attempt)
		mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Millisecond):
			return nil
		}
	}
	fx.run(o)
	for range 4 {
		fx.waitFor(func() bool {
			links := fx.relay.ForTunnel(tunnelID)
			return len(links) == 2 && links[0].Usable() && links[1].Usable()
		})
		fx.relay.DrainTunnel(t.Context(), tunnelID)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, attempt := range attempts {
		if attempt != 0 {
			t.Fatalf("attempts after drained connections = %d, want only 0", attempts)
		}
	}
	if len(attempts) < 6 {
		t.Errorf("replaced connections = %d, want at least 6", len(attempts))
	}
}
