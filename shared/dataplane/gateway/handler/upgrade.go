package handler

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/format/project"
)

// webSocket is the protocol that routes allow by default (RFC 6455).
const webSocket = "websocket"

// requestProtocols are protocols that no route can allow, because requests within such a connection would bypass the
// router and the policies.
var requestProtocols = []string{"h2c", "h2", "h3", "http", "https", "tls"}

// The limits of the option "upgrades".
const (
	maxUpgrades     = 8
	maxUpgradeBytes = 64
)

// allowUpgrades sets the protocols that a route allows. It returns a problem for each invalid name, or one problem if
// there are too many names.
func (p *proxy) allowUpgrades(names []string) []project.Problem {
	if len(names) > maxUpgrades {
		return []project.Problem{options.Problem("/upgrades", "Name at most %d protocols.", maxUpgrades)}
	}
	var problems []project.Problem
	for _, name := range names {
		protocol, version, hasVersion := strings.Cut(strings.ToLower(name), "/")
		switch {
		case len(name) > maxUpgradeBytes, !httpguts.ValidHeaderFieldName(protocol),
			hasVersion && !httpguts.ValidHeaderFieldName(version):
			problems = append(problems, options.Problem("/upgrades", "Write names of protocols as the Upgrade header has "+
				"them, such as %q, of at most %d characters.", webSocket, maxUpgradeBytes))
		case slices.Contains(requestProtocols, protocol):
			problems = append(problems, options.Problem("/upgrades", "Remove %q: requests within it would pass by the "+
				"project's routes and policies.", name))
		default:
			p.upgrades = append(p.upgrades, strings.ToLower(name))
		}
	}
	return problems
}

var _ pipeline.Switcher = (*proxy)(nil)

// Switches implements pipeline.Switcher.
func (p *proxy) Switches(x *pipeline.Exchange) bool { return p.chooseUpgrade(x) != "" }

// chooseUpgrade returns the first protocol that the client requests and the route allows, "" for none. WebSocket is
// possible only with GET. If chooseUpgrade returns "", the request is served as an ordinary request, as a server does
// that supports none of the protocols (RFC 9110, section 7.8). It returns "" for a request with a body, because it
// would be ambiguous where the body ends and the protocol begins.
func (p *proxy) chooseUpgrade(x *pipeline.Exchange) string {
	if x.Upgrade == "" || x.ContentLength != 0 {
		return ""
	}
	for protocol := range strings.SplitSeq(x.Upgrade, ",") {
		protocol = strings.ToLower(strings.Trim(protocol, " \t"))
		if slices.Contains(p.upgrades, protocol) && (protocol != webSocket || x.Method == http.MethodGet) {
			return protocol
		}
	}
	return ""
}
