package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestToolsCheckPatternsOfECMAScript calls tools whose argument has a pattern. The gateway refuses values that do not
// match, and accepts every value for a pattern that it cannot check.
func TestToolsCheckPatternsOfECMAScript(t *testing.T) {
	backend := serve(t, func(out http.ResponseWriter, _ *http.Request) { writef(out, "{}") })
	for _, tt := range []struct {
		pattern         string
		matching, other string
		isChecked       bool
	}{
		{`^(?=.*[a-z]).{8,}$`, "abcdefgh", "ABCDEFGH", true},
		{`^[a-z]{1,1024}$`, strings.Repeat("a", 1024), strings.Repeat("a", 1025), true},
		{`^\\u00e9+$`, "éé", "e", true},
		{`^(a)\\1$`, "aa", "ab", false},
		{`^(a`, "a", "b", false},
	} {
		for _, version := range []string{"3.0.3", "3.1.0", "3.2.0"} {
			forwarding := fmt.Sprintf(`"x-gateway-route": {"handler": {"export": "urlForwardHandler",
				"module": "$import(@gatewright/runtime)", "options": {"baseUrl": %q}}}`, backend.URL)
			const responses = `"responses": {"200": {"description": "d"}}`
			fx := newFixture(t, built(t, project.Files{"config/routes.oas.json": []byte(`{"openapi": "` + version + `",
				"info": {"title": "t", "version": "1"}, "paths": {"/mcp": {"post": {` + responses + `,
				"x-gateway-route": {"handler": {
				"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
				"options": {"operations": [{"file": "config/routes.oas.json", "id": "find"}]}}}}},
				"/find": {"get": {"operationId": "find", ` + responses + `, ` + forwarding + `, "parameters": [
				{"name": "p", "in": "query", "schema": {"type": "string", "pattern": "` + tt.pattern + `"}}]}}}}`)}))
			call := func(value string) bool {
				text := fmt.Sprintf(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
					"params": {"name": "find", "arguments": {"p": %q}}}`, value)
				return !strings.Contains(body(t, fx.do(t, http.MethodPost, "/mcp", sending(text))), "Correct the arguments")
			}
			if !call(tt.matching) {
				t.Errorf("OpenAPI %s, pattern %s: call with %.20q = refused, want accepted", version, tt.pattern, tt.matching)
			}
			if got := call(tt.other); got == tt.isChecked {
				t.Errorf("OpenAPI %s, pattern %s: call with %.20q accepted = %t, want %t", version, tt.pattern, tt.other, got,
					!tt.isChecked)
			}
		}
	}
}

// sending sets the body of a request.
func sending(text string) func(*http.Request) {
	return func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}
}

// TestMethodsOfOpenAPI32AreServed sends requests with the method QUERY and with a method of additionalOperations, and
// calls the tool of a QUERY operation.
func TestMethodsOfOpenAPI32AreServed(t *testing.T) {
	backend := serve(t, func(out http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		out.Header().Set("Content-Type", "text/plain")
		writef(out, "%s %s %s", r.Method, r.URL.Path, all)
	})
	operation := func(id string) string {
		return fmt.Sprintf(`{"operationId": %q, "responses": {"200": {"description": "d"}},
			"requestBody": {"content": {"application/json": {"$ref": "#/components/mediaTypes/Find"}}},
			"x-gateway-route": {"corsPolicy": "anything-goes", "handler": {"export": "urlForwardHandler",
			"module": "$import(@gatewright/runtime)", "options": {"baseUrl": %q}}}}`, id, backend.URL)
	}
	fx := newFixture(t, built(t, project.Files{"config/routes.oas.json": []byte(`{"openapi": "3.2.0",
		"info": {"title": "t", "version": "1"}, "paths": {
		"/a": {"query": ` + operation("find") + `, "additionalOperations": {"COPY": ` + operation("copy") + `}},
		"/mcp": {"post": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {
			"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
			"options": {"operations": [{"file": "config/routes.oas.json", "id": "find"}]}}}}}},
		"components": {"mediaTypes": {"Find": {"schema": {"type": "object", "properties": {"q": {"type": "integer"}}}}}}}`)}))
	for _, method := range []string{"QUERY", "COPY"} {
		if got, want := body(t, fx.do(t, method, "/a", sending("text"))), method+" /a text"; got != want {
			t.Errorf("%s /a = %s, want %s", method, got, want)
		}
		response := fx.do(t, http.MethodOptions, "/a", header("Origin", "https://a.example"),
			header("Access-Control-Request-Method", method))
		if got, want := response.Header.Get("Access-Control-Allow-Methods"), "COPY, OPTIONS, QUERY"; got != want {
			t.Errorf("preflight of %s: Access-Control-Allow-Methods = %s, want %s", method, got, want)
		}
	}
	refused := fx.do(t, http.MethodGet, "/a")
	const want = "COPY, OPTIONS, QUERY"
	if got := refused.Header.Get("Allow"); refused.StatusCode != http.StatusMethodNotAllowed || got != want {
		t.Errorf("GET /a: status = %d, Allow = %s, want 405 and %s", refused.StatusCode, got, want)
	}
	called := body(t, fx.do(t, http.MethodPost, "/mcp", sending(`{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
		"params": {"name": "find", "arguments": {"q": 7}}}`)))
	if want := `QUERY /a {\"q\":7}`; !strings.Contains(called, want) {
		t.Errorf("tools/call of find = %s, want %s in it", called, want)
	}
	listed := body(t, fx.do(t, http.MethodPost, "/mcp", sending(`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`)))
	if want := `"readOnlyHint":true`; !strings.Contains(listed, want) {
		t.Errorf("tools/list = %s, want %s in it", listed, want)
	}
}
