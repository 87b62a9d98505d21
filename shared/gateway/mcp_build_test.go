package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/project"
)

// TestMCPBuildErrors: what only a gateway can find of a server fails the build too, at its place.
func TestMCPBuildErrors(t *testing.T) {
	files := func(parameters string, operations int) map[string]string {
		var list []string
		for i := range operations {
			list = append(list, fmt.Sprintf(`{"file": "config/routes.oas.json", "id": "o%d"}`, i))
		}
		return map[string]string{
			`"summary": "Reads a todo.",`: parameters,
			`OPERATIONS`:                  strings.Join(list, ","),
		}
	}
	text := func(replace map[string]string) string {
		out := mcpProject
		for from, to := range replace {
			out = strings.ReplaceAll(out, from, to)
		}
		return out
	}
	for _, tt := range []struct{ name, file, path, says string }{
		{
			"a schema that is none", text(map[string]string{`"name": "$expand", "in": "query", "schema": {"type": "array"`: `"name": "$expand", "in": "query", "schema": {"type": 5`}),
			"/paths/~1todos~1{id}/get", "no JSON Schema",
		},
		{
			"a header of the gateway's", text(map[string]string{`"X-Locale"`: `"X-Forwarded-For"`}),
			"/paths/~1todos~1{id}/get", "X-Forwarded-For",
		},
		{
			"such a header by another name", // the argument is called header_X-Forwarded-For
			text(map[string]string{`{"name": "X-Locale", "in": "header"`: `{"name": "X-Forwarded-For", "in": "query", "schema": {}}, {"name": "X-Forwarded-For", "in": "header"`}),
			"/paths/~1todos~1{id}/get", "X-Forwarded-For",
		},
		{
			"a server with too much", text(files("", 501)),
			"/paths/~1mcp/post/x-gateway-route/handler/options/operations", `the budget "MCP operations"`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			all := mcpFiles("https://up.example", "readTodo")
			handler := `{"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {"baseUrl": "https://up.example"}}`
			all["config/routes.oas.json"] = []byte(strings.NewReplacer("FORWARD", handler, "REWRITE", handler, "WHO", handler,
				"OPERATIONS", `{"file": "config/routes.oas.json", "id": "readTodo"}`).Replace(tt.file))
			a, result := builtOrNot(t, all)
			if a != nil || len(result.Errors) != 1 || result.Errors[0].Path != tt.path || !strings.Contains(result.Errors[0].Message, tt.says) {
				t.Errorf("%+v", result.Errors)
			}
		})
	}
}

// TestMCPPathsThatArePreserved: an upstream to which /a%2Fb is a name of its own gets it, and never a dot segment.
func TestMCPPathsThatArePreserved(t *testing.T) {
	w := newMCPWorld(t)
	a := *w.deployments["shop.test"].Artifact
	a.PathNormalisation = project.PreservePaths
	w.deployments["shop.test"] = &gateway.Deployment{Digest: "two", Artifact: &a}
	for arguments, want := range map[string]string{`{"id":"a/items/b"}`: "/todos/a%2Fitems%2Fb", `{"id":"a/../b"}`: "", `{"id":".."}`: ""} {
		before := w.count()
		_, answer := w.tool(t, "/mcp", "readTodo", arguments)
		if (want == "") != (answer.Error != nil) || want != "" && w.last(t).Target != want || want == "" && w.count() != before {
			t.Errorf("%s: %+v", arguments, answer.Error)
		}
	}
}

// TestToolsPromiseWhatEveryAnswerHas: clients refuse an answer without the structure that a tool's schema promises.
func TestToolsPromiseWhatEveryAnswerHas(t *testing.T) {
	content := func(schema string) string {
		return `{"description": "It", "content": {"application/json": {"schema": ` + schema + `}}}`
	}
	todo := content(`{"$ref": "#/components/schemas/Todo"}`)
	for responses, promised := range map[string]bool{
		`{"200": ` + todo + `}`: true,
		`{"200": ` + todo + `, "201": ` + todo + `, "404": {"description": "No"}}`:                  true,
		`{"200": ` + todo + `, "204": {"description": "Done"}}`:                                     false,
		`{"200": ` + todo + `, "202": ` + content(`{"type": "object"}`) + `}`:                       false,
		`{"200": ` + todo + `, "206": ` + content(`{"type": "array"}`) + `}`:                        false,
		`{"200": ` + content(`{"type": "array", "items": {"$ref": "https://example.com/x"}}`) + `}`: false,
	} {
		files := mcpFiles("https://up.example", "readTodo")
		const file = "config/routes.oas.json"
		was := `"responses": {"200": ` + todo + `}`
		text := strings.ReplaceAll(string(files[file]), was, `"responses": `+responses)
		if !strings.Contains(text, responses) {
			t.Fatalf("%s is not in the project", was)
		}
		files[file] = []byte(text)
		for _, r := range built(t, files).Routes {
			if r.OperationID == "readTodo" && (r.MCPOperation.Output != nil) != promised {
				t.Errorf("%s promises %s", responses, r.MCPOperation.Output)
			}
		}
	}
}
