package mcp

import (
	"net/http"
	"slices"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/endpoint"
)

// Path is the path of the server.
const Path = "/mcp"

// NewGroup returns the group of this package, and the function that binds its routes. The operations of groups become
// tools, and routes returns their routes. The new group has the uses and the table access of all these groups, because
// each call of a tool calls one of their operations.
func NewGroup(
	groups []api.Group, routes func(installation.Parts) []api.Route,
) (api.Group, func(installation.Parts) []api.Route) {
	operation := developerAPI
	var access store.TableAccess
	for _, g := range groups {
		access = access.Union(g.FullTableAccess().WithDryRuns()) // dry runs also read
		for _, d := range g.Declarations() {
			operation.Uses = append(operation.Uses, d.Uses...)
		}
	}
	slices.Sort(operation.Uses)
	operation.Uses = slices.Compact(operation.Uses)
	group := api.Group{
		Name:        "mcp",
		Title:       "MCP",
		Description: "The MCP server that has every operation of this API as a tool.",
		TableAccess: access,
		Operations:  []api.AnyOperation{operation, noStream, noSession, preflight},
	}
	bind := binder(operation, routes)
	return group, func(p installation.Parts) []api.Route { return bind(group.Restrict(p)) }
}

var developerAPI = api.Operation[messageIn, endpoint.Response]{
	ID: "developerApiMcpServer", Method: "POST", Path: Path,
	Summary: "Call this API as an MCP server",
	Description: endpoint.Describe() + ". " +
		"Each operation of this API is a tool; tools/list has those that the key may call. Errors of the protocol are " +
		"JSON-RPC errors, and those of an operation results with isError.",
	Invisible: api.InvisibleOmitted, ContainsRequests: true, Strict: true, Origins: api.KnownOrigins, NoTool: true,
	Message: endpoint.DescribeBody(),
	Errors:  endpoint.ProtocolStatuses(),
}

// Operations for the requests of the protocol that are not messages. A GET would open a stream, and a DELETE would end
// a session: both are refused.
var (
	noStream  = endpoint.NotAllowed("developerApiMcpServer_stream", http.MethodGet, Path, api.KnownOrigins)
	noSession = endpoint.NotAllowed("developerApiMcpServer_session", http.MethodDelete, Path, api.KnownOrigins)
	preflight = endpoint.Preflight("developerApiMcpServer_preflight", Path, api.KnownOrigins)
)

// messageIn is a message. The query can limit the tools that the caller sees, and require confirmations (view). Headers
// can do the same (readView).
type messageIn struct {
	endpoint.Message

	ReadOnly bool   `query:"readonly" doc:"Whether there are only the tools that change nothing. X-MCP-Readonly: true says the same."`
	Toolsets string `query:"toolsets" maxLength:"1024" doc:"The groups of operations whose tools there are, by their titles in small letters with hyphens: key-buckets,consumers. All unless it is given. X-MCP-Toolsets says the same."`
	Confirm  bool   `query:"confirm" doc:"Whether a person has to confirm each call that removes or replaces something. X-MCP-Confirm: true says the same."`
}
