package tunnel_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestBrokenConnectionIsRedialedSoon breaks the connections of an agent every few seconds, as relays
// do that are replaced one after another. The agent must dial again within a second, since requests
// do not wait for long. If connections break immediately, the agent must increase the delay.
func TestBrokenConnectionIsRedialedSoon(t *testing.T) {
	for _, c := range []struct {
		name                 string
		uptime               time.Duration
		maxWait, minLastWait time.Duration // maximum of all waits, and minimum of the last wait
	}{
		{"while relays are replaced", 6 * time.Second, time.Second, 0},
		{"immediately after each dial", 10 * time.Millisecond, 30 * time.Second, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			var waits []time.Duration
			runInBubble(t, func(t *testing.T, _ *tunnel.Relay, ws *wireNetwork, end func()) {
				for broken := 0; broken < 20; {
					synctest.Wait()
					all := ws.all()
					time.Sleep(c.uptime)
					for _, w := range all[broken:] {
						_ = w.sides[relaySide].Conn.Close()
					}
					broken = len(all)
				}
				end()
				if last := waits[len(waits)-1]; slices.Max(waits) > c.maxWait || last < c.minLastWait {
					t.Errorf("waits after connections of %v = %v, want at most %v, and at least %v for the last",
						c.uptime, waits, c.maxWait, c.minLastWait)
				}
			}, func(o *tunnel.AgentOptions) {
				o.OnFailure = func(err error, _ int, wait time.Duration) {
					if !errors.Is(err, tunnel.ErrConnectionLost) {
						t.Errorf("failure of a broken connection = %v, want %v", err, tunnel.ErrConnectionLost)
					}
					waits = append(waits, wait)
				}
			})
		})
	}
}
