package upstream

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// errAddressRefused is what a dial fails with when the installation does not
// let projects reach the address that a host name led to.
var errAddressRefused = errors.New("upstream: this installation does not allow the address")

// Guard decides which addresses a project's upstreams may have. It is asked
// with the address that is being dialled, after DNS, so a name that changes its
// address between two look-ups gains nothing; redirects and retries are dialled
// and so asked too.
//
// The zero value lets through what is reachable on the public Internet and
// nothing else.
type Guard struct {
	// AllowPrivate also lets loopback, private (RFC 1918, fc00::/7) and shared
	// (RFC 6598) addresses through, for a local run or a private network. It
	// never opens link-local addresses: the metadata service is one.
	AllowPrivate bool
	// Allow lists further prefixes to let through, whatever they are.
	Allow []netip.Prefix
	// Refuse lists endpoints that are never let through, even if the fields
	// above say so: our own Runtime API, emulators, control ports. Port 0
	// stands for all ports of the address.
	Refuse []netip.AddrPort
}

// privatePrefixes are what AllowPrivate opens.
var privatePrefixes = prefixes(
	"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
	"::1/128", "fc00::/7",
)

// specialPrefixes are the rest of what is not globally reachable, by the IANA
// registries of special-purpose addresses.
var specialPrefixes = prefixes(
	"0.0.0.0/8",       // this network
	"169.254.0.0/16",  // link-local, with the metadata service
	"192.0.0.0/24",    // protocol assignments
	"192.0.2.0/24",    // documentation
	"192.88.99.0/24",  // 6to4 relays
	"198.18.0.0/15",   // benchmarks
	"198.51.100.0/24", // documentation
	"203.0.113.0/24",  // documentation
	"224.0.0.0/4",     // multicast
	"240.0.0.0/4",     // reserved, broadcast
	"2001::/23",       // protocol assignments, Teredo
	"2001:db8::/32",   // documentation
	"2002::/16",       // 6to4: holds an IPv4 address of anyone's choice
	"3fff::/20",       // documentation
	"5f00::/16",       // segment routing
)

// globalIPv6 is all of IPv6 that is assigned for global unicast.
var globalIPv6 = netip.MustParsePrefix("2000::/3")

// nat64 leads to the IPv4 address in its last 32 bits (RFC 6052).
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// Check returns nil or an error that wraps errAddressRefused and names the
// address, for the log.
func (g *Guard) Check(to netip.AddrPort) error {
	addr := embedded(to.Addr())
	refused := fmt.Errorf("%w %s", errAddressRefused, to)
	for _, r := range g.Refuse {
		if embedded(r.Addr()) == addr && (r.Port() == 0 || r.Port() == to.Port()) {
			return refused
		}
	}
	within := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case slices.ContainsFunc(g.Allow, within):
		return nil
	case slices.ContainsFunc(privatePrefixes, within):
		if g.AllowPrivate {
			return nil
		}
		return refused
	case !addr.IsValid(), slices.ContainsFunc(specialPrefixes, within):
		return refused
	case addr.Is6() && !globalIPv6.Contains(addr):
		return refused
	}
	return nil
}

// embedded returns the IPv4 address that an IPv6 address stands for, or the
// address itself, without its zone.
func embedded(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if nat64.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}
