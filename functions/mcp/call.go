package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// source is the source in the audit records of changes that calls make.
const source = "mcp"

// handler returns the handler of a tool. It checks the arguments, asks for a confirmation if the view requires one,
// sends a request to the tool's operation, and returns the response as a result.
func handler(t *apitools.Tool) mcp.ToolHandler {
	// Compile the schema at the first call: a schema takes about 100 µs to compile, and a process uses only a few of the
	// tools.
	schema := sync.OnceValues(func() (*sharedmcp.Schema, error) { return sharedmcp.CompileSchema(t.Input) })
	operation := t.Operation()
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		s := callerOf(ctx).server
		compiled, err := schema()
		if err != nil {
			return nil, err // cannot happen: a test compiles all schemas
		}
		var arguments map[string]json.RawMessage
		if err := compiled.Read(ctx, req.Params.Arguments, &arguments); err != nil {
			return sharedmcp.RefuseInvalid(err)
		}
		for name, raw := range arguments {
			if arguments[name], err = plainNumbers(raw); err != nil {
				return nil, err // cannot happen: the value was already read for its check against the schema
			}
		}
		call := api.Call{
			Source: source, DryRun: takeFlag(arguments, apitools.DryRunArgument),
			Reveal: takeFlag(arguments, apitools.RevealSecretsArgument),
		}
		request, err := sharedmcp.EncodeArguments(operation, t.Path, arguments)
		if err != nil {
			return sharedmcp.RefuseInvalid(err)
		}
		if t.Destructive && callerOf(ctx).view.confirm && !call.DryRun {
			if result, err := s.checkConfirmed(ctx, req, t, request, arguments, call); result != nil || err != nil {
				return result, err
			}
		}
		status, header, body := s.sendRequest(ctx, t, request, call)
		return s.resultOf(t, call, status, header, body), nil
	}
}

// takeFlag removes a flag from arguments and returns its value, or false if it is missing. The arguments must match
// their schema.
func takeFlag(arguments map[string]json.RawMessage, name string) bool {
	set := string(arguments[name]) == "true"
	delete(arguments, name)
	return set
}

// sendRequest sends the request of a call to the API, with the Authorization header of the message. It returns the
// status, the headers and the body of the response.
func (s *server) sendRequest(
	ctx context.Context, t *apitools.Tool, request sharedmcp.RequestParts, call api.Call,
) (int, http.Header, []byte) {
	target := request.Path
	if request.Query != "" {
		target += "?" + request.Query
	}
	r := httptest.NewRequestWithContext(api.WithCall(sharedmcp.RequestContext(ctx), call), t.Method, target,
		bytes.NewReader(request.Body))
	for _, field := range request.Fields {
		r.Header.Set(field[0], field[1])
	}
	if request.Body != nil {
		r.Header.Set("Content-Type", request.ContentType)
	}
	r.Header.Set("Authorization", callerOf(ctx).authorization)
	resp := httptest.NewRecorder()
	s.operations().ServeHTTP(resp, r)
	return resp.Code, resp.Header(), resp.Body.Bytes()
}
