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

// guard wraps all methods that the SDK calls. A panic fails only its call: without guard, it would end the process.
// Errors get the codes of the client's protocol version. guard also hides tools from callers (Setup.ToolExists and
// ToolListed), and refuses unknown resources before the SDK does.
func (s *Server) guard(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (result mcp.Result, err error) {
		defer func() {
			if cause := recover(); cause != nil {
				text := s.setup.ReportFailure(ctx, cause)
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
			if params != nil && !allows(ctx, s.setup.ToolExists, params.Name) {
				return nil, Invalid("unknown tool %q", params.Name)
			}
		}
		if result, err = next(ctx, method, req); err != nil {
			return result, s.clientError(ctx, err)
		}
		if list, ok := result.(*mcp.ListToolsResult); ok {
			list.Tools = slices.DeleteFunc(list.Tools, func(t *mcp.Tool) bool {
				return !allows(ctx, s.setup.ToolExists, t.Name) || !allows(ctx, s.setup.ToolListed, t.Name)
			})
		}
		return result, nil
	}
}

// clientError converts an error to one that the client can see. An error that is not a protocol error
// could contain internal details. The client then gets the text that Setup.ReportFailure returns.
func (s *Server) clientError(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return err
	}
	if c := callOf(ctx); c != nil && c.ctx.Err() != nil {
		return Internal("The client has left.", nil)
	}
	return Internal(s.setup.ReportFailure(ctx, err), nil)
}

// allows reports whether a rule allows a tool. A nil rule allows all tools.
func allows(ctx context.Context, rule func(context.Context, string) bool, tool string) bool {
	return rule == nil || rule(ctx, tool)
}

// notFound returns the error for an unknown resource URI.
// Protocol versions up to 2025-11-25 have a separate code for it.
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

// Invalid returns the error of a call with invalid parameters.
func Invalid(format string, args ...any) error {
	return &jsonrpc.Error{Code: codeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

// Internal returns the error of a call that the server cannot complete now. data has details for the client, or is nil.
func Internal(text string, data json.RawMessage) error {
	return &jsonrpc.Error{Code: codeInternal, Message: text, Data: data}
}

// Refusal returns the result of a failed tool call, for the model to read (MCP, "Error Handling").
func Refusal(text string) *mcp.CallToolResult {
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// RefuseInvalid converts an error of invalid arguments (Invalid) to a result with the same
// text. Clients show the results of calls to the model, but many clients do not show protocol
// errors to it (MCP since 2025-11-25, "Error Handling"). Other errors are returned unchanged.
func RefuseInvalid(err error) (*mcp.CallToolResult, error) {
	if rpcErr, ok := errors.AsType[*jsonrpc.Error](err); ok && rpcErr.Code == codeInvalidParams {
		return Refusal(rpcErr.Message), nil
	}
	return nil, err
}

// Progress notifies the client of the progress of a call. done is the completed
// fraction, from 0 to 1. It does nothing if the client has not requested progress.
func Progress(ctx context.Context, req *mcp.CallToolRequest, done float64, text string) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return
	}
	// If the response is sent in one piece, the client gets no notifications. That is not an error.
	_ = req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
		ProgressToken: token, Progress: done, Total: 1,
		Message: text,
	})
}
