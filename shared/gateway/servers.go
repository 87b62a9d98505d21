package gateway

import (
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/mcp"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/policy"
)

// mcpServer is a route that is an MCP server, by its index.
type mcpServer struct {
	server *mcp.Server
	route  int
}

// serve makes the MCP servers ready, once all routes are there that they may offer.
func (m *maker) serve() {
	if len(m.servers) == 0 {
		return
	}
	byID := make(map[mcp.Operation]int, len(m.artifact.Routes))
	for i, r := range m.artifact.Routes {
		byID[mcp.Operation{File: r.Source.File, ID: r.OperationID}] = i
	}
	for _, s := range m.servers {
		out := &m.site.routes[s.route]
		setup := mcp.Setup{
			Find: func(o mcp.Operation) (mcp.Offer, bool) {
				i, ok := byID[mcp.Operation{File: strings.TrimPrefix(o.File, "./"), ID: o.ID}]
				if !ok || m.artifact.Routes[i].MCPOperation == nil {
					return mcp.Offer{}, false
				}
				return m.offer(i), true
			},
			Allows:   func(origin string) bool { return out.cors != nil && out.cors.allows(origin) },
			Private:  m.identifies(s.route),
			Preserve: m.site.preserve, Log: m.with.log, Count: m.with.count,
		}
		problems := s.server.Serve(setup)
		if m.with.handler.Unbound { // a build, which checks what a gateway leaves for later
			problems = append(problems, s.server.CheckSchemas()...)
		}
		for _, p := range problems {
			if len(m.site.problems) < maxProblems && !slices.Contains(m.site.problems, p) {
				m.site.problems = append(m.site.problems, p)
			}
		}
	}
}

// offer is a route as MCP servers offer it.
func (m *maker) offer(i int) mcp.Offer {
	s := m.site
	return mcp.Offer{
		Route: &s.routes[i].Route, Operation: m.artifact.Routes[i].MCPOperation, Source: m.artifact.Routes[i].Source,
		Identifies: m.identifies(i),
		Leads: func(x *pipeline.Exchange) bool {
			found, ok := s.router.Find(x.Method, x.Path, &x.Params)
			return ok && found == i && (s.preserve || !s.router.Elsewhere(x.Path))
		},
	}
}

// identifies reports whether a policy of a route's own says who the user is.
func (m *maker) identifies(i int) bool {
	return slices.ContainsFunc(m.artifact.Routes[i].Inbound, func(name string) bool {
		return policy.Identifies(m.artifact.Policies[name].Type)
	})
}
