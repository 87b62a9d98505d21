package gateway

import (
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/mcp"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// mcpServer is an MCP server, with the index of its route.
type mcpServer struct {
	mcp   *mcp.Server
	route int
}

// initMCPServers initializes the MCP servers. It is called after
// all routes exist, because a server can offer any route as a tool.
func (b *siteBuilder) initMCPServers() {
	if len(b.servers) == 0 {
		return
	}
	index := make(map[mcp.Operation]int, 2*len(b.artifact.Routes))
	for i, r := range b.artifact.Routes {
		index[mcp.Operation{File: r.Source.File, ID: r.OperationID}] = i
		index[mcp.Operation{File: r.Source.File, Method: r.Method, Path: r.Path}] = i
	}
	for _, s := range b.servers {
		if b.stopped() {
			return
		}
		out := &b.site.routes[s.route]
		setup := mcp.Setup{
			Find: func(o mcp.Operation) (mcp.Offer, bool) {
				o.File, o.Method = strings.TrimPrefix(o.File, "./"), project.RequestMethod(o.Method)
				i, ok := index[o]
				if !ok || b.artifact.Routes[i].MCPOperation == nil {
					return mcp.Offer{}, false
				}
				return b.offerOf(i), true
			},
			AllowsOrigin:  func(origin string) bool { return out.cors != nil && out.cors.allows(origin) },
			Private:       b.identifies(s.route),
			PreservePaths: b.site.preservePaths, Log: b.deps.log, Count: b.deps.count,
		}
		problems := s.mcp.Configure(setup)
		if b.deps.handler.CertificatesPending { // only in a build; a gateway checks the schemas when they are used
			problems = append(problems, s.mcp.CheckSchemas()...)
		}
		for _, p := range problems {
			if len(b.site.problems) < maxProblems && !slices.Contains(b.site.problems, p) {
				b.site.problems = append(b.site.problems, p)
			}
		}
	}
}

// offerOf returns the route with index i as an offer for MCP servers.
func (b *siteBuilder) offerOf(i int) mcp.Offer {
	s := b.site
	return mcp.Offer{
		Route: &s.routes[i].Route, Operation: b.artifact.Routes[i].MCPOperation, Source: b.artifact.Routes[i].Source,
		Identifies: b.identifies(i),
		Matches: func(x *pipeline.Exchange) bool {
			found, ok := s.router.Find(x.Method, x.Path, &x.Params)
			return ok && found == i && (s.preservePaths || !s.router.IsAmbiguous(x.Path))
		},
	}
}

// identifies reports whether one of the inbound policies of the route with index i identifies the user.
func (b *siteBuilder) identifies(i int) bool {
	return slices.ContainsFunc(b.artifact.Routes[i].Inbound, func(name string) bool {
		return policy.Identifies(b.artifact.Policies[name].Type)
	})
}
