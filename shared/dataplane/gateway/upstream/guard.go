package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// errAddressRefused is the error of a dial to an address that the installation does not allow.
var errAddressRefused = errors.New("upstream: this installation does not allow the address")

// Guard decides which addresses a project's upstreams can have. It checks the address to
// dial, after the DNS lookup, so a name that changes its address between two lookups
// can't bypass it. Redirects and retries are checked, too, because they are also dialed.
//
// The zero value allows only addresses on the public Internet.
type Guard struct {
	// AllowPrivate allows loopback, private (RFC 1918, fc00::/7) and shared (RFC 6598)
	// addresses, for a local run or a private network. It does not allow link-local addresses.
	AllowPrivate bool
	// Allow has further prefixes to allow, of any kind. The addresses in platformPrefixes,
	// Refuse and Endpoints are refused even if Allow contains them.
	Allow []netip.Prefix
	// Refuse has endpoints that are refused even if the fields above allow them: our own Runtime API,
	// emulators, control ports. Port 0 means all ports of the address. A loopback address means all
	// loopback addresses, because a server that listens on all addresses is reachable at each of them.
	Refuse []netip.AddrPort
	// Endpoints has more endpoints to refuse, which can have names; nil for none.
	Endpoints *Endpoints
}

// platformPrefixes has the addresses at which a cloud serves its own machines, including their credentials. They are
// always refused, because no upstream has such an address. Without this list, other rules could allow them: some of the
// addresses are private, shared or public, and Allow can contain any address.
var platformPrefixes = prefixes(
	"169.254.169.254/32",     // instance metadata of nearly all clouds
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

// privatePrefixes are the prefixes that AllowPrivate allows.
var privatePrefixes = prefixes(
	"127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10",
	"::1/128", "fc00::/7",
)

// specialPrefixes are the other prefixes that are not globally reachable, according to the IANA registries of
// special-purpose addresses. IPv6 prefixes outside globalIPv6 need no entry.
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
	"2002::/16",       // 6to4: contains an arbitrary IPv4 address
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

// Check returns nil if the address is allowed. Otherwise it returns an error for the log, which wraps
// errAddressRefused and contains the address. It can block while names of Endpoints are looked up, until ctx ends.
func (g *Guard) Check(ctx context.Context, to netip.AddrPort) error {
	for _, addr := range reachableAddrs(to.Addr()) {
		if target := netip.AddrPortFrom(addr, to.Port()); !g.allows(target) || g.Endpoints.refuses(ctx, target) {
			return fmt.Errorf("%w %s", errAddressRefused, to)
		}
	}
	return nil
}

// allows reports whether the fields of the Guard except Endpoints allow an address that reachableAddrs has returned.
func (g *Guard) allows(to netip.AddrPort) bool {
	addr := to.Addr()
	for _, r := range g.Refuse {
		refused := reachableAddrs(r.Addr())[0]
		if (refused == addr || refused.IsLoopback() && addr.IsLoopback()) && (r.Port() == 0 || r.Port() == to.Port()) {
			return false
		}
	}
	contains := func(p netip.Prefix) bool { return p.Contains(addr) }
	switch {
	case slices.ContainsFunc(platformPrefixes, contains):
		return false
	case slices.ContainsFunc(g.Allow, contains):
		return true
	case slices.ContainsFunc(privatePrefixes, contains):
		return g.AllowPrivate
	case !addr.IsValid(), slices.ContainsFunc(specialPrefixes, contains):
		return false
	}
	return addr.Is4() || globalIPv6.Contains(addr)
}

// Prefixes of IPv6 addresses that contain an IPv4 address.
var (
	nat64      = netip.MustParsePrefix("64:ff9b::/96")   // RFC 6052
	localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48") // RFC 8215
	compatible = netip.MustParsePrefix("::/96")          // RFC 4291, section 2.5.5.1
	sixToFour  = netip.MustParsePrefix("2002::/16")      // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")      // RFC 4380
)

// reachableAddrs returns the addresses that a packet to an address can reach, without zones: the
// address itself, and the IPv4 addresses to which a tunnel or translator sends the packet. For an IPv4
// address in an IPv6 address (IPv4-mapped, or with the well-known prefix of RFC 6052), it returns only
// the IPv4 address. It can't recognize addresses with a network's own translation prefix (RFC 6052).
func reachableAddrs(addr netip.Addr) []netip.Addr {
	addr = addr.Unmap().WithZone("")
	out := []netip.Addr{addr}
	if !addr.Is6() {
		return out
	}
	b := addr.As16()
	suffix := netip.AddrFrom4([4]byte(b[12:]))
	switch {
	case nat64.Contains(addr):
		out[0] = suffix
	case localNAT64.Contains(addr):
		// The network has chosen the length of the prefix: /96 or /48, where byte 8 is unused.
		out = append(out, suffix, netip.AddrFrom4([4]byte{b[6], b[7], b[9], b[10]}))
	case compatible.Contains(addr) && !addr.IsLoopback() && !addr.IsUnspecified():
		out = append(out, suffix)
	case sixToFour.Contains(addr):
		out = append(out, netip.AddrFrom4([4]byte(b[2:])))
	case teredo.Contains(addr):
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		out = append(out, netip.AddrFrom4([4]byte(b[4:])), client)
	}
	// ISATAP, under any prefix (RFC 5214): the last 64 bits are 0:5efe and
	// the IPv4 address. The bit for global addresses can be set or not.
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe {
		out = append(out, suffix)
	}
	return out
}
