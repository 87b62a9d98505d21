package tunnel_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestConnectionThatBreaksIsSoonDialledAgain has the connections of an agent break every few seconds,
// as relays are replaced one after the other: each is there again within a second, since requests do not
// wait for long. Those that break as soon as they are there are dialled less and less often.
func TestConnectionThatBreaksIsSoonDialledAgain(t *testing.T) {
	for _, c := range []struct {
		name            string
		lasts           time.Duration
		longest, atLast time.Duration // waits, of all but the first connections
	}{
		{"while relays are replaced", 6 * time.Second, time.Second, 0},
		{"at once", 10 * time.Millisecond, 30 * time.Second, 7 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			var waits []time.Duration
			inBubble(t, func(t *testing.T, _ *tunnel.Relay, ws *wires, end func()) {
				for broken := 0; broken < 20; {
					synctest.Wait()
					all := ws.all()
					time.Sleep(c.lasts)
					for _, w := range all[broken:] {
						_ = w.ends[ofRelay].Conn.Close()
					}
					broken = len(all)
				}
				end()
				if last := waits[len(waits)-1]; slices.Max(waits) > c.longest || last < c.atLast {
					t.Errorf("after connections of %v it waits %v", c.lasts, waits)
				}
			}, func(o *tunnel.AgentOptions) {
				o.Failed = func(err error, _ int, wait time.Duration) {
					if !errors.Is(err, tunnel.ErrLost) {
						t.Errorf("a connection that breaks is told as %v", err)
					}
					waits = append(waits, wait)
				}
			})
		})
	}
}
