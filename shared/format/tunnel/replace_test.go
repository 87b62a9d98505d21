package tunnel_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestConnectionIsReplacedAfterManyDisconnects checks connections whose flow-control
// windows shrink because clients disconnect. All other requests must succeed meanwhile. The
// first connection gets all requests, since each request begins when none is in flight.
func TestConnectionIsReplacedAfterManyDisconnects(t *testing.T) {
	runInBubble(t, func(t *testing.T, relay *tunnel.Relay, ws *wireNetwork, _ func()) {
		first := slices.Clone(relay.ForTunnel(tunnelID))
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		send := func(ctx context.Context) error {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://api.service/", nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = relay.RoundTrip(r, tunnelID, "api", shop)
			return err
		}
		disconnectClients := func(n int) {
			for range n {
				if err := send(canceled); err == nil {
					t.Fatal("RoundTrip() of a disconnected client: error = nil, want an error")
				}
			}
		}
		disconnectClients(tunnel.MaxDisconnects / 2)
		time.Sleep(time.Minute)
		if current := relay.ForTunnel(tunnelID); !slices.Equal(current, first) {
			t.Fatalf("connections after %d disconnects = %d, want the first %d, not replaced",
				tunnel.MaxDisconnects/2, len(current), len(first))
		}
		disconnectClients(20 * tunnel.MaxDisconnects) // some of them disconnect after their response
		for range 100 {
			if err := send(t.Context()); err == nil || err.Error() != (&tunnel.Error{Failure: tunnel.UnknownService}).Error() {
				t.Fatalf("request during the replacement: error = %v, want %v", err, tunnel.UnknownService)
			}
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		current := relay.ForTunnel(tunnelID)
		if len(current) != 2 || slices.Contains(current, first[0]) {
			t.Errorf("connections = %d of %d made, with the first one %t, want 2 without the first one",
				len(current), len(ws.all()), slices.Contains(current, first[0]))
		}
	})
}
