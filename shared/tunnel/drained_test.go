package tunnel_test

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestDrainedConnectionIsNoFailure drains an agent's connections as soon as they are there, again and again, as
// relays are replaced: the next attempt is each time a first one, which comes within a second.
func TestDrainedConnectionIsNoFailure(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	o := w.options()
	var mu sync.Mutex
	var attempts []int
	o.Pause = func(ctx context.Context, attempt int) error {
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
	w.run(o)
	for range 4 {
		w.until(func() bool {
			links := w.relay.Of(tunnelID)
			return len(links) == 2 && links[0].Usable() && links[1].Usable()
		})
		w.relay.DrainOf(t.Context(), tunnelID)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, attempt := range attempts {
		if attempt != 0 {
			t.Fatalf("connections that are drained are dialled again as attempts %d", attempts)
		}
	}
	if len(attempts) < 6 {
		t.Errorf("%d connections were replaced", len(attempts))
	}
}
