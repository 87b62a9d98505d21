package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestEndpointsAreRefusedAtAllTheirAddresses checks that a dialed address is refused if it has the port of an endpoint
// and one of the addresses of the endpoint's host. The dialed name does not matter.
func TestEndpointsAreRefusedAtAllTheirAddresses(t *testing.T) {
	now := time.Now()
	names := map[string][]string{
		"this-machine": {"127.0.1.1"}, "its-address": {"10.0.0.5"}, "elsewhere": {"10.0.0.9", "2001:db8::9"},
		"mapped": {"::ffff:10.0.0.10"},
	}
	lookups := 0
	e := NewEndpoints("127.0.0.1:1", "[::]:2", ":3", "localhost:4", "db.localhost.:5", "this-machine:6", "its-address:7",
		"elsewhere:8", "mapped:9",
		"10.0.0.5:10", "10.0.0.9:11", "nobody:12", "nothing of use", "127.0.0.1:0", "127.0.0.1:http")
	e.now = func() time.Time { return now }
	e.interfaceAddrs = func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.IPv4(127, 0, 0, 1), Mask: net.CIDRMask(8, 32)},
			&net.IPNet{IP: net.IPv4(10, 0, 0, 5), Mask: net.CIDRMask(24, 32)},
		}, nil
	}
	e.lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
		lookups++
		var out []netip.Addr
		for _, text := range names[host] {
			out = append(out, netip.MustParseAddr(text))
		}
		if out == nil {
			return nil, errors.New("no such host")
		}
		return out, nil
	}
	g := Guard{AllowPrivate: true, Allow: []netip.Prefix{netip.MustParsePrefix("2001:db8::/32")}, Endpoints: e}
	check := func(wantAllowed bool, addresses ...string) {
		t.Helper()
		for _, a := range addresses {
			if got := g.Check(t.Context(), netip.MustParseAddrPort(a)) == nil; got != wantAllowed {
				t.Errorf("Check(%s) allows the address: %t, want %t", a, got, wantAllowed)
			}
		}
	}
	// The endpoints on this machine are refused at all of its addresses. The configured name does not matter.
	for _, port := range []string{"1", "2", "3", "4", "5", "6", "7", "10"} {
		check(false, "127.0.0.1:"+port, "127.0.0.2:"+port, "[::1]:"+port, "10.0.0.5:"+port, "[::ffff:10.0.0.5]:"+port,
			"[64:ff9b::7f00:1]:"+port)
		check(true, "10.0.0.6:"+port)
	}
	check(false, "10.0.0.9:8", "[2001:db8::9]:8", "10.0.0.10:9", "10.0.0.9:11")
	check(true, "127.0.0.1:8", "10.0.0.10:8", "127.0.0.1:13", "93.184.216.34:12")
	// The host "nobody" has no known address. So it could have any private address, and any address of this machine.
	check(false, "127.0.0.1:12", "10.0.0.5:12", "10.7.7.7:12")
	before := lookups
	check(true, "10.0.0.10:8", "10.0.0.9:80")
	if lookups != before {
		t.Errorf("look-ups for endpoints that are still cached and for other ports = %d, want 0", lookups-before)
	}

	// If a name gets new addresses, these are refused instead. If it is no longer found, its last addresses stay refused.
	names["elsewhere"] = []string{"10.0.0.11"}
	now = now.Add(lookupTTL)
	check(false, "10.0.0.11:8")
	check(true, "10.0.0.9:8")
	delete(names, "elsewhere")
	now = now.Add(lookupTTL)
	check(false, "10.0.0.11:8")
	check(true, "10.0.0.9:8")
}
