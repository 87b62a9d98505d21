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

	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestWhatIsNoRelayIsTold connects to what answers otherwise than a relay, and expects
// to be told what that was, without a word that it has written.
func TestWhatIsNoRelayIsTold(t *testing.T) {
	const switched = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
	answer := func(status int) func(error) bool {
		return func(err error) bool {
			answered, ok := errors.AsType[*tunnel.AnswerError](err)
			return ok && answered.Status == status
		}
	}
	is := func(want error) func(error) bool { return func(err error) bool { return errors.Is(err, want) } }
	for _, c := range []struct {
		name, answer string
		want         func(error) bool
	}{
		{"another status", "HTTP/1.1 503 \x1b[31mGo away\r\nContent-Length: 2\r\n\r\nno", answer(http.StatusServiceUnavailable)},
		{"a status nobody knows", "HTTP/1.1 599 x\r\nContent-Length: 0\r\n\r\n", answer(599)},
		{"a proxy's refusal", "HTTP/1.1 403 x\r\nContent-Length: 2\r\n\r\nno", answer(http.StatusForbidden)},
		{"a redirect", "HTTP/1.1 307 x\r\nLocation: http://elsewhere.test/connect\r\nContent-Length: 0\r\n\r\n", answer(http.StatusTemporaryRedirect)},
		{"no HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", is(tunnel.ErrNoRelay)},
		{"another protocol", switched + "h2c\r\n\r\n", is(tunnel.ErrNoRelay)},
		{"garbage after the switch", switched + tunnel.Protocol + "\r\n\r\n" + strings.Repeat("garbage", 100), is(tunnel.ErrNoRelay)},
		{"silence after the switch", switched + tunnel.Protocol + "\r\n\r\n", is(tunnel.ErrNoRelay)},
		{"silence", "", is(context.DeadlineExceeded)},
	} {
		for _, webSocket := range []bool{false, true} {
			if webSocket && strings.Contains(c.name, "after the switch") {
				continue // WebSockets have a key of the agent's in their answer
			}
			t.Run(fmt.Sprintf("%s, WebSocket %v", c.name, webSocket), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					var failures []error
					opened, elsewhere := 0, ""
					var left atomic.Int64
					err := tunnel.NewAgent(tunnel.AgentOptions{
						Relay: &url.URL{Scheme: "http", Host: "relay.test"}, Log: slog.New(slog.DiscardHandler), WebSocket: webSocket,
						Token:  func() (string, error) { return token, nil },
						Notify: func(int) { opened++ },
						Failed: func(err error, _ int, _ time.Duration) {
							if failures = append(failures, err); len(failures) == 2 {
								stop()
							}
						},
						Dial: func(_ context.Context, _, address string) (net.Conn, error) {
							if address != "relay.test:80" {
								elsewhere = address
							}
							a, b := net.Pipe()
							if elsewhere != "" {
								return nil, errors.New("a stranger is asked")
							}
							left.Add(1)
							context.AfterFunc(t.Context(), func() { _ = b.Close() })
							go func() {
								defer left.Add(-1)
								defer func() { _ = b.Close() }()
								r := bufio.NewReader(b)
								if _, err := http.ReadRequest(r); err != nil {
									return
								}
								go func() { _, _ = io.WriteString(b, c.answer) }()
								_, _ = io.Copy(io.Discard, r)
							}()
							return a, nil
						},
					}).Run(ctx, time.Second)
					if !errors.Is(err, context.Canceled) || opened != 0 || elsewhere != "" {
						t.Errorf("it ends with %v, %d connections, having asked %q", err, opened, elsewhere)
					}
					for _, err := range failures {
						if !c.want(err) || strings.ContainsRune(err.Error(), '\x1b') || strings.Contains(err.Error(), token) {
							t.Errorf("it is told %q", err)
						}
					}
					if synctest.Wait(); left.Load() != 0 {
						t.Errorf("%d connections are left", left.Load())
					}
				})
			})
		}
	}
}

// TestConnectionCountsWhenServicesAreKnown has the relay take its time with them.
func TestConnectionCountsWhenServicesAreKnown(t *testing.T) {
	w := newWorld(t, http.HandlerFunc(echo))
	asked := make(chan struct{}, 2)
	release := make(chan struct{})
	var released atomic.Int64
	relay := tunnel.NewRelay(tunnel.RelayOptions{
		Authorize: func(context.Context, string) (string, error) { return tunnelID, nil },
		Services: func(context.Context, string) ([]tunnel.Service, error) {
			asked <- struct{}{}
			<-release
			return w.services, nil
		},
		Log: w.log,
	})
	w.server.Config.Handler = relay
	var open atomic.Int64
	o := w.options()
	o.Notify = func(n int) {
		if known := released.Load(); int64(n) > known {
			t.Errorf("%d connections count where the services of %d are known", n, known)
		}
		open.Store(int64(n))
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = tunnel.NewAgent(o).Run(ctx, time.Millisecond)
	}()
	defer func() {
		stop()
		<-ended
		if n := open.Load(); n != 0 {
			t.Errorf("%d connections count after the end", n)
		}
	}()
	<-asked
	<-asked
	if n := open.Load(); n != 0 {
		t.Errorf("%d connections count whose services nobody knows", n)
	}
	// One after the other: who counts a moment too early is seen while nobody has looked.
	released.Store(1)
	release <- struct{}{}
	w.until(func() bool { return open.Load() == 1 })
	released.Store(2)
	close(release)
	w.until(func() bool { return open.Load() == 2 })
}
