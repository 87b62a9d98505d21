// Package endpoint has the parts that the operations of the platform's own MCP servers share: the POST of a message,
// the requests of the protocol that a server without sessions refuses (specification 4.1), and CORS preflights.
//
// The package does not implement MCP (package mcp does), and has no tools.
package endpoint

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Describe returns the description of the messages that an operation accepts, without a final period.
func Describe() string {
	all := mcp.Versions()
	last := len(all) - 1
	return "One message of the Model Context Protocol, in the versions " +
		strings.Join(all[:last], ", ") + " and " + all[last] + ", without sessions"
}

// ProtocolStatuses returns the status codes of the protocol that a server can return in addition to 200 and the statuses of its operation.
func ProtocolStatuses() []int {
	return []int{
		http.StatusNotFound, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType,
	}
}

// DescribeBody returns the documentation of a message's body.
func DescribeBody() *huma.RequestBody {
	return &huma.RequestBody{
		Description: "A JSON-RPC message, of at most 1 MiB.", Required: true,
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}},
	}
}

// Message is embedded in the In of the operation that receives messages. The MCP server reads the request,
// so Message keeps all of it. Message is exported because huma ignores embedded types that are not exported.
type Message struct{ request *http.Request }

// Resolve implements huma.Resolver. It stores the request in m.
func (m *Message) Resolve(hc huma.Context) []error {
	m.request, _ = humago.Unwrap(hc)
	return nil
}

var _ huma.Resolver = (*Message)(nil)

// Request returns a copy of the request, with ctx and its own header. It removes the content type text/plain,
// so that the MCP server reads the body as JSON: existing clients of the API send this type (contract 1.1).
func (m *Message) Request(ctx context.Context) *http.Request {
	r := m.request.Clone(ctx)
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "text/plain" {
		r.Header.Del("Content-Type")
	}
	return r
}

// Response is the Out of the operation that receives messages.
type Response struct {
	Status       int
	ContentType  string `header:"Content-Type" hidden:"true"`
	CacheControl string `header:"Cache-Control" hidden:"true"`
	RetryAfter   string `header:"Retry-After" hidden:"true"`
	Body         []byte `contentType:"application/json"`
}

// ReadResponse reads a server's response to its end and closes it. The result keeps only the status, the body and the
// headers Content-Type and Retry-After, and must not be cached.
func ReadResponse(response *http.Response) (*Response, error) {
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer to a message: %w", err)
	}
	return &Response{
		Status: response.StatusCode, ContentType: response.Header.Get("Content-Type"), CacheControl: "no-store",
		RetryAfter: response.Header.Get("Retry-After"), Body: body,
	}, nil
}

// Refusal is the Out of the operations that a server without sessions refuses.
type Refusal struct {
	Allow       string `header:"Allow"`
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// LogFailure returns a function that logs the panic or error of a call, and returns the message for the client. The
// function does not log http.ErrAbortHandler.
func LogFailure(log *slog.Logger) func(context.Context, any) string {
	return func(ctx context.Context, cause any) string {
		id := api.RequestID(ctx)
		if cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared, as net/http does
			log.LogAttrs(ctx, slog.LevelError, "a tool's call failed",
				slog.String("requestId", id), slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
		}
		return "The server failed on this call. Quote the request id when you report it: " + id + "."
	}
}

// NotAllowed returns the operation that refuses a method at a server's path.
func NotAllowed(id, method, path string, origins api.Origins) api.Operation[struct{}, Refusal] {
	o := api.Operation[struct{}, Refusal]{
		ID: id, Method: method, Path: path, Public: true, Hidden: true, Origins: origins,
		Summary: "Refuse a stream of events, and the end of a session",
	}
	o.Status = http.StatusMethodNotAllowed // not a problem document: the specification defines the text
	return o
}

// Refuse carries out the operation of NotAllowed.
func Refuse(context.Context, *struct{}) (*Refusal, error) {
	return &Refusal{
		Allow: http.MethodPost, ContentType: "text/plain; charset=utf-8",
		Body: []byte("Send a POST: this server holds no stream open, and has no sessions to end.\n"),
	}, nil
}

// Preflight returns the operation for CORS preflights, which a browser sends before a page of another origin posts a message.
func Preflight(id, path string, origins api.Origins) api.Operation[struct{}, struct{}] {
	return api.Operation[struct{}, struct{}]{
		ID: id, Method: http.MethodOptions, Path: path, Status: http.StatusNoContent,
		Summary: "Tell a page of another origin whether it may call",
		Public:  true, Hidden: true, Origins: origins,
	}
}

// HandlePreflight carries out the operation of Preflight. Package api has set the CORS headers.
func HandlePreflight(context.Context, *struct{}) (*struct{}, error) { return &struct{}{}, nil }
