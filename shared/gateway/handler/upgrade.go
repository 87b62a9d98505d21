package handler

import (
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/project"
)

// webSocket is the protocol that routes let through unless they say otherwise
// (RFC 6455).
const webSocket = "websocket"

// requestProtocols carry requests of their own, which would reach the upstream
// past router and policies: no route can name them.
var requestProtocols = []string{"h2c", "h2", "h3", "http", "https", "tls"}

// Bounds of the option.
const (
	maxUpgrades     = 8
	maxUpgradeBytes = 64
)

// tunnel takes the protocols that a route names.
func (p *proxy) tunnel(names []string) []project.Problem {
	if len(names) > maxUpgrades {
		return []project.Problem{options.Problem("/upgrades", "Name at most %d protocols.", maxUpgrades)}
	}
	var problems []project.Problem
	for _, name := range names {
		protocol, version, versioned := strings.Cut(strings.ToLower(name), "/")
		switch {
		case len(name) > maxUpgradeBytes, !httpguts.ValidHeaderFieldName(protocol), versioned && !httpguts.ValidHeaderFieldName(version):
			problems = append(problems, options.Problem("/upgrades", "Write names of protocols as the Upgrade header has them, such as %q, of at most %d characters.", webSocket, maxUpgradeBytes))
		case slices.Contains(requestProtocols, protocol):
			problems = append(problems, options.Problem("/upgrades", "Remove %q: requests within it would pass by the project's routes and policies.", name))
		default:
			p.upgrades = append(p.upgrades, strings.ToLower(name))
		}
	}
	return problems
}

var _ pipeline.Switcher = (*proxy)(nil)

// Switches implements pipeline.Switcher.
func (p *proxy) Switches(x *pipeline.Exchange) bool { return p.upgradeOf(x) != "" }

// upgradeOf returns the first protocol that a client asks for and the route
// lets through, "" for none: then the request is an ordinary one, which is what
// a server takes it for that knows none of the protocols (RFC 9110, section
// 7.8). A body leaves open where it ends and the protocol begins: such requests
// are ordinary, too.
func (p *proxy) upgradeOf(x *pipeline.Exchange) string {
	if x.Upgrade == "" || x.ContentLength != 0 {
		return ""
	}
	for asked := range strings.SplitSeq(x.Upgrade, ",") {
		asked = strings.ToLower(strings.Trim(asked, " \t"))
		if slices.Contains(p.upgrades, asked) && (asked != webSocket || x.Method == http.MethodGet) {
			return asked
		}
	}
	return ""
}
