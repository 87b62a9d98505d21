// Package mcp makes MCP servers of a deployment's routes: the handler mcpServerHandler (contract 4.2 and
// 4.3). A server speaks the Model Context Protocol over HTTP, without sessions; what it offers are routes
// of the same deployment, and a call is a request of its own through such a route, with all of its policies.
//
// The protocol is the official SDK's (github.com/modelcontextprotocol/go-sdk, which is the package mcp of
// the files here). What is ours is around it: what of HTTP is let in (transport.go, message.go), what a
// route is called and how (tools.go, resources.go, and direct.go for the shortest way), and how arguments become a
// request and an answer a result (arguments.go, call.go, answer.go). Which operations there are, their names
// and schemas are found when a project is built (shared/project).
//
// It is no MCP server of the management API, and runs no code of a project.
//
// Read this file first, then transport.go and call.go.
package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/project"
)

// Options are those of mcpServerHandler (contract 4.3).
type Options struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Operations are what the server offers.
	Operations []Operation `json:"operations" required:"true"`
	// DebugMode has a line logged for each call.
	DebugMode bool `json:"debugMode"`
	// IncludeOutputSchema tells what answers look like, and implies IncludeStructuredContent, which
	// sends them as JSON beside their text.
	IncludeOutputSchema      bool `json:"includeOutputSchema"`
	IncludeStructuredContent bool `json:"includeStructuredContent"`
}

// Operation names an operation of the project: the id, and the file that has it.
type Operation struct {
	File string `json:"file" required:"true"`
	ID   string `json:"id" required:"true"`
}

// Bounds of what a server is called.
const (
	maxName    = 128
	maxVersion = 64
)

// The protocol versions, newest first. Those before 2025-03-26 have another transport.
const (
	version20260728 = "2026-07-28"
	version20251125 = "2025-11-25"
	version20250618 = "2025-06-18"
	version20250326 = "2025-03-26"
)

func versions() []string {
	return []string{version20260728, version20251125, version20250618, version20250326}
}

// Offer is a route that a server offers.
type Offer struct {
	Route     *pipeline.Route
	Operation *project.MCPOperation
	// Source is where the route was declared, for problems.
	Source project.Source
	// Identifies says that a policy of the route's own finds who the user is.
	Identifies bool
	// Leads reports whether the gateway would serve an exchange's method and path by this route, and
	// fills in the exchange's parameters.
	Leads func(x *pipeline.Exchange) bool
}

// Setup is what a server needs of the deployment.
type Setup struct {
	// Find returns what an operation of the options is, false for what does not exist or is not enabled.
	Find func(o Operation) (Offer, bool)
	// Allows reports whether pages of another origin may call the server: the route's CORS policy.
	Allows func(origin string) bool
	// Private says that the server's own route tells callers apart, so that no cache may share an answer.
	// Where a route that it offers does, that is so too.
	Private bool
	// Preserve has paths go upstream as they were written.
	Preserve bool
	Log      *slog.Logger
	// Count counts a call of a route as the request that it is, nil for not at all.
	Count func(x *pipeline.Exchange, status int)
}

// Server is one MCP server. It is made with its route, and serves once all routes are there.
type Server struct {
	options Options
	setup   Setup
	info    *mcp.Implementation
	// whole answers in one piece, stream by events, for clients that ask for progress.
	whole, stream http.Handler
	// callers are those of the routes, tools the handlers by their names, and uris those of the resources.
	callers []*caller
	tools   map[string]mcp.ToolHandler
	uris    map[string]bool
}

var _ pipeline.Handler = (*Server)(nil)

// New reads the options of a server, which serves nothing yet.
func New(raw json.RawMessage) (*Server, []project.Problem) {
	o := Options{Name: "Gatewright MCP Server", Version: "0.0.0"}
	problems := options.Read(raw, &o)
	if len(problems) == 0 && len(o.Operations) == 0 {
		problems = append(problems, options.Problem("/operations", "Name an operation at least: a server without any offers nothing."))
	}
	if len(o.Name) > maxName || strings.TrimSpace(o.Name) == "" {
		problems = append(problems, options.Problem("/name", "Write a text of 1 to %d bytes.", maxName))
	}
	if len(o.Version) > maxVersion || strings.TrimSpace(o.Version) == "" {
		problems = append(problems, options.Problem("/version", "Write a text of 1 to %d bytes.", maxVersion))
	}
	if o.IncludeOutputSchema {
		o.IncludeStructuredContent = true
	}
	return &Server{options: o}, problems
}

// Serve makes the server ready. It is called once, before the first request. Problems are places in the
// project's files; with any the server is not to be asked.
func (s *Server) Serve(setup Setup) []project.Problem {
	s.setup, s.uris, s.tools = setup, map[string]bool{}, map[string]mcp.ToolHandler{}
	// Nothing is offered that a server without sessions cannot do: no changes of lists, no
	// subscriptions, no log.
	capabilities := &mcp.ServerCapabilities{}
	s.info = &mcp.Implementation{Name: s.options.Name, Version: s.options.Version}
	server := mcp.NewServer(s.info, &mcp.ServerOptions{
		Capabilities: capabilities, SetCacheable: s.cacheable, SupportedProtocolVersions: versions(),
	})
	server.AddReceivingMiddleware(s.guard)
	var problems []project.Problem
	for _, o := range s.options.Operations {
		offer, ok := setup.Find(o)
		if !ok {
			continue
		}
		s.setup.Private = s.setup.Private || offer.Identifies
		if text := s.add(server, offer); text != "" {
			problems = append(problems, project.Problem{File: offer.Source.File, Path: offer.Source.Pointer, Message: text})
			continue
		}
		switch offer.Operation.Kind {
		case project.MCPResource:
			capabilities.Resources = &mcp.ResourceCapabilities{}
		case project.MCPPrompt:
			capabilities.Prompts = &mcp.PromptCapabilities{}
		case project.MCPTool, project.MCPGraphQL:
			capabilities.Tools = &mcp.ToolCapabilities{}
		}
	}
	one := func(*http.Request) *mcp.Server { return server }
	// The gateway's own listener and routing stand before these handlers: what they check of a host is
	// a server's that stands on a desk.
	s.whole = mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
	s.stream = mcp.NewStreamableHTTPHandler(one, &mcp.StreamableHTTPOptions{Stateless: true, DisableLocalhostProtection: true})
	return problems
}

// add offers one route. The text says what is wrong with it, "" for nothing.
func (s *Server) add(server *mcp.Server, offer Offer) (fault string) {
	c, fault := newCaller(s, offer)
	if fault != "" {
		return fault
	}
	s.callers = append(s.callers, c)
	switch offer.Operation.Kind {
	case project.MCPResource:
		c.addResource(server)
	case project.MCPPrompt:
		c.addPrompt(server)
	case project.MCPGraphQL:
		return c.addGraphQL(server)
	case project.MCPTool:
		return c.addTool(server)
	default:
		return fmt.Sprintf("Deploy the project again: this gateway knows no MCP %q.", offer.Operation.Kind)
	}
	return ""
}

// cacheable says who may keep what: nobody but the caller, where callers are told apart.
func (s *Server) cacheable(_ context.Context, _ mcp.Request, c *mcp.Cacheable) {
	c.CacheScope = "public"
	if s.setup.Private {
		c.CacheScope = "private"
	}
}

// mayAsk reports whether a request may come from the page that it comes from, if it does from any. Browsers
// name it in Origin, and other clients do not (MCP 2025-11-25, Transports, "Security Warning"). The gateway's own
// origin may, and those that the route's CORS policy lets in.
func (s *Server) mayAsk(x *pipeline.Exchange) bool {
	origins := x.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 {
		return false
	}
	return sameOrigin(origins[0], x.Scheme, x.Host) || s.setup.Allows != nil && s.setup.Allows(origins[0])
}

func sameOrigin(origin, scheme, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" {
		return false
	}
	return strings.EqualFold(u.Scheme, scheme) && strings.EqualFold(withPort(scheme, u.Host), withPort(scheme, host))
}

// withPort is a host with the port of its scheme, where it has none.
func withPort(scheme, host string) string {
	if u := (url.URL{Host: host}); u.Port() != "" {
		return host
	}
	if strings.EqualFold(scheme, "https") {
		return host + ":443"
	}
	return host + ":80"
}
