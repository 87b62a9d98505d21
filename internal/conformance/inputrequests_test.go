package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
)

// Tools that request input from the client during a call, as 2026-07-28 defines it: the response contains the requests, and the client
// calls the tool again with its responses (SEP-2322, "input_required").

// inputTools returns the tools that request input.
func inputTools() map[string]mcp.ToolHandler {
	const prefix = "test_input_required_result_"
	return map[string]mcp.ToolHandler{
		prefix + "elicitation": inputTool("user_name"), prefix + "sampling": inputTool("greeting"),
		prefix + "list_roots":      inputTool("client_roots"),
		prefix + "multiple_inputs": inputToolWithState("sealed", "user_name", "greeting", "client_roots"),
		prefix + "request_state":   inputToolWithState("sealed", "confirm"),
		prefix + "tampered_state":  inputToolWithState("sealed", "confirm"),
		prefix + "multi_round":     inputToolTwoRounds, prefix + "capabilities": inputToolByCapabilities,
	}
}

// inputRequest returns the input request with a name.
//
//nolint:staticcheck // the suite also tests deprecated parts of the protocol
func inputRequest(name string) mcp.InputRequest {
	switch name {
	case "greeting":
		return &mcp.CreateMessageParams{
			Messages:  []*mcp.SamplingMessage{{Role: "user", Content: text("Say hello.")}},
			MaxTokens: 50,
		}
	case "client_roots":
		return &mcp.ListRootsParams{}
	case "confirm":
		return &mcp.ElicitParams{
			Message:         "Do it?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`),
		}
	default:
		return &mcp.ElicitParams{
			Message:         "What is your " + name + "?",
			RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`),
		}
	}
}

// inputRequests returns the input requests with the names.
func inputRequests(names ...string) mcp.InputRequestMap {
	all := mcp.InputRequestMap{}
	for _, name := range names {
		all[name] = inputRequest(name)
	}
	return all
}

// hasResponse reports whether the client has sent a response of the right kind to the input request with a name.
//
//nolint:staticcheck // the suite also tests deprecated parts of the protocol
func hasResponse(responses mcp.InputResponseMap, name string) bool {
	switch response := responses[name].(type) {
	case *mcp.ElicitResult:
		return response.Action == "accept" && len(response.Content) > 0
	case *mcp.CreateMessageWithToolsResult:
		return name == "greeting"
	case *mcp.ListRootsResult:
		return name == "client_roots"
	default:
		return false
	}
}

// inputTool returns a tool that requests input until it has all responses.
func inputTool(names ...string) mcp.ToolHandler { return inputToolWithState("", names...) }

// inputToolWithState returns a tool like inputTool that also sends the client a state, which the client has to send
// back. The tool refuses any other state.
func inputToolWithState(state string, names ...string) mcp.ToolHandler {
	return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.RequestState != "" && r.Params.RequestState != state {
			return nil, sharedmcp.Invalid("Bring requestState back as it was given.")
		}
		for _, name := range names {
			if !hasResponse(r.Params.InputResponses, name) {
				return &mcp.CallToolResult{InputRequests: inputRequests(names...), RequestState: state}, nil
			}
		}
		return toolResult(text("state-ok: " + strings.Join(names, ", "))), nil
	}
}

// inputToolTwoRounds requests input twice, one after the other. The state is the number of the latest request.
func inputToolTwoRounds(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	switch state := r.Params.RequestState; {
	case state == "":
		return &mcp.CallToolResult{InputRequests: inputRequests("step1"), RequestState: "1"}, nil
	case state == "1" && hasResponse(r.Params.InputResponses, "step1"):
		return &mcp.CallToolResult{InputRequests: inputRequests("step2"), RequestState: "2"}, nil
	case state == "2" && hasResponse(r.Params.InputResponses, "step2"):
		return toolResult(text("Both are answered.")), nil
	default:
		return nil, sharedmcp.Invalid("Answer what was asked.")
	}
}

// inputToolByCapabilities requests only input for which the client has declared a capability.
//
//nolint:staticcheck // the suite also tests deprecated parts of the protocol
func inputToolByCapabilities(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var names []string
	if capabilities := r.ClientCapabilities(); capabilities != nil {
		if capabilities.Elicitation != nil {
			names = append(names, "user_name")
		}
		if capabilities.Sampling != nil {
			names = append(names, "greeting")
		}
		if capabilities.RootsV2 != nil {
			names = append(names, "client_roots")
		}
	}
	if len(names) == 0 || len(r.Params.InputResponses) > 0 {
		return toolResult(text(fmt.Sprintf("Asked for %d.", len(names)))), nil
	}
	return &mcp.CallToolResult{InputRequests: inputRequests(names...)}, nil
}

// inputPrompt is a prompt that requests input.
func inputPrompt(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	if !hasResponse(r.Params.InputResponses, "user_context") {
		return &mcp.GetPromptResult{InputRequests: inputRequests("user_context")}, nil
	}
	return promptResult(text("The context is known.")), nil
}
