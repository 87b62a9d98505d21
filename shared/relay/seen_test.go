package relay_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// latest cuts the connection of those that it is about on which a byte went last.
func (n *network) latest(about func(*wire) bool) {
	var its *wire
	at := func(w *wire) time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.last
	}
	n.each(about, func(w *wire) {
		if its == nil || at(w).After(at(its)) {
			its = w
		}
	})
	if its != nil {
		its.cut()
	}
}

// TestServiceSeesNoRequestTooOften has the connection break that carries a request, one after the other, while
// others to the same place were used before and are idle: net/http has a mind of its own about those.
func TestServiceSeesNoRequestTooOften(t *testing.T) {
	const idle = relay.MaxSent + 2
	var seen atomic.Int64
	var its *world
	var breaks func(wire *wire) bool // nil for the service's own connection
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !strings.HasPrefix(r.URL.Path, "/base/breaks") {
			time.Sleep(time.Second)
			if r.Header.Get("Upgrade") != "" {
				w.WriteHeader(http.StatusUpgradeRequired)
			}
			return
		}
		seen.Add(1)
		time.Sleep(time.Millisecond)
		if breaks == nil {
			panic(http.ErrAbortHandler)
		}
		its.net.latest(breaks)
		<-r.Context().Done()
	})
	inWorld(t, service, func(w *world) {
		its = w
		_, _, by := ways(w)
		for _, place := range []struct {
			name  string
			about func(wire *wire) bool
			ways  []string
		}{
			{"to the service", nil, []string{"a client of another relay"}},
			{"from the gateway", func(wire *wire) bool { return wire.from == "gateway" }, []string{"a client of the relay that has it", "a client by HTTP/1.1"}},
			{"between relays", func(wire *wire) bool { return strings.HasSuffix(wire.from, ":443") }, []string{"another relay"}},
			{"to the agent", func(wire *wire) bool { return wire.from == "agent" && wire.to != "service.internal:80" }, []string{"the relay that has it", "a client of another relay"}},
		} {
			for _, way := range place.ways {
				for _, tt := range []struct {
					method, field, body string
					once                bool
				}{
					{method: http.MethodGet},
					{method: http.MethodOptions, field: "Idempotency-Key"},
					{method: http.MethodGet, field: "Upgrade", once: true},
					{method: http.MethodPost, once: true},
					{method: http.MethodPost, field: "Idempotency-Key", once: true},
					{method: http.MethodPost, field: "X-Idempotency-Key", once: true},
					{method: http.MethodPost, field: "Idempotency-Key", body: "text", once: true},
					{method: http.MethodPut, body: "text", once: true},
				} {
					request := func(path string) *http.Request {
						var body io.Reader
						if tt.body != "" {
							body = strings.NewReader(tt.body)
						}
						r := w.request(tt.method, path, body)
						if tt.field != "" {
							r.Header.Set(tt.field, "odd")
						}
						return r
					}
					time.Sleep(2 * time.Minute)
					var work sync.WaitGroup
					for range idle {
						work.Go(func() {
							if _, err := read(by[way].RoundTrip(request("/"), account, "api", shop)); err != nil {
								w.Errorf("%s answers %v", way, err)
							}
						})
					}
					work.Wait()
					time.Sleep(time.Second) // so that one is the last that was used
					breaks = place.about
					seen.Store(0)
					response, err := by[way].RoundTrip(request("/breaks"), account, "api", shop)
					if err == nil {
						_ = response.Body.Close()
					}
					least, most := int64(2), int64(relay.MaxSent)
					if tt.once {
						least, most = 1, 1
					}
					if n := seen.Load(); n > most || n < least {
						w.Errorf("by %s a %s with %q and %q is seen %d times, when connections %s break: %v", way, tt.method, tt.field, tt.body, n, place.name, err)
					}
				}
			}
		}
	})
}

// TestRepeatsHaveOneCount has connections break at each end in turns: those of agents, and the gateway's when the
// relay has sent the request a few times.
func TestRepeatsHaveOneCount(t *testing.T) {
	for each := int64(1); each <= relay.MaxSent; each++ {
		var seen atomic.Int64
		var its *world
		service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			n := seen.Add(1)
			its.net.each(func(wire *wire) bool {
				if n%each == 0 {
					return wire.from == "gateway"
				}
				return wire.from == "agent" && strings.HasSuffix(wire.to, ":443")
			}, (*wire).cut)
			<-r.Context().Done()
		})
		inWorld(t, service, func(w *world) {
			its = w
			w.relay("a:443")
			w.agent("a:443", 4)
			by := w.client("a:443")
			_, err := w.get(by, "/")
			if n := seen.Load(); n > relay.MaxSent || n < 2 {
				w.Errorf("the service is asked %d times when the gateway's connection breaks each %d. time: %v", n, each, err)
			}
		})
	}
}

// TestConnectionsThatBreakTogetherAreOneFailure has an agent's machine end with all of its connections, each a
// moment after the other, under a request: it waits for another agent, and is not sent on each of them.
func TestConnectionsThatBreakTogetherAreOneFailure(t *testing.T) {
	var seen atomic.Int64
	var its *world
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if seen.Add(1) > 1 {
			<-r.Context().Done()
			return
		}
		for range 8 {
			its.net.latest(func(wire *wire) bool { return wire.from == "agent" && wire.to == "a:443" })
			time.Sleep(time.Millisecond)
		}
	})
	inWorld(t, service, func(w *world) {
		its = w
		a := w.relay("a:443")
		w.agent(a.name, 4)
		w.agent(a.name, 4)
		ctx, leave := context.WithTimeout(w.Context(), 100*time.Millisecond)
		defer leave()
		_, _ = read(a.RoundTrip(w.request(http.MethodGet, "/", nil).WithContext(ctx), account, "api", shop))
		if n := seen.Load(); n != 1 {
			w.Errorf("it is sent %d times while they break", n)
		}
		time.Sleep(time.Second) // the service is through with it
	})
}

// TestBusyAgentsAreToldOfBeforeOthers asks a relay whose agents carry all that they can, while others have none, or
// are down: that tells whoever waits what to do. When one of the connections breaks, what it carried waits for the
// next one, though the other is there.
func TestBusyAgentsAreToldOfBeforeOthers(t *testing.T) {
	const room = 2 * 999 // streams of an agent's connections, but for its own
	var release chan struct{}
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	inWorld(t, service, func(w *world) {
		release = make(chan struct{})
		a, b := w.relay("a:443"), w.relay("b:443")
		w.agent(a.name, 2)
		outcomes := make(chan error, room)
		for range room {
			go func() {
				_, err := read(a.RoundTrip(w.request(http.MethodGet, "/", nil), account, "api", shop))
				outcomes <- err
			}()
		}
		synctest.Wait()
		one := true
		w.net.each(func(wire *wire) bool {
			was := one
			one = one && wire.to != a.name
			return was && !one
		}, (*wire).cut)
		time.Sleep(2 * relay.Patience)
		w.claim("gone:443", "rly_a")
		w.claim(b.name, "rly_b")
		for way, by := range map[string]asks{"the relay": a, "another": b, "a client of it": w.client(a.name), "a client of another": w.client(b.name)} {
			if _, err := w.get(by, "/"); !errors.Is(err, tunnel.ErrBusy) {
				w.Errorf("%s answers %v", way, err)
			}
		}
		close(release)
		lost := 0
		for range room {
			if err := <-outcomes; err != nil {
				lost++
			}
		}
		if lost > 0 {
			w.Errorf("%d of %d requests are lost when a connection breaks beside a busy one", lost, room)
		}
	})
}
