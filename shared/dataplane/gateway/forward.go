package gateway

import (
	"strings"
)

// addForwardingFields adds X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto for the upstream. It adds a
// Forwarded field only if a trusted proxy has sent one.
func (r *request) addForwardingFields() {
	out, in, host := r.x.Header, r.in.Header, r.in.Host
	peer := ""
	if r.origin.Peer.IsValid() {
		peer = r.origin.Peer.String()
	}
	if previous := in["X-Forwarded-For"]; r.origin.Trusted && len(previous) > 0 {
		out["X-Forwarded-For"] = []string{strings.Join(previous, ", ") + ", " + peer}
	} else if peer != "" {
		out["X-Forwarded-For"] = r.singleValues.slice(peer)
	}
	out["X-Forwarded-Host"] = r.singleValues.slice(host)
	out["X-Forwarded-Proto"] = r.singleValues.slice(r.origin.Scheme)
	if previous := in["Forwarded"]; r.origin.Trusted && len(previous) > 0 && peer != "" {
		// A trusted proxy has written a Forwarded field (RFC 7239). Append an element for the hop from that proxy to us.
		node := peer
		if r.origin.Peer.Is6() {
			node = `"[` + peer + `]"`
		}
		out["Forwarded"] = []string{strings.Join(previous, ", ") + ", for=" + node + ";host=" + quoted(host) + ";proto=" +
			r.origin.Scheme}
	}
}

// quoted returns a host as a quoted string of RFC 7239.
func quoted(host string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host) + `"`
}
