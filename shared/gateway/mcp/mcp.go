// Package mcp makes MCP servers of a deployment's routes: the handler mcpServerHandler (contract 4.2 and
// 4.3). A server speaks the Model Context Protocol over HTTP, without sessions; what it offers are routes
// of the same deployment, and a call is a request of its own through such a route, with all of its policies.
//
// What speaks the protocol is shared/mcp. Here is what a route is called and how (tools.go, resources.go), and how
// arguments become a request and an answer a result (call.go, answer.go). Which operations there are,
// their names and schemas are found when a project is built (shared/project).
//
// It is no MCP server of the management API, and runs no code of a project.
//
// Read this file first, then call.go.
package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatewright/gatewright/shared/gateway/options"
	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
	"github.com/gatewright/gatewright/shared/origin"
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
	front   *sharedmcp.Server
	// callers are those of the routes.
	callers []*caller
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
	s.setup = setup
	s.front = sharedmcp.New(sharedmcp.Setup{
		Name: s.options.Name, Version: s.options.Version,
		MayAsk:        func(r *http.Request) bool { return s.mayAsk(exchangeOf(r.Context())) },
		ForeignOrigin: "Name the origin in the CORS policy of its route.",
		Private:       func() bool { return s.setup.Private },
		Failed:        s.panicked, Again: s.again, EveryMethod: true,
	})
	var problems []project.Problem
	for _, o := range s.options.Operations {
		offer, ok := setup.Find(o)
		if !ok {
			continue
		}
		s.setup.Private = s.setup.Private || offer.Identifies
		if text := s.add(offer); text != "" {
			problems = append(problems, project.Problem{File: offer.Source.File, Path: offer.Source.Pointer, Message: text})
		}
	}
	return problems
}

// add offers one route. The text says what is wrong with it, "" for nothing.
func (s *Server) add(offer Offer) (fault string) {
	c, fault := newCaller(s, offer)
	if fault != "" {
		return fault
	}
	s.callers = append(s.callers, c)
	switch offer.Operation.Kind {
	case project.MCPResource:
		c.addResource()
	case project.MCPPrompt:
		c.addPrompt()
	case project.MCPGraphQL:
		return c.addGraphQL()
	case project.MCPTool:
		return c.addTool()
	default:
		return fmt.Sprintf("Deploy the project again: this gateway knows no MCP %q.", offer.Operation.Kind)
	}
	return ""
}

// exchangeKey is where a request's context has its exchange, of which inner ones are made. It is a copy, which nobody
// changes.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *pipeline.Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*pipeline.Exchange)
	return x
}

// Handle implements pipeline.Handler.
func (s *Server) Handle(x *pipeline.Exchange) *http.Response {
	asked := *x
	response := s.front.Answer((&http.Request{
		Method: x.Method, URL: &url.URL{Path: x.Path}, Host: x.Host, Header: x.Header, Body: x.Body, ContentLength: x.ContentLength,
	}).WithContext(context.WithValue(x.Context, exchangeKey{}, &asked)))
	if response.ContentLength >= 0 && errors.Is(context.Cause(x.Context), context.Canceled) {
		// The client went away while its call was under way: an answer in one piece tells observers that it got one.
		_ = response.Body.Close()
		return x.Problem(pipeline.StatusClientGone, "")
	}
	return response
}

// again has a call of a batch pass the policies of the server's own route.
func (s *Server) again(ctx context.Context, message []byte) *http.Response {
	x := exchangeOf(ctx)
	inner := x.Inner()
	inner.Context = ctx
	inner.Route, inner.Method, inner.Path, inner.Written, inner.Params = x.Route, x.Method, x.Path, x.Written, x.Params
	inner.SetQuery(x.Query)
	inner.Header["Accept"] = []string{"application/json"}
	setBody(inner, "application/json", string(message))
	return x.Route.Run(inner)
}

// mayAsk reports whether a request may come from the page that it comes from. The gateway's own origin may, and those
// that the route's CORS policy lets in.
func (s *Server) mayAsk(x *pipeline.Exchange) bool {
	origins := x.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 {
		return false
	}
	return origin.Same(origins[0], x.Scheme, x.Host) || s.setup.Allows != nil && s.setup.Allows(origins[0])
}
