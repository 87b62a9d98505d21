package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// guard stands around everything that the SDK calls: a panic ends one call, where the SDK would let the
// process end, and errors have the codes that the client's version of the protocol has.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				text := s.setup.Failed(ctx, cause)
				if result, err = Refusal(text), nil; method != callTool {
					result, err = nil, &jsonrpc.Error{Code: codeInternal, Message: text}
				}
			}
		}()
		switch params := req.GetParams().(type) {
		case *mcp.ReadResourceParams:
			switch {
			case method != "resources/read" || params == nil:
			case params.URI == "":
				return nil, Invalid("Send the uri of a resource. resources/list has those that there are.")
			case !s.isResource(params.URI):
				return nil, notFound(params.URI, callOf(ctx).version)
			}
		case *mcp.CallToolParamsRaw:
			if params != nil && !holds(ctx, s.setup.Has, params.Name) {
				return nil, Invalid("unknown tool %q", params.Name)
			}
		}
		if result, err = next(ctx, method, req); err != nil {
			return result, s.told(ctx, err)
		}
		if list, ok := result.(*mcp.ListToolsResult); ok {
			list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool { return !holds(ctx, s.setup.Has, t.Name) || !holds(ctx, s.setup.Lists, t.Name) })
		}
		return result, nil
	}
}

// told is an error as a client is told it: what is none of the protocol's may say anything of the inside, and is for whoever
// runs the server (Setup.Failed).
func (s *Server) told(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return err
	}
	if c := callOf(ctx); c != nil && c.ctx.Err() != nil {
		return Internal("The client has left.", nil)
	}
	return Internal(s.setup.Failed(ctx, err), nil)
}

// holds reports whether a rule lets a tool pass, as no rule does.
func holds(ctx context.Context, rule func(context.Context, string) bool, tool string) bool {
	return rule == nil || rule(ctx, tool)
}

// notFound says that there is no resource of a uri: by a code of its own until 2025-11-25.
func notFound(uri, version string) error {
	data, err := json.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return err
	}
	code := int64(codeResourceNotFound)
	if version == Version20260728 {
		code = codeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: "Resource not found. resources/list has those that there are.", Data: data}
}

// Invalid is the error of a call whose parameters are wrong.
func Invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: codeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// Internal is the error of a call that cannot be answered now, with what is known of it, nil for nothing.
func Internal(text string, data json.RawMessage) error {
	return &jsonrpc.Error{Code: codeInternal, Message: text, Data: data}
}

// Refusal is the result of a tool that has failed, for the model to read (MCP, "Error Handling").
func Refusal(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// RefuseInvalid makes of the error of arguments that are wrong (Invalid) a result that says the same: clients show a model
// the results of its calls, and many of them no error of the protocol (MCP since 2025-11-25, "Error Handling"). Any other
// error is given back.
func RefuseInvalid(err error) (*mcp.CallToolResult, error) {
	if wrong, ok := errors.AsType[*jsonrpc.Error](err); ok && wrong.Code == codeInvalidParams {
		return Refusal(wrong.Message), nil
	}
	return nil, err
}

// Progress tells the client how far a call is, of 1, if it wants to know and is answered by events.
func Progress(ctx context.Context, req *mcp.CallToolRequest, done float64, text string) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return
	}
	// Where the answer is in one piece, nobody hears of it, and that is no failure.
	_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 1, Message: text})
}
