package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// caller calls one route.
type caller struct {
	server *Server
	offer  Offer
	known  map[string]bool // the arguments that have a place
	// schema checks arguments; it is compiled with the first call, since most calls of a server
	// are of few of its tools.
	schema func() (*checker, error)
}

func newCaller(s *Server, offer Offer) (c *caller, fault string) {
	o := offer.Operation
	c = &caller{server: s, offer: offer, known: map[string]bool{}}
	for _, a := range o.Arguments {
		c.known[a.Name] = true
		if a.Place == project.InHeader {
			if text := upstream.RefuseField(a.Aim()); text != "" {
				return nil, fmt.Sprintf("The header parameter %q cannot be an argument of an MCP server. %s", a.Aim(), text)
			}
		}
	}
	c.schema = sync.OnceValues(func() (*checker, error) { return compileSchema(o.Input) })
	return c, ""
}

// CheckSchemas compiles all that is compiled with the first calls otherwise, and returns what cannot be: a
// build asks for it.
func (s *Server) CheckSchemas() []project.Problem {
	var problems []project.Problem
	for _, c := range s.callers {
		if len(c.offer.Operation.Input) == 0 {
			continue
		}
		if _, err := c.schema(); err != nil {
			problems = append(problems, project.Problem{
				File: c.offer.Source.File, Path: c.offer.Source.Pointer,
				Message: "The schemas of this operation's parameters and body are no JSON Schema together, so that no MCP server can check arguments by them. Look at the types of their keywords: " + firstLine(err) + ".",
			})
		}
	}
	return problems
}

func firstLine(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		text = e.Err.Error()
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(strings.TrimLeft(lines[len(lines)-1], "- "), ".")
}

// run sends a request through the route, on behalf of whoever has sent the message, and reads the answer.
// fill puts arguments into it; its error is about them.
func (c *caller) run(ctx context.Context, fill func(x *pipeline.Exchange) error) (answer, error) {
	outer := callOf(ctx)
	x := outer.x.Inner()
	x.Route, x.Method = c.offer.Route, c.offer.Route.Info.Method
	ownFields(x.Header)
	if c.offer.Identifies {
		x.User = nil // the route finds out itself, and may find nobody
	}
	x.Header["Accept"] = []string{"application/json, text/*;q=0.9, */*;q=0.5"}
	if err := fill(x); err != nil {
		return answer{}, err
	}
	if !c.offer.Leads(x) {
		return answer{}, invalid("These arguments make a path that is another route's, or that upstreams read in several ways. Send values without slashes, backslashes, semicolons and dots that stand alone.")
	}
	out := read(c.offer.Route.Run(x)) //nolint:bodyclose // read closes it
	c.log(x, out.status)
	if count := c.server.setup.Count; count != nil {
		count(x, out.status)
	}
	return out, nil
}

func (c *caller) log(x *pipeline.Exchange, status int) {
	log, info := c.server.setup.Log, x.Route.Info
	if log == nil {
		return
	}
	attributes := []slog.Attr{
		slog.String("requestId", x.RequestID), slog.String("method", x.Method), slog.String("deployment", info.Deployment),
		slog.String("operation", info.OperationID), slog.Int("status", status),
	}
	if x.Cause != nil && x.Context.Err() == nil {
		log.LogAttrs(x.Context, slog.LevelWarn, "request failed", append(attributes, slog.Any("error", x.Cause))...)
	}
	if c.server.options.DebugMode {
		log.LogAttrs(x.Context, slog.LevelInfo, "mcp call", attributes...)
	}
}

// mine are the fields of a message that say nothing of the requests that it leads to: they describe its
// body, the answer to it, or what a cache has of it. Accept-Language and all others travel on.
func mine() []string {
	return []string{
		"Accept", "Accept-Encoding", "Accept-Charset", "Digest", "Repr-Digest", "Want-Repr-Digest", "Expect", "Range", "Te", "Trailer", "Last-Event-Id",
		"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
	}
}

// ownFields removes the message's own fields.
func ownFields(h http.Header) {
	for _, name := range mine() {
		delete(h, name)
	}
	for name := range h {
		if strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "Mcp-") {
			delete(h, name)
		}
	}
}

// guard stands around everything that the SDK calls: a panic ends one call, where the SDK would let the
// process end, and errors have the codes that the client's version of the protocol has.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		c := callOf(ctx)
		defer func() {
			if cause := recover(); cause != nil {
				text := s.panicked(c.x, cause)
				if result, err = failed(text), nil; method != callTool {
					result, err = nil, &jsonrpc.Error{Code: codeInternal, Message: text}
				}
			}
		}()
		if read, ok := req.GetParams().(*mcp.ReadResourceParams); ok && method == "resources/read" && read != nil {
			switch {
			case read.URI == "":
				return nil, invalid("Send the uri of a resource. resources/list has those that there are.")
			case !s.uris[read.URI]:
				return nil, notFound(read.URI, c.version)
			}
		}
		return next(ctx, method, req)
	}
}

// panicked logs a panic and returns what the caller is told of it.
func (s *Server) panicked(x *pipeline.Exchange, cause any) string {
	s.logPanic(x, cause)
	return "The gateway failed on this call. Quote the request id when you report it: " + x.RequestID + "."
}

func (s *Server) logPanic(x *pipeline.Exchange, cause any) {
	if s.setup.Log == nil || cause == http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared, as net/http does
		return
	}
	s.setup.Log.LogAttrs(x.Context, slog.LevelError, "request panicked",
		slog.String("requestId", x.RequestID), slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
}

// notFound says that there is no resource of a uri: by a code of its own until 2025-11-25.
func notFound(uri, version string) error {
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return err
	}
	code := int64(codeResourceNotFound)
	if version == version20260728 {
		code = codeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: "Resource not found. resources/list has those that there are.", Data: data}
}

func invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: codeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// failed is the result of a tool that has failed.
func failed(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// progress tells the client how far a call is, if it wants to know and is answered by events.
func progress(ctx context.Context, session *mcp.ServerSession, token any, done float64, text string) {
	if token == nil || session == nil {
		return
	}
	// Where the answer is in one piece, nobody hears of it, and that is no failure.
	_ = session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 1, Message: text})
}

// setBody gives a request a body in memory.
func setBody(x *pipeline.Exchange, contentType, body string) {
	x.Header["Content-Type"] = []string{contentType}
	x.Body, x.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}

func sortedKeys(m map[string]json.RawMessage) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
