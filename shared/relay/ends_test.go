package relay_test

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/relay"
	"github.com/gatewright/gatewright/shared/tunnel"
)

// TestEachEndKeepsTheAllowList has one end alone know who may ask: the gateway's, the relay's and
// the agent's. What another end would refuse too, none of the others has to.
func TestEachEndKeepsTheAllowList(t *testing.T) {
	may := []tunnel.Caller{shop, {Project: "blog", Environment: "preview"}}
	mayNot := []tunnel.Caller{
		{Project: "shop", Environment: "preview"},
		{Project: "blog", Environment: "production"},
		{Project: "shop"},
		{Environment: "production"},
		{},
		{Project: "Shop", Environment: "production"},
		{Project: "shop", Environment: "Production"},
		{Project: "production", Environment: "shop"},
	}
	lists := func(callers ...tunnel.Caller) tunnel.Service {
		s := api("http://service.internal/base")
		s.Access = nil
		for _, c := range callers {
			s.Access = append(s.Access, tunnel.Access{Project: c.Project, Environments: []string{c.Environment}})
		}
		return s
	}
	strict, lax := lists(may...), lists(slices.Concat(may, mayNot)...)
	for _, end := range []string{"gateway", "relay", "agent"} {
		var seen atomic.Int64
		inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen.Add(1) }), func(w *world) {
			at := func(name string) tunnel.Service {
				if name == end {
					return strict
				}
				return lax
			}
			w.directory.set(at("relay"))
			w.directory.agents = []tunnel.Service{at("agent")}
			gateway := &directory{services: []tunnel.Service{at("gateway")}}
			a := w.relay("a:443")
			w.agent("a:443", 2)
			by := map[string]asks{"client": w.client("a:443", func(o *relay.ClientOptions) { o.Directory = gateway })}
			if end != "gateway" {
				by["relay"] = a
			}
			for way, by := range by {
				for _, c := range mayNot {
					asked := a.asked.Load()
					response, err := by.RoundTrip(w.request(http.MethodGet, "/", nil), account, "api", c)
					if err == nil {
						_ = response.Body.Close()
					}
					if failed, ok := errors.AsType[*tunnel.Error](err); !ok || failed.Failure != tunnel.NotAllowed || seen.Load() != 0 {
						w.Errorf("with the %s's list alone a %s answers %v to %v, and the service sees %d", end, way, err, c, seen.Load())
					}
					if end == "gateway" && a.asked.Load() != asked {
						w.Errorf("the relay is asked for %v", c)
					}
				}
				for _, c := range may {
					if _, err := read(by.RoundTrip(w.request(http.MethodGet, "/", nil), account, "api", c)); err != nil || seen.Swap(0) != 1 {
						w.Errorf("with the %s's list alone a %s answers %v to %v", end, way, err, c)
					}
				}
			}
		})
	}
}

// TestRelayIsKnownByItsCertificate: who is none gets no pass and no request.
func TestRelayIsKnownByItsCertificate(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(w *world) {
		a := w.relay("a:443")
		w.agent("a:443", 2)
		for name, change := range map[string]func(o *relay.ClientOptions){
			"of an authority that nobody trusts": func(o *relay.ClientOptions) { o.TLS.RootCAs = x509.NewCertPool() },
			"for another name":                   func(o *relay.ClientOptions) { o.TLS.ServerName = "relay.example.org" },
		} {
			if _, err := w.get(w.client("a:443", change), "/"); !errors.Is(err, tunnel.ErrUnavailable) || a.asked.Load() != 0 {
				w.Errorf("a relay with a certificate %s is asked %d times: %v", name, a.asked.Load(), err)
			}
		}
		if _, err := w.get(w.client("a:443"), "/"); err != nil || a.asked.Load() != 1 {
			w.Errorf("a relay is asked %d times: %v", a.asked.Load(), err)
		}
	})
}

// TestConnectionsToRelaysAreLookedAfter: those that are half-open, those that nobody uses any more, those
// of answers that are not read, and those of a client that is closed.
func TestConnectionsToRelaysAreLookedAfter(t *testing.T) {
	inWorld(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			w.WriteHeader(http.StatusUpgradeRequired)
		}
	}), func(w *world) {
		w.relay("a:443")
		w.agent("a:443", 2)
		by := w.client("a:443")
		get := func(when string) {
			w.Helper()
			if _, err := w.get(by, "/"); err != nil {
				w.Errorf("%s it answers %v", when, err)
			}
		}
		get("at first")
		w.net.each(func(wire *wire) bool { return wire.from == "gateway" }, (*wire).forget)
		get("with a connection of which nothing comes back")
		time.Sleep(2 * time.Minute)
		for name, with := range map[string]string{"that was idle for long": "", "of a client that is closed": "odd"} {
			r := w.request(http.MethodGet, "/", nil)
			r.Header = http.Header{}
			if with != "" {
				r.Header.Set("Upgrade", with)
			}
			if _, err := read(by.RoundTrip(r, account, "api", shop)); err != nil {
				w.Error(err)
			}
			if with == "" {
				time.Sleep(2 * time.Minute)
			} else {
				by.Close()
			}
			synctest.Wait()
			live := 0
			w.net.each(func(wire *wire) bool { return wire.from == "gateway" && !wire.forgotten() }, func(*wire) { live++ })
			if live != 0 {
				w.Errorf("%d connections are kept %s", live, name)
			}
		}
		stranger := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("no relay", 100_000))
		})}
		l := w.net.listen("stranger:80")
		go func() { _ = stranger.Serve(l) }()
		defer func() { _ = stranger.Close() }()
		by = w.client("stranger:80", func(o *relay.ClientOptions) { o.Relay.Scheme, o.Dial = "http", w.net.dialler("reader") })
		for range 3 {
			if _, err := read(by.RoundTrip(w.request(http.MethodPost, "/", nil), account, "api", shop)); !errors.Is(err, tunnel.ErrBroken) {
				w.Errorf("what is no relay is answered %v", err)
			}
		}
		synctest.Wait()
		if n := w.connections("reader"); n > 1 {
			w.Errorf("%d connections are kept of answers that nobody reads", n)
		}
	})
}

// TestPartsOfAnAnswerComeAsTheyAre, of one whose length is known too.
func TestPartsOfAnAnswerComeAsTheyAre(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "one")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(time.Hour):
		case <-r.Context().Done():
		}
	})
	inWorld(t, service, func(w *world) {
		_, _, by := ways(w)
		for way, by := range by {
			response, err := by.RoundTrip(w.request(http.MethodGet, "/", nil), account, "api", shop)
			if err != nil {
				w.Fatal(err)
			}
			part := make([]byte, 3)
			if _, err := io.ReadFull(response.Body, part); string(part) != "one" {
				w.Errorf("by %s the first part is %q, %v", way, part, err)
			}
			_ = response.Body.Close()
		}
	})
}
