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
	"strings"
	"sync"

	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/format/paths"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// caller calls one route.
type caller struct {
	server *Server
	offer  Offer
	// schema checks arguments. It is compiled on the first call, because most calls of a server use few of its tools.
	schema func() (*sharedmcp.Schema, error)
	// output checks structured content. It is nil for a tool without an output schema.
	output func() (*sharedmcp.Schema, error)
}

func newCaller(s *Server, offer Offer) (c *caller, fault string) {
	o := offer.Operation
	c = &caller{server: s, offer: offer}
	for _, a := range o.Arguments {
		if a.Location == project.InHeader {
			if text := upstream.CheckFieldName(a.TargetName()); text != "" {
				return nil, fmt.Sprintf("The header parameter %q cannot be an argument of an MCP server. %s", a.TargetName(), text)
			}
		}
	}
	c.schema = sync.OnceValues(func() (*sharedmcp.Schema, error) { return sharedmcp.CompileSchema(o.Input) })
	return c, ""
}

// CheckSchemas compiles all schemas that the first calls would otherwise compile, and returns the problems. A build calls it.
func (s *Server) CheckSchemas() []project.Problem {
	var problems []project.Problem
	report := func(c *caller, text string, err error) {
		problems = append(problems, project.Problem{
			File: c.offer.Source.File, Path: c.offer.Source.Pointer, Message: text + lastLine(err) + ".",
		})
	}
	for _, c := range s.callers {
		if len(c.offer.Operation.Input) > 0 {
			if _, err := c.schema(); err != nil {
				report(c, "The schemas of this operation's parameters and body are no JSON Schema together, so that no MCP server "+
					"can check arguments by them. Look at the types of their keywords: ", err)
			}
		}
		if c.output != nil {
			if _, err := c.output(); err != nil {
				report(c, "The schema of this operation's responses is no JSON Schema, so that no MCP server can check responses "+
					"by it. Look at the types of its keywords: ", err)
			}
		}
	}
	return problems
}

// lastLine returns the last line of the error of a schema, without
// the dash at the beginning of the line and the period at its end.
func lastLine(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		text = e.Err.Error()
	}
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSuffix(strings.TrimLeft(lines[len(lines)-1], "- "), ".")
}

// run sends a request through the route, on behalf of the sender of the message, and reads the response. fill sets
// the request from the arguments. If fill returns an error, the arguments are invalid, and run returns this error.
// run also returns an error if the gateway would serve the request with another route.
func (c *caller) run(ctx context.Context, fill func(x *pipeline.Exchange) error) (routeResponse, error) {
	x := exchangeOf(ctx).Inner()
	x.Context = sharedmcp.RequestContext(ctx)
	x.Route, x.Method = c.offer.Route, c.offer.Route.Info.Method
	removeMessageFields(x.Header)
	if c.offer.Identifies {
		x.User = nil // the route's own policies set the user again, or leave it nil
	}
	x.Header["Accept"] = []string{"application/json, text/*;q=0.9, */*;q=0.5"}
	if err := fill(x); err != nil {
		return routeResponse{}, err
	}
	if !c.offer.Matches(x) {
		return routeResponse{}, sharedmcp.Invalid("These arguments make a path that is another route's, or that upstreams " +
			"read in several ways. Send values without slashes, backslashes, semicolons and dots that stand alone.")
	}
	defer x.End()
	out := readResponse(c.offer.Route.Run(x)) //nolint:bodyclose // readResponse closes it
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

// messageFields returns header fields that are not copied from a message to the requests for its calls, because they
// describe the message's body, or they are conditions and preferences for the response to the message. Fields whose
// names begin with Content- or Mcp- are not copied either. All others, such as Accept-Language, are copied.
func messageFields() []string {
	return []string{
		"Accept", "Accept-Encoding", "Accept-Charset", "Digest", "Repr-Digest", "Want-Repr-Digest", "Expect", "Range", "Te",
		"Trailer", "Last-Event-Id",
		"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range",
	}
}

// removeMessageFields removes messageFields, and all fields whose names begin with Content- or Mcp-.
func removeMessageFields(h http.Header) {
	for _, name := range messageFields() {
		delete(h, name)
	}
	for name := range h {
		if strings.HasPrefix(name, "Content-") || strings.HasPrefix(name, "Mcp-") {
			delete(h, name)
		}
	}
}

// logPanic logs a panic, except http.ErrAbortHandler, and returns the text for the client.
func (s *Server) logPanic(ctx context.Context, cause any) string {
	x := exchangeOf(ctx)
	if s.setup.Log != nil && cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared, as net/http does
		s.setup.Log.LogAttrs(ctx, slog.LevelError, "request panicked",
			slog.String("requestId", x.RequestID), slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
	}
	return "The gateway failed on this call. Quote the request id when you report it: " + x.RequestID + "."
}

// check validates arguments with the schema. It returns an error for the first invalid argument.
func (c *caller) check(ctx context.Context, raw json.RawMessage) error {
	schema, err := c.schema()
	if err != nil {
		return err // never occurs: the build has compiled the schema
	}
	return schema.Check(ctx, raw)
}

// maxTargetBytes limits the total length of the path and the query that are made from arguments.
const maxTargetBytes = 16 << 10

// fill sets the request from arguments that match their schema.
func (c *caller) fill(x *pipeline.Exchange, arguments map[string]json.RawMessage) error {
	w, err := sharedmcp.EncodeArguments(c.offer.Operation, c.offer.Route.Info.Path, arguments)
	if err != nil {
		return err
	}
	for _, field := range w.Fields {
		upstream.RemoveField(x.Header, field[0])
		x.Header.Set(field[0], field[1])
	}
	if w.Body != nil {
		setBody(x, w.ContentType, string(w.Body))
	}
	return c.setTarget(x, w.Path, w.Query)
}

// setTarget sets the path and query of a request.
func (c *caller) setTarget(x *pipeline.Exchange, path, query string) error {
	if len(path) > framing.DefaultMaxPathBytes { // clients' own paths have the same limit
		return sharedmcp.Invalid("Send shorter arguments: the path is over %d bytes.", framing.DefaultMaxPathBytes)
	}
	if len(path)+len(query) > maxTargetBytes {
		return sharedmcp.Invalid("Send shorter arguments: path and query are over %d bytes together.", maxTargetBytes)
	}
	canonical, err := paths.CanonicalStrict(path)
	if err != nil {
		return sharedmcp.Invalid("These arguments make no path: %v.", err)
	}
	x.Path = canonical
	if c.server.setup.PreservePaths {
		x.RawPath = paths.EscapeInvalid(path)
	}
	x.SetQuery(query)
	return nil
}

// setBody sets a body in memory.
func setBody(x *pipeline.Exchange, contentType, body string) {
	x.Header["Content-Type"] = []string{contentType}
	x.Body, x.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
}
