package gateway

import (
	"strings"
)

// forward adds the forwarding headers for the upstream.
func (r *request) forward() {
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
		// A proxy in front of us has written a Forwarded field (RFC 7239). Append our hop to it.
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
