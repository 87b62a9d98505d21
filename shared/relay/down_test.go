package relay_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/relay"
)

// mute takes connections at an address and says nothing on them, until the function that it gives is called.
func (w *world) mute(at string) (end func()) {
	l := w.net.listen(at)
	go func() {
		for {
			if _, err := l.Accept(); err != nil {
				return
			}
		}
	}()
	return func() { _ = l.Close() }
}

// TestRelayThatIsDownIsAskedLast leaves the row of one that takes connections and says nothing on them, as the
// address of a machine that is gone may: the first request waits for it, and those after it do not. A line says
// so from time to time, and not for each request.
func TestRelayThatIsDownIsAskedLast(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(w *world) {
		a, b := w.relay("a:443"), w.relay("b:443")
		w.agent(b.name, 2)
		defer w.mute("gone:443")()
		w.claim("gone:443", "rly_") // its row is read first
		dial, _, _ := relay.Usual()
		get := func() (took time.Duration) {
			began := time.Now()
			if _, err := w.get(a, "/"); err != nil {
				w.Errorf("it is answered %v", err)
			}
			return time.Since(began)
		}
		for times := 1; times <= 2; times++ {
			if took := get(); took != dial {
				w.Errorf("it takes %v to find that a relay is down, not %v", took, dial)
			}
			for range 3 {
				if took := get(); took != 0 {
					w.Errorf("a request waits %v for a relay that is down", took)
				}
			}
			if said := strings.Count(w.logged.String(), "another relay did not answer"); said != times {
				w.Errorf("%d lines say that it is down, of %d times", said, times)
			}
			time.Sleep(relay.DownTime)
		}
		time.Sleep(relay.LeaseTime)
		if took := get(); took != 0 {
			w.Errorf("a request waits %v when its lease is over", took)
		}
	})
}

// TestClockThatIsSetBackKeepsNobodyDown: a relay that could not be asked by a clock that was ahead is asked in its turn.
func TestClockThatIsSetBackKeepsNobodyDown(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		after time.Duration
		down  bool
	}{{0, true}, {relay.DownTime - 1, true}, {relay.DownTime, false}, {24 * time.Hour, false}, {-1, false}, {-24 * time.Hour, false}} {
		var d relay.Down
		if !d.Note("a", false, now) {
			t.Error("that a relay is down is no news")
		}
		rows := []relay.Row{{Address: "a"}, {Address: "b"}}
		d.Last(rows, now.Add(tt.after))
		if last := rows[1].Address == "a"; last != tt.down {
			t.Errorf("after %v it is asked last: %t", tt.after, last)
		}
		if news := d.Note("a", false, now.Add(tt.after)); news == tt.down {
			t.Errorf("after %v it is news that it is down: %t", tt.after, news)
		}
	}
}

// TestWhoLeavesSaysNothingOfARelay has clients leave while one is dialled that says nothing: it is as down as it was,
// and not down for those who did not wait to see.
func TestWhoLeavesSaysNothingOfARelay(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(w *world) {
		a := w.relay("a:443")
		defer w.mute("slow:443")()
		w.claim("slow:443", "rly_")
		dial, _, _ := relay.Usual()
		for _, tt := range []struct {
			stays time.Duration
			lines int
		}{{dial / 2, 0}, {dial + dial/2, 1}, {dial / 2, 1}, {dial + dial/2, 1}} {
			ctx, leave := context.WithTimeout(w.Context(), tt.stays)
			if _, err := read(a.RoundTrip(w.request(http.MethodGet, "/", nil).WithContext(ctx), account, "api", shop)); !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("who leaves is answered %v", err)
			}
			leave()
			if said := strings.Count(w.logged.String(), "another relay did not answer"); said != tt.lines {
				w.Errorf("%d lines say that it is down, when somebody left after %v", said, tt.stays)
			}
		}
	})
}

// TestRelayThatIsBackIsDownNoMore asks one that came back at its address: when it is down again, that is news.
func TestRelayThatIsBackIsDownNoMore(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(w *world) {
		a := w.relay("a:443")
		w.claim("b:443", "rly_")
		for times := 1; times <= 2; times++ {
			ctx, cancel := context.WithTimeout(w.Context(), time.Second)
			if _, err := read(a.RoundTrip(w.request(http.MethodGet, "/", nil).WithContext(ctx), account, "api", shop)); err == nil {
				w.Error("a relay that is down answers")
			}
			cancel()
			if said := strings.Count(w.logged.String(), "another relay did not answer"); said != times {
				w.Errorf("%d lines say that it is down, of %d times", said, times)
			}
			b := w.relay("b:443")
			stop := w.agent(b.name, 2)
			if _, err := w.get(a, "/"); err != nil {
				w.Errorf("a relay that is back answers %v", err)
			}
			stop()
			b.kill()
		}
	})
}
