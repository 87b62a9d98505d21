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

	"github.com/gatewright/gatewright/shared/dataplane/relay"
	"github.com/gatewright/gatewright/shared/format/tunnel"
)

// TestEachEndEnforcesTheAllowList checks that each of the gateway, the relay and the agent refuses a caller that is
// not in its allow list, even if the allow lists of the other two contain the caller.
func TestEachEndEnforcesTheAllowList(t *testing.T) {
	allowed := []tunnel.Caller{shop, {Project: "blog", Environment: "preview"}}
	denied := []tunnel.Caller{
		{Project: "shop", Environment: "preview"},
		{Project: "blog", Environment: "production"},
		{Project: "shop"},
		{Environment: "production"},
		{},
		{Project: "Shop", Environment: "production"},
		{Project: "shop", Environment: "Production"},
		{Project: "production", Environment: "shop"},
	}
	serviceFor := func(callers ...tunnel.Caller) tunnel.Service {
		s := api("http://service.internal/base")
		s.Access = nil
		for _, c := range callers {
			s.Access = append(s.Access, tunnel.Access{Project: c.Project, Environments: []string{c.Environment}})
		}
		return s
	}
	strict, lax := serviceFor(allowed...), serviceFor(slices.Concat(allowed, denied)...)
	for _, end := range []string{"gateway", "relay", "agent"} {
		var received atomic.Int64
		withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received.Add(1) }), func(fx *fixture) {
			serviceAt := func(name string) tunnel.Service {
				if name == end {
					return strict
				}
				return lax
			}
			fx.directory.set(serviceAt("relay"))
			fx.directory.forAgents = []tunnel.Service{serviceAt("agent")}
			gateway := &directory{services: []tunnel.Service{serviceAt("gateway")}}
			a := fx.relay("a:443")
			fx.agent("a:443", 2)
			clients := map[string]roundTripper{"client": fx.client("a:443", func(o *relay.ClientOptions) {
				o.Directory = gateway
			})}
			if end != "gateway" {
				clients["relay"] = a
			}
			for caller, client := range clients {
				for _, c := range denied {
					before := a.requests.Load()
					response, err := client.RoundTrip(fx.request(http.MethodGet, "/", nil), account, "api", c)
					if err == nil {
						_ = response.Body.Close()
					}
					if tunnelErr, ok := errors.AsType[*tunnel.Error](err); !ok || tunnelErr.Failure != tunnel.NotAllowed ||
						received.Load() != 0 {
						fx.Errorf("GET / by %[2]s for %[3]v, denied only by the %[1]s: error = %[4]v, requests at the service = %[5]d, "+
							"want %[6]v and 0",
							end, caller, c, err, received.Load(), tunnel.NotAllowed)
					}
					if end == "gateway" && a.requests.Load() != before {
						fx.Errorf("GET / for %v: requests at the relay = %d, want %d", c, a.requests.Load(), before)
					}
				}
				for _, c := range allowed {
					_, err := read(client.RoundTrip(fx.request(http.MethodGet, "/", nil), account, "api", c))
					if n := received.Swap(0); err != nil || n != 1 {
						fx.Errorf("GET / by %[2]s for %[3]v, allowed by the %[1]s: error = %[4]v, requests at the service = %[5]d, "+
							"want no error and 1",
							end, caller, c, err, n)
					}
				}
			}
		})
	}
}

// TestRelayCertificateIsVerified checks that a client sends no request, and so no pass, to a server with an
// invalid certificate.
func TestRelayCertificateIsVerified(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), func(fx *fixture) {
		a := fx.relay("a:443")
		fx.agent("a:443", 2)
		for name, change := range map[string]func(o *relay.ClientOptions){
			"a certificate of an unknown authority": func(o *relay.ClientOptions) { o.TLS.RootCAs = x509.NewCertPool() },
			"a certificate for another name":        func(o *relay.ClientOptions) { o.TLS.ServerName = "relay.example.org" },
		} {
			if _, err := fx.get(fx.client("a:443", change), "/"); !errors.Is(err, tunnel.ErrUnavailable) ||
				a.requests.Load() != 0 {
				fx.Errorf("relay with %s: error = %v, requests = %d, want %v and 0",
					name, err, a.requests.Load(), tunnel.ErrUnavailable)
			}
		}
		if _, err := fx.get(fx.client("a:443"), "/"); err != nil || a.requests.Load() != 1 {
			fx.Errorf("relay with a valid certificate: error = %v, requests = %d, want none and 1", err, a.requests.Load())
		}
	})
}

// TestUnusableRelayConnectionsAreClosed checks that a request succeeds although the client's connection is
// half-open. The client closes connections that are idle for too long, connections with unread
// responses, and all connections when Close is called.
func TestUnusableRelayConnectionsAreClosed(t *testing.T) {
	withFixture(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			w.WriteHeader(http.StatusUpgradeRequired)
		}
	}), func(fx *fixture) {
		fx.relay("a:443")
		fx.agent("a:443", 2)
		client := fx.client("a:443")
		get := func(moment string) {
			fx.Helper()
			if _, err := fx.get(client, "/"); err != nil {
				fx.Errorf("GET / %s: error = %v, want none", moment, err)
			}
		}
		get("at first")
		fx.net.forEach(func(wire *wire) bool { return wire.from == "gateway" }, (*wire).dropBytes)
		get("over a connection that loses all bytes")
		time.Sleep(2 * time.Minute)
		for name, upgrade := range map[string]string{"after two idle minutes": "", "of a closed client": "odd"} {
			r := fx.request(http.MethodGet, "/", nil)
			r.Header = http.Header{}
			if upgrade != "" {
				r.Header.Set("Upgrade", upgrade)
			}
			if _, err := read(client.RoundTrip(r, account, "api", shop)); err != nil {
				fx.Errorf("GET / with the field Upgrade %q: error = %v, want none", upgrade, err)
			}
			if upgrade == "" {
				time.Sleep(2 * time.Minute)
			} else {
				client.Close()
			}
			synctest.Wait()
			live := 0
			fx.net.forEach(func(wire *wire) bool { return wire.from == "gateway" && !wire.isDropping() }, func(*wire) { live++ })
			if live != 0 {
				fx.Errorf("open connections %s = %d, want 0", name, live)
			}
		}
		otherServer := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("no relay", 100_000))
		})}
		l := fx.net.listen("stranger:80")
		go func() { _ = otherServer.Serve(l) }()
		defer func() { _ = otherServer.Close() }()
		client = fx.client("stranger:80", func(o *relay.ClientOptions) {
			o.Relay.Scheme, o.Dial = "http", fx.net.dialer("reader")
		})
		for range 3 {
			if _, err := read(client.RoundTrip(fx.request(http.MethodPost, "/", nil), account, "api", shop)); !errors.Is(err,
				tunnel.ErrBroken) {
				fx.Errorf("POST / to another server: error = %v, want %v", err, tunnel.ErrBroken)
			}
		}
		synctest.Wait()
		if n := fx.connections("reader"); n > 1 {
			fx.Errorf("connections with unread responses = %d, want at most 1", n)
		}
	})
}

// TestResponsePartsAreForwardedImmediately checks that each part of a response
// is forwarded immediately, even if the response has a Content-Length.
func TestResponsePartsAreForwardedImmediately(t *testing.T) {
	service := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "6")
		_, _ = io.WriteString(w, "one")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-time.After(time.Hour):
		case <-r.Context().Done():
		}
	})
	withFixture(t, service, func(fx *fixture) {
		_, _, clients := newCallers(fx)
		for caller, client := range clients {
			response, err := client.RoundTrip(fx.request(http.MethodGet, "/", nil), account, "api", shop)
			if err != nil {
				fx.Fatalf("RoundTrip() by %s: error = %v, want none", caller, err)
			}
			part := make([]byte, 3)
			if _, err := io.ReadFull(response.Body, part); string(part) != "one" {
				fx.Errorf("GET by %s: first part = %q, %v, want one", caller, part, err)
			}
			_ = response.Body.Close()
		}
	})
}
