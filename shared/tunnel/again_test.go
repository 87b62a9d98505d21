package tunnel_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
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
			synctest.Test(t, func(t *testing.T) {
				relay := tunnel.NewRelay(tunnel.RelayOptions{
					Authorize: func(context.Context, string) (string, error) { return tunnelID, nil },
					Services:  func(context.Context, string) ([]tunnel.Service, error) { return nil, nil },
					Log:       slog.New(slog.DiscardHandler),
				})
				ws := &wires{accept: make(chan net.Conn), closed: make(chan struct{})}
				server := &http.Server{Handler: relay}
				go func() { _ = server.Serve(ws) }()
				ctx, stop := context.WithCancel(t.Context())
				var waits []time.Duration
				ended := make(chan error)
				go func() {
					ended <- tunnel.NewAgent(tunnel.AgentOptions{
						Relay: &url.URL{Scheme: "http", Host: "relay.test"}, Log: slog.New(slog.DiscardHandler), Dial: ws.dial,
						Token: func() (string, error) { return token, nil },
						Failed: func(err error, _ int, wait time.Duration) {
							if !errors.Is(err, tunnel.ErrLost) {
								t.Errorf("a connection that breaks is told as %v", err)
							}
							waits = append(waits, wait)
						},
					}).Run(ctx, time.Second)
				}()
				for broken := 0; broken < 20; {
					synctest.Wait()
					all := ws.all()
					time.Sleep(c.lasts)
					for _, w := range all[broken:] {
						_ = w.ends[ofRelay].Conn.Close()
					}
					broken = len(all)
				}
				stop()
				<-ended
				_ = server.Close()
				longest, last := time.Duration(0), waits[len(waits)-1]
				for _, w := range waits {
					longest = max(longest, w)
				}
				if longest > c.longest || last < c.atLast {
					t.Errorf("after connections of %v it waits %v", c.lasts, waits)
				}
			})
		})
	}
}
