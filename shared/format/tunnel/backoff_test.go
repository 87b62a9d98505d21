package tunnel_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestFailedAttemptsBackOff checks attempts that fail before the connection is usable. Each case fails at another
// step. A failed attempt must not reset the delay between attempts, even if the attempt took long.
func TestFailedAttemptsBackOff(t *testing.T) {
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + tunnel.Protocol + "\r\n\r\n"
	for _, tt := range []struct {
		name   string
		uptime time.Duration // until the connection is closed, or 0 if it stays open
		early  string        // sent as an immediate response
		late   string        // sent directly before the connection is closed
	}{
		{name: "no response"},
		{
			name: "a late error", uptime: tunnel.MinStableTime + time.Second,
			late: "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n",
		},
		{name: "a late close without a response", uptime: tunnel.MinStableTime + time.Second},
		{name: "a late switch", uptime: tunnel.MinStableTime + time.Second, late: switched},
		{name: "a switch without a list of services", uptime: tunnel.MinStableTime + time.Second, early: switched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var lastWait time.Duration
				failures := 0
				_ = tunnel.NewAgent(tunnel.AgentOptions{
					Relay: &url.URL{Scheme: "http", Host: "relay.test"}, Log: slog.New(slog.DiscardHandler),
					Token: func() (string, error) { return token, nil },
					OnFailure: func(_ error, _ int, wait time.Duration) {
						lastWait = wait
						if failures++; failures == 20 {
							stop()
						}
					},
					Dial: func(context.Context, string, string) (net.Conn, error) {
						near, far := net.Pipe()
						go func() {
							defer func() { _ = far.Close() }()
							r := bufio.NewReader(far)
							if _, err := http.ReadRequest(r); err != nil {
								return
							}
							_, _ = io.WriteString(far, tt.early)
							if tt.uptime > 0 {
								time.AfterFunc(tt.uptime, func() {
									_, _ = io.WriteString(far, tt.late)
									_ = far.Close()
								})
							}
							_, _ = io.Copy(io.Discard, r)
						}()
						return near, nil
					},
				}).Run(ctx, time.Second)
				// After so many failures, the wait is random, between 7.5 and 30 seconds.
				if lastWait < 7*time.Second {
					t.Errorf("wait after %d attempts = %v, want at least 7s", failures, lastWait)
				}
			})
		})
	}
}
