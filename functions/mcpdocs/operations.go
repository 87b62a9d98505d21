package mcpdocs

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/endpoint"
)

// Group is the group of operations of this function.
var Group = api.Group{
	Name:        "mcpdocs",
	Title:       "Documentation MCP",
	Description: "The MCP server that searches the documentation and answers questions from it.",
	CPUBound:    true,
	UsesModels:  true,
	Operations:  []api.AnyOperation{postMessage, noStream, noSession, preflight},
}

// Path is the path of the server.
const Path = "/mcp/docs"

var postMessage = api.Operation[endpoint.Message, endpoint.Response]{
	ID: "docsMcpPost", Method: "POST", Path: Path,
	Summary: "Ask the documentation as an MCP server",
	Description: endpoint.Describe() + " and without a key. " +
		"The tool `" + searchTool + "` finds passages, and `" + askTool +
		"` answers a question with citations. Errors of the protocol are JSON-RPC errors. " +
		"An address may send ten calls a second; one more is answered 429 with Retry-After.",
	Public: true, NoTool: true, Origins: api.AnyOrigin, Message: endpoint.DescribeBody(),
	Errors: append(endpoint.ProtocolStatuses(), http.StatusTooManyRequests),
}

// Operations for the requests of the protocol that are not messages. Pages of every origin can send requests to all
// operations of this group: the documentation is public, so an attacker gains nothing from requests that a visitor's
// browser sends.
var (
	noStream  = endpoint.NotAllowed("docsMcpGet", http.MethodGet, Path, api.AnyOrigin)
	noSession = endpoint.NotAllowed("docsMcpDelete", http.MethodDelete, Path, api.AnyOrigin)
	preflight = endpoint.Preflight("docsMcp_preflight", Path, api.AnyOrigin)
)
