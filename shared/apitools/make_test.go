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

	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// document is what the API is described by.
func document(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("../../functions/platform/openapi.json")
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

func TestToolsAreFoundByTheirNames(t *testing.T) {
	for _, tool := range load(t) {
		if found, err := apitools.Named(tool.Name); err != nil || !reflect.DeepEqual(found, &tool) {
			t.Errorf("Named(%s) = %+v, %v, want %+v", tool.Name, found, err, tool)
		}
	}
	if found, err := apitools.Named("nothing"); err != nil || found != nil {
		t.Errorf("Named(nothing) = %+v, %v, want no tool and no error", found, err)
	}
}

// remade are the tools of the document as it is.
func remade(t testing.TB) []apitools.Tool {
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

// TestEveryOperationIsOneTool: nothing of the document is missing, but what says that it is no tool, and nothing is
// there beside it.
func TestEveryOperationIsOneTool(t *testing.T) {
	type operation struct {
		ID     string                   `json:"operationId"`
		Effect string                   `json:"x-effect"`
		Tags   []string                 `json:"tags"`
		Scope  string                   `json:"x-required-scope"`
		MCP    struct{ Enabled *bool }  `json:"x-mcp"`
		Secure *[]map[string]([]string) `json:"security"`
	}
	described := decode[struct {
		Paths map[string]map[string]operation
	}](t, document(t))
	missing := map[string]operation{}
	for path, methods := range described.Paths {
		for method, o := range methods {
			if o.MCP.Enabled == nil || *o.MCP.Enabled {
				missing[strings.ToUpper(method)+" "+path] = o
			}
		}
	}
	for _, tool := range remade(t) {
		at := tool.Method + " " + tool.Path
		o, ok := missing[at]
		if !ok {
			t.Errorf("%s is no operation, or a tool twice", at)
			continue
		}
		delete(missing, at)
		if tool.Name != strings.ReplaceAll(o.ID, "$", "") || tool.Group != o.Tags[0] || tool.Scope != o.Scope || tool.Public != (o.Secure != nil && len(*o.Secure) == 0) {
			t.Errorf("%s: the tool is %s of %s, with the scope %q, public %t", o.ID, tool.Name, tool.Group, tool.Scope, tool.Public)
		}
		if tool.ReadOnly != (o.Effect == "reads") || tool.Destructive != (o.Effect == "replaces" || o.Effect == "removes") {
			t.Errorf("%s %s, and the hints are read only %t, destructive %t", o.ID, o.Effect, tool.ReadOnly, tool.Destructive)
		}
	}
	for at := range missing {
		t.Errorf("%s is no tool", at)
	}
}

// TestWhatIsServedIsWhatIsMade: the tools that are served are those of the document.
func TestWhatIsServedIsWhatIsMade(t *testing.T) {
	tools := remade(t)
	if !reflect.DeepEqual(tools, load(t)) {
		t.Error("made.json has other tools than the document: run make goldens PKG=./functions")
	}
}

// toolName is what all clients take, and the models behind them.
var toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// TestClientsTakeEveryTool: names, texts and schemas are such as all of them read.
func TestClientsTakeEveryTool(t *testing.T) {
	names := map[string]bool{}
	for _, tool := range remade(t) {
		if !toolName.MatchString(tool.Name) || names[tool.Name] {
			t.Errorf("%s is no name, or is one twice", tool.Name)
		}
		names[tool.Name] = true
		if tool.Title == "" || !strings.HasPrefix(tool.Description, tool.Title) {
			t.Errorf("%s is called %q and described as %q", tool.Name, tool.Title, tool.Description)
		}
		for what, raw := range map[string]json.RawMessage{"input": tool.Input, "output": tool.Output} {
			if raw == nil {
				continue
			}
			if err := taken(raw); err != nil {
				t.Errorf("the %s of %s: %v", what, tool.Name, err)
			}
		}
	}
}

// taken reports what of a schema a client may not take.
func taken(raw json.RawMessage) error {
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

// properties are the arguments of a tool, by its schema.
func properties(t *testing.T, tool apitools.Tool) map[string]map[string]any {
	t.Helper()
	return decode[struct {
		Properties map[string]map[string]any
	}](t, tool.Input).Properties
}

// TestToolsHaveTheirOwnArguments: each that changes something can be tried, and each that may answer a secret asked for it.
func TestToolsHaveTheirOwnArguments(t *testing.T) {
	for _, tool := range remade(t) {
		all := properties(t, tool)
		for name, want := range map[string]bool{apitools.DryRun: !tool.ReadOnly, apitools.RevealSecrets: tool.Secrets != nil} {
			p, has := all[name]
			delete(all, name)
			if has != want || has && (p["type"] != "boolean" || p["description"] == "") {
				t.Errorf("%s: %s is %v", tool.Name, name, p)
			}
		}
		for _, a := range tool.Arguments {
			if _, described := all[a.Name]; !described || a.Aim() == "If-None-Match" {
				t.Errorf("%s has %+v, and the schema %t", tool.Name, a, described)
			}
			delete(all, a.Name)
			if a.Place == project.InHeader && !slices.Contains([]string{"idempotencyKey Idempotency-Key", "ifMatch If-Match"}, a.Name+" "+a.Target) {
				t.Errorf("%s has the header %+v", tool.Name, a)
			}
		}
		if len(all) > 0 {
			t.Errorf("%s: nothing says where %v go", tool.Name, all)
		}
	}
}

// described is a document of one operation with some members, at the methods.
func described(t *testing.T, members string, methods ...string) []byte {
	t.Helper()
	operation := decode[map[string]any](t, []byte(`{"operationId": "Things_$do", "summary": "Do it", "x-effect": "adds", "responses": {"204": {"description": "d"}}}`))
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

func TestToolIsMadeOfItsDeclaration(t *testing.T) {
	const members = `"parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
		{"name": "X-Trace-Of", "in": "header", "required": true, "schema": {"type": "string"}}, {"name": "If-None-Match", "in": "header", "schema": {"type": "string"}}],
		"requestBody": {"content": {"application/json": {"schema": {"type": "array"}}}}, "description": "It is done.", "security": []`
	tools, err := apitools.Make(described(t, members, "post"))
	if err != nil || len(tools) != 1 {
		t.Fatal(tools, err)
	}
	tool := tools[0]
	if tool.Name != "Things_do" || tool.Description != "Do it. It is done." || !tool.Public || !tool.TakesBody || tool.Idempotent || tool.Destructive || tool.Output != nil {
		t.Errorf("it is %+v", tool)
	}
	var names []string
	for _, a := range tool.Arguments {
		names = append(names, fmt.Sprintf("%s %s to %s", a.Place, a.Name, a.Aim()))
	}
	if got, want := strings.Join(names, ", "), "path id to id, header xTraceOf to X-Trace-Of, body body to body"; got != want {
		t.Errorf("its arguments are %s, want %s", got, want)
	}
	if required := decode[struct{ Required []string }](t, tool.Input).Required; !slices.Contains(required, "xTraceOf") || slices.Contains(required, "X-Trace-Of") {
		t.Errorf("it requires %v", required)
	}
}

// TestWhatIsNoToolIsToldOrLeftOut: by what the operation says itself.
func TestWhatIsNoToolIsToldOrLeftOut(t *testing.T) {
	none := described(t, `"x-mcp": {"enabled": false}, "requestBody": {"content": {"text/html": {}}}`, "post")
	if tools, err := apitools.Make(none); err != nil || len(tools) > 0 {
		t.Errorf("what says that it is none is %v, %v", tools, err)
	}
	const (
		parameters = `"parameters": [{"name": "idempotencyKey", "in": "query", "schema": {}}, {"name": "%s", "in": "%s", "schema": {}}]`
		answer     = `"responses": {"200": {"description": "d", "content": {"application/json": {"schema": %s}}}}`
		secret     = `{"type": "object", "properties": {"key": {"type": "string", "format": "password"}}}`
	)
	for _, tt := range []struct {
		document []byte
		says     string
	}{
		{described(t, `"x-effect": "nothing"`, "post"), "x-effect"},
		{described(t, fmt.Sprintf(parameters, "dryRun", "query"), "post"), "called dryRun"},
		{described(t, fmt.Sprintf(parameters, "revealSecrets", "query")+","+fmt.Sprintf(answer, secret), "post"), "called revealSecrets"},
		{described(t, fmt.Sprintf(parameters, "Idempotency-Key", "header"), "post"), "called idempotencyKey"},
		{described(t, fmt.Sprintf(answer, `{"type": "array"}`), "post"), "be an object"},
		{described(t, `"responses": {"201": {"description": "d", "content": {"application/json": {"schema": {"type": "array"}}}}}`, "post"), "be an object"},
		{[]byte(`{"openapi": "3.1.0", "paths": {"/a": {"get": {"operationId": "a", "responses": {}}, "put": {"operationId": "b", "responses": {}}}}}`), "PUT /a"},
		{[]byte(`{"openapi": "3.1.0", "paths": {"/a": {"post": {"operationId": "a", "parameters": [{"$ref": "#/none"}]}, "put": {"operationId": "b", "parameters": [{"$ref": "#/none"}]}}}}`), "/paths/~1a/put"},
		{described(t, `"requestBody": {"content": {"application/x-www-form-urlencoded": {"schema": {"type": "object", "properties": {}}}}}`, "post"), "be JSON"},
		{described(t, `"requestBody": {"content": {"image/png": {}}}`, "post"), "JSON"},
		{described(t, `"requestBody": {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/None"}}}}`, "post"), "is not there"},
		{described(t, `"operationId": "`+strings.Repeat("a", 65)+`"`, "post"), "64 letters"},
		{described(t, "", "post", "put"), "called \"Things_do\" too"},
		{[]byte(`{"paths": `), "the file ends"},
	} {
		if tools, err := apitools.Make(tt.document); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, %v, want %s", tt.document, tools, err, tt.says)
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
