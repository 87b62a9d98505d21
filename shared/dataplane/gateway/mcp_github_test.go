package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestGitHubToolsAreValidForClients offers 500 operations of GitHub's API, whose ids have slashes. It lists the tools
// with the official client, and checks that their names and schemas have nothing that clients or models refuse.
func TestGitHubToolsAreValidForClients(t *testing.T) {
	simulations.SkipUnderRace(t)
	raw, err := os.ReadFile("../../../local/dev/node_modules/@octokit/openapi/generated/api.github.com.json")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("ReadFile(GitHub's OpenAPI document): %v, want it installed by npm ci --prefix local/dev", err)
		}
		t.Skip("GitHub's OpenAPI document is not installed: npm ci --prefix local/dev")
	}
	var document map[string]any
	if err := json.Unmarshal(raw, &document); err != nil {
		t.Fatal(err)
	}
	handler := func(export string, options map[string]any) map[string]any {
		return map[string]any{"export": export, "module": "$import(@gatewright/runtime)", "options": options}
	}
	const file = "config/routes.oas.json"
	var offered []map[string]string
	paths, _ := document["paths"].(map[string]any)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if len(offered) == 500 {
			delete(paths, path)
			continue
		}
		item, _ := paths[path].(map[string]any)
		for _, method := range []string{"get", "put", "post", "patch", "delete"} {
			operation, _ := item[method].(map[string]any)
			if operation == nil {
				continue
			}
			id, _ := operation["operationId"].(string)
			operation["x-gateway-route"] = map[string]any{
				"handler": handler("urlForwardHandler", map[string]any{"baseUrl": "http://127.0.0.1:9"}),
			}
			if len(offered) < 500 && !strings.HasPrefix(id, "projects/") { // some operations on projects are too large
				offered = append(offered, map[string]string{"file": file, "id": id})
			}
		}
	}
	paths["/mcp"] = map[string]any{"post": map[string]any{
		"operationId": "server", "responses": map[string]any{"200": map[string]any{"description": "It"}},
		"x-gateway-route": map[string]any{"handler": handler("mcpServerHandler",
			map[string]any{"includeOutputSchema": true, "operations": offered})},
	}}
	text, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	fx := &mcpFixture{fixture: newFixture(t, built(t, project.Files{file: text}))}
	session := fx.connect(t, "/mcp", "", nil)
	var tools []*mcp.Tool
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatalf("Tools() error = %v, want 500 tools", err)
		}
		tools = append(tools, tool)
	}
	if len(tools) != 500 {
		t.Errorf("Tools() = %d tools, want 500", len(tools))
	}
	bytes := 0
	for _, tool := range tools {
		if !propertyName.MatchString(tool.Name) {
			t.Errorf("name of a tool = %s, want one that clients accept", tool.Name)
		}
		for location, value := range map[string]any{"input": tool.InputSchema, "output": tool.OutputSchema} {
			schema, _ := value.(map[string]any)
			if value == nil && location == "output" {
				continue
			}
			for _, problem := range refusedByClients(schema, location == "input") {
				t.Errorf("%s schema of %s: %s, want a schema that clients accept", location, tool.Name, problem)
			}
			encoded, err := json.Marshal(schema)
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(encoded)
		}
	}
	t.Logf("%d tools with %d kB of schemas", len(tools), bytes>>10)
}

// propertyName matches the names that clients accept for tools and arguments.
var propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// refusedByClients returns the reasons why clients would refuse a tool's schema. isInput
// reports whether it is the schema of the input: then clients also check the property names.
func refusedByClients(schema map[string]any, isInput bool) (problems []string) {
	if schema["type"] != "object" {
		problems = append(problems, fmt.Sprintf("the type %v", schema["type"]))
	}
	for _, keyword := range []string{"anyOf", "oneOf", "allOf", "enum", "not"} {
		if schema[keyword] != nil {
			problems = append(problems, keyword+" at its root")
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for name := range properties {
		if isInput && !propertyName.MatchString(name) {
			problems = append(problems, "an argument "+name)
		}
	}
	required, _ := schema["required"].([]any)
	for _, name := range required {
		if _, exists := properties[name.(string)]; !exists {
			problems = append(problems, fmt.Sprintf("%v is required, but no property", name))
		}
	}
	return append(problems, references(schema)...)
}

// references returns the keywords of a schema that refer to other schemas, in all its subschemas.
func references(value any) (found []string) {
	schema, _ := value.(map[string]any)
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		if strings.HasPrefix(keyword, "$") || keyword == "definitions" {
			found = append(found, keyword)
		}
		switch keyword {
		case "properties", "patternProperties", "dependentSchemas":
			named, _ := schema[keyword].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(named)) {
				found = append(found, references(named[name])...)
			}
		case "allOf", "anyOf", "oneOf", "prefixItems":
			list, _ := schema[keyword].([]any)
			for _, child := range list {
				found = append(found, references(child)...)
			}
		case "items", "not", "if", "then", "else", "additionalProperties", "contains", "propertyNames":
			found = append(found, references(schema[keyword])...)
		}
	}
	return found
}
