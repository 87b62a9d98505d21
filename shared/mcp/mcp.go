// Package mcp is what the product's MCP servers have in common: the Model Context Protocol over HTTP,
// without sessions. Its owner adds tools, resources and prompts to a Server and has it answer requests: the gateway
// those of a deployment's routes (shared/gateway/mcp), the management API its operations and its documentation.
//
// The protocol is the official SDK's (github.com/modelcontextprotocol/go-sdk, which is the package mcp of
// the files here). What is ours is around it: what of HTTP is let in (transport.go, message.go, batch.go), the shortest
// way for a tool's call (direct.go), answers by events (stream.go), what holds a panic (guard.go), how arguments are
// held against their schema (schema.go, work.go), and how they become a request of an operation (arguments.go).
//
// It knows neither who calls nor what is offered.
//
// Read this file first, then transport.go.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/yosida95/uritemplate/v3"
)

// The protocol versions, newest first. Those before 2025-03-26 have another transport.
const (
	Version20260728 = "2026-07-28"
	Version20251125 = "2025-11-25"
	Version20250618 = "2025-06-18"
	Version20250326 = "2025-03-26"
)

// Versions lists the versions of the protocol that all servers speak, newest first.
func Versions() []string {
	return []string{Version20260728, Version20251125, Version20250618, Version20250326}
}

// Setup is what a server needs of its owner.
type Setup struct {
	// Name and Version are what the server is called.
	Name, Version string
	// Instructions tell a model what the server is for, "" for nothing.
	Instructions string
	// MayAsk reports whether a request may come from the page that it comes from, if it does from any: browsers name
	// it in Origin (MCP 2025-11-25, Transports, "Security Warning"). nil is for a server before which that is looked at.
	// ForeignOrigin tells who may not what to do.
	MayAsk        func(r *http.Request) bool
	ForeignOrigin string
	// Private says whether callers are told apart, so that no cache may share what a list or a resource says. It is
	// asked when the first request comes, nil for public.
	Private func() bool
	// Failed is told what a call panicked with, or an error that is none of the protocol's (Invalid, Internal), logs it, and
	// answers what the client is told.
	Failed func(ctx context.Context, cause any) string
	// Again answers a call of a batch that is not its first as a request of its own, by the way on which the first one
	// came. Where it is nil, the server answers it.
	Again func(ctx context.Context, message []byte) *http.Response
	// Has reports whether a tool is there for a caller, Lists whether it is listed. A caller may call what is there and
	// not listed, and is told why that fails. nil is for all tools.
	Has, Lists func(ctx context.Context, tool string) bool
	// Whole has all answers come in one piece, those too of which a client wants to be told how they go on.
	Whole bool
	// Complete suggests values of an argument of a prompt or of a template of resources, nil where none are suggested. It
	// is asked for what there is not, too.
	Complete func(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error)
	// EveryMethod has the methods of what is not offered answered too, with empty lists and with errors that say that a
	// name is not there: clients rely on it at servers that offer by what is written into a file (contract, 4.3).
	EveryMethod bool
	// Asks says that tools may answer that a person is to be asked (2026-07-28, "input_required").
	Asks bool
}

// Server speaks the protocol for what is added to it. All is added before the first request.
type Server struct {
	setup  Setup
	info   *mcp.Implementation
	server *mcp.Server
	// offered are the capabilities. Nothing is offered that a server without sessions cannot do: no changes of
	// lists, no subscriptions, no log.
	offered *mcp.ServerCapabilities
	// whole answers in one piece, stream by events, for clients that ask for progress.
	whole, stream http.Handler
	// short are the handlers that are called in the short way, by the names of their tools, uris those of the resources,
	// and templates of others.
	short     map[string]mcp.ToolHandler
	uris      map[string]bool
	templates []*uritemplate.Template
}

// New makes a server that offers nothing yet.
func New(setup Setup) *Server {
	s := &Server{
		setup: setup, info: &mcp.Implementation{Name: setup.Name, Version: setup.Version}, offered: &mcp.ServerCapabilities{},
		short: map[string]mcp.ToolHandler{}, uris: map[string]bool{},
	}
	s.server = mcp.NewServer(s.info, &mcp.ServerOptions{
		Instructions: setup.Instructions, Capabilities: s.offered, SetCacheable: s.cacheable, SupportedProtocolVersions: Versions(),
		CompletionHandler: setup.Complete,
	})
	s.server.AddReceivingMiddleware(s.guard)
	one := func(*http.Request) *mcp.Server { return s.server }
	// Listeners and routing stand before these handlers: what they check of a host is a server's that stands on a desk.
	s.whole = mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
	s.stream = mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
	return s
}

// AddTool offers a tool. handler checks the arguments itself (Schema): the SDK does not. Its error is an error of the
// protocol (Invalid), and what a model is to read a result (Refusal). It learns what the client can do where tools may
// ask (Setup.Asks), and of what a client says beside the arguments in no other case. A schema that is no JSON panics.
func (s *Server) AddTool(tool *mcp.Tool, handler mcp.ToolHandler) {
	s.offered.Tools = &mcp.ToolCapabilities{}
	s.server.AddTool(tool, handler)
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil {
		panic("mcp: encode the schema of " + tool.Name + ": " + err.Error())
	}
	// Arguments that are repeated in header fields (SEP-2243) are compared with these by the SDK.
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		s.short[tool.Name] = handler
	}
}

// AddResource offers a resource.
func (s *Server) AddResource(resource *mcp.Resource, handler mcp.ResourceHandler) {
	s.offered.Resources = &mcp.ResourceCapabilities{}
	s.uris[resource.URI] = true
	s.server.AddResource(resource, handler)
}

// AddResourceTemplate offers the resources whose uris a template makes (RFC 6570), and panics where it is none.
func (s *Server) AddResourceTemplate(template *mcp.ResourceTemplate, handler mcp.ResourceHandler) {
	s.offered.Resources = &mcp.ResourceCapabilities{}
	s.templates = append(s.templates, uritemplate.MustNew(template.URITemplate))
	s.server.AddResourceTemplate(template, handler)
}

// isResource reports whether there is a resource of a uri.
func (s *Server) isResource(uri string) bool {
	return s.uris[uri] || slices.ContainsFunc(s.templates, func(t *uritemplate.Template) bool { return t.Regexp().MatchString(uri) })
}

// AddPrompt offers a prompt.
func (s *Server) AddPrompt(prompt *mcp.Prompt, handler mcp.PromptHandler) {
	s.offered.Prompts = &mcp.PromptCapabilities{}
	s.server.AddPrompt(prompt, handler)
}

// cacheable says who may keep what: nobody but the caller, where callers are told apart.
func (s *Server) cacheable(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
	c.CacheScope = "public"
	if s.setup.Private != nil && s.setup.Private() {
		c.CacheScope = "private"
	}
}
