package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// mcpNamesProject has operations whose ids and parameters have names that clients refuse.
const mcpNamesProject = `{
  "openapi": "3.1.0", "info": {"title": "Names", "version": "1"},
  "paths": {
    "/mcp": {"post": {"operationId": "server", "responses": {"default": {"description": "It"}}, "x-gateway-route": {
      "handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {
        "includeOutputSchema": true, "operations": [OPERATIONS]}}}}},
    "/calls/{id}": {"put": {"operationId": "calls/list", "responses": {"default": {"description": "It"}},
      "parameters": [
        {"name": "Date>", "in": "query", "schema": {"type": "string"}},
        {"name": "Date", "in": "query", "schema": {"type": "string"}},
        {"name": "Date<", "in": "query", "schema": {"type": "string"}},
        {"name": "id", "in": "query", "schema": {"type": "string"}},
        {"name": "id", "in": "header", "schema": {"type": "string"}},
        {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "requestBody": {"content": {"application/json": {"schema": {
        "type": "object", "properties": {"id": {"type": "string"}}}}}},
      "x-gateway-route": {"handler": FORWARD}}},
    "/pets/{kind}": {"get": {"responses": {"default": {"description": "It"}},
      "requestBody": {"content": {"application/json": {"schema": {
        "type": "object", "properties": {"q": {"type": "string"}}}}}},
      "x-gateway-route": {"handler": FORWARD}}},
    "/pets": {"post": {"operationId": "add pet", "responses": {"default": {"description": "It"}},
      "requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}},
      "x-gateway-route": {"handler": FORWARD}}},
    "/typed": {"get": {"operationId": "typed", "x-gateway-route": {"handler": FORWARD},
      "responses": {"200": {"description": "It", "content": {"application/json": {"schema": {
        "type": "object", "required": ["id"],
        "properties": {"id": {"type": "integer"}, "items": {"type": "array"}}}}}}}}},
    "/graphql": {"post": {"operationId": "shop", "responses": {"default": {"description": "It"}},
      "x-gateway-route": {"policies": {"inbound": ["cost"]}, "handler": FORWARD, "mcp": {"type": "graphql"}}}}
  },
  "components": {"schemas": {
    "Pet": {"type": "object", "required": ["kind"], "properties": {"kind": {"type": "string"}},
      "discriminator": {"propertyName": "kind", "mapping": {
        "dog": "#/components/schemas/Dog", "cat": "#/components/schemas/Cat"}}},
    "Dog": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"bark": {"type": "boolean"}}}]},
    "Cat": {"allOf": [{"$ref": "#/components/schemas/Pet"}, {"properties": {"lives": {"type": "integer"}}}]}
  }}
}`

// mcpNamesFiles returns the files of mcpNamesProject. base is the upstream's address.
func mcpNamesFiles(base string) project.Files {
	const file = `{"file": "./config/routes.oas.json", `
	operations := []string{
		file + `"id": "calls/list"}`, file + `"method": "get", "path": "/pets/{kind}"}`, file + `"id": "add pet"}`,
		file + `"id": "typed"}`, file + `"id": "shop"}`,
	}
	forward := fmt.Sprintf(`{"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
		"options": {"baseUrl": %q}}`, base)
	text := strings.NewReplacer("OPERATIONS", strings.Join(operations, ", "), "FORWARD", forward).Replace(mcpNamesProject)
	return project.Files{
		"config/routes.oas.json": []byte(text),
		"config/policies.json": []byte(`{"policies": [{"name": "cost", "policyType": "graphql-complexity-limit-inbound",
			"handler": {"export": "x", "module": "$import(@gatewright/graphql)",
				"options": {"maxComplexity": 10, "maxDepth": 2}}}]}`),
	}
}

// newMCPNamesFixture returns a fixture that serves mcpNamesProject. Its
// upstream responds with the text of response, which a test can change.
func newMCPNamesFixture(t *testing.T, response *string, settings ...setting) *mcpFixture {
	t.Helper()
	fx := &mcpFixture{}
	fx.backend = serve(t, func(out http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		fx.mu.Lock()
		fx.received = append(fx.received, receivedRequest{r.Method, r.RequestURI, string(all), r.Header})
		text := *response
		fx.mu.Unlock()
		out.Header().Set("Content-Type", "application/json")
		writef(out, "%s", text)
	})
	fx.fixture = newFixture(t, built(t, mcpNamesFiles(fx.backend.URL)), settings...)
	fx.keys.known = map[string]policy.KeyOwner{}
	return fx
}

// TestMCPNamesAreMappedBack checks the request at the upstream for arguments whose names differ from those of the
// parameters, and for tools whose names are derived. Arguments of other subtypes are refused.
func TestMCPNamesAreMappedBack(t *testing.T) {
	response := "{}"
	fx := newMCPNamesFixture(t, &response)
	for _, tt := range []struct{ tool, arguments, method, target, header, body string }{
		{
			"calls_list", `{"Date":"a","Date_lt":"b","Date_gt":"c","id":"d","query_id":"e","header_id":"f","property_id":"g"}`,
			"PUT", "/calls/d?Date%3E=c&Date=a&Date%3C=b&id=e", "f", `{"id":"g"}`,
		},
		{"get_pets_kind", `{"kind":"x","q":"y"}`, "GET", "/pets/x", "", `{"q":"y"}`},
		{"get_pets_kind", `{"kind":"x"}`, "GET", "/pets/x", "", ""},
		{"add_pet", `{"body":{"kind":"dog","bark":true}}`, "POST", "/pets", "", `{"kind":"dog","bark":true}`},
		{"add_pet", `{"body":{"kind":"cat","lives":9}}`, "POST", "/pets", "", `{"kind":"cat","lives":9}`},
		{tool: "add_pet", arguments: `{"body":{"kind":"cat","lives":"nine"}}`},
		{tool: "add_pet", arguments: `{"body":{"kind":"cow"}}`},
		{tool: "add_pet", arguments: `{"body":{"bark":true}}`},
	} {
		before := fx.count()
		result, reply := fx.tool(t, "/mcp", tt.tool, tt.arguments)
		if tt.method == "" {
			if reply.Error == nil || reply.Error.Code != -32602 || fx.count() != before {
				t.Errorf("%s(%s): result = %+v, error = %+v, %d requests, want error -32602 and no request",
					tt.tool, tt.arguments, result, reply.Error, fx.count()-before)
			}
			continue
		}
		if reply.Error != nil || result.IsError {
			t.Errorf("%s(%s): result = %+v, error = %+v, want no error", tt.tool, tt.arguments, result, reply.Error)
			continue
		}
		if got := fx.last(t); got.Method != tt.method || got.Target != tt.target || got.Body != tt.body ||
			got.Header.Get("Id") != tt.header {
			t.Errorf("%s(%s): the upstream got %s %s %s with id %q, want %s %s %s with %q", tt.tool, tt.arguments,
				got.Method, got.Target, got.Body, got.Header.Get("Id"), tt.method, tt.target, tt.body, tt.header)
		}
	}
}

// TestMCPResponsesMatchTheirSchema checks that structured content always matches the output schema of its tool. Any
// other response is the text of an error with an explanation, because clients discard such a result otherwise. Each
// of them is logged without its values.
func TestMCPResponsesMatchTheirSchema(t *testing.T) {
	response := ""
	fx := newMCPNamesFixture(t, &response)
	items := strings.Repeat(`"x",`, 10_000)
	for _, tt := range []struct{ name, body, violation string }{
		{name: "a match", body: `{"id":1,"other":true}`},
		{name: "a large match", body: `{"id":1,"items":[` + items + `1]}`},
		{"a value of another type", `{"id":"hidden"}`, "/id must be an integer, not a string"},
		{"a missing property", `{"items":[]}`, "must have the property"},
		{"a large mismatch", `{"id":"hidden","items":[` + items + `1]}`, "/id must be an integer"},
		{"a list", `["hidden"]`, "not a JSON object"},
		{"no JSON", `{"id":1`, "not a JSON object"},
		{"no body", ``, "not a JSON object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx.mu.Lock()
			response = tt.body
			fx.mu.Unlock()
			before := len(fx.log.String())
			result, reply := fx.tool(t, "/mcp", "typed", `{}`)
			if reply.Error != nil || len(result.Content) == 0 || result.Content[0].Text != tt.body {
				t.Fatalf("typed: error = %+v, result = %.300s, want the response as the first text", reply.Error, result)
			}
			line := fx.log.String()[before:]
			if tt.violation == "" {
				if result.IsError || string(result.StructuredContent) != tt.body || len(result.Content) != 1 ||
					strings.Contains(line, "mismatch") {
					t.Errorf("typed: result = %.300s, log = %.300s, want structured content and no line", result, line)
				}
				return
			}
			if !result.IsError || result.StructuredContent != nil || len(result.Content) != 2 ||
				!strings.Contains(result.Content[1].Text, "succeeded with the status 200") {
				t.Errorf("typed: result = %.300s, want an error with an explanation and no structured content", result)
			}
			if !strings.Contains(line, "mcp response mismatch") || !strings.Contains(line, tt.violation) ||
				strings.Contains(line, "hidden") {
				t.Errorf("log of typed = %s, want the mismatch with %q and without the value", line, tt.violation)
			}
		})
	}
}

// TestIntrospectionToolHasItsOwnLimit checks that the limits of graphql-complexity-limit-inbound apply to the
// execute tool and to clients of the route, but not to the introspection tool's own query.
func TestIntrospectionToolHasItsOwnLimit(t *testing.T) {
	response := `{"data":{"__schema":{}}}`
	fx := newMCPNamesFixture(t, &response)
	result, reply := fx.tool(t, "/mcp", "shop_introspect", `{}`)
	if reply.Error != nil || result.IsError || !strings.Contains(fx.last(t).Body, "IntrospectionQuery") {
		t.Fatalf("shop_introspect: result = %+v, error = %+v, want the schema", result, reply.Error)
	}
	query := fx.last(t).Body
	before := fx.count()
	for _, arguments := range []string{query, `{"query":"{a{b{c{d}}}}"}`} {
		result, reply := fx.tool(t, "/mcp", "shop_execute", arguments)
		if reply.Error != nil || !result.IsError || fx.count() != before {
			t.Errorf("shop_execute(%.60s): result = %+v, error = %+v, want a refusal by the route's limits",
				arguments, result, reply.Error)
		}
	}
	sent := fx.do(t, http.MethodPost, "/graphql", header("Content-Type", "application/json"), func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(query)), int64(len(query))
	})
	if text := body(t, sent); sent.StatusCode != http.StatusBadRequest || fx.count() != before {
		t.Errorf("POST /graphql with the tool's query: status = %d, body = %.200s, want 400 by the route's limits",
			sent.StatusCode, text)
	}
}

// TestMCPOperationsHaveOneName checks that an entry of a server's operations has an id, or a method and a path.
func TestMCPOperationsHaveOneName(t *testing.T) {
	const at = "/paths/~1mcp/post/x-gateway-route/handler/options/operations/0"
	for members, want := range map[string]string{
		`"id": "typed"`: "", `"method": "GET", "path": "/typed"`: "", `"method": "get", "path": "/typed"`: "",
		`"file": "config/routes.oas.json"`:                   at + "/id",
		`"id": ""`:                                           at + "/id",
		`"method": "GET"`:                                    at + "/path",
		`"path": "/typed"`:                                   at + "/method",
		`"id": "typed", "path": "/typed"`:                    at,
		`"id": "typed", "method": "GET", "path": "/typed"`:   at,
		`"method": "POST", "path": "/typed"`:                 at + "/method",
		`"method": "GET", "path": "/typed/"`:                 at + "/path",
		`"method": "GET", "path": "/typed", "operation": ""`: at + "/operation",
	} {
		files := mcpNamesFiles("https://up.example")
		text := string(files["config/routes.oas.json"])
		list := text[strings.Index(text, `"operations": [`):strings.Index(text, `]}}}}},`)]
		entry := `"operations": [{"file": "./config/routes.oas.json", ` + members + `}`
		if strings.HasPrefix(members, `"file"`) {
			entry = `"operations": [{` + members + `}`
		}
		files["config/routes.oas.json"] = []byte(strings.Replace(text, list, entry, 1))
		a, result := tryBuild(t, files)
		if want == "" {
			if a == nil {
				t.Errorf("build with %s: errors = %+v, want none", members, result.Errors)
			}
			continue
		}
		if len(result.Errors) != 1 || result.Errors[0].Path != want {
			t.Errorf("build with %s: errors = %+v, want one at %s", members, result.Errors, want)
		}
	}
}

// TestMCPOperationsKeepTheCaseOfMethods checks that an MCP server finds operations by methods that are no members of
// path items, whose case matters, and by other methods in any case.
func TestMCPOperationsKeepTheCaseOfMethods(t *testing.T) {
	const forward = `"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {"export": ` +
		`"urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": "https://up.example"}}}}`
	for method, valid := range map[string]bool{
		"copy": true, "COPY": true, "get": true, "GET": true, "Copy": false, "move": false,
	} {
		files := project.Files{"config/routes.oas.json": []byte(`{"openapi": "3.2.0", "info": {"title": "t", "version": "1"},
			"paths": {"/a": {"get": {` + forward + `, "additionalOperations": {
				"copy": {` + forward + `, "COPY": {` + forward + `}},
			"/mcp": {"post": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {
				"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
				"options": {"operations": [{"file": "./config/routes.oas.json", "method": "` + method + `", "path": "/a"}]}}}}}}}`)}
		a, result := tryBuild(t, files)
		if (a != nil) != valid {
			t.Errorf("build with the method %s: errors = %+v, want a valid project: %t", method, result.Errors, valid)
		}
	}
}
