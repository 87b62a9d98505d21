package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
)

// resultJSON returns a result as JSON.
func resultJSON(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// findTool returns the tool with a name.
func findTool(t *testing.T, c *catalog, name string) *apitools.Tool {
	t.Helper()
	if c.byName[name] == nil {
		t.Fatalf("the catalog has no tool %s, want one", name)
	}
	return c.byName[name]
}

// TestResultMasksSecrets checks that a result contains a secret only if the call reveals secrets. In a refusal, secrets
// must always be masked, because a refusal has no audit record that says that secrets were revealed. A body that is not
// JSON must not become structured content.
func TestResultMasksSecrets(t *testing.T) {
	s := &server{catalog: newCatalog}
	const secret = "a-key-that-somebody-has-chosen-0123456789"
	readTool, deleteTool, createTool := findTool(t, s.catalog(), "ApiKeyKeysService_get"),
		findTool(t, s.catalog(), "ApiKeyKeysService_delete"), findTool(t, s.catalog(), "AccountKeysService_create")
	for name, tt := range map[string]struct {
		tool              *apitools.Tool
		call              api.Call
		status            int
		body              string
		shown, structured bool
	}{
		"response":                       {readTool, api.Call{}, 200, `{"key":"` + secret + `"}`, false, true},
		"response with revealed secrets": {readTool, api.Call{Reveal: true}, 200, `{"key":"` + secret + `"}`, true, true},
		"problem with revealed secrets": {
			readTool,
			api.Call{Reveal: true},
			409, `{"detail":"No.","key":"` + secret + `"}`,
			false, false,
		},
		"response that is not JSON": {readTool, api.Call{}, 200, secret, false, false},
		"list":                      {readTool, api.Call{}, 200, `[{"key":"` + secret + `"}]`, false, false},
		"state before, masked like a read": {
			deleteTool,
			api.Call{DryRun: true},
			200,
			`{"before":{"key":"` + secret + `"},"after":null}`, false, true,
		},
		"state after, masked like a read": {deleteTool, api.Call{DryRun: true}, 200, `{"before":{},"after":{"key":"` +
			secret + `"}}`, false, true},
		"state after a creation": {createTool, api.Call{DryRun: true}, 200, `{"before":null,"after":{"key":"` +
			secret + `"}}`, false, true},
		"unreadable dry run": {
			createTool,
			api.Call{DryRun: true},
			200, `{"key":"` + secret + `","after":`,
			false, false,
		},
	} {
		r := s.resultOf(tt.tool, tt.call, tt.status, http.Header{}, []byte(tt.body))
		if text := resultJSON(t, r); strings.Contains(text, secret) != tt.shown ||
			(r.StructuredContent != nil) != tt.structured || r.IsError != (tt.status >= 400) {
			t.Errorf("%s: result = %s, want the secret: %t, structured content: %t", name, text, tt.shown, tt.structured)
		}
	}
}

// TestReadToolFindsEnclosingResource checks that readTool returns the tool that reads the object at a path. If no tool
// reads it, readTool must return the tool that reads the nearest object above it.
func TestReadToolFindsEnclosingResource(t *testing.T) {
	c := newCatalog()
	for name, want := range map[string]string{
		"TunnelService_delete":                   "TunnelService_read",
		"TunnelService_update":                   "TunnelService_read",
		"ApiKeyConsumersService_rollKey":         "ApiKeyConsumersService_read",
		"CustomDomainsService_deleteCertificate": "CustomDomainsService_read",
	} {
		if got := c.readTool(findTool(t, c, name).Path); got == nil || got.Name != want {
			t.Errorf("readTool(path of %s) = %+v, want %s", name, got, want)
		}
	}
	if got := c.readTool("/nothing/like/it"); got != nil {
		t.Errorf("readTool(/nothing/like/it) = %s, want none", got.Name)
	}
}

// TestRefusalHintGivesAdvice checks that a refusal contains advice. Without it, models repeat the same call.
func TestRefusalHintGivesAdvice(t *testing.T) {
	c := newCatalog()
	readTool, createTool, deleteTool := findTool(t, c, "TunnelService_read"), findTool(t, c, "TunnelService_create"),
		findTool(t, c, "TunnelService_delete")
	for _, tt := range []struct {
		tool       *apitools.Tool
		status     int
		retryAfter string
		want       string
	}{
		{createTool, 400, "", "Correct the arguments"},
		{createTool, 401, "", "Ask the person for another one"},
		{createTool, 403, "", "may not do it"},
		{readTool, 404, "", "_list"},
		{createTool, 409, "", "choose another name"},
		{createTool, 409, "3", "Call again after 3 s."},
		{createTool, 412, "", "as ifMatch"},
		{createTool, 413, "", "Change the call"},
		{createTool, 429, "", "Call again after 1 s."},
		{createTool, 429, "30", "Call again after 30 s."},
		{createTool, 503, "2", "Call again after 2 s."},
		{readTool, 500, "", "does no harm"},
		{deleteTool, 500, "", "does no harm"},
		{createTool, 500, "", "idempotencyKey"},
		{createTool, 504, "", "idempotencyKey"},
	} {
		header := http.Header{}
		if tt.retryAfter != "" {
			header.Set("Retry-After", tt.retryAfter)
		}
		if hint := hintOf(tt.tool, tt.status, header); !strings.Contains(hint, tt.want) {
			t.Errorf("hintOf(%s, %d, Retry-After %q) = %q, want %q in it", tt.tool.Name, tt.status, tt.retryAfter, hint, tt.want)
		}
	}
}

// TestDisconnectCancelsAPIRequest checks that the context of a call's request to the API is canceled when the client
// disconnects, so that the call makes no further table calls.
func TestDisconnectCancelsAPIRequest(t *testing.T) {
	called, canceled := false, false
	s := &server{catalog: newCatalog, parts: installation.Parts{}}
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), callerKey{}, &caller{server: s}))
	s.operations = func() http.Handler {
		return http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			called, canceled = true, r.Context().Err() != nil
		})
	}
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, Path,
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"V1_whoAmI"}}`))
	response := newMCPServer(s.catalog()).Handle(r)
	_ = response.Body.Close()
	if !called || !canceled {
		t.Errorf("request to the API: called = %t, canceled = %t, want true and true", called, canceled)
	}
}
