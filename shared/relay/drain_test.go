package relay_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestDrainingRelayFinishesAndPassesOn has requests under way, by every way, while their relay
// drains, and asks it on.
func TestDrainingRelayFinishesAndPassesOn(t *testing.T) {
	var release chan struct{}
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/slow" {
			<-release
		}
		_, _ = io.WriteString(w, "done")
	})
	inWorld(t, service, func(w *world) {
		release = make(chan struct{})
		a, b := w.relay("a:443"), w.relay("b:443")
		w.agent("", 4)
		for len(w.addresses()) < 2 { // until chance has it that both have a connection
			w.agent("", 2)
		}
		answers := make(chan string, 8)
		for range 2 {
			for _, by := range []asks{a, b, w.client("a:443"), w.client("b:443")} {
				go func() {
					text, err := read(by.RoundTrip(w.request(http.MethodPost, "/slow", strings.NewReader("x")), account, "api", shop))
					if err != nil {
						text = err.Error()
					}
					answers <- text
				}()
			}
		}
		synctest.Wait()
		drained := make(chan struct{})
		w.forget(a)
		go func() {
			defer close(drained)
			a.Drain(w.Context())
		}()
		synctest.Wait()
		for way, by := range map[string]asks{"the relay itself": a, "a client of it": w.client("a:443"), "another": b} {
			if text, err := w.get(by, "/"); text != "done" || err != nil {
				w.Errorf("%s answers %q, %v while the relay drains", way, text, err)
			}
		}
		select {
		case <-drained:
			w.Error("it has drained with requests under way")
		default:
		}
		if got := w.addresses(); len(got) != 1 || got[0] != "https://b:443" {
			w.Errorf("while it drains the rows are of %q", got)
		}
		close(release)
		for range 8 {
			if text := <-answers; text != "done" {
				w.Errorf("a request under way ends with %q", text)
			}
		}
		<-drained
	})
}

// addresses are those of the relays that hold the tunnel.
func (w *world) addresses() []string {
	w.Helper()
	synctest.Wait()
	addresses, _ := w.holders()
	return addresses
}

// TestDrainWaitsForWhatWasPassedOn drains a relay through which another one is asked.
func TestDrainWaitsForWhatWasPassedOn(t *testing.T) {
	var release chan struct{}
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }), func(w *world) {
		release = make(chan struct{})
		a, b := w.relay("a:443"), w.relay("b:443")
		w.agent(b.name, 2)
		answer, drained := make(chan error, 1), make(chan struct{})
		go func() {
			_, err := w.get(w.client(a.name), "/")
			answer <- err
		}()
		synctest.Wait()
		go func() {
			defer close(drained)
			a.Drain(w.Context())
		}()
		synctest.Wait()
		select {
		case <-drained:
			w.Error("it has drained with a request under way")
		default:
		}
		close(release)
		if err := <-answer; err != nil {
			w.Errorf("it is answered %v", err)
		}
		<-drained
	})
}

// TestDrainEndsWithItsTime has a request that does not end.
func TestDrainEndsWithItsTime(t *testing.T) {
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	})
	inWorld(t, service, func(w *world) {
		a := w.relay("a:443")
		w.agent("a:443", 2)
		answer := make(chan error, 1)
		go func() {
			_, err := read(w.client("a:443").RoundTrip(w.request(http.MethodPost, "/", strings.NewReader("x")), account, "api", shop))
			answer <- err
		}()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.Context(), 110*time.Second)
		defer cancel()
		a.Drain(ctx)
		if err := <-answer; !errors.Is(err, tunnel.ErrBroken) {
			w.Errorf("what was cut is answered %v", err)
		}
	})
}

// TestAgentThatMovesIsWaitedFor asks just when the connections break, with a body too: what
// never left waits for the agent.
func TestAgentThatMovesIsWaitedFor(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), func(w *world) {
		a, b := w.relay("a:443"), w.relay("b:443")
		w.agent("", 2)
		for way, by := range map[string]asks{"one": a, "another": b, "a client of one": w.client("a:443"), "a client of another": w.client("b:443")} {
			time.Sleep(2 * time.Minute) // an agent that is cut often waits longer
			w.net.each(func(wire *wire) bool { return wire.from == "agent" }, (*wire).cut)
			synctest.Wait()
			text, err := read(by.RoundTrip(w.request(http.MethodPost, "/", strings.NewReader("text")), account, "api", shop))
			if text != "text" || err != nil {
				w.Errorf("%s answers %q, %v", way, text, err)
			}
		}
	})
}

// TestBodyGoesToWhomItIsReadBy has relays that turn out to have no agent before the one that has.
func TestBodyGoesToWhomItIsReadBy(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }), func(w *world) {
		a, b, c := w.relay("a:443"), w.relay("b:443"), w.relay("c:443")
		w.agent("c:443", 2)
		w.claim(a.name, "rly_0") // which has it no more
		w.claim("nobody:443", "rly_00")
		for way, by := range map[string]asks{"a relay": b, "a client": w.client("b:443")} {
			body := &closed{Reader: strings.NewReader("text")}
			r := w.request(http.MethodPost, "/", body)
			r.ContentLength = 4
			text, err := read(by.RoundTrip(r, account, "api", shop))
			if text != "text" || err != nil {
				w.Errorf("%s answers %q, %v", way, text, err)
			}
			if n := body.n.Load(); n != 1 {
				w.Errorf("by %s the body is closed %d times", way, n)
			}
		}
		if a.asked.Load() != 2 || c.asked.Load() != 2 {
			w.Errorf("the relays were asked %d and %d times", a.asked.Load(), c.asked.Load())
		}
		body := &closed{Reader: strings.NewReader("text")}
		if _, err := b.RoundTrip(w.request(http.MethodPost, "/", body), account, "other", shop); err == nil || body.n.Load() != 1 {
			w.Errorf("a request that is not sent is answered %v, and its body is closed %d times", err, body.n.Load())
		}
	})
}

// closed counts how often it is closed.
type closed struct {
	io.Reader
	n atomic.Int64
}

func (c *closed) Close() error {
	c.n.Add(1)
	return nil
}

// TestRepeatsHaveAnEnd has a service at which its agents' connections break.
func TestRepeatsHaveAnEnd(t *testing.T) {
	var seen atomic.Int64
	var its *world
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		its.net.each(func(wire *wire) bool { return wire.from == "agent" && strings.HasSuffix(wire.to, ":443") }, (*wire).cut)
		<-r.Context().Done()
	})
	inWorld(t, service, func(w *world) {
		its = w
		_, _, by := ways(w)
		for way, by := range by {
			time.Sleep(2 * time.Minute)
			seen.Store(0)
			if _, err := w.get(by, "/"); !errors.Is(err, tunnel.ErrBroken) {
				w.Errorf("%s answers %v", way, err)
			}
			if n := seen.Load(); n < 2 || n > relay.MaxSent {
				w.Errorf("by %s the service is asked %d times", way, n)
			}
		}
	})
}

// TestPatienceBeginsAnewWithEachAttempt has a request break, be under way for longer than anybody
// waits, and break again.
func TestPatienceBeginsAnewWithEachAttempt(t *testing.T) {
	var seen atomic.Int64
	var its *world
	service := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		n := seen.Add(1)
		if n == 2 {
			time.Sleep(2 * relay.Patience)
		}
		if n < 3 {
			its.net.each(func(wire *wire) bool { return wire.from == "gateway" }, (*wire).cut)
		}
	})
	inWorld(t, service, func(w *world) {
		its = w
		w.relay("a:443")
		w.agent("a:443", 2)
		if _, err := w.get(w.client("a:443"), "/"); err != nil || seen.Load() != 3 {
			w.Errorf("the service is asked %d times, and the request answered %v", seen.Load(), err)
		}
	})
}

// TestNetHTTPRepeatsNothingByItself breaks a connection that was used before, under a request
// that net/http takes for one that may be repeated. It does so by HTTP/1.1.
func TestNetHTTPRepeatsNothingByItself(t *testing.T) {
	var seen atomic.Int64
	var its *world
	service := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/base/once" {
			_, _ = io.Copy(io.Discard, r.Body)
			seen.Add(1)
			its.net.each(func(wire *wire) bool { return wire.from == "gateway" }, (*wire).cut)
		}
	})
	inWorld(t, service, func(w *world) {
		its = w
		a := w.relay("a:443")
		w.agent("a:443", 2)
		by := w.plain(a)
		if _, err := w.get(by, "/"); err != nil {
			w.Fatal(err)
		}
		for name, r := range map[string]*http.Request{
			"Idempotency-Key": w.request(http.MethodPost, "/once", nil), "X-Idempotency-Key": w.request(http.MethodPost, "/once", nil),
			"a body that can be had again": w.request(http.MethodGet, "/once", strings.NewReader("text")),
		} {
			seen.Store(0)
			if r.Body == nil {
				r.Header.Set(name, "k")
			}
			if _, err := by.RoundTrip(r, account, "api", shop); !errors.Is(err, tunnel.ErrBroken) {
				w.Errorf("it is answered %v", err)
			}
			if n := seen.Load(); n != 1 {
				w.Errorf("with %s the service is asked %d times", name, n)
			}
			if _, err := w.get(by, "/"); err != nil {
				w.Fatal(err)
			}
		}
	})
}

// TestAgentThatHearsNothingIsCut has a connection that is half-open when services change: another
// agent's requests do not wait for it for ever.
func TestAgentThatHearsNothingIsCut(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }), func(w *world) {
		a := w.relay("a:443")
		w.agent("a:443", 2)
		one := true
		w.net.each(func(wire *wire) bool {
			was := one
			one = one && wire.to != "a:443"
			return was && !one
		}, (*wire).forget)
		w.directory.set(api("http://service.internal/other"))
		if text, err := w.get(a, "/x"); text != "/other/x" || err != nil {
			w.Errorf("it answers %q, %v", text, err)
		}
	})
}

// TestAgentsOfADeletedTunnelAreSentAway, with what is under way, and hear that their token is
// refused; those of one whose services can't be looked up stay.
func TestAgentsOfADeletedTunnelAreSentAway(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	inWorld(t, service, func(w *world) {
		a := w.relay("a:443")
		_, why := w.agentTold("a:443", 2)
		stream, err := a.RoundTrip(w.request(http.MethodGet, "/", nil), account, "api", shop)
		if err != nil {
			w.Fatal(err)
		}
		defer func() { _ = stream.Body.Close() }()
		w.directory.fail(errDown)
		time.Sleep(3 * relay.RenewEvery)
		w.directory.fail(nil)
		select {
		case err := <-why:
			w.Fatalf("while the table is down the agent ends with %v", err)
		default:
		}
		w.directory.remove()
		// A minute after it could have heard at the latest, on the bubble's clock.
		select {
		case err := <-why:
			if !errors.Is(err, tunnel.ErrRefused) {
				w.Errorf("the agent ends with %v", err)
			}
		case <-time.After(relay.RenewEvery + time.Minute):
			w.Error("the agent stays connected")
		}
		if _, err := io.ReadAll(stream.Body); err == nil {
			w.Error("the stream under way ends as if it were whole")
		}
	})
}
