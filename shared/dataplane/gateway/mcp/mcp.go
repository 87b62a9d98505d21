// Package mcp has the handler mcpServerHandler, which makes a route an MCP server
// (contract 4.2 and 4.3). A server speaks the Model Context Protocol over HTTP, without
// sessions. It offers other routes of the same deployment as tools, resources and prompts.
// A call is a separate request through the offered route, with all policies of this route.
//
// The protocol is implemented in shared/format/mcp. This package decides how a route is offered (tools.go,
// resources.go), how arguments become a request, and how a response becomes a result (call.go, response.go).
// The build of a project finds the operations with their names and schemas (shared/format/project).
//
// The MCP server of the management API is another package. This package does not run a project's code.
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
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/origin"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/options"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/format/project"
)

// Options are the options of mcpServerHandler (contract 4.3).
type Options struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Operations are the operations that the server offers.
	Operations []Operation `json:"operations" required:"true"`
	// DebugMode logs a line for each call.
	DebugMode bool `json:"debugMode"`
	// IncludeOutputSchema sends the schemas of responses. It implies IncludeStructuredContent,
	// which sends a response that is a JSON object as JSON in addition to text.
	IncludeOutputSchema      bool `json:"includeOutputSchema"`
	IncludeStructuredContent bool `json:"includeStructuredContent"`
}

// Operation identifies an operation of the project: by its file and ID, or by its file, method and path.
type Operation struct {
	File   string `json:"file" required:"true"`
	ID     string `json:"id"`
	Method string `json:"method"`
	Path   string `json:"path"`
}

// check appends a problem unless the operation has either an ID, or both a method and a path. It
// appends none at a place that already has a problem. i is the index of the operation in the options.
func (o Operation) check(i int, problems []project.Problem) []project.Problem {
	at := "/operations/" + strconv.Itoa(i)
	var problem project.Problem
	switch hasPath := o.Method != "" || o.Path != ""; {
	case o.ID != "" && hasPath:
		problem = options.Problem(at, `Write "id", or "method" and "path", and not both.`)
	case o.ID == "" && !hasPath:
		problem = options.Problem(at+"/id", `Add "id": it is required. Name an operation without an operationId by `+
			`"method" and "path" instead.`)
	case hasPath && o.Method == "":
		problem = options.Problem(at+"/method", `Add "method": it is required with "path".`)
	case hasPath && o.Path == "":
		problem = options.Problem(at+"/path", `Add "path": it is required with "method".`)
	default:
		return problems
	}
	if slices.ContainsFunc(problems, func(p project.Problem) bool {
		return p.Path == options.Root+at || p.Path == problem.Path
	}) {
		return problems
	}
	return append(problems, problem)
}

// The limits of a server's name and version.
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
	// Identifies is set if one of the route's own policies identifies the user.
	Identifies bool
	// Matches reports whether the gateway would serve an exchange's method
	// and path with this route. It also sets the exchange's parameters.
	Matches func(x *pipeline.Exchange) bool
}

// Setup has the dependencies of a server.
type Setup struct {
	// Find returns the route of an operation, false if the operation does not exist or is not enabled.
	Find func(o Operation) (Offer, bool)
	// AllowsOrigin reports whether pages of another origin are allowed to call the server, according to the route's CORS policy.
	AllowsOrigin func(origin string) bool
	// Private is set if the server's own route distinguishes users, so that caches must not share
	// its responses. Configure also sets it if a route that the server offers distinguishes users.
	Private bool
	// PreservePaths sends paths upstream without changes, except that invalid bytes are escaped.
	PreservePaths bool
	Log           *slog.Logger
	// Count counts a call of a route as a separate request; nil counts nothing.
	Count func(x *pipeline.Exchange, status int)
}

// Server is one MCP server. It is created with its route. After all routes exist, Configure makes it ready.
type Server struct {
	options  Options
	setup    Setup
	protocol *sharedmcp.Server
	// callers has a caller for each offered route.
	callers []*caller
}

var _ pipeline.Handler = (*Server)(nil)

// New returns a server with these options, and the problems of the options. Call Configure before the first request.
func New(raw json.RawMessage) (*Server, []project.Problem) {
	o := Options{Name: "Gatewright MCP Server", Version: "0.0.0"}
	problems := options.Read(raw, &o)
	if len(problems) == 0 && len(o.Operations) == 0 {
		problems = append(problems, options.Problem("/operations", "Name an operation at least: a server without any "+
			"offers nothing."))
	}
	for i, operation := range o.Operations {
		problems = operation.check(i, problems)
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

// Configure makes the server ready. It is called once, before the first request. It skips operations that Find does not
// find. For each other operation that the server can't offer, it returns a problem. If there are problems, Handle must
// not be called.
func (s *Server) Configure(setup Setup) []project.Problem {
	s.setup = setup
	s.protocol = sharedmcp.New(sharedmcp.Setup{
		Name: s.options.Name, Version: s.options.Version,
		CheckOrigin:   func(r *http.Request) bool { return s.checkOrigin(exchangeOf(r.Context())) },
		ForeignOrigin: "Name the origin in the CORS policy of its route.",
		Private:       func() bool { return s.setup.Private },
		ReportFailure: s.logPanic, HandleBatched: s.runBatchCall, AllMethods: true,
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

// add offers a route. fault says why the route can't be offered, "" if it can.
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

// exchangeKey is the key of the exchange in a request's context. The exchange
// is a copy that does not change, from which inner exchanges are created.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *pipeline.Exchange {
	x, _ := ctx.Value(exchangeKey{}).(*pipeline.Exchange)
	return x
}

// Handle implements pipeline.Handler.
func (s *Server) Handle(x *pipeline.Exchange) *http.Response {
	snapshot := *x
	response := s.protocol.Handle((&http.Request{
		Method: x.Method, URL: &url.URL{Path: x.Path}, Host: x.Host, Header: x.Header, Body: x.Body,
		ContentLength: x.ContentLength,
	}).WithContext(context.WithValue(x.Context, exchangeKey{}, &snapshot)))
	if response.ContentLength >= 0 && errors.Is(context.Cause(x.Context), context.Canceled) {
		// The client disconnected during its call: do not report a complete response to logs and metrics.
		_ = response.Body.Close()
		return x.Problem(pipeline.StatusClientGone, "")
	}
	return response
}

// runBatchCall sends one call of a batch through the policies of the server's own route.
func (s *Server) runBatchCall(ctx context.Context, message []byte) *http.Response {
	x := exchangeOf(ctx)
	inner := x.Inner()
	inner.Context = ctx
	inner.Route, inner.Method, inner.Path, inner.RawPath, inner.Params = x.Route, x.Method, x.Path, x.RawPath, x.Params
	inner.SetQuery(x.Query)
	inner.Header["Accept"] = []string{"application/json"}
	setBody(inner, "application/json", string(message))
	defer inner.End() // the response is complete and in memory
	return x.Route.Run(inner)
}

// checkOrigin reports whether the origin of a request is allowed. It allows requests without an
// Origin, pages of the gateway's own origin, and pages that the route's CORS policy allows.
func (s *Server) checkOrigin(x *pipeline.Exchange) bool {
	origins := x.Header["Origin"]
	if len(origins) == 0 {
		return true
	}
	if len(origins) > 1 {
		return false
	}
	return origin.Same(origins[0], x.Scheme, x.Host) || s.setup.AllowsOrigin != nil && s.setup.AllowsOrigin(origins[0])
}
