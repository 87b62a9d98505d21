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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestAttemptsInVainBecomeRare has what is dialled take its time and end then, at whichever step on the way to
// a connection that requests come by: that it took long makes no such attempt a good one.
func TestAttemptsInVainBecomeRare(t *testing.T) {
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + tunnel.Protocol + "\r\n\r\n"
	for _, tt := range []struct {
		name  string
		lasts time.Duration // until the connection is closed, 0 for one that stays open
		early string        // what is answered at once
		late  string        // what is answered before it is closed
	}{
		{name: "it is never answered"},
		{name: "it is answered with an error, late", lasts: tunnel.Settled + time.Second, late: "HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n"},
		{name: "it ends without an answer, late", lasts: tunnel.Settled + time.Second},
		{name: "it switches late", lasts: tunnel.Settled + time.Second, late: switched},
		{name: "it switches, and tells no services", lasts: tunnel.Settled + time.Second, early: switched},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var last time.Duration
				failures := 0
				_ = tunnel.NewAgent(tunnel.AgentOptions{
					Relay: &url.URL{Scheme: "http", Host: "relay.test"}, Log: slog.New(slog.DiscardHandler),
					Token: func() (string, error) { return token, nil },
					Failed: func(_ error, _ int, wait time.Duration) {
						last = wait
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
							if tt.lasts > 0 {
								time.AfterFunc(tt.lasts, func() {
									_, _ = io.WriteString(far, tt.late)
									_ = far.Close()
								})
							}
							_, _ = io.Copy(io.Discard, r)
						}()
						return near, nil
					},
				}).Run(ctx, time.Second)
				// Half a minute, of which at least a quarter.
				if last < 7*time.Second {
					t.Errorf("after %d attempts it waits %v", failures, last)
				}
			})
		})
	}
}
