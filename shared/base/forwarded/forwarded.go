// Package forwarded determines the client's address and the scheme of a request, from sources that can be trusted.
// The peer of the connection can be a proxy of the installation, which names the client in header fields.
//
// It does not implement the PROXY protocol. With that protocol, a proxy names the client before the first request; package
// listen reads that. It does not decide which proxies are trusted either: that is a setting (config.Listener).
//
// This is the only file. Contract 1.2 and docs/gateway-process.md have the rules.
package forwarded

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Origin is where a request came from.
type Origin struct {
	// Peer is the other end of the connection. It is the zero value for a connection without an address.
	Peer netip.Addr
	// Client is the address of the client. Its candidates are the addresses in X-Forwarded-For, in their order, and
	// then Peer. Client is the last candidate that does not belong to a trusted proxy, or the first candidate if all
	// belong to trusted proxies. Candidates before an invalid address do not count.
	Client netip.Addr
	// Scheme is the scheme that the client used: http or https.
	Scheme string
	// Trusted reports whether the peer is a proxy of the installation.
	Trusted bool
}

// Parse returns the origin of a request. It reads X-Forwarded-For and X-Forwarded-Proto only if the peer is a trusted
// proxy. It does not read X-Forwarded-Host, because load balancers forward the client's value of this field
// unchanged.
func Parse(r *http.Request, trusted []netip.Prefix) Origin {
	o := Origin{Peer: parseAddr(r.RemoteAddr), Scheme: "http"}
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
		// From the right: an untrusted address could have invented everything to its left.
		addr := parseAddr(strings.TrimSpace(text))
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

// parseAddr reads an address with or without a port.
func parseAddr(text string) netip.Addr {
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone("")
	}
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap().WithZone("")
}
