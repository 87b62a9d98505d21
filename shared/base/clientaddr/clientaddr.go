// Package clientaddr determines which addresses belong to one client, for counters by
// address: listeners count connections, the gateway and the management API count requests.
//
// It does not determine the address of a request: its callers know which proxies to trust. This is the only file.
package clientaddr

import "net/netip"

// clientPrefixBits is the prefix length of the smallest IPv6 network that a client has (RFC 6177). A client that has
// one address of this network has all of them.
const clientPrefixBits = 64

// Canonical returns the address that represents all addresses of a client: the IPv4 address itself, or the first
// address of the IPv6 address's /64. It converts an IPv4-mapped IPv6 address to IPv4, and removes a zone, which only
// names the network interface.
func Canonical(client netip.Addr) netip.Addr {
	client = client.Unmap()
	if !client.Is6() {
		return client
	}
	prefix, err := client.Prefix(clientPrefixBits) // the prefix has no zone
	if err != nil {
		return client // every IPv6 address has a prefix of this length
	}
	return prefix.Addr()
}
