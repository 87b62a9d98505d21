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

	"github.com/gatewright/gatewright/shared/gateway/upstream/upstreamtest"
)

// moving is a host whose name says what a test wants, and servers at addresses
// of which the first is allowed and the others are not.
type moving struct {
	upstreamtest.Records
	client           *Account
	port             string
	allowed, refused atomic.Int32 // connections
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	m := &moving{}
	first, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, m.port, _ = net.SplitHostPort(first.Addr().String())
	answer := func(l net.Listener, count *atomic.Int32) {
		t.Cleanup(func() { _ = l.Close() })
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close") // the next request has to dial
		}), ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				count.Add(1)
			}
		}}
		go func() { _ = server.Serve(l) }()
	}
	answer(first, &m.allowed)
	for _, address := range []string{"127.0.0.2", "127.0.0.3", "::1"} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, m.port))
		if err != nil {
			t.Logf("nobody listens at %s: %v", address, err)
			continue
		}
		answer(l, &m.refused)
	}
	c := New(Options{Guard: Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}, Resolver: m.Resolver(t)})
	t.Cleanup(c.Close)
	m.client = c.Account("demo")
	return m
}

// ask sends a request by each of the two ways: without a body and with one.
func (m *moving) ask(t *testing.T, name string) (errs [2]error) {
	t.Helper()
	for i, body := range []string{"", "x"} {
		r := request(t, t.Context(), http.MethodPost, "http://"+name+":"+m.port+"/")
		if body != "" {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), 1
		}
		response, err := m.client.Send(r, nil)
		if err == nil {
			response.Body.Close()
		}
		errs[i] = err
	}
	return errs
}

// TestANameThatRebindsIsRefused: an address counts when it is dialled, not when
// a name was looked up for the first time.
func TestANameThatRebindsIsRefused(t *testing.T) {
	for name, bad := range map[string][]string{
		"an address":         {"127.0.0.2"},
		"by IPv6":            {"::1"},
		"both":               {"127.0.0.2", "::1"},
		"mapped":             {"::ffff:127.0.0.2"},
		"an alias":           {"inside.test."},
		"the metadata":       {"169.254.169.254"},
		"the metadata by v6": {"fd00:ec2::254"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMoving(t)
			m.Set("inside.test.", "127.0.0.3")
			for range 3 {
				m.Set("rebind.test.", "127.0.0.1")
				for _, err := range m.ask(t, "rebind.test") {
					if err != nil {
						t.Fatalf("the allowed address: %v", err)
					}
				}
				m.Set("rebind.test.", bad...)
				for _, err := range m.ask(t, "rebind.test") {
					if !errors.Is(err, errAddressRefused) {
						t.Errorf("the refused address: %v", err)
					}
				}
			}
			if m.allowed.Load() != 6 || m.refused.Load() != 0 {
				t.Errorf("%d connections to the allowed address, %d to refused ones", m.allowed.Load(), m.refused.Load())
			}
		})
	}
}

// TestNothingIsConnectedToARefusedAddress answers generated sets of addresses
// and aliases: the allowed one among them may be reached, the others never.
func TestNothingIsConnectedToARefusedAddress(t *testing.T) {
	m := newMoving(t)
	random := rand.New(rand.NewPCG(5, 6))
	values := []string{"127.0.0.1", "127.0.0.1", "127.0.0.2", "127.0.0.3", "::1", "::ffff:127.0.0.2", "64:ff9b::7f00:2", "one.test.", "two.test."}
	reached := 0
	for i := range 400 {
		for _, name := range []string{"start.test.", "one.test.", "two.test."} {
			var some []string
			for range random.IntN(4) {
				value := values[random.IntN(len(values))]
				if value != name {
					some = append(some, value)
				}
			}
			m.Set(name, some...)
		}
		before := m.allowed.Load()
		for _, err := range m.ask(t, "start.test") {
			if err == nil {
				reached++
			}
		}
		if n := m.refused.Load(); n != 0 {
			t.Fatalf("round %d: a refused address was connected to", i)
		}
		if int(m.allowed.Load()-before) > 2 {
			t.Fatalf("round %d: %d connections to the allowed address", i, m.allowed.Load()-before)
		}
	}
	if reached < 100 {
		t.Errorf("%d reached the allowed address: the test has become one-sided", reached)
	}
}
