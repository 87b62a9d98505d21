// Package endpoint has what the operations of the platform's own MCP servers have in common: the message that is posted,
// and what the protocol has beside it and a server without sessions does not (specification 4.1).
//
// It speaks no MCP (package mcp does), and has no tools.
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

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/mcp"
)

// Describe is what an operation says of the messages that it takes, without an end.
func Describe() string {
	all := mcp.Versions()
	last := len(all) - 1
	return "One message of the Model Context Protocol, in the versions " + strings.Join(all[:last], ", ") + " and " + all[last] + ", without sessions"
}

// Statuses are those that a server answers beside 200 and what its operation answers by itself: the protocol's.
func Statuses() []int {
	return []int{http.StatusNotFound, http.StatusNotAcceptable, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}
}

// Body documents a message.
func Body() *huma.RequestBody {
	return &huma.RequestBody{
		Description: "A JSON-RPC message, of at most 1 MiB.", Required: true,
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{}}},
	}
}

// Message is embedded in the In of the operation that messages are posted to: a server reads all of it itself. It is
// exported because huma skips what is embedded and is not.
type Message struct{ request *http.Request }

// Resolve keeps the request; huma calls it.
func (m *Message) Resolve(hc huma.Context) []error {
	m.request, _ = humago.Unwrap(hc)
	return nil
}

var _ huma.Resolver = (*Message)(nil)

// Request is the message as a request of its own header, with ctx. A message in text/plain is JSON, as existing clients of
// the API send it (contract 1.1).
func (m *Message) Request(ctx context.Context) *http.Request {
	r := m.request.Clone(ctx)
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "text/plain" {
		r.Header.Del("Content-Type")
	}
	return r
}

// Answer is the Out of that operation.
type Answer struct {
	Status       int
	ContentType  string `header:"Content-Type" hidden:"true"`
	CacheControl string `header:"Cache-Control" hidden:"true"`
	RetryAfter   string `header:"Retry-After" hidden:"true"`
	Body         []byte `contentType:"application/json"`
}

// AnswerOf reads what a server has answered, to its end.
func AnswerOf(response *http.Response) (*Answer, error) {
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer to a message: %w", err)
	}
	return &Answer{
		Status: response.StatusCode, ContentType: response.Header.Get("Content-Type"), CacheControl: "no-store",
		RetryAfter: response.Header.Get("Retry-After"), Body: body,
	}, nil
}

// Refusal is what a server without sessions does not have.
type Refusal struct {
	Allow       string `header:"Allow"`
	ContentType string `header:"Content-Type"`
	Body        []byte
}

// Failed gives what logs what a call panicked or failed with, and answers what its client is told.
func Failed(log *slog.Logger) func(context.Context, any) string {
	return func(ctx context.Context, cause any) string {
		id := api.RequestID(ctx)
		if cause != http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared, as net/http does
			log.LogAttrs(ctx, slog.LevelError, "a tool's call failed",
				slog.String("requestId", id), slog.Any("cause", cause), slog.String("stack", string(debug.Stack())))
		}
		return "The server failed on this call. Quote the request id when you report it: " + id + "."
	}
}

// NotAllowed declares the operation that refuses a method at a server's path.
func NotAllowed(id, method, path string, origins api.Origins) api.Operation[struct{}, Refusal] {
	o := api.Operation[struct{}, Refusal]{
		ID: id, Method: method, Path: path, Public: true, Hidden: true, Origins: origins,
		Summary: "Refuse a stream of events, and the end of a session",
	}
	o.Status = http.StatusMethodNotAllowed // which is no problem: its text is the specification's
	return o
}

// Refuse answers it.
func Refuse(context.Context, *struct{}) (*Refusal, error) {
	return &Refusal{
		Allow: http.MethodPost, ContentType: "text/plain; charset=utf-8",
		Body: []byte("Send a POST: this server holds no stream open, and has no sessions to end.\n"),
	}, nil
}

// Preflight declares the operation that a browser asks before a page of another origin posts a message.
func Preflight(id, path string, origins api.Origins) api.Operation[struct{}, struct{}] {
	return api.Operation[struct{}, struct{}]{
		ID: id, Method: http.MethodOptions, Path: path, Status: http.StatusNoContent,
		Summary: "Tell a page of another origin whether it may call",
		Public:  true, Hidden: true, Origins: origins,
	}
}

// Preflighted answers it: package api has told the origin.
func Preflighted(context.Context, *struct{}) (*struct{}, error) { return &struct{}{}, nil }
