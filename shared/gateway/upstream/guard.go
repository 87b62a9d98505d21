package upstream

import (
	"context"
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
	// never opens link-local addresses.
	AllowPrivate bool
	// Allow lists further prefixes to let through, whatever they are, but for
	// what platforms tell their machines: that is never let through.
	Allow []netip.Prefix
	// Refuse lists endpoints that are never let through, even if the fields
	// above say so: our own Runtime API, emulators, control ports. Port 0
	// stands for all ports of the address, and an address of the loopback for
	// all of the loopback: what listens on all addresses is reached at each.
	Refuse []netip.AddrPort
	// Endpoints are more of these, by names too; nil for none.
	Endpoints *Endpoints
}

// platformPrefixes are where a cloud answers its own machines, with credentials
// among the answers. They are refused always: no upstream is there, and each is
// one that some other rule lets through, be it private, shared, public or listed.
var platformPrefixes = prefixes(
	"169.254.169.254/32",     // instance metadata nearly everywhere
	"169.254.170.2/32",       // credentials of containers (ECS)
	"169.254.170.23/32",      // credentials of pods (EKS)
	"169.254.169.253/32",     // the VPC's resolver
	"169.254.42.42/32",       // instance metadata at another address
	"169.254.0.23/32",        // likewise
	"fd00:ec2::/32",          // EC2: metadata (::254), pods (::23), resolver (::253)
	"100.100.100.200/32",     // instance metadata in shared space
	"fd00:100::100:200/128",  // likewise, by IPv6
	"168.63.129.16/32",       // a wire server, which looks like a public address
	"192.0.0.192/32",         // instance metadata among protocol assignments
	"fd20:ce::254/128",       // instance metadata in unique local space
	"fd00:c1::a9fe:a9fe/128", // likewise
	"fd00:42::42/128",        // likewise
	"fd00:a9fe:a9fe::1/128",  // likewise
	"fe80::a9fe:a9fe/128",    // instance metadata by link-local IPv6
)

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

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		out[i] = netip.MustParsePrefix(text)
	}
	return out
}

// Check returns nil or an error that wraps errAddressRefused and names the
// address, for the log. It may wait for a look-up of the names of Endpoints, within ctx.
func (g *Guard) Check(ctx context.Context, to netip.AddrPort) error {
	for _, addr := range meanings(to.Addr()) {
		if one := netip.AddrPortFrom(addr, to.Port()); !g.allows(one) || g.Endpoints.refuses(ctx, one) {
			return fmt.Errorf("%w %s", errAddressRefused, to)
		}
	}
	return nil
}

// allows decides about an address that stands for itself.
func (g *Guard) allows(to netip.AddrPort) bool {
	addr := to.Addr()
	for _, r := range g.Refuse {
		own := meanings(r.Addr())[0]
		if (own == addr || own.IsLoopback() && addr.IsLoopback()) && (r.Port() == 0 || r.Port() == to.Port()) {
			return false
		}
	}
	within := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case slices.ContainsFunc(platformPrefixes, within):
		return false
	case slices.ContainsFunc(g.Allow, within):
		return true
	case slices.ContainsFunc(privatePrefixes, within):
		return g.AllowPrivate
	case !addr.IsValid(), slices.ContainsFunc(specialPrefixes, within):
		return false
	}
	return addr.Is4() || globalIPv6.Contains(addr)
}

// Ways to write an IPv4 address into an IPv6 one.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	compatible = netip.MustParsePrefix("::/96")          // RFC 4291, section 2.5.5.1
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")      // RFC 4380
)

// meanings returns what a packet to an address may reach, without zone: the
// address, and the IPv4 addresses that it tunnels to. An address that is nothing
// but the writing of an IPv4 address has that one meaning. A translator's prefix
// of a network's own (RFC 6052) can't be told from any other address.
func meanings(addr netip.Addr) []netip.Addr {
	addr = addr.Unmap().WithZone("")
	out := []netip.Addr{addr}
	if !addr.Is6() {
		return out
	}
	b := addr.As16()
	last := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case nat64.Contains(addr):
		out[0] = last
	case localNAT64.Contains(addr):
		// By the length of the prefix that the network has chosen: /96 or /48,
		// where byte 8 holds nothing.
		out = append(out, last, netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}))
	case compatible.Contains(addr) && !addr.IsLoopback() && !addr.IsUnspecified():
		out = append(out, last)
	case sixToFour.Contains(addr):
		out = append(out, netip.AddrFrom4([4]byte(b[2:])))
	case teredo.Contains(addr):
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		out = append(out, netip.AddrFrom4([4]byte(b[4:])), client)
	}
	// ISATAP, under any prefix (RFC 5214): the last 64 bits are 0:5efe and the
	// address, with the bit set or not that says that it is global.
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		out = append(out, last)
	}
	return out
}
