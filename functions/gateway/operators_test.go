package gateway

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
)

// TestOperatorsAreNoUpstream wherever their address is.
func TestOperatorsAreNoUpstream(t *testing.T) {
	loopback := []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:9100"), netip.MustParseAddrPort("[::1]:9100")}
	all := loopback
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range own {
		all = append(all, netip.AddrPortFrom(netip.MustParsePrefix(a.String()).Addr(), 9100))
	}
	for text, want := range map[string][]netip.AddrPort{
		":9100":          all,
		"0.0.0.0:9100":   all,
		"[::]:9100":      all,
		"localhost:9100": loopback,
		"192.0.2.7:9100": append(slices.Clone(loopback), netip.MustParseAddrPort("192.0.2.7:9100")),
		"127.0.0.1:0":    nil, // a port of 0 is every port to a guard
		"nothing of use": nil,
		"":               nil,
	} {
		if got := Operators(text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

// TestHealthIsBadFromTheSignalOn at the clients' port too, and nothing else is.
func TestHealthIsBadFromTheSignalOn(t *testing.T) {
	p := &process{gateway: &Service{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) })}}
	ask := func(path string) int {
		w := httptest.NewRecorder()
		p.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if got := ask(Beside.Health); got != http.StatusAccepted {
		t.Errorf("it is %d", got)
	}
	p.Leave()
	if health, other := ask(Beside.Health), ask("/x"); health != http.StatusServiceUnavailable || other != http.StatusAccepted {
		t.Errorf("then it is %d, and others are answered %d", health, other)
	}
}
