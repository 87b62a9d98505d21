package tunnel_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestConnectionsThatManyClientsLeftAreReplaced: their windows have less and less room. Requests are answered all the
// while. The first one has them all, since none waits for another.
func TestConnectionsThatManyClientsLeftAreReplaced(t *testing.T) {
	inBubble(t, func(t *testing.T, relay *tunnel.Relay, ws *wires, _ func()) {
		first := slices.Clone(relay.Of(tunnelID))
		gone, leave := context.WithCancel(t.Context())
		leave()
		ask := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.service/", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = relay.RoundTrip(r, tunnelID, "api", shop)
			return err
		}
		leaves := func(n int) {
			for range n {
				if err := ask(gone); err == nil {
					t.Fatal("who has left is answered")
				}
			}
		}
		leaves(tunnel.MostLeft / 2)
		time.Sleep(time.Minute)
		if now := relay.Of(tunnelID); !slices.Equal(now, first) {
			t.Fatalf("half of what is allowed replaces connections: %d are left of those that were", len(now))
		}
		leaves(20 * tunnel.MostLeft) // of which some leave behind their answer
		for range 100 {
			if err := ask(t.Context()); err == nil || err.Error() != (&tunnel.Error{Failure: tunnel.UnknownService}).Error() {
				t.Fatalf("meanwhile a request is answered %v", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		now := relay.Of(tunnelID)
		if len(now) != 2 || slices.Contains(now, first[0]) {
			t.Errorf("there are %d connections, of %d that were made, the first one among them: %t", len(now), len(ws.all()), slices.Contains(now, first[0]))
		}
	})
}
