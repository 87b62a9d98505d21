package mcpdocs

import (
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gatewright/gatewright/shared/api"
)

// Group is what this function answers.
var Group = api.Group{
	Name:        "mcpdocs",
	Title:       "Documentation MCP",
	Description: "The MCP server that searches the documentation and answers questions from it.",
	Computes:    true,
	Operations:  []api.Declared{ask, noStream, noSession, preflight},
}

const endpoint = "/mcp/docs"

var ask = api.Operation[messageIn, messageOut]{
	ID: "docsMcpPost", Method: "POST", Path: endpoint,
	Summary: "Ask the documentation as an MCP server",
	Description: "One message of the Model Context Protocol, in the versions 2026-07-28, 2025-11-25, 2025-06-18 and 2025-03-26, without sessions and without a key. " +
		"The tool `" + searchTool + "` finds passages, and `" + askTool + "` answers a question with citations. Errors of the protocol are JSON-RPC errors. " +
		"An address may send ten calls a second; one more is answered 429 with Retry-After.",
	Public: true, NoTool: true,
	Errors: []int{http.StatusNotFound, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests},
	Message: &huma.RequestBody{
		Description: "A JSON-RPC message, of at most 1 MiB.", Required: true,
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}},
	},
}

// What the protocol has beside messages, and a server without sessions does not.
var (
	noStream  = notAllowed("GET", "docsMcpGet", "Refuse a stream of events")
	noSession = notAllowed("DELETE", "docsMcpDelete", "Refuse to end a session")
)

func notAllowed(method, id, summary string) api.Operation[struct{}, refusalOut] {
	o := api.Operation[struct{}, refusalOut]{ID: id, Method: method, Path: endpoint, Summary: summary, Public: true, Hidden: true}
	o.Status = http.StatusMethodNotAllowed
	return o
}

var preflight = api.Operation[struct{}, preflightOut]{
	ID: "docsMcp_preflight", Method: "OPTIONS", Path: endpoint, Status: http.StatusNoContent,
	Summary: "Tell a page of another origin that it may call",
	Public:  true, Hidden: true,
}

// messageIn is a message, of which the protocol reads everything itself.
type messageIn struct{ request *http.Request }

// Resolve keeps the request; huma calls it.
func (in *messageIn) Resolve(hc huma.Context) []error {
	in.request, _ = humago.Unwrap(hc)
	return nil
}

var _ huma.Resolver = (*messageIn)(nil)

// CrossOrigin lets pages of every origin call and read: there is nothing here that is not public, and nothing that a
// visitor's browser could be made to do for somebody else.
type CrossOrigin struct {
	AllowOrigin string `header:"Access-Control-Allow-Origin" hidden:"true"`
}

type messageOut struct {
	CrossOrigin
	Status       int
	ContentType  string `header:"Content-Type" hidden:"true"`
	CacheControl string `header:"Cache-Control" hidden:"true"`
	RetryAfter   string `header:"Retry-After" hidden:"true"`
	Body         []byte `contentType:"application/json"`
}

type refusalOut struct {
	CrossOrigin
	Allow       string `header:"Allow"`
	ContentType string `header:"Content-Type"`
	Body        []byte
}

type preflightOut struct {
	CrossOrigin
	AllowMethods string `header:"Access-Control-Allow-Methods"`
	AllowHeaders string `header:"Access-Control-Allow-Headers"`
	MaxAge       string `header:"Access-Control-Max-Age"`
}
