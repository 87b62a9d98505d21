package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// textTool is a tool that returns "yes".
func textTool(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "yes"}}}, nil
}

// meta is the metadata of a 2026-07-28 message.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}`

// send sends a 2026-07-28 call with additional header fields, and returns status and body.
func send(t *testing.T, s *Server, method, params string, fields ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+meta+`}}`))
	r.Header.Set(fieldVersion, Version20260728)
	r.Header.Set("Mcp-Method", method)
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response := s.Handle(r)
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func allowAll(*http.Request) bool { return true }

// TestMethodsMatchCapabilities checks that a server without prompts returns the error for an unknown method, and not an
// empty list. The same is true of other features. With AllMethods, lists are empty.
func TestMethodsMatchCapabilities(t *testing.T) {
	t.Parallel()
	tools := New(Setup{Name: "tools", Version: "1", CheckOrigin: allowAll})
	tools.AddTool(&mcp.Tool{Name: "yes", InputSchema: json.RawMessage(`{"type":"object"}`)}, textTool)
	noTools := New(Setup{
		Name: "no tools", Version: "1", CheckOrigin: allowAll,
		Complete: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
			return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"Paris"}}}, nil
		},
	})
	noTools.AddPrompt(&mcp.Prompt{Name: "greeting"},
		func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
		})
	noTools.AddResourceTemplate(&mcp.ResourceTemplate{Name: "city", URITemplate: "city://{name}/map"},
		func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "a map"}}}, nil
		})
	argument := `"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"city","value":"Pa"},`
	allMethods := New(Setup{Name: "all methods", Version: "1", CheckOrigin: allowAll, AllMethods: true})
	allMethods.AddTool(&mcp.Tool{Name: "yes", InputSchema: json.RawMessage(`{"type":"object"}`)}, textTool)
	for _, test := range []struct {
		server               *Server
		method, params, name string
		status               int
		contains             string
	}{
		{tools, "tools/list", "", "", 200, `"name":"yes"`},
		{tools, "prompts/list", "", "", 404, "-32601"},
		{tools, "prompts/get", `"name":"greeting",`, "greeting", 404, "-32601"},
		{tools, "resources/list", "", "", 404, "-32601"},
		{tools, "resources/templates/list", "", "", 404, "-32601"},
		{tools, "resources/read", `"uri":"city://paris/map",`, "city://paris/map", 404, "-32601"},
		{tools, "completion/complete", argument, "", 404, "-32601"},
		{tools, "server/discover", "", "", 200, `"capabilities":{"tools":{}}`},
		{allMethods, "prompts/list", "", "", 200, `"prompts":[]`},
		{allMethods, "prompts/get", `"name":"greeting",`, "greeting", 400, "-32602"},
		{allMethods, "resources/list", "", "", 200, `"resources":[]`},
		{allMethods, "resources/templates/list", "", "", 200, `"resourceTemplates":[]`},
		{allMethods, "resources/read", `"uri":"city://paris/map",`, "city://paris/map", 400, "-32602"},
		{allMethods, "completion/complete", argument, "", 404, "-32601"},
		{allMethods, "server/discover", "", "", 200, `"capabilities":{"tools":{}}`},
		{noTools, "tools/list", "", "", 404, "It has prompts/list, prompts/get, resources/list, resources/read, " +
			"resources/templates/list, completion/complete, server/discover."},
		{noTools, "prompts/list", "", "", 200, `"name":"greeting"`},
		{noTools, "resources/templates/list", "", "", 200, `"uriTemplate":"city://{name}/map"`},
		{noTools, "resources/read", `"uri":"city://paris/map",`, "city://paris/map", 200, `"text":"a map"`},
		{
			noTools, "resources/read", `"uri":"city://paris/food",`, "city://paris/food", 400,
			`"code":-32602,"message":"Resource not found. `,
		},
		{noTools, "completion/complete", argument, "", 200, `"values":["Paris"]`},
		{noTools, "completion/complete", `"ref":5,`, "", 400, "The params are none of completion/complete."},
		{noTools, "server/discover", "", "", 200, `"capabilities":{"completions":{},"prompts":{},"resources":{}}`},
	} {
		status, body := send(t, test.server, test.method, test.params, "Mcp-Name", test.name)
		if status != test.status || !strings.Contains(body, test.contains) {
			t.Errorf("%s at the server %s = %d %s, want %d with %s",
				test.method, test.server.info.Name, status, body, test.status, test.contains)
		}
	}
}

// TestUnsupportedVersionErrorHasCallID checks that the error has the call's id, so that the waiting client receives it.
// Without exactly one call outside a batch, the error has no id.
func TestUnsupportedVersionErrorHasCallID(t *testing.T) {
	t.Parallel()
	s := New(Setup{CheckOrigin: allowAll})
	status, body := send(t, s, "server/discover", "", fieldVersion, "2030-01-01")
	if status != http.StatusBadRequest || !strings.Contains(body, `"code":-32022`) || !strings.Contains(body, `"id":7`) {
		t.Errorf("server/discover with a later version = %d %s, want 400 with code -32022 and ID 7", status, body)
	}
	const call = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for name, text := range map[string]string{
		"a batch":                "[" + call + "," + call + "]",
		"a batch of one message": "[" + call + "]",
		"a notification":         `{"jsonrpc":"2.0","method":"notifications/cancelled"}`,
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(text))
		r.Header.Set(fieldVersion, "2030-01-01")
		response := s.Handle(r)
		body, _ := io.ReadAll(response.Body)
		if _ = response.Body.Close(); response.StatusCode != http.StatusBadRequest ||
			strings.Contains(string(body), `"id":7`) {
			t.Errorf("request with a later version, %s, = %d %s, want 400 without ID 7", name, response.StatusCode, body)
		}
	}
}

// TestHeaderArgumentsMustMatch checks that header fields that repeat arguments must equal
// the arguments (SEP-2243): proxies could have based a decision on the header fields.
func TestHeaderArgumentsMustMatch(t *testing.T) {
	t.Parallel()
	s := New(Setup{CheckOrigin: allowAll})
	s.AddTool(&mcp.Tool{
		Name:        "yes",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`),
	},
		textTool)
	for _, test := range []struct {
		name, region string
		status       int
		contains     string
	}{
		{"the same value", "eu", 200, `"text":"yes"`},
		{"another value", "us", 400, `"code":-32020`},
	} {
		status, body := send(t, s, callTool, `"name":"yes","arguments":{"region":"eu"},`, "Mcp-Name", "yes",
			"Mcp-Param-Region", test.region)
		if status != test.status || !strings.Contains(body, test.contains) {
			t.Errorf("%s in the header: %d %s, want %d with %s", test.name, status, body, test.status, test.contains)
		}
	}
}

// TestDirectRefusesUnavailableTool checks that neither direct
// nor the SDK calls a tool that does not exist for the caller.
func TestDirectRefusesUnavailableTool(t *testing.T) {
	t.Parallel()
	for _, requestsInput := range []bool{false, true} {
		s := New(Setup{
			CheckOrigin: allowAll, RequestsInput: requestsInput,
			ToolExists: func(_ context.Context, tool string) bool { return tool == "yes" },
		})
		for _, name := range []string{"yes", "hidden"} {
			s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, textTool)
		}
		if status, body := send(t, s, callTool, `"name":"yes",`, "Mcp-Name", "yes"); status != 200 ||
			!strings.Contains(body, `"text":"yes"`) {
			t.Errorf("requests input %t: call of an available tool = %d %s, want 200 with text \"yes\"",
				requestsInput, status, body)
		}
		if status, body := send(t, s, callTool, `"name":"hidden",`, "Mcp-Name", "hidden"); status != 400 ||
			!strings.Contains(body, `"code":-32602`) {
			t.Errorf("requests input %t: call of a hidden tool = %d %s, want 400 with code -32602", requestsInput, status, body)
		}
	}
}

// TestDirectReturnsSameError checks that handleDirectly returns an error with the same status, text and data as the
// SDK.
func TestDirectReturnsSameError(t *testing.T) {
	t.Parallel()
	for code, want := range map[int64]int{
		mcp.CodeMissingRequiredClientCapabilities: 400, codeInvalidParams: 400,
		codeInternal: 200,
	} {
		for _, requestsInput := range []bool{false, true} {
			s := New(Setup{CheckOrigin: allowAll, RequestsInput: requestsInput})
			s.AddTool(&mcp.Tool{Name: "no", InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					return nil, &jsonrpc.Error{Code: code, Message: "No.", Data: json.RawMessage(`{"why":"because"}`)}
				})
			status, body := send(t, s, callTool, `"name":"no",`, "Mcp-Name", "no")
			var response struct {
				ID    int
				Error jsonrpc.Error
			}
			if err := json.Unmarshal([]byte(body), &response); err != nil {
				t.Fatal(err)
			}
			if status != want || response.ID != 7 || response.Error.Code != code {
				t.Errorf("requests input %v: call = %d %s, want %d with ID 7 and code %d",
					requestsInput, status, body, want, code)
			}
			if response.Error.Message != "No." || string(response.Error.Data) != `{"why":"because"}` {
				t.Errorf("requests input %v: error = %s, want message \"No.\" and its data", requestsInput, body)
			}
		}
	}
}

// TestInternalErrorIsReportedOnlyToOwner checks calls through handleDirectly and
// through the SDK. The owner gets no report if the client has disconnected.
func TestInternalErrorIsReportedOnlyToOwner(t *testing.T) {
	t.Parallel()
	for _, requestsInput := range []bool{false, true} {
		for _, disconnected := range []bool{false, true} {
			var logged []any
			s := New(Setup{
				CheckOrigin: allowAll, RequestsInput: requestsInput,
				ReportFailure: func(_ context.Context, cause any) string {
					logged = append(logged, cause)
					return "It failed."
				},
			})
			ctx, disconnect := context.WithCancel(t.Context())
			s.AddTool(&mcp.Tool{Name: "no", InputSchema: json.RawMessage(`{"type":"object"}`)},
				func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
					if disconnected {
						disconnect()
					}
					return nil, errors.New("the table of account 7 is gone")
				})
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp",
				strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"no"}}`))
			response := s.Handle(r)
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			disconnect()
			if strings.Contains(string(body), "account 7") ||
				!disconnected && !strings.Contains(string(body), `"code":-32603,"message":"It failed."`) {
				t.Errorf("requests input %t, disconnected %t: response = %s, want code -32603 without the cause",
					requestsInput, disconnected, body)
			}
			if (len(logged) == 1) == disconnected {
				t.Errorf("requests input %t, disconnected %t: logged = %v, want one entry only if connected",
					requestsInput, disconnected, logged)
			}
		}
	}
}
