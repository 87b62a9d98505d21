// Package mcp is the common part of the product's MCP servers: the Model Context Protocol over
// HTTP, without sessions. The owner of a Server adds tools, resources and prompts, and passes
// requests to it. The owners are the gateway, for the routes of a deployment
// (shared/dataplane/gateway/mcp), and the management API, for its operations and its documentation.
//
// The official SDK implements the protocol (github.com/modelcontextprotocol/go-sdk, which is the package mcp
// in these files). This package adds checks of HTTP requests (transport.go, message.go, batch.go), a fast path
// for tool calls (direct.go), responses as events (stream.go), recovery from panics (guard.go), validation of
// arguments (schema.go) and the conversion of arguments to a request of an operation (arguments.go).
//
// The package does not identify callers, and has no tools, resources or prompts of its own.
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

// The protocol versions, newest first. Versions before 2025-03-26 have a different transport.
const (
	Version20260728 = "2026-07-28"
	Version20251125 = "2025-11-25"
	Version20250618 = "2025-06-18"
	Version20250326 = "2025-03-26"
)

// Versions returns the versions of the protocol that all servers support, newest first.
func Versions() []string {
	return []string{Version20260728, Version20251125, Version20250618, Version20250326}
}

// Setup configures a server for its owner.
type Setup struct {
	// Name and Version are the name and version that the server reports to clients.
	Name, Version string
	// Instructions describe the server's purpose to a model. "" means no instructions.
	Instructions string
	// CheckOrigin reports whether the web page that sends a request is allowed to send requests. Browsers name
	// the page's origin in Origin (MCP 2025-11-25, Transports, "Security Warning"). nil means that the owner
	// checks the origin itself. ForeignOrigin is the last sentence of the refusal, which says what to do.
	CheckOrigin   func(r *http.Request) bool
	ForeignOrigin string
	// Private reports whether lists and resources depend on the caller, so
	// that caches must not share them. A nil function means that they do not.
	Private func() bool
	// ReportFailure receives the cause of a panic, or an error that is not a protocol
	// error (Invalid, Internal). It logs the cause and returns the text for the client.
	ReportFailure func(ctx context.Context, cause any) string
	// HandleBatched handles each call of a batch except the first, as a separate request that passes
	// the same middleware as the first call. If it is nil, the server handles all calls itself.
	HandleBatched func(ctx context.Context, message []byte) *http.Response
	// ToolExists reports whether a tool exists for the caller, and ToolListed whether
	// tools/list includes it. A call of a tool that exists but is not listed reaches the
	// tool, which can return the reason why it fails. A nil function includes all tools.
	ToolExists, ToolListed func(ctx context.Context, tool string) bool
	// NoStreaming makes the server send all responses in one piece, even if a client requests progress.
	NoStreaming bool
	// Complete suggests values for an argument of a prompt or of a resource template. nil means
	// no suggestions. The server also calls it for prompts and templates that do not exist.
	Complete func(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error)
	// AllMethods makes the server support the methods of features that it does not offer, with empty lists and with
	// errors for unknown names. Clients rely on that for servers whose features come from a project file (contract, 4.3).
	AllMethods bool
	// RequestsInput reports whether tools can respond with a question for a person (2026-07-28, "input_required").
	RequestsInput bool
}

// Server implements the protocol for the tools, resources and prompts that its owner adds. Add all of them before the
// first request.
type Server struct {
	setup  Setup
	info   *mcp.Implementation
	server *mcp.Server
	// capabilities are the features that the server offers: tools, resources and prompts, once one of them
	// is added. The server does not offer features that need sessions: list changes, subscriptions and logs.
	capabilities *mcp.ServerCapabilities
	// jsonHandler sends responses in one piece, streamHandler as events for clients that request progress.
	jsonHandler, streamHandler http.Handler
	// directHandlers are the handlers that handleDirectly can call, by the names of their tools. uris
	// are the URIs of single resources. templates are the URI templates of the other resources.
	directHandlers map[string]mcp.ToolHandler
	uris           map[string]bool
	templates      []*uritemplate.Template
}

// New returns a server without tools, resources and prompts.
func New(setup Setup) *Server {
	s := &Server{
		setup: setup, info: &mcp.Implementation{Name: setup.Name, Version: setup.Version},
		capabilities:   &mcp.ServerCapabilities{},
		directHandlers: map[string]mcp.ToolHandler{}, uris: map[string]bool{},
	}
	s.server = mcp.NewServer(s.info, &mcp.ServerOptions{
		Instructions: setup.Instructions, Capabilities: s.capabilities, SetCacheable: s.cacheable,
		SupportedProtocolVersions: Versions(),
		CompletionHandler:         setup.Complete,
	})
	s.server.AddReceivingMiddleware(s.guard)
	getServer := func(*http.Request) *mcp.Server { return s.server }
	// The SDK's check of the host is for servers on a developer's machine, so
	// disable it. Listeners and routes decide which requests reach these handlers.
	s.jsonHandler = mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{
		Stateless: true, JSONResponse: true,
		DisableLocalhostProtection: true,
	})
	s.streamHandler = mcp.NewStreamableHTTPHandler(getServer, &mcp.StreamableHTTPOptions{
		Stateless:                  true,
		DisableLocalhostProtection: true,
	})
	return s
}

// AddTool adds a tool. The handler checks the arguments itself (Schema), since the SDK does not. Its error
// is a protocol error (Invalid); texts for the model belong in a result (Refusal). If Setup.RequestsInput
// is false, the request can have only the tool's name and arguments, without the client's capabilities and
// other metadata, because handleDirectly does not pass these. AddTool panics if the schema is not JSON.
func (s *Server) AddTool(tool *mcp.Tool, handler mcp.ToolHandler) {
	s.capabilities.Tools = &mcp.ToolCapabilities{}
	s.server.AddTool(tool, handler)
	schema, err := json.Marshal(tool.InputSchema)
	if err != nil {
		panic("mcp: encode the schema of " + tool.Name + ": " + err.Error())
	}
	// A schema with x-mcp-header makes clients repeat arguments
	// in header fields (SEP-2243). Only the SDK compares these.
	if !bytes.Contains(schema, []byte(`"x-mcp-header"`)) {
		s.directHandlers[tool.Name] = handler
	}
}

// AddResource adds a resource.
func (s *Server) AddResource(resource *mcp.Resource, handler mcp.ResourceHandler) {
	s.capabilities.Resources = &mcp.ResourceCapabilities{}
	s.uris[resource.URI] = true
	s.server.AddResource(resource, handler)
}

// AddResourceTemplate adds the resources whose URIs match a template (RFC 6570). It panics if the template is invalid.
func (s *Server) AddResourceTemplate(template *mcp.ResourceTemplate, handler mcp.ResourceHandler) {
	s.capabilities.Resources = &mcp.ResourceCapabilities{}
	s.templates = append(s.templates, uritemplate.MustNew(template.URITemplate))
	s.server.AddResourceTemplate(template, handler)
}

// isResource reports whether there is a resource with a URI.
func (s *Server) isResource(uri string) bool {
	return s.uris[uri] || slices.ContainsFunc(s.templates, func(t *uritemplate.Template) bool {
		return t.Regexp().MatchString(uri)
	})
}

// AddPrompt adds a prompt.
func (s *Server) AddPrompt(prompt *mcp.Prompt, handler mcp.PromptHandler) {
	s.capabilities.Prompts = &mcp.PromptCapabilities{}
	s.server.AddPrompt(prompt, handler)
}

// cacheable sets the cache scope of a response: private if Setup.Private returns true, public otherwise.
func (s *Server) cacheable(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
	c.CacheScope = "public"
	if s.setup.Private != nil && s.setup.Private() {
		c.CacheScope = "private"
	}
}
