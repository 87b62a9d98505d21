package tunnel_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestServersThatAreNotRelays connects to servers that are not relays. The error must describe the response without
// repeating its text.
func TestServersThatAreNotRelays(t *testing.T) {
	const upgradeResponse = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
	isStatus := func(status int) func(error) bool {
		return func(err error) bool {
			statusErr, ok := errors.AsType[*tunnel.StatusError](err)
			return ok && statusErr.Status == status
		}
	}
	isError := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for _, c := range []struct {
		name, response string
		want           func(error) bool
	}{
		{
			"another status", "HTTP/1.1 503 \x1b[31mGo away\r\nContent-Length: 2\r\n\r\nno",
			isStatus(http.StatusServiceUnavailable),
		},
		{"an unknown status", "HTTP/1.1 599 x\r\nContent-Length: 0\r\n\r\n", isStatus(599)},
		{"a proxy's refusal", "HTTP/1.1 403 x\r\nContent-Length: 2\r\n\r\nno", isStatus(http.StatusForbidden)},
		{
			"a redirect", "HTTP/1.1 307 x\r\nLocation: http://elsewhere.test/connect\r\nContent-Length: 0\r\n\r\n",
			isStatus(http.StatusTemporaryRedirect),
		},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", isError(tunnel.ErrNotRelay)},
		{"another protocol", upgradeResponse + "h2c\r\n\r\n", isError(tunnel.ErrNotRelay)},
		{
			"garbage after the switch", upgradeResponse + tunnel.Protocol + "\r\n\r\n" + strings.Repeat("garbage", 100),
			isError(tunnel.ErrNotRelay),
		},
		{"no data after the switch", upgradeResponse + tunnel.Protocol + "\r\n\r\n", isError(tunnel.ErrNotRelay)},
		{"no response", "", isError(context.DeadlineExceeded)},
	} {
		for _, webSocket := range []bool{false, true} {
			if webSocket && strings.Contains(c.name, "after the switch") {
				continue // the response to a WebSocket handshake contains the agent's key
			}
			t.Run(fmt.Sprintf("%s, WebSocket %v", c.name, webSocket), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					checkNotRelay(t, webSocket, c.response, c.want)
				})
			})
		}
	}
}

// checkNotRelay makes an agent connect twice to an address that sends response, and checks its failures.
func checkNotRelay(t *testing.T, webSocket bool, response string, want func(error) bool) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var failures []error
	opened, redirected := 0, ""
	var openConns atomic.Int64
	err := tunnel.NewAgent(tunnel.AgentOptions{
		Relay: &url.URL{Scheme: "http", Host: "relay.test"}, Log: slog.New(slog.DiscardHandler), WebSocket: webSocket,
		Token:  func() (string, error) { return token, nil },
		Notify: func(int) { opened++ },
		OnFailure: func(err error, _ int, _ time.Duration) {
			if failures = append(failures, err); len(failures) == 2 {
				stop()
			}
		},
		Dial: func(_ context.Context, _, address string) (net.Conn, error) {
			if address != "relay.test:80" {
				redirected = address
			}
			a, b := net.Pipe()
			if redirected != "" {
				return nil, errors.New("the agent dialed an address other than the relay's")
			}
			openConns.Add(1)
			context.AfterFunc(t.Context(), func() { _ = b.Close() })
			go func() {
				defer openConns.Add(-1)
				defer func() { _ = b.Close() }()
				r := bufio.NewReader(b)
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				go func() { _, _ = io.WriteString(b, response) }()
				_, _ = io.Copy(io.Discard, r)
			}()
			return a, nil
		},
	}).Run(ctx, time.Second)
	if !errors.Is(err, context.Canceled) || opened != 0 || redirected != "" {
		t.Errorf("Run() = %v, %d connections, redirected to %q, want %v without connections and redirects",
			err, opened, redirected, context.Canceled)
	}
	for _, err := range failures {
		if !want(err) || strings.ContainsRune(err.Error(), '\x1b') || strings.Contains(err.Error(), token) {
			t.Errorf("OnFailure(error = %q), want the error of this case, and neither control characters nor the token", err)
		}
	}
	if synctest.Wait(); openConns.Load() != 0 {
		t.Errorf("remaining connections = %d, want 0", openConns.Load())
	}
}

// TestConnectionIsUsableAfterConfiguration checks that a connection counts as usable only after the agent has received
// the tunnel's list of services.
func TestConnectionIsUsableAfterConfiguration(t *testing.T) {
	fx := newFixture(t, http.HandlerFunc(echo))
	requested := make(chan struct{}, 2)
	release := make(chan struct{})
	var released atomic.Int64
	relay := tunnel.NewRelay(tunnel.RelayOptions{
		Authenticate: func(context.Context, string) (string, error) { return tunnelID, nil },
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			requested <- struct{}{}
			<-release
			return fx.services, nil
		},
		Log: fx.log,
	})
	fx.server.Config.Handler = relay
	var usable atomic.Int64
	o := fx.options()
	o.Notify = func(n int) {
		if configured := released.Load(); int64(n) > configured {
			t.Errorf("usable connections = %d, want at most the %d with services", n, configured)
		}
		usable.Store(int64(n))
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = tunnel.NewAgent(o).Run(ctx, time.Millisecond)
	}()
	defer func() {
		stop()
		<-done
		if n := usable.Load(); n != 0 {
			t.Errorf("usable connections after Run() = %d, want 0", n)
		}
	}()
	<-requested
	<-requested
	if n := usable.Load(); n != 0 {
		t.Errorf("usable connections before the relay has services = %d, want 0", n)
	}
	// Release one connection at a time, so that the test detects a connection that is counted before it has its services.
	released.Store(1)
	release <- struct{}{}
	fx.waitFor(func() bool { return usable.Load() == 1 })
	released.Store(2)
	close(release)
	fx.waitFor(func() bool { return usable.Load() == 2 })
}
