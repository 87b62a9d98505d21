package apitools_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// document returns the API's OpenAPI document.
func document(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("../../../functions/platform/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func load(t testing.TB) []apitools.Tool {
	t.Helper()
	tools, err := apitools.Load()
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func TestByName(t *testing.T) {
	for _, tool := range load(t) {
		if found, err := apitools.ByName(tool.Name); err != nil || !reflect.DeepEqual(found, &tool) {
			t.Errorf("ByName(%s) returns a tool: %t, error %v, want the tool that Load() returns", tool.Name, found != nil, err)
		}
	}
	if found, err := apitools.ByName("nothing"); err != nil || found != nil {
		t.Errorf("ByName(nothing) = %+v, %v, want no tool and no error", found, err)
	}
}

// makeAgain returns the tools that Make creates from the current document.
func makeAgain(t testing.TB) []apitools.Tool {
	t.Helper()
	tools, err := apitools.Make(document(t))
	if err != nil {
		t.Fatal(err)
	}
	return tools
}

func decode[T any](t testing.TB, raw []byte) (v T) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// TestEveryOperationIsOneTool checks that each operation of the document is a tool,
// except the operations that exclude themselves, and that there are no other tools.
func TestEveryOperationIsOneTool(t *testing.T) {
	type operation struct {
		ID     string                   `json:"operationId"`
		Effect string                   `json:"x-effect"`
		Tags   []string                 `json:"tags"`
		Scope  string                   `json:"x-required-scope"`
		MCP    struct{ Enabled *bool }  `json:"x-mcp"`
		Secure *[]map[string]([]string) `json:"security"`
	}
	spec := decode[struct {
		Paths map[string]map[string]operation
	}](t, document(t))
	missing := map[string]operation{}
	for path, methods := range spec.Paths {
		for method, o := range methods {
			if o.MCP.Enabled == nil || *o.MCP.Enabled {
				missing[strings.ToUpper(method)+" "+path] = o
			}
		}
	}
	for _, tool := range makeAgain(t) {
		at := tool.Method + " " + tool.Path
		o, ok := missing[at]
		if !ok {
			t.Errorf("tool %s calls %s, want an operation of the document that is not excluded and has no other tool",
				tool.Name, at)
			continue
		}
		delete(missing, at)
		if name := strings.ReplaceAll(o.ID, "$", ""); tool.Name != name || tool.Group != o.Tags[0] {
			t.Errorf("tool of %s = %s in group %s, want %s in %s", o.ID, tool.Name, tool.Group, name, o.Tags[0])
		}
		if public := o.Secure != nil && len(*o.Secure) == 0; tool.Scope != o.Scope || tool.Public != public {
			t.Errorf("tool of %s: scope %q, public %t, want %q, %t", o.ID, tool.Scope, tool.Public, o.Scope, public)
		}
		if tool.ReadOnly != (o.Effect == "reads") || tool.Destructive != (o.Effect == "replaces" || o.Effect == "removes") {
			t.Errorf("tool of %s: read only %t, destructive %t, want the hints of the effect %q",
				o.ID, tool.ReadOnly, tool.Destructive, o.Effect)
		}
	}
	for at := range missing {
		t.Errorf("%s has no tool, want one", at)
	}
}

// TestLoadMatchesMake checks that the tools in made.json are those of the current document.
func TestLoadMatchesMake(t *testing.T) {
	tools := makeAgain(t)
	if !reflect.DeepEqual(tools, load(t)) {
		t.Error("tools in made.json differ from the document, want the same: run make goldens PKG=./functions")
	}
}

// toolName matches the names that all clients and their models accept.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// TestToolsAreAcceptedByClients checks that the names, texts and schemas of tools are within the limits of all clients.
func TestToolsAreAcceptedByClients(t *testing.T) {
	names := map[string]bool{}
	for _, tool := range makeAgain(t) {
		if !toolName.MatchString(tool.Name) || names[tool.Name] {
			t.Errorf("tool name = %q, want a unique one that matches %s", tool.Name, toolName)
		}
		names[tool.Name] = true
		if tool.Title == "" || !strings.HasPrefix(tool.Description, tool.Title) {
			t.Errorf("tool %s: title %q, description %q, want a title that begins the description",
				tool.Name, tool.Title, tool.Description)
		}
		for label, raw := range map[string]json.RawMessage{"input": tool.Input, "output": tool.Output} {
			if raw == nil {
				continue
			}
			if err := checkSchema(raw); err != nil {
				t.Errorf("%s schema of tool %s: %v, want one that clients accept", label, tool.Name, err)
			}
		}
	}
}

// checkSchema returns an error for the parts of a schema that clients may not accept.
func checkSchema(raw json.RawMessage) error {
	if bytes.Contains(raw, []byte(`"$ref"`)) {
		return fmt.Errorf("it has a reference: %s", raw)
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	root, _ := tree.(map[string]any)
	if root["type"] != any("object") {
		return fmt.Errorf("it is of the type %v", root["type"])
	}
	for _, combinator := range []string{"allOf", "anyOf", "oneOf", "not", "if", "enum", "const"} {
		if _, ok := root[combinator]; ok {
			return fmt.Errorf("it has %s at its root", combinator)
		}
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", tree); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if _, err := c.Compile("schema.json"); err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	return nil
}

// properties returns the arguments of a tool from its schema.
func properties(t *testing.T, tool apitools.Tool) map[string]map[string]any {
	t.Helper()
	return decode[struct {
		Properties map[string]map[string]any
	}](t, tool.Input).Properties
}

// TestToolsHaveTheirOwnArguments checks that each tool that changes something has the argument
// DryRunArgument, and that each tool whose result can contain a secret has the argument RevealSecretsArgument.
// All other properties of the schema must be arguments for the request. Only two headers can be arguments.
func TestToolsHaveTheirOwnArguments(t *testing.T) {
	for _, tool := range makeAgain(t) {
		all := properties(t, tool)
		for name, want := range map[string]bool{
			apitools.DryRunArgument:        !tool.ReadOnly,
			apitools.RevealSecretsArgument: tool.Secrets != nil,
		} {
			p, exists := all[name]
			delete(all, name)
			if exists != want || exists && (p["type"] != "boolean" || p["description"] == "") {
				t.Errorf("%s: argument %s = %v, exists %t, want a boolean with a description, exists %t",
					tool.Name, name, p, exists, want)
			}
		}
		for _, a := range tool.Arguments {
			if _, described := all[a.Name]; !described || a.TargetName() == "If-None-Match" {
				t.Errorf("%s: argument %+v in the schema = %t, want true and no If-None-Match", tool.Name, a, described)
			}
			delete(all, a.Name)
			if a.Location == project.InHeader && !slices.Contains([]string{"idempotencyKey Idempotency-Key", "ifMatch If-Match"},
				a.Name+" "+a.Target) {
				t.Errorf("%s: header argument = %+v, want Idempotency-Key or If-Match", tool.Name, a)
			}
		}
		if len(all) > 0 {
			t.Errorf("%s: schema properties without an argument = %v, want none", tool.Name, all)
		}
	}
}

// documentWith returns a document with one operation for each method. members are additional members of the operations.
func documentWith(t *testing.T, members string, methods ...string) []byte {
	t.Helper()
	operation := decode[map[string]any](t,
		[]byte(`{"operationId": "Things_$do", "summary": "Do it", "x-effect": "adds",
			"responses": {"204": {"description": "d"}}}`))
	if err := json.Unmarshal([]byte("{"+members+"}"), &operation); err != nil {
		t.Fatal(err)
	}
	item := map[string]any{}
	for _, method := range methods {
		item[method] = operation
	}
	raw, err := json.Marshal(map[string]any{"openapi": "3.1.0", "paths": map[string]any{"/things/{id}": item}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestMakeTool(t *testing.T) {
	const members = `"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
		{"name": "X-Trace-Of", "in": "header", "required": true, "schema": {"type": "string"}},
		{"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}],
		"requestBody": {"content": {"application/json": {"schema": {"type": "array"}}}},
		"description": "It is done.", "security": []`
	tools, err := apitools.Make(documentWith(t, members, "post"))
	if err != nil || len(tools) != 1 {
		t.Fatalf("Make() = %v, %v, want one tool and no error", tools, err)
	}
	tool := tools[0]
	if tool.Name != "Things_do" || tool.Description != "Do it. It is done." {
		t.Errorf("tool = %q %q, want Things_do \"Do it. It is done.\"", tool.Name, tool.Description)
	}
	if !tool.Public || !tool.TakesBody || tool.Idempotent || tool.Destructive {
		t.Errorf("tool: public = %t, takes body = %t, idempotent = %t, destructive = %t, want true, true, false, false",
			tool.Public, tool.TakesBody, tool.Idempotent, tool.Destructive)
	}
	if tool.Output != nil {
		t.Errorf("output schema = %s, want none", tool.Output)
	}
	var names []string
	for _, a := range tool.Arguments {
		names = append(names, fmt.Sprintf("%s %s to %s", a.Location, a.Name, a.TargetName()))
	}
	if got, want := strings.Join(names, ", "),
		"path id to id, header xTraceOf to X-Trace-Of, body body to body"; got != want {
		t.Errorf("arguments = %s, want %s", got, want)
	}
	if required := decode[struct{ Required []string }](t, tool.Input).Required; !slices.Contains(required, "xTraceOf") ||
		slices.Contains(required, "X-Trace-Of") {
		t.Errorf("required arguments = %v, want xTraceOf and not X-Trace-Of", required)
	}
}

// TestInvalidToolsAreReportedOrOmitted checks that an operation that
// cannot become a tool is an error, unless the operation excludes itself.
func TestInvalidToolsAreReportedOrOmitted(t *testing.T) {
	excluded := documentWith(t, `"x-mcp": {"enabled": false}, "requestBody": {"content": {"text/html": {}}}`, "post")
	if tools, err := apitools.Make(excluded); err != nil || len(tools) > 0 {
		t.Errorf("Make(operation without a tool) = %v, %v, want no tools and no error", tools, err)
	}
	const (
		parameters = `"parameters": [{"name": "idempotencyKey", "in": "query", "schema": {}},
			{"name": "%s", "in": "%s", "schema": {}}]`
		response = `"responses": {"200": {"description": "d", "content": {"application/json": {"schema": %s}}}}`
		secret   = `{"type": "object", "properties": {"key": {"type": "string", "format": "password"}}}`
	)
	for _, tt := range []struct {
		document []byte
		message  string
	}{
		{documentWith(t, `"x-effect": "nothing"`, "post"), "x-effect"},
		{documentWith(t, fmt.Sprintf(parameters, "dryRun", "query"), "post"), "called dryRun"},
		{
			documentWith(t, fmt.Sprintf(parameters, "revealSecrets", "query")+","+fmt.Sprintf(response, secret), "post"),
			"called revealSecrets",
		},
		{documentWith(t, fmt.Sprintf(parameters, "Idempotency-Key", "header"), "post"), "called idempotencyKey"},
		{documentWith(t, fmt.Sprintf(response, `{"type": "array"}`), "post"), "be an object"},
		{documentWith(t,
			`"responses": {"201": {"description": "d", "content": {"application/json": {"schema": {"type": "array"}}}}}`,
			"post"), "be an object"},
		{
			[]byte(`{"openapi": "3.1.0", "paths": {"/a": {
				"get": {"operationId": "a", "responses": {}}, "put": {"operationId": "b", "responses": {}}}}}`),
			"PUT /a",
		},
		{
			[]byte(`{"openapi": "3.1.0", "paths": {"/a": {
				"post": {"operationId": "a", "parameters": [{"$ref": "#/none"}]},
				"put": {"operationId": "b", "parameters": [{"$ref": "#/none"}]}}}}`),
			"/paths/~1a/put",
		},
		{documentWith(t,
			`"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object",
				"properties": {}}}}}`, "post"), "be JSON"},
		{documentWith(t, `"requestBody": {"content": {"image/png": {}}}`, "post"), "JSON"},
		{
			documentWith(t,
				`"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/None"}}}}`, "post"),
			"leads nowhere",
		},
		{documentWith(t, `"operationId": "`+strings.Repeat("a", 65)+`"`, "post"), "64 letters"},
		{documentWith(t, "", "post", "put"), "called \"Things_do\" too"},
		{[]byte(`{"paths": `), "the file ends"},
	} {
		if tools, err := apitools.Make(tt.document); err == nil || !strings.Contains(err.Error(), tt.message) {
			t.Errorf("Make(%s) = %v, %v, want an error with %q", tt.document, tools, err, tt.message)
		}
	}
}

func BenchmarkMake(b *testing.B) {
	raw := document(b)
	for b.Loop() {
		if _, err := apitools.Make(raw); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	for b.Loop() {
		load(b)
	}
}
