package upstream

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream/upstreamtest"
)

// rebindingHost is a resolver whose names can change their addresses, with servers
// at several loopback addresses. Its client may dial only the first of these.
type rebindingHost struct {
	upstreamtest.Records
	client           *Account
	port             string
	allowed, refused atomic.Int32 // connections to the allowed address, and to the refused ones
}

func newRebindingHost(t *testing.T) *rebindingHost {
	t.Helper()
	m := &rebindingHost{}
	first, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, m.port, _ = net.SplitHostPort(first.Addr().String())
	serve := func(l net.Listener, count *atomic.Int32) {
		t.Cleanup(func() { _ = l.Close() })
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close") // so that the next request has to dial
		}), ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				count.Add(1)
			}
		}}
		go func() { _ = server.Serve(l) }()
	}
	serve(first, &m.allowed)
	for _, address := range []string{"127.0.0.2", "127.0.0.3", "::1"} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, m.port))
		if err != nil {
			t.Logf("no server listens at %s: %v", address, err)
			continue
		}
		serve(l, &m.refused)
	}
	c := New(Options{Guard: Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, Resolver: m.Resolver(t)})
	t.Cleanup(c.Close)
	m.client = c.Account("demo")
	return m
}

// sendKinds describes the two requests of rebindingHost.send, in the order of its results.
var sendKinds = [2]string{"directly", "through http.Transport"}

// send sends a request without a body, directly, and one with a body, through http.Transport.
func (h *rebindingHost) send(t *testing.T, name string) (errs [2]error) {
	t.Helper()
	for i, body := range []string{"", "x"} {
		r := request(t, t.Context(), http.MethodPost, "http://"+name+":"+h.port+"/")
		if body != "" {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), 1
		}
		response, err := h.client.Send(r, nil)
		if err == nil {
			response.Body.Close()
		}
		errs[i] = err
	}
	return errs
}

// TestRebindingNameIsRefused checks that every dial checks the current
// addresses of a name, although the name led to an allowed address before.
func TestRebindingNameIsRefused(t *testing.T) {
	for name, refusedAddrs := range map[string][]string{
		"an address":                   {"127.0.0.2"},
		"an IPv6 address":              {"::1"},
		"an IPv4 and an IPv6 address":  {"127.0.0.2", "::1"},
		"an IPv4-mapped address":       {"::ffff:127.0.0.2"},
		"an alias":                     {"inside.test."},
		"the metadata service":         {"169.254.169.254"},
		"the metadata service by IPv6": {"fd00:ec2::254"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newRebindingHost(t)
			m.Set("inside.test.", "127.0.0.3")
			for range 3 {
				m.Set("rebind.test.", "127.0.0.1")
				for i, err := range m.send(t, "rebind.test") {
					if err != nil {
						t.Fatalf("Send() %s to the allowed address: error = %v, want none", sendKinds[i], err)
					}
				}
				m.Set("rebind.test.", refusedAddrs...)
				for i, err := range m.send(t, "rebind.test") {
					if !errors.Is(err, errAddressRefused) {
						t.Errorf("Send() %s to a refused address: error = %v, want %v", sendKinds[i], err, errAddressRefused)
					}
				}
			}
			if m.allowed.Load() != 6 || m.refused.Load() != 0 {
				t.Errorf("connections to the allowed address = %d, to refused ones = %d, want 6 and 0",
					m.allowed.Load(), m.refused.Load())
			}
		})
	}
}

// TestRefusedAddressesAreNeverConnected resolves names to generated sets of addresses and aliases, and checks that the
// servers at refused addresses get no connection.
func TestRefusedAddressesAreNeverConnected(t *testing.T) {
	m := newRebindingHost(t)
	random := rand.New(rand.NewPCG(5, 6))
	values := []string{
		"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3", "::1", "::ffff:127.0.0.2", "64:ff9b::7f00:2",
		"one.test.", "two.test.",
	}
	reached := 0
	for i := range 400 {
		for _, name := range []string{"start.test.", "one.test.", "two.test."} {
			var addresses []string
			for range random.IntN(4) {
				value := values[random.IntN(len(values))]
				if value != name {
					addresses = append(addresses, value)
				}
			}
			m.Set(name, addresses...)
		}
		before := m.allowed.Load()
		for _, err := range m.send(t, "start.test") {
			if err == nil {
				reached++
			}
		}
		if n := m.refused.Load(); n != 0 {
			t.Fatalf("round %d: connections to refused addresses = %d, want 0", i, n)
		}
		if int(m.allowed.Load()-before) > 2 {
			t.Fatalf("round %d: connections to the allowed address = %d, want at most 2", i, m.allowed.Load()-before)
		}
	}
	if reached < 100 {
		t.Errorf("requests that reached the allowed address = %d, want at least 100", reached)
	}
}
