// Package subscriber says which addresses are one client's, for whoever counts by address: listeners their connections,
// the gateway and the management API their requests.
//
// It finds no address: who is asked knows whom to believe. This file is all of it.
package subscriber

import "net/netip"

// network is what a client of IPv6 has at least (RFC 6177): whoever has one of its addresses has all of them.
const network = 64

// Of gives the address that stands for all addresses of a client: its own, and of IPv6 the first of its /64. An IPv4
// address that is written as one of IPv6 is the former, and a zone, which says how it was reached, is left out.
func Of(client netip.Addr) netip.Addr {
	client = client.Unmap()
	if !client.Is6() {
		return client
	}
	prefix, err := client.Prefix(network) // which has no zone
	if err != nil {
		return client // no address of IPv6 is without one
	}
	return prefix.Addr()
}
