package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/format/project"
)

// TestMCPBuildErrors checks that a build fails if an MCP server exceeds its budget, or has a problem
// that only gateway.Verify finds, and that the error has the location of the problem.
func TestMCPBuildErrors(t *testing.T) {
	// replacements returns two texts of mcpProject with the texts that replace them: summary is the new summary of
	// readTodo, and operations is the number of operations of the server at /mcp.
	replacements := func(summary string, operations int) map[string]string {
		var list []string
		for i := range operations {
			list = append(list, fmt.Sprintf(`{"file": "config/routes.oas.json", "id": "o%d"}`, i))
		}
		return map[string]string{
			`"summary": "Reads a todo.",`: summary,
			`OPERATIONS`:                  strings.Join(list, ","),
		}
	}
	// text returns mcpProject with replaced texts.
	text := func(replace map[string]string) string {
		out := mcpProject
		for from, to := range replace {
			out = strings.ReplaceAll(out, from, to)
		}
		return out
	}
	for _, tt := range []struct {
		name, routes      string // routes is the text of config/routes.oas.json, with the placeholders of mcpProject
		path, wantMessage string // of the error
	}{
		{
			"an invalid schema",
			text(map[string]string{
				`"name": "$expand", "in": "query", "schema": {"type": "array"`: `"name": "$expand", "in": "query",
					"schema": {"type": 5`,
			}),
			"/paths/~1todos~1{id}/get", "no JSON Schema",
		},
		{
			"an invalid schema of a response", text(map[string]string{`"done": {"type": "boolean"}`: `"done": {"type": 5}`}),
			"/paths/~1todos~1{id}/get", "The schema of this operation's responses is no JSON Schema",
		},
		{
			"a required parameter in a header that only the gateway sets",
			text(map[string]string{`"X-Locale"`: `"X-Forwarded-For", "required": true`}),
			"/paths/~1todos~1{id}/get", "X-Forwarded-For",
		},
		{
			// The argument is called header_X-Forwarded-For.
			"a required parameter in a header that only the gateway sets, and a query parameter of the same name",
			text(map[string]string{
				`{"name": "X-Locale", "in": "header"`: `{"name": "X-Forwarded-For", "in": "query", "schema": {}},
					{"name": "X-Forwarded-For", "required": true, "in": "header"`,
			}),
			"/paths/~1todos~1{id}/get", "X-Forwarded-For",
		},
		{
			"a server with too many operations", text(replacements("", 501)),
			"/paths/~1mcp/post/x-gateway-route/handler/options/operations", `the budget "MCP operations"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := mcpFiles("https://up.example", "readTodo")
			handler := `{"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",` +
				` "options": {"baseUrl": "https://up.example"}}`
			files["config/routes.oas.json"] = []byte(strings.NewReplacer("FORWARD", handler, "REWRITE", handler, "WHO", handler,
				"OPERATIONS", `{"file": "config/routes.oas.json", "id": "readTodo"}`).Replace(tt.routes))
			a, result := tryBuild(t, files)
			if a != nil || len(result.Errors) != 1 || result.Errors[0].Path != tt.path ||
				!strings.Contains(result.Errors[0].Message, tt.wantMessage) {
				t.Errorf("build: errors = %+v, artifact = %t, want one error at %s with %q and no artifact",
					result.Errors, a != nil, tt.path, tt.wantMessage)
			}
		})
	}
}

// TestMCPPreservedPaths checks arguments with slashes in a project that preserves paths:
// the upstream receives an encoded slash. An argument with a dot segment is refused.
func TestMCPPreservedPaths(t *testing.T) {
	fx := newMCPFixture(t)
	a := *fx.deployments["shop.test"].Artifact
	a.PathNormalization = project.PreservePaths
	fx.deployments["shop.test"] = &gateway.Deployment{Digest: "two", Artifact: &a}
	for arguments, want := range map[string]string{
		`{"id":"a/items/b"}`: "/todos/a%2Fitems%2Fb", `{"id":"a/../b"}`: "",
		`{"id":".."}`: "",
	} {
		before := fx.count()
		_, reply := fx.tool(t, "/mcp", "readTodo", arguments)
		got := "" // the target of the request at the upstream
		if fx.count() > before {
			got = fx.last(t).Target
		}
		if (want == "") != (reply.Error != nil) || got != want {
			t.Errorf("readTodo(%s): error = %+v, request for %q, want a request for %q (an error and no request if empty)",
				arguments, reply.Error, got, want)
		}
	}
}

// TestToolOutputSchemasCoverAllResponses checks that a tool has an output schema
// only if all successful responses match it, because clients refuse other responses.
func TestToolOutputSchemasCoverAllResponses(t *testing.T) {
	content := func(schema string) string {
		return `{"description": "It", "content": {"application/json": {"schema": ` + schema + `}}}`
	}
	todo := content(`{"$ref": "#/components/schemas/Todo"}`)
	for responses, wantSchema := range map[string]bool{
		`{"200": ` + todo + `}`: true,
		`{"200": ` + todo + `, "201": ` + todo + `, "404": {"description": "No"}}`:                  true,
		`{"200": ` + todo + `, "204": {"description": "Done"}}`:                                     false,
		`{"200": ` + todo + `, "202": ` + content(`{"type": "object"}`) + `}`:                       false,
		`{"200": ` + todo + `, "206": ` + content(`{"type": "array"}`) + `}`:                        false,
		`{"200": ` + content(`{"type": "array", "items": {"$ref": "https://example.com/x"}}`) + `}`: false,
	} {
		files := mcpFiles("https://up.example", "readTodo")
		const file = "config/routes.oas.json"
		original := `"responses": {"200": ` + todo + `}`
		text := strings.ReplaceAll(string(files[file]), original, `"responses": `+responses)
		if !strings.Contains(text, responses) {
			t.Fatalf("ReplaceAll(%s) in the project = no change, want a change", original)
		}
		files[file] = []byte(text)
		checked := 0
		for _, r := range built(t, files).Routes {
			if r.OperationID != "readTodo" {
				continue
			}
			checked++
			if (r.MCPOperation.Output != nil) != wantSchema {
				t.Errorf("responses %s: output schema = %s, want one: %t", responses, r.MCPOperation.Output, wantSchema)
			}
		}
		if checked != 1 {
			t.Errorf("responses %s: routes of readTodo = %d, want 1", responses, checked)
		}
	}
}
