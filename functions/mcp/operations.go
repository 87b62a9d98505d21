package mcp

import (
	"net/http"
	"slices"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/mcp/endpoint"
	"github.com/gatewright/gatewright/shared/store"
)

// Path is where the server is.
const Path = "/mcp"

// Over is what this function answers, and what binds it, over the groups whose operations are its tools, and their
// routes: it does whatever these do.
func Over(others []api.Group, routes func(installation.Parts) []api.Route) (api.Group, func(installation.Parts) []api.Route) {
	ask := developerAPI
	var reach store.Reach
	for _, g := range others {
		reach = reach.And(g.Reached().Tried()) // it makes dry runs
		for _, d := range g.Declarations() {
			ask.Uses = append(ask.Uses, d.Uses...)
		}
	}
	slices.Sort(ask.Uses)
	ask.Uses = slices.Compact(ask.Uses)
	group := api.Group{
		Name:        "mcp",
		Title:       "MCP",
		Description: "The MCP server that has every operation of this API as a tool.",
		Reach:       reach,
		Operations:  []api.Declared{ask, noStream, noSession, preflight},
	}
	bind := binder(ask, routes)
	return group, func(p installation.Parts) []api.Route { return bind(group.Held(p)) }
}

var developerAPI = api.Operation[messageIn, endpoint.Answer]{
	ID: "developerApiMcpServer", Method: "POST", Path: Path,
	Summary: "Call this API as an MCP server",
	Description: endpoint.Describe() + ". " +
		"Each operation of this API is a tool; tools/list has those that the key may call. Errors of the protocol are JSON-RPC errors, and those of an operation results with isError.",
	Unseen: api.UnseenIsLeftOut, Carries: true, Strict: true, Origins: api.KnownOrigins, NoTool: true, Message: endpoint.Body(),
	Errors: endpoint.Statuses(),
}

// What the protocol has beside messages.
var (
	noStream  = endpoint.NotAllowed("developerApiMcpServer_stream", http.MethodGet, Path, api.KnownOrigins)
	noSession = endpoint.NotAllowed("developerApiMcpServer_session", http.MethodDelete, Path, api.KnownOrigins)
	preflight = endpoint.Preflight("developerApiMcpServer_preflight", Path, api.KnownOrigins)
)

// messageIn is a message, and what its caller wants to see. What is read of the query may stand in a header too.
type messageIn struct {
	endpoint.Message

	ReadOnly bool   `query:"readonly" doc:"Whether there are only the tools that change nothing. X-MCP-Readonly: true says the same."`
	Toolsets string `query:"toolsets" maxLength:"1024" doc:"The groups of operations whose tools there are, by their titles in small letters with hyphens: key-buckets,consumers. All unless it is given. X-MCP-Toolsets says the same."`
	Confirm  bool   `query:"confirm" doc:"Whether a person has to confirm each call that removes or replaces something. X-MCP-Confirm: true says the same."`
}
