package relay_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/relay"
)

// listenSilently accepts connections at an address until end is called. It sends nothing on the connections.
func (fx *fixture) listenSilently(addr string) (end func()) {
	l := fx.net.listen(addr)
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	return func() { _ = l.Close() }
}

// TestUnreachableRelayIsTriedLast checks requests while a row names a relay that accepts connections and sends nothing.
// Within relay.UnreachableTime, only the first request waits for this relay, and there is only one log line about it.
func TestUnreachableRelayIsTriedLast(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(fx *fixture) {
		a, b := fx.relay("a:443"), fx.relay("b:443")
		fx.agent(b.name, 2)
		defer fx.listenSilently("silent:443")()
		fx.writeRow("silent:443", "rly_") // this row is read first
		dial, _, _ := relay.DefaultTimeouts()
		get := func() (elapsed time.Duration) {
			start := time.Now()
			if _, err := fx.get(a, "/"); err != nil {
				fx.Errorf("GET /: error = %v, want none", err)
			}
			return time.Since(start)
		}
		for times := 1; times <= 2; times++ {
			if elapsed := get(); elapsed != dial {
				fx.Errorf("GET / with an unreachable relay took %v, want %v", elapsed, dial)
			}
			for range 3 {
				if elapsed := get(); elapsed != 0 {
					fx.Errorf("GET / with a known unreachable relay took %v, want 0", elapsed)
				}
			}
			if lines := strings.Count(fx.logged.String(), "another relay did not answer"); lines != times {
				fx.Errorf("log lines about an unreachable relay = %d, want %d", lines, times)
			}
			time.Sleep(relay.UnreachableTime)
		}
		time.Sleep(relay.LeaseDuration)
		if elapsed := get(); elapsed != 0 {
			fx.Errorf("GET / after the lease has expired took %v, want 0", elapsed)
		}
	})
}

// TestUnreachableEndsWhenTheClockIsSetBack checks how long a relay counts as unreachable.
// If the clock was set back since, the relay no longer counts as unreachable.
func TestUnreachableEndsWhenTheClockIsSetBack(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		after       time.Duration
		unreachable bool
	}{
		{0, true},
		{relay.UnreachableTime - 1, true},
		{relay.UnreachableTime, false},
		{24 * time.Hour, false},
		{-1, false},
		{-24 * time.Hour, false},
	} {
		var d relay.UnreachableRelays
		if !d.Record("a", false, now) {
			t.Error("Record(a, unreachable) = false, want true the first time")
		}
		rows := []relay.Row{{Address: "a"}, {Address: "b"}}
		d.SortLast(rows, now.Add(tt.after))
		if last := rows[1].Address == "a"; last != tt.unreachable {
			t.Errorf("SortLast() after %v: a is last = %t, want %t", tt.after, last, tt.unreachable)
		}
		if newlyUnreachable := d.Record("a", false, now.Add(tt.after)); newlyUnreachable == tt.unreachable {
			t.Errorf("Record(a, unreachable) after %v = %t, want %t", tt.after, newlyUnreachable, !tt.unreachable)
		}
	}
}

// TestClientDisconnectDoesNotMarkRelayUnreachable checks that a client that disconnects during
// the dial of an unresponsive relay does not change whether the relay counts as unreachable.
func TestClientDisconnectDoesNotMarkRelayUnreachable(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(fx *fixture) {
		a := fx.relay("a:443")
		defer fx.listenSilently("slow:443")()
		fx.writeRow("slow:443", "rly_")
		dial, _, _ := relay.DefaultTimeouts()
		for _, tt := range []struct {
			timeout time.Duration
			lines   int // expected log lines so far
		}{{dial / 2, 0}, {dial + dial/2, 1}, {dial / 2, 1}, {dial + dial/2, 1}} {
			ctx, disconnect := context.WithTimeout(fx.Context(), tt.timeout)
			if _, err := read(a.RoundTrip(fx.request(http.MethodGet, "/", nil).WithContext(ctx), account, "api",
				shop)); !errors.Is(err, context.DeadlineExceeded) {
				fx.Errorf("RoundTrip() of a disconnected client: error = %v, want %v", err, context.DeadlineExceeded)
			}
			disconnect()
			if logged := strings.Count(fx.logged.String(), "another relay did not answer"); logged != tt.lines {
				fx.Errorf("log lines about an unreachable relay = %d after a disconnect at %v, want %d",
					logged, tt.timeout, tt.lines)
			}
		}
	})
}

// TestRecoveredRelayIsReachable checks that a relay is used again
// after it has recovered, and that its next outage is logged again.
func TestRecoveredRelayIsReachable(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(fx *fixture) {
		a := fx.relay("a:443")
		fx.writeRow("b:443", "rly_")
		for outage := 1; outage <= 2; outage++ {
			before := strings.Count(fx.logged.String(), "another relay did not answer")
			ctx, cancel := context.WithTimeout(fx.Context(), time.Second)
			if _, err := read(a.RoundTrip(fx.request(http.MethodGet, "/", nil).WithContext(ctx), account, "api",
				shop)); err == nil {
				fx.Error("RoundTrip() to an unreachable relay: error = nil, want an error")
			}
			cancel()
			// In the second outage, the request can first use a connection
			// that the outage has broken, which causes another log line.
			if lines := strings.Count(fx.logged.String(), "another relay did not answer") - before; lines < 1 || lines > outage {
				fx.Errorf("log lines about an unreachable relay in outage %d = %d, want 1 to %d", outage, lines, outage)
			}
			b := fx.relay("b:443")
			stop := fx.agent(b.name, 2)
			if _, err := fx.get(a, "/"); err != nil {
				fx.Errorf("RoundTrip() to a recovered relay: error = %v, want none", err)
			}
			stop()
			b.kill()
		}
	})
}
