package gateway

import (
	"net/http"
	"strings"

	"github.com/gatewright/gatewright/shared/forwarded"
)

// origin is where a request came from.
type origin struct{ forwarded.Origin }

// forward writes the forwarding headers that go upstream.
func (o origin) forward(out, in http.Header, host string, own *singles) {
	peer := ""
	if o.Peer.IsValid() {
		peer = o.Peer.String()
	}
	if before := in["X-Forwarded-For"]; o.Trusted && len(before) > 0 {
		out["X-Forwarded-For"] = []string{strings.Join(before, ", ") + ", " + peer}
	} else if peer != "" {
		out["X-Forwarded-For"] = own.of(peer)
	}
	out["X-Forwarded-Host"] = own.of(host)
	out["X-Forwarded-Proto"] = own.of(o.Scheme)
	if before := in["Forwarded"]; o.Trusted && len(before) > 0 && peer != "" {
		// Somebody before us speaks RFC 7239: the chain has to stay whole.
		node := peer
		if o.Peer.Is6() {
			node = `"[` + peer + `]"`
		}
		out["Forwarded"] = []string{strings.Join(before, ", ") + ", for=" + node + ";host=" + quoted(host) + ";proto=" + o.Scheme}
	}
}

// quoted writes a host as a value of RFC 7239.
func quoted(host string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(host) + `"`
}
