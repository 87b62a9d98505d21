package gateway

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// origin is where a request came from, as far as it can be believed.
type origin struct {
	peer   netip.Addr // the other end of the connection
	client netip.Addr // the last address that no trusted proxy has
	scheme string
	// trusted tells that the peer is a proxy of the installation's own.
	trusted bool
}

// originOf reads the forwarding headers of trusted proxies and of nobody else.
// X-Forwarded-Host is not read: load balancers let a client's own pass.
func originOf(r *http.Request, trusted []netip.Prefix) origin {
	o := origin{peer: peerOf(r.RemoteAddr), scheme: "http"}
	if r.TLS != nil {
		o.scheme = "https"
	}
	o.client = o.peer
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(a) })
	}
	if len(trusted) == 0 || !isTrusted(o.peer) {
		return o
	}
	o.trusted = true
	if proto := strings.ToLower(r.Header.Get("X-Forwarded-Proto")); proto == "http" || proto == "https" {
		o.scheme = proto
	}
	chain := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
	for _, text := range slices.Backward(chain) {
		// From the right: what stands left of an untrusted address is its claim.
		addr := peerOf(strings.TrimSpace(text))
		if !addr.IsValid() {
			break
		}
		o.client = addr
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

// forward writes the forwarding headers that go upstream.
func (o origin) forward(out, in http.Header, host string, own *singles) {
	peer := ""
	if o.peer.IsValid() {
		peer = o.peer.String()
	}
	if before := in["X-Forwarded-For"]; o.trusted && len(before) > 0 {
		out["X-Forwarded-For"] = []string{strings.Join(before, ", ") + ", " + peer}
	} else if peer != "" {
		out["X-Forwarded-For"] = own.of(peer)
	}
	out["X-Forwarded-Host"] = own.of(host)
	out["X-Forwarded-Proto"] = own.of(o.scheme)
	if before := in["Forwarded"]; o.trusted && len(before) > 0 && peer != "" {
		// Somebody before us speaks RFC 7239: the chain has to stay whole.
		node := peer
		if o.peer.Is6() {
			node = `"[` + peer + `]"`
		}
		out["Forwarded"] = []string{strings.Join(before, ", ") + ", for=" + node + ";host=" + quoted(host) + ";proto=" + o.scheme}
	}
}

// quoted writes a host as a value of RFC 7239.
func quoted(host string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host) + `"`
}
