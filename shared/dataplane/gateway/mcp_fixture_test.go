package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// mcpProject is a project with MCP servers that offer all kinds of routes. mcpFiles
// replaces OPERATIONS with a list of operations, and FORWARD, REWRITE and WHO with handlers.
const mcpProject = `{
  "openapi": "3.1.0", "info": {"title": "Shop", "version": "1"},
  "paths": {
    "/mcp": {"post": {"operationId": "server", "responses": {"default": {"description": "It"}}, "x-gateway-route": {
      "handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {
        "name": "Shop", "version": "1.2.3", "includeOutputSchema": true, "debugMode": true,
        "operations": [OPERATIONS]}}}}},
    "/keyed/mcp": {"post": {"operationId": "keyed", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {
      "policies": {"inbound": ["key"]}, "corsPolicy": "pages",
      "handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {
        "operations": [{"file": "./config/routes.oas.json", "id": "whoAmI"},
          {"file": "./config/routes.oas.json", "id": "limited"}, {"file": "./config/routes.oas.json", "id": "guide"},
          {"file": "./config/routes.oas.json", "id": "whoElse"}]}}}}},
    "/limited/mcp": {"post": {"operationId": "limitedServer", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {
      "policies": {"inbound": ["key", "limit"]},
      "handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {
        "operations": [{"file": "./config/routes.oas.json", "id": "whoAmI"}]}}}}},
    "/todos/{id}": {"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "get": {"operationId": "readTodo", "summary": "Reads a todo.",
        "responses": {"200": {"description": "It", "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Todo"}}}}},
        "parameters": [{"name": "$expand", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
          {"name": "X-Locale", "in": "header", "schema": {"type": "string"}},
          {"name": "session", "in": "cookie", "schema": {"type": "string"}}],
        "x-gateway-route": {"handler": FORWARD}},
      "put": {"operationId": "writeTodo", "responses": {"default": {"description": "It"}},
        "requestBody": {"required": true,
          "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Todo"}}}},
        "x-gateway-route": {"handler": FORWARD,
          "mcp": {"name": "write_todo", "description": " Writes a todo. ", "_meta": {"team": "todos"},
            "annotations": {"title": "Write", "idempotentHint": false}}}},
      "delete": {"operationId": "dropTodo", "responses": {"default": {"description": "It"}},
        "x-gateway-route": {"handler": FORWARD, "mcp": {"enabled": false}}}},
    "/todos/all": {"get": {"operationId": "allTodos", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"policies": {"inbound": ["key"]}, "handler": FORWARD}}},
    "/todos/{id}/items/{item}": {"get": {"operationId": "readItem", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"handler": FORWARD}}},
    "/list": {"post": {"operationId": "putList", "responses": {"default": {"description": "It"}},
      "requestBody": {"content": {"application/json": {"schema": {"type": "array", "items": {"type": "integer"}}}}},
      "x-gateway-route": {"handler": FORWARD}}},
    "/guide": {"get": {"operationId": "guide", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"handler": FORWARD, "mcp": {"type": "resource", "_meta": {"pages": 3}}}}},
    "/style": {"get": {"operationId": "style", "summary": "The style.",
      "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"handler": FORWARD, "mcp": {"type": "resource", "name": "our style", "mimeType": "text/css"}}}},
    "/picture": {"get": {"operationId": "picture", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"handler": FORWARD, "mcp": {"type": "resource", "uri": "shop://picture"}}}},
    "/picture/": {"get": {"operationId": "pictureTool", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"handler": FORWARD}}},
    "/review": {"post": {"operationId": "review", "description": "Reviews code.",
      "responses": {"default": {"description": "It"}},
      "requestBody": {"required": true, "content": {"application/json": {"schema": {
        "type": "object", "required": ["code"],
        "properties": {"code": {"type": "string", "description": "The code."}, "times": {"type": "integer"}}}}}},
      "x-gateway-route": {"handler": FORWARD, "mcp": {"type": "prompt"}}}},
    "/graphql": {"post": {"operationId": "shop", "responses": {"default": {"description": "It"}}, "x-graphql": true,
      "x-gateway-route": {"handler": REWRITE, "mcp": {"type": "graphql"}}}},
    "/who": {"get": {"operationId": "whoAmI", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"handler": WHO}}},
    "/who/else": {"get": {"operationId": "whoElse", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"policies": {"inbound": ["others"]}, "handler": WHO}}},
    "/limited": {"get": {"operationId": "limited", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"policies": {"inbound": ["limit"]}, "handler": FORWARD}}}
  },
  "components": {"schemas": {
    "Todo": {"type": "object", "required": ["title", "id"], "properties": {
      "id": {"type": "string", "readOnly": true}, "title": {"type": "string", "minLength": 1},
      "done": {"type": "boolean"},
      "parent": {"$ref": "#/components/schemas/Todo"},
      "tags": {"type": "array", "items": {"$ref": "#/components/schemas/Tag"}}}},
    "Tag": {"type": "string", "enum": ["home", "work"]}
  }}
}`

const mcpPolicies = `{"policies": [
  {"name": "key", "policyType": "api-key-inbound", "handler": {"export": "x", "module": "$import(@gatewright/runtime)",
    "options": {"bucketName": "partners"}}},
  {"name": "others", "policyType": "api-key-inbound",
    "handler": {"export": "x", "module": "$import(@gatewright/runtime)",
      "options": {"bucketName": "others", "allowUnauthenticatedRequests": true}}},
  {"name": "limit", "policyType": "rate-limit-inbound",
    "handler": {"export": "x", "module": "$import(@gatewright/runtime)",
      "options": {"rateLimitBy": "user", "requestsAllowed": 1, "timeWindowMinutes": 1}}}
], "corsPolicies": [{"name": "pages", "allowedOrigins": ["https://pages.test"], "allowedMethods": ["POST"]}]}`

// receivedRequest is a request that the upstream of an MCP project has received.
type receivedRequest struct {
	Method, Target, Body string
	Header               http.Header
}

// mcpFixture is a fixture with an MCP project and its upstream.
type mcpFixture struct {
	*fixture
	backend  *httptest.Server
	mu       sync.Mutex
	received []receivedRequest
	// handler serves the upstream's requests if it is not nil.
	handler http.HandlerFunc
}

// last returns the last request that the upstream has received. It fails the test if there is none.
func (fx *mcpFixture) last(t testing.TB) receivedRequest {
	t.Helper()
	fx.mu.Lock()
	defer fx.mu.Unlock()
	if len(fx.received) == 0 {
		t.Fatal("requests at the upstream = 0, want at least 1")
	}
	return fx.received[len(fx.received)-1]
}

// count returns the number of requests that the upstream has received.
func (fx *mcpFixture) count() int {
	fx.mu.Lock()
	defer fx.mu.Unlock()
	return len(fx.received)
}

// newMCPFixture compiles mcpProject like a build, and returns a fixture that serves it.
func newMCPFixture(t testing.TB, settings ...setting) *mcpFixture {
	t.Helper()
	fx := &mcpFixture{}
	backend := serve(t, func(out http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		fx.mu.Lock()
		fx.received = append(fx.received, receivedRequest{r.Method, r.RequestURI, string(all), r.Header})
		handler := fx.handler
		fx.mu.Unlock()
		if handler != nil {
			handler(out, r)
			return
		}
		switch r.URL.Path {
		case "/style":
			out.Header().Set("Content-Type", "text/x-something")
			writef(out, "p {}")
		case "/picture", "/picture/":
			out.Header().Set("Content-Type", "image/png")
			_, _ = out.Write([]byte{0x89, 'P', 'N', 'G', 0})
		case "/guide":
			out.Header().Set("Content-Type", "text/markdown; charset=utf-8")
			writef(out, "# Guide")
		case "/review":
			out.Header().Set("Content-Type", "application/json")
			writef(out, `{"messages":[{"role":"user","content":"Review this."},`+
				`{"role":"assistant","content":{"type":"text","text":"Yes."}}]}`)
		default:
			out.Header().Set("Content-Type", "application/json")
			writef(out, `{"id":"1","title":"from %s"}`, r.Method)
		}
	})
	fx.backend = backend
	fx.fixture = newFixture(t, compiledMCP(t, backend.URL, "readTodo", "writeTodo", "dropTodo", "readItem", "putList",
		"guide", "style", "picture", "pictureTool", "review", "shop", "limited"), settings...)
	fx.keys.known = map[string]policy.KeyOwner{"partners good": {Sub: "acme"}}
	return fx
}

// mcpFiles returns the files of mcpProject. base is the upstream's address, and the server at /mcp offers these
// operations.
func mcpFiles(base string, operations ...string) project.Files {
	var list []string
	for _, id := range operations {
		list = append(list, fmt.Sprintf(`{"file": "./config/routes.oas.json", "id": %q}`, id))
	}
	handler := func(export, option, address string) string {
		return fmt.Sprintf(`{"export": %q, "module": "$import(@gatewright/runtime)", "options": {%q: %q}}`, export, option,
			address)
	}
	text := strings.NewReplacer(
		"OPERATIONS", strings.Join(list, ", "),
		"FORWARD", handler("urlForwardHandler", "baseUrl", base),
		"REWRITE", handler("urlRewriteHandler", "rewritePattern", base+"/graphql"),
		"WHO", handler("urlRewriteHandler", "rewritePattern", base+"/users/${request.user.sub}"),
	).Replace(mcpProject)
	return project.Files{"config/routes.oas.json": []byte(text), "config/policies.json": []byte(mcpPolicies)}
}

// compiledMCP returns the artifact of mcpFiles.
func compiledMCP(t testing.TB, base string, operations ...string) *project.Artifact {
	t.Helper()
	return built(t, mcpFiles(base, operations...))
}

// built compiles files like a build, and returns the artifact as a gateway decodes it.
func built(t testing.TB, files project.Files) *project.Artifact {
	t.Helper()
	a, result := tryBuild(t, files)
	if a == nil {
		t.Fatalf("build of the project: errors = %+v, want none", result.Errors)
	}
	data, _, err := project.Encode(a, project.WrittenFormat)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := project.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

// tryBuild compiles files like a build. If the files have errors, the artifact is nil, and the result has the errors.
func tryBuild(t testing.TB, files project.Files) (*project.Artifact, project.Result) {
	t.Helper()
	identity := artifact().Identity
	a, result, err := project.NewCompiler().Compile(t.Context(), files,
		project.Input{Identity: identity, Catalog: gateway.Catalog{}, Verify: gateway.Verify})
	if err != nil {
		t.Fatal(err)
	}
	return a, result
}

// post sends a message to the MCP server at a path of shop.test.
func (fx *mcpFixture) post(t testing.TB, path, text string, modifiers ...func(*http.Request)) *http.Response {
	t.Helper()
	return fx.do(t, http.MethodPost, path, append([]func(*http.Request){func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	}}, modifiers...)...)
}

// rpcResponse is a JSON-RPC response.
type rpcResponse struct {
	ID     any
	Result json.RawMessage
	Error  *rpcError
}

// String describes the response in messages of tests.
func (r rpcResponse) String() string {
	return fmt.Sprintf("ID %v, result %s, error %v", r.ID, r.Result, r.Error)
}

// rpcError is the error of a JSON-RPC response.
type rpcError struct {
	Code    int
	Message string
	Data    json.RawMessage
}

// String describes the error in messages of tests.
func (e *rpcError) String() string {
	if e == nil {
		return "none"
	}
	return fmt.Sprintf("%d %q with data %q", e.Code, e.Message, e.Data)
}

// call calls a method of an MCP server and returns the response.
func (fx *mcpFixture) call(t testing.TB, path, method, params string, modifiers ...func(*http.Request)) rpcResponse {
	t.Helper()
	message := fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params)
	response := fx.post(t, path, message, modifiers...)
	text := body(t, response)
	var out rpcResponse
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s at %s: status = %d, body = %s: %v, want a JSON-RPC response",
			method, path, response.StatusCode, text, err)
	}
	return out
}

// toolResult is the result of tools/call.
type toolResult struct {
	Content []struct{ Type, Text string }
	IsError bool
	// StructuredContent is nil unless the route's response is a JSON object and the server sets
	// includeStructuredContent or includeOutputSchema.
	StructuredContent json.RawMessage
}

// String describes the result in messages of tests.
func (r toolResult) String() string {
	return fmt.Sprintf("isError %t, content %+v, structured content %s", r.IsError, r.Content, r.StructuredContent)
}

// tool calls a tool of an MCP server. It returns the result, which is empty after an error, and the JSON-RPC response.
func (fx *mcpFixture) tool(
	t testing.TB, path, name, arguments string, modifiers ...func(*http.Request),
) (toolResult, rpcResponse) {
	t.Helper()
	reply := fx.call(t, path, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments), modifiers...)
	var out toolResult
	if reply.Error == nil {
		if err := json.Unmarshal(reply.Result, &out); err != nil {
			t.Fatalf("tools/call of %s at %s = %s: %v, want the result of a tool", name, path, reply.Result, err)
		}
	}
	return out, reply
}
