package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// listTools is a call of tools/list. version28 is the newest version of the protocol.
const (
	listTools = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	version28 = "2026-07-28"
)

// meta28 is the member _meta that each call has in the protocol version 2026-07-28.
const meta28 = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientCapabilities":{}}`

// TestMCPTransport checks that the server implements MCP's transport over
// HTTP, and that invalid requests get the specified responses (contract 4.3).
func TestMCPTransport(t *testing.T) {
	fx := newMCPFixture(t)
	for _, tt := range slices.Concat(mcpHeaders(), mcpDocuments(), mcpMethods(), mcpVersions(), mcpBatches(), mcpPages()) {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			response := fx.do(t, tt.method, "/mcp", append(tt.changes, func(r *http.Request) {
				if tt.body != "" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(tt.body)), int64(len(tt.body))
				}
			})...)
			text := body(t, response)
			if response.StatusCode != tt.status {
				t.Fatalf("%s /mcp: status = %d, want %d: %s", tt.method, response.StatusCode, tt.status, text)
			}
			if tt.status == 405 && response.Header.Get("Allow") != "POST" {
				t.Errorf("response of status 405: Allow = %q, want POST", response.Header.Get("Allow"))
			}
			encodingRefused := strings.Contains(text, "without Content-Encoding")
			if encodingRefused != (response.Header.Get("Accept-Encoding") == "identity") {
				t.Errorf("response: Accept-Encoding = %q, body = %s, want identity only if the body must have no Content-Encoding",
					response.Header.Get("Accept-Encoding"), text)
			}
			if tt.status == 202 && text != "" {
				t.Errorf("response of status 202: body = %s, want none", text)
			}
			if !strings.Contains(text, tt.want) {
				t.Errorf("%s /mcp: body = %s, want it to contain %s", tt.method, text, tt.want)
			}
			if tt.code == 0 {
				return
			}
			var reply rpcResponse
			if err := json.Unmarshal([]byte(text), &reply); err != nil || reply.Error == nil || reply.Error.Code != tt.code {
				t.Errorf("%s /mcp: body = %s, want error %d", tt.method, text, tt.code)
			}
			if got := response.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("response: Content-Type = %s, want application/json", got)
			}
		})
	}
	if fx.count() != 0 {
		t.Errorf("requests at the upstream after all cases = %d, want 0, because none is a valid call of a tool", fx.count())
	}
}

// TestToolOnlyServersReturnEmptyLists checks that servers without prompts or resources
// return empty lists, because every server has these methods (contract 4.3).
func TestToolOnlyServersReturnEmptyLists(t *testing.T) {
	fx := newMCPFixture(t)
	for _, tt := range []struct{ path, method, want string }{
		{"/keyed/mcp", "prompts/list", `"prompts":[]`},
		{"/limited/mcp", "resources/list", `"resources":[]`},
	} {
		reply := fx.call(t, tt.path, tt.method, "{}", header("Authorization", "Bearer good"))
		if reply.Error != nil || !strings.Contains(string(reply.Result), tt.want) {
			t.Errorf("%s at %s = %s, %+v, want %s", tt.method, tt.path, reply.Result, reply.Error, tt.want)
		}
	}
}

// TestCORSPolicyAllowsMCPOrigins checks that a page of another origin can
// call a server only if the CORS policy of its route allows the origin.
func TestCORSPolicyAllowsMCPOrigins(t *testing.T) {
	fx := newMCPFixture(t)
	for origin, want := range map[string]int{
		"https://pages.test": 200, "https://pages.test.evil.test": 403, "https://evil.test": 403,
	} {
		response := fx.post(t, "/keyed/mcp", listTools, header("Authorization", "Bearer good"), header("Origin", origin))
		if response.StatusCode != want {
			t.Errorf("POST /keyed/mcp from %s: status = %d, want %d", origin, response.StatusCode, want)
		}
	}
}

// TestProgressTokenGetsEventStream checks that a call with a progress token gets an event stream if the
// client accepts events. The stream must end after the response, so that it does not keep a Lambda running.
func TestProgressTokenGetsEventStream(t *testing.T) {
	fx := newMCPFixture(t)
	const both = "application/json, text/event-stream"
	request := mcpCall("tools/call", `"name":"readTodo","arguments":{"id":"1"},"_meta":{"progressToken":"p"}`)
	for _, tt := range []struct {
		name, body, accept, contentType string
	}{
		{"token, and events accepted", request, both, "text/event-stream"},
		{"token, and only JSON accepted", request, "application/json", "application/json"},
		{"no token", strings.ReplaceAll(request, `,"_meta":{"progressToken":"p"}`, ""), both, "application/json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			response := fx.post(t, "/mcp", tt.body, header("Accept", tt.accept))
			text := body(t, response)
			if got := response.Header.Get("Content-Type"); got != tt.contentType {
				t.Fatalf("POST /mcp: Content-Type = %s, body = %s, want %s", got, text, tt.contentType)
			}
			if !strings.Contains(text, `\"id\":\"1\"`) {
				t.Errorf("POST /mcp: body = %s, want the todo 1", text)
			}
			if events := strings.Count(text, "event: message"); (events == 3) != (tt.contentType == "text/event-stream") {
				t.Errorf("POST /mcp: events = %d, body = %s, want 3 only as text/event-stream", events, text)
			}
		})
	}
}

// TestFastPathMatchesSDK checks that the fast path for calls of tools, which does not
// use the SDK, has the same responses as the SDK, which serves calls with events.
func TestFastPathMatchesSDK(t *testing.T) {
	fx := newMCPFixture(t)
	for _, params := range []string{ // without the brace at the end
		`{"name":"readTodo","arguments":{"id":"1"}`, `{"name":"pictureTool"`,
		`{"name":"readTodo","arguments":{}`, `{"name":"nowhere"`, `{"name":"shop_introspect","arguments":{}`,
	} {
		for _, version := range []string{"2025-06-18", version28} {
			meta, modifiers := "", []func(*http.Request){header("Mcp-Protocol-Version", version)}
			if version == version28 {
				_, name, _ := strings.Cut(params, `"name":"`)
				name, _, _ = strings.Cut(name, `"`)
				meta, modifiers = strings.TrimSuffix(strings.TrimPrefix(meta28, `"_meta":{`), "}"),
					append(modifiers, header("Mcp-Method", "tools/call"), header("Mcp-Name", name))
			}
			call := func(extraMeta, accept string) (int, string) {
				all := strings.Trim(meta+","+extraMeta, ",")
				response := fx.post(t, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+
					params+`,"_meta":{`+all+`}}}`, append(modifiers, header("Accept", accept))...)
				text := body(t, response)
				if at := strings.LastIndex(text, "data: "); at >= 0 {
					text = text[at+len("data: "):]
				}
				return response.StatusCode, text
			}
			status, got := call("", "application/json")
			wantStatus, want := call(`"progressToken":1`, "application/json, text/event-stream")
			var a, b any
			if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil ||
				!reflect.DeepEqual(a, b) || status != wantStatus {
				t.Errorf("tools/call of version %s with %s: %d %s\nwant %d %s as in a stream",
					version, params, status, got, wantStatus, want)
			}
		}
	}
}
