package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

// source is what audit records say of where a change came from.
const source = "mcp"

// handler calls a tool's operation.
func handler(t *apitools.Tool) mcp.ToolHandler {
	// Most calls are of few tools, and a schema takes some 100 µs to compile.
	schema := sync.OnceValues(func() (*sharedmcp.Schema, error) { return sharedmcp.CompileSchema(t.Input) })
	declared := t.Operation()
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s := callerOf(ctx).server
		compiled, err := schema()
		if err != nil {
			return nil, err // a test has compiled all
		}
		var arguments map[string]json.RawMessage
		if err := compiled.Read(ctx, req.Params.Arguments, &arguments); err != nil {
			return sharedmcp.RefuseInvalid(err)
		}
		for name, raw := range arguments {
			if arguments[name], err = plain(raw); err != nil {
				return nil, err // it has been read
			}
		}
		call := api.Call{Source: source, DryRun: take(arguments, apitools.DryRun), Reveal: take(arguments, apitools.RevealSecrets)}
		written, err := sharedmcp.Write(declared, t.Path, arguments)
		if err != nil {
			return sharedmcp.RefuseInvalid(err)
		}
		if t.Destructive && callerOf(ctx).view.confirm && !call.DryRun {
			if result, err := s.confirmed(ctx, req, t, written, arguments, call); result != nil || err != nil {
				return result, err
			}
		}
		status, header, body := s.ask(ctx, t, written, call)
		return s.resultOf(t, call, status, header, body), nil
	}
}

// take takes a flag out of arguments, which fit their schema.
func take(arguments map[string]json.RawMessage, name string) bool {
	on := string(arguments[name]) == "true"
	delete(arguments, name)
	return on
}

// ask sends the request of a call to the API, by the key of whoever sent the message.
func (s *server) ask(ctx context.Context, t *apitools.Tool, w sharedmcp.Written, call api.Call) (int, http.Header, []byte) {
	target := w.Path
	if w.Query != "" {
		target += "?" + w.Query
	}
	r := httptest.NewRequestWithContext(api.Within(sharedmcp.RequestContext(ctx), call), t.Method, target, bytes.NewReader(w.Body))
	for _, field := range w.Fields {
		r.Header.Set(field[0], field[1])
	}
	if w.Body != nil {
		r.Header.Set("Content-Type", w.ContentType)
	}
	r.Header.Set("Authorization", callerOf(ctx).authorization)
	answer := httptest.NewRecorder()
	s.operations().ServeHTTP(answer, r)
	return answer.Code, answer.Header(), answer.Body.Bytes()
}
