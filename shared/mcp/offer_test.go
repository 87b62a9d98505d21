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

// says is a tool that answers "yes".
func says(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "yes"}}}, nil
}

// meta is what a message of 2026-07-28 has.
const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// send sends a call of 2026-07-28 with more header fields, and answers status and body.
func send(t *testing.T, s *Server, method, params string, fields ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":{`+params+meta+`}}`))
	r.Header.Set(fieldVersion, Version20260728)
	r.Header.Set("Mcp-Method", method)
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	response := s.Answer(r)
	body, err := io.ReadAll(response.Body)
	if err != nil || response.Body.Close() != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func open(*http.Request) bool { return true }

// TestMethodsAreThoseOfWhatIsOffered: a client that sees no prompts declared has to hear that there is no such method,
// and not of an empty list.
func TestMethodsAreThoseOfWhatIsOffered(t *testing.T) {
	t.Parallel()
	tools := New(Setup{Name: "tools", Version: "1", MayAsk: open})
	tools.AddTool(&mcp.Tool{Name: "yes", InputSchema: json.RawMessage(`{"type":"object"}`)}, says)
	all := New(Setup{Name: "all", Version: "1", MayAsk: open, Complete: func(context.Context, *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{"Paris"}}}, nil
	}})
	all.AddPrompt(&mcp.Prompt{Name: "greeting"}, func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return &mcp.GetPromptResult{Messages: []*mcp.PromptMessage{}}, nil
	})
	all.AddResourceTemplate(&mcp.ResourceTemplate{Name: "city", URITemplate: "city://{name}/map"}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: r.Params.URI, Text: "a map"}}}, nil
	})
	argument := `"ref":{"type":"ref/prompt","name":"greeting"},"argument":{"name":"city","value":"Pa"},`
	every := New(Setup{Name: "every", Version: "1", MayAsk: open, EveryMethod: true})
	every.AddTool(&mcp.Tool{Name: "yes", InputSchema: json.RawMessage(`{"type":"object"}`)}, says)
	for _, test := range []struct {
		server               *Server
		method, params, name string
		status               int
		has                  string
	}{
		{tools, "tools/list", "", "", 200, `"name":"yes"`},
		{tools, "prompts/list", "", "", 404, "-32601"},
		{tools, "prompts/get", `"name":"greeting",`, "greeting", 404, "-32601"},
		{tools, "resources/list", "", "", 404, "-32601"},
		{tools, "resources/templates/list", "", "", 404, "-32601"},
		{tools, "resources/read", `"uri":"city://paris/map",`, "city://paris/map", 404, "-32601"},
		{tools, "completion/complete", argument, "", 404, "-32601"},
		{tools, "server/discover", "", "", 200, `"capabilities":{"tools":{}}`},
		{every, "prompts/list", "", "", 200, `"prompts":[]`},
		{every, "prompts/get", `"name":"greeting",`, "greeting", 400, "-32602"},
		{every, "resources/list", "", "", 200, `"resources":[]`},
		{every, "resources/templates/list", "", "", 200, `"resourceTemplates":[]`},
		{every, "resources/read", `"uri":"city://paris/map",`, "city://paris/map", 400, "-32602"},
		{every, "completion/complete", argument, "", 404, "-32601"},
		{every, "server/discover", "", "", 200, `"capabilities":{"tools":{}}`},
		{all, "tools/list", "", "", 404, "It has prompts/list, prompts/get, resources/list, resources/read, resources/templates/list, completion/complete, server/discover."},
		{all, "prompts/list", "", "", 200, `"name":"greeting"`},
		{all, "resources/templates/list", "", "", 200, `"uriTemplate":"city://{name}/map"`},
		{all, "resources/read", `"uri":"city://paris/map",`, "city://paris/map", 200, `"text":"a map"`},
		{all, "resources/read", `"uri":"city://paris/food",`, "city://paris/food", 400, `"code":-32602,"message":"Resource not found. `},
		{all, "completion/complete", argument, "", 200, `"values":["Paris"]`},
		{all, "completion/complete", `"ref":5,`, "", 400, "The params are none of completion/complete."},
		{all, "server/discover", "", "", 200, `"capabilities":{"completions":{},"prompts":{},"resources":{}}`},
	} {
		status, body := send(t, test.server, test.method, test.params, "Mcp-Name", test.name)
		if status != test.status || !strings.Contains(body, test.has) {
			t.Errorf("%s of %s: %d %s, want %d with %s", test.method, test.server.info.Name, status, body, test.status, test.has)
		}
	}
}

// TestAnUnsupportedVersionIsRefusedForItsCall, by the call's own id: a client that waits for it hears of it.
func TestAnUnsupportedVersionIsRefusedForItsCall(t *testing.T) {
	t.Parallel()
	s := New(Setup{MayAsk: open})
	status, body := send(t, s, "server/discover", "", fieldVersion, "2030-01-01")
	if status != http.StatusBadRequest || !strings.Contains(body, `"code":-32022`) || !strings.Contains(body, `"id":7`) {
		t.Errorf("a version to come is answered %d %s", status, body)
	}
	const call = `{"jsonrpc":"2.0","id":7,"method":"ping"}`
	for name, text := range map[string]string{"of a batch": "[" + call + "," + call + "]", "of a batch of one": "[" + call + "]", "of nothing to answer": `{"jsonrpc":"2.0","method":"notifications/cancelled"}`} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(text))
		r.Header.Set(fieldVersion, "2030-01-01")
		response := s.Answer(r)
		body, _ := io.ReadAll(response.Body)
		if _ = response.Body.Close(); response.StatusCode != http.StatusBadRequest || strings.Contains(string(body), `"id":7`) {
			t.Errorf("a version to come %s is answered %d %s", name, response.StatusCode, body)
		}
	}
}

// TestRepeatedArgumentsAreComparedWithTheHeader, since proxies in front may have decided by it (SEP-2243).
func TestRepeatedArgumentsAreComparedWithTheHeader(t *testing.T) {
	t.Parallel()
	s := New(Setup{MayAsk: open})
	s.AddTool(&mcp.Tool{Name: "yes", InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`)}, says)
	for _, test := range []struct {
		name, region string
		status       int
		has          string
	}{
		{"the same", "eu", 200, `"text":"yes"`},
		{"another", "us", 400, `"code":-32020`},
	} {
		status, body := send(t, s, callTool, `"name":"yes","arguments":{"region":"eu"},`, "Mcp-Name", "yes", "Mcp-Param-Region", test.region)
		if status != test.status || !strings.Contains(body, test.has) {
			t.Errorf("%s in the header: %d %s, want %d with %s", test.name, status, body, test.status, test.has)
		}
	}
}

// TestAToolThatACallerHasNotIsUnknownInTheShortWay too.
func TestAToolThatACallerHasNotIsUnknownInTheShortWay(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{false, true} {
		s := New(Setup{MayAsk: open, Asks: asks, Has: func(_ context.Context, tool string) bool { return tool == "yes" }})
		for _, name := range []string{"yes", "hidden"} {
			s.AddTool(&mcp.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, says)
		}
		if status, body := send(t, s, callTool, `"name":"yes",`, "Mcp-Name", "yes"); status != 200 || !strings.Contains(body, `"text":"yes"`) {
			t.Errorf("asks %t: a tool that there is answers %d %s", asks, status, body)
		}
		if status, body := send(t, s, callTool, `"name":"hidden",`, "Mcp-Name", "hidden"); status != 400 || !strings.Contains(body, `"code":-32602`) {
			t.Errorf("asks %t: one that is hidden answers %d %s", asks, status, body)
		}
	}
}

// TestAnErrorIsTheSameInTheShortWay, with its status and what it says beside its text.
func TestAnErrorIsTheSameInTheShortWay(t *testing.T) {
	t.Parallel()
	for code, want := range map[int64]int{mcp.CodeMissingRequiredClientCapabilities: 400, codeInvalidParams: 400, codeInternal: 200} {
		for _, asks := range []bool{false, true} {
			s := New(Setup{MayAsk: open, Asks: asks})
			s.AddTool(&mcp.Tool{Name: "no", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return nil, &jsonrpc.Error{Code: code, Message: "No.", Data: json.RawMessage(`{"why":"because"}`)}
			})
			status, body := send(t, s, callTool, `"name":"no",`, "Mcp-Name", "no")
			var answer struct {
				ID    int
				Error jsonrpc.Error
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil {
				t.Fatal(err)
			}
			if status != want || answer.ID != 7 || answer.Error.Code != code || answer.Error.Message != "No." || string(answer.Error.Data) != `{"why":"because"}` {
				t.Errorf("%d where tools may ask (%v): %d %s, want %d", code, asks, status, body, want)
			}
		}
	}
}

// TestAnErrorOfTheInsideIsToldToItsOwnerAlone, in both ways, unless it is of a client that has left.
func TestAnErrorOfTheInsideIsToldToItsOwnerAlone(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{false, true} {
		for _, left := range []bool{false, true} {
			var logged []any
			s := New(Setup{MayAsk: open, Asks: asks, Failed: func(_ context.Context, cause any) string {
				logged = append(logged, cause)
				return "It failed."
			}})
			ctx, leave := context.WithCancel(t.Context())
			s.AddTool(&mcp.Tool{Name: "no", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if left {
					leave()
				}
				return nil, errors.New("the table of account 7 is gone")
			})
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"no"}}`))
			response := s.Answer(r)
			body, _ := io.ReadAll(response.Body)
			_ = response.Body.Close()
			leave()
			if strings.Contains(string(body), "account 7") || !left && !strings.Contains(string(body), `"code":-32603,"message":"It failed."`) {
				t.Errorf("asks %t, left %t: it answers %s", asks, left, body)
			}
			if (len(logged) == 1) == left {
				t.Errorf("asks %t, left %t: logged is %v", asks, left, logged)
			}
		}
	}
}
