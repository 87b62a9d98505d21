package mcpdocs

import (
	"net/http"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/mcp/endpoint"
)

// Group is what this function answers.
var Group = api.Group{
	Name:        "mcpdocs",
	Title:       "Documentation MCP",
	Description: "The MCP server that searches the documentation and answers questions from it.",
	Computes:    true,
	Models:      true,
	Operations:  []api.Declared{ask, noStream, noSession, preflight},
}

// Path is where the server is.
const Path = "/mcp/docs"

var ask = api.Operation[endpoint.Message, endpoint.Answer]{
	ID: "docsMcpPost", Method: "POST", Path: Path,
	Summary: "Ask the documentation as an MCP server",
	Description: endpoint.Describe() + " and without a key. " +
		"The tool `" + searchTool + "` finds passages, and `" + askTool + "` answers a question with citations. Errors of the protocol are JSON-RPC errors. " +
		"An address may send ten calls a second; one more is answered 429 with Retry-After.",
	Public: true, NoTool: true, Origins: api.AnyOrigin, Message: endpoint.Body(),
	Errors: append(endpoint.Statuses(), http.StatusTooManyRequests),
}

// What the protocol has beside messages. Pages of every origin may call: there is nothing here that is not public, and
// nothing that a visitor's browser could be made to do for somebody else.
var (
	noStream  = endpoint.NotAllowed("docsMcpGet", http.MethodGet, Path, api.AnyOrigin)
	noSession = endpoint.NotAllowed("docsMcpDelete", http.MethodDelete, Path, api.AnyOrigin)
	preflight = endpoint.Preflight("docsMcp_preflight", Path, api.AnyOrigin)
)
