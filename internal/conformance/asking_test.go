package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

// What asks the client for something in the middle of a call, as 2026-07-28 has it: the answer says what is asked for, and
// the client calls once more with the answers (SEP-2322, "input_required").

// asking are the tools that ask.
func asking() map[string]mcp.ToolHandler {
	const prefix = "test_input_required_result_"
	return map[string]mcp.ToolHandler{
		prefix + "elicitation": asksFor("user_name"), prefix + "sampling": asksFor("greeting"), prefix + "list_roots": asksFor("client_roots"),
		prefix + "multiple_inputs": asksWith("sealed", "user_name", "greeting", "client_roots"),
		prefix + "request_state":   asksWith("sealed", "confirm"), prefix + "tampered_state": asksWith("sealed", "confirm"),
		prefix + "multi_round": asksTwice, prefix + "capabilities": asksForWhatIsDeclared,
	}
}

// question is what is asked under a name.
//
//nolint:staticcheck // the suite asks about what is deprecated, too
func question(name string) mcp.InputRequest {
	switch name {
	case "greeting":
		return &mcp.CreateMessageParams{Messages: []*mcp.SamplingMessage{{Role: "user", Content: text("Say hello.")}}, MaxTokens: 50}
	case "client_roots":
		return &mcp.ListRootsParams{}
	case "confirm":
		return &mcp.ElicitParams{Message: "Do it?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"ok":{"type":"boolean"}},"required":["ok"]}`)}
	default:
		return &mcp.ElicitParams{Message: "What is your " + name + "?", RequestedSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)}
	}
}

func questions(names ...string) mcp.InputRequestMap {
	all := mcp.InputRequestMap{}
	for _, name := range names {
		all[name] = question(name)
	}
	return all
}

// isAnswered reports whether there is an answer that fits the question of a name.
//
//nolint:staticcheck // the suite asks about what is deprecated, too
func isAnswered(responses mcp.InputResponseMap, name string) bool {
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

// asksFor asks until it is answered.
func asksFor(names ...string) mcp.ToolHandler { return asksWith("", names...) }

// asksWith also gives the client a state to bring back, and refuses one that is another.
func asksWith(state string, names ...string) mcp.ToolHandler {
	return func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		if r.Params.RequestState != "" && r.Params.RequestState != state {
			return nil, sharedmcp.Invalid("Bring requestState back as it was given.")
		}
		for _, name := range names {
			if !isAnswered(r.Params.InputResponses, name) {
				return &mcp.CallToolResult{InputRequests: questions(names...), RequestState: state}, nil
			}
		}
		return said(text("state-ok: " + strings.Join(names, ", "))), nil
	}
}

// asksTwice asks one question after the other, and knows by the state which was the last.
func asksTwice(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	switch state := r.Params.RequestState; {
	case state == "":
		return &mcp.CallToolResult{InputRequests: questions("step1"), RequestState: "1"}, nil
	case state == "1" && isAnswered(r.Params.InputResponses, "step1"):
		return &mcp.CallToolResult{InputRequests: questions("step2"), RequestState: "2"}, nil
	case state == "2" && isAnswered(r.Params.InputResponses, "step2"):
		return said(text("Both are answered.")), nil
	default:
		return nil, sharedmcp.Invalid("Answer what was asked.")
	}
}

// asksForWhatIsDeclared asks for nothing of which a client has not said that it can do it.
//
//nolint:staticcheck // the suite asks about what is deprecated, too
func asksForWhatIsDeclared(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	var names []string
	if can := r.ClientCapabilities(); can != nil {
		if can.Elicitation != nil {
			names = append(names, "user_name")
		}
		if can.Sampling != nil {
			names = append(names, "greeting")
		}
		if can.RootsV2 != nil {
			names = append(names, "client_roots")
		}
	}
	if len(names) == 0 || len(r.Params.InputResponses) > 0 {
		return said(text(fmt.Sprintf("Asked for %d.", len(names)))), nil
	}
	return &mcp.CallToolResult{InputRequests: questions(names...)}, nil
}

// askingPrompt is a prompt that asks.
func askingPrompt(_ context.Context, r *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
	if !isAnswered(r.Params.InputResponses, "user_context") {
		return &mcp.GetPromptResult{InputRequests: questions("user_context")}, nil
	}
	return prompts(text("The context is known.")), nil
}
