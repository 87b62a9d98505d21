package gateway

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// TestOperatorsAreNoUpstream at any address by which this machine reaches them.
func TestOperatorsAreNoUpstream(t *testing.T) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"":               "",
		":9100":          "127.0.0.1:9100 [::1]:9100",
		"0.0.0.0:9100":   "127.0.0.1:9100 [::1]:9100",
		"[::]:9100":      "127.0.0.1:9100 [::1]:9100",
		"localhost:9100": "127.0.0.1:9100 [::1]:9100",
		"127.0.0.5:9100": "127.0.0.1:9100 [::1]:9100", // to a guard each of the loopback is all of it
		"10.0.0.5:9100":  "10.0.0.5:9100",
		"127.0.0.1:0":    "", // a port of 0 is every port to a guard
		"nothing of use": "",
	} {
		got := Operators(text)
		var first []netip.AddrPort
		for one := range strings.FieldsSeq(want) {
			first = append(first, netip.MustParseAddrPort(one))
		}
		if len(got) < len(first) || !slices.Equal(got[:len(first)], first) || len(first) < 2 && len(got) != len(first) {
			t.Errorf("%q: %v, want %v", text, got, first)
		}
		for _, a := range own {
			p := netip.MustParsePrefix(a.String())
			if len(first) == 2 && !p.Addr().IsLoopback() && !slices.Contains(got, netip.AddrPortFrom(p.Addr().WithZone(""), first[0].Port())) {
				t.Errorf("%q: %v is without this machine's %s", text, got, a)
			}
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
