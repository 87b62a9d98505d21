// Package forwarded says where a request came from, as far as it can be believed: who has
// connected may be a proxy of the installation's own, which says for whom.
//
// What it is not: the PROXY protocol, by which a proxy says so before the first request and
// which package listen reads; and nothing here decides who is trusted, which is a setting
// (config.Listener).
//
// There is only this file. Its rules are those of contract 1.2 and docs/gateway-process.md.
package forwarded

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Origin is where a request came from.
type Origin struct {
	// Peer is the other end of the connection, the zero value for one without an address.
	Peer netip.Addr
	// Client is the last address that no trusted proxy has.
	Client netip.Addr
	// Scheme is http or https: how the client asked.
	Scheme string
	// Trusted tells that the peer is a proxy of the installation's own.
	Trusted bool
}

// Of reads the forwarding headers of trusted proxies and of nobody else.
// X-Forwarded-Host is not read: load balancers let a client's own pass.
func Of(r *http.Request, trusted []netip.Prefix) Origin {
	o := Origin{Peer: peerOf(r.RemoteAddr), Scheme: "http"}
	if r.TLS != nil {
		o.Scheme = "https"
	}
	o.Client = o.Peer
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if len(trusted) == 0 || !isTrusted(o.Peer) {
		return o
	}
	o.Trusted = true
	if proto := strings.ToLower(r.Header.Get("X-Forwarded-Proto")); proto == "http" || proto == "https" {
		o.Scheme = proto
	}
	chain := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, text := range slices.Backward(chain) {
		// From the right: what stands left of an untrusted address is its claim.
		addr := peerOf(strings.TrimSpace(text))
		if !addr.IsValid() {
			break
		}
		o.Client = addr
		if !isTrusted(addr) {
			break
		}
	}
	return o
}

// peerOf reads an address with or without a port.
func peerOf(text string) netip.Addr {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone("")
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
