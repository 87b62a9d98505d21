package project_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// namedOperation is an operation of a project that names tools. id and mcp can be "".
type namedOperation struct{ method, path, id, mcp string }

// namingFiles returns a project with an MCP server that lists the operations: by id, or by method and path.
func namingFiles(t *testing.T, operations []namedOperation) project.Files {
	t.Helper()
	const file = "config/routes.oas.json"
	var listed []map[string]string
	paths := map[string]map[string]any{}
	for _, o := range operations {
		operation := map[string]any{"responses": map[string]any{"200": map[string]any{"description": "d"}}}
		route := map[string]any{"handler": map[string]any{
			"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": map[string]any{},
		}}
		if o.mcp != "" {
			route["mcp"] = json.RawMessage(o.mcp)
		}
		operation["x-gateway-route"] = route
		if o.id != "" {
			operation["operationId"] = o.id
			listed = append(listed, map[string]string{"file": "./" + file, "id": o.id})
		} else {
			listed = append(listed, map[string]string{"file": file, "method": o.method, "path": o.path})
		}
		if paths[o.path] == nil {
			paths[o.path] = map[string]any{"additionalOperations": map[string]any{}}
		}
		if others, _ := paths[o.path]["additionalOperations"].(map[string]any); strings.EqualFold(o.method, "copy") {
			others[o.method] = operation
		} else {
			paths[o.path][strings.ToLower(o.method)] = operation
		}
	}
	paths["/mcp"] = map[string]any{"post": map[string]any{
		"operationId": "server", "responses": map[string]any{"200": map[string]any{"description": "d"}},
		"x-gateway-route": map[string]any{"handler": map[string]any{
			"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
			"options": map[string]any{"operations": listed},
		}},
	}}
	text, err := json.Marshal(map[string]any{
		"openapi": "3.2.0", "info": map[string]any{"title": "t", "version": "1"}, "paths": paths,
	})
	if err != nil {
		t.Fatal(err)
	}
	return project.Files{file: text}
}

// toolNames returns the names of a project's tools by their methods and paths.
func toolNames(t *testing.T, operations []namedOperation) map[string]string {
	t.Helper()
	a, result := compile(t, namingFiles(t, operations), project.Input{Catalog: lenient{}})
	if len(result.Errors) > 0 {
		t.Fatalf("Compile() errors = %+v, want none", result.Errors)
	}
	names := map[string]string{}
	for _, r := range a.Routes {
		if o := r.MCPOperation; o != nil && o.Kind == project.MCPGraphQL {
			names[r.Method+" "+r.Path] = o.Introspect.Name + " " + o.Execute.Name
		} else if o != nil {
			names[r.Method+" "+r.Path] = o.Name
		}
	}
	return names
}

// toolNameCase has operations and their expected names. D stands for a digest.
type toolNameCase struct {
	name       string
	operations []namedOperation
	want       map[string]string
}

// toolNameCases returns a case for each class of operation.
func toolNameCases() []toolNameCase { return append(singleNameCases(), collidingNameCases()...) }

// singleNameCases returns the cases without colliding names.
func singleNameCases() []toolNameCase {
	long := strings.Repeat("x", 63) + "/y"
	return []toolNameCase{
		{"a valid id", []namedOperation{{"GET", "/a", "read.it-1_a", ""}}, map[string]string{"GET /a": "read.it-1_a"}},
		{"a slash", []namedOperation{{"GET", "/a", "repos/get", ""}}, map[string]string{"GET /a": "repos_get"}},
		{
			"runs of other characters",
			[]namedOperation{{"GET", "/a", " «Get» a (b) ", ""}},
			map[string]string{"GET /a": "Get_a_b"},
		},
		{
			"no id",
			[]namedOperation{{"GET", "/pets/{id}", "", ""}, {"delete", "/pets/{id}", "", ""}, {"get", "/", "", ""}},
			map[string]string{"GET /pets/{id}": "get_pets_id", "DELETE /pets/{id}": "delete_pets_id", "GET /": "get"},
		},
		{
			"an id without valid characters",
			[]namedOperation{{"PUT", "/a/b", "取得", ""}},
			map[string]string{"PUT /a/b": "put_a_b"},
		},
		{"an id that is too long", []namedOperation{{"GET", "/a", long, ""}}, map[string]string{"GET /a": long[:55] + "_D"}},
		{
			"a GraphQL route",
			[]namedOperation{{"POST", "/a", "shop/api", `{"type": "graphql"}`}},
			map[string]string{"POST /a": "shop_api_introspect shop_api_execute"},
		},
		{
			"a GraphQL route whose id is too long",
			[]namedOperation{{"POST", "/a", long[:60], `{"type": "graphql"}`}},
			map[string]string{"POST /a": long[:44] + "_D_introspect " + long[:47] + "_D_execute"},
		},
		{
			"resources",
			[]namedOperation{
				{"GET", "/a", "any text", `{"type": "resource"}`}, {"GET", "/guide", "", `{"type": "resource"}`},
			},
			map[string]string{"GET /a": "any text", "GET /guide": "get_guide"},
		},
	}
}

// collidingNameCases returns cases of two operations whose names would be equal.
func collidingNameCases() []toolNameCase {
	return []toolNameCase{
		{
			"two ids that become one name",
			[]namedOperation{{"GET", "/a", "a/b", ""}, {"GET", "/b", "a:b", ""}},
			map[string]string{"GET /a": "a_b_D", "GET /b": "a_b_D"},
		},
		{
			"an id that becomes the id of another",
			[]namedOperation{{"GET", "/a", "a/b", ""}, {"GET", "/b", "a_b", ""}},
			map[string]string{"GET /a": "a_b_D", "GET /b": "a_b"},
		},
		{
			"an id that becomes the name in another's mcp object",
			[]namedOperation{{"GET", "/a", "a/b", ""}, {"GET", "/b", "other", `{"name": " a_b "}`}},
			map[string]string{"GET /a": "a_b_D", "GET /b": "a_b"},
		},
		{
			"two paths that become one name",
			[]namedOperation{{"GET", "/a/{b}", "", ""}, {"GET", "/a/b", "", ""}},
			map[string]string{"GET /a/{b}": "get_a_b_D", "GET /a/b": "get_a_b_D"},
		},
		{
			"two methods that differ in their case alone",
			[]namedOperation{{"COPY", "/a", "", ""}, {"copy", "/a", "", ""}},
			map[string]string{"COPY /a": "copy_a_D", "copy /a": "copy_a_D"},
		},
		{
			"a prompt and a tool",
			[]namedOperation{{"POST", "/a", "a/b", `{"type": "prompt"}`}, {"GET", "/b", "a:b", ""}},
			map[string]string{"POST /a": "a_b", "GET /b": "a_b"},
		},
		{
			"a disabled operation",
			[]namedOperation{{"GET", "/a", "a/b", `{"enabled": false}`}, {"GET", "/b", "a:b", ""}},
			map[string]string{"GET /b": "a_b"},
		},
		{
			"a tool of a GraphQL route that becomes the name of a tool",
			[]namedOperation{{"POST", "/a", "a/b", `{"type": "graphql"}`}, {"GET", "/b", "a_b_execute", ""}},
			map[string]string{"POST /a": "a_b_introspect a_b_D_execute", "GET /b": "a_b_execute"},
		},
	}
}

// TestToolNamesAreDerived checks the name of each class of operation: from the operation id, or from
// the method and path without one.
func TestToolNamesAreDerived(t *testing.T) {
	digest := regexp.MustCompile(`[0-9a-f]{8}`)
	for _, tt := range toolNameCases() {
		t.Run(tt.name, func(t *testing.T) {
			got := toolNames(t, tt.operations)
			distinct := map[string]bool{}
			for key, name := range got {
				distinct[name] = true
				if shown := digest.ReplaceAllString(name, "D"); shown != tt.want[key] {
					t.Errorf("name of %s = %s, want %s", key, name, tt.want[key])
				}
				for part := range strings.FieldsSeq(name) {
					if len(part) > 64 {
						t.Errorf("name of %s has %d bytes, want at most 64", key, len(part))
					}
				}
			}
			if len(got) != len(tt.want) {
				t.Errorf("tools = %v, want %d", got, len(tt.want))
			}
			if len(distinct) != len(got) && tt.name != "a prompt and a tool" {
				t.Errorf("names = %v, want all distinct", got)
			}
		})
	}
}

// TestToolNamesDoNotDependOnOrder checks that operations have the same names in any order of the server's list.
func TestToolNamesDoNotDependOnOrder(t *testing.T) {
	operations := []namedOperation{
		{"GET", "/a", "a/b", ""},
		{"GET", "/b", "a:b", ""},
		{"GET", "/c", "a_b", ""},
		{"GET", "/d", "", ""},
		{"GET", "/{d}", "", ""},
	}
	want := toolNames(t, operations)
	for range len(operations) {
		operations = append(operations[1:], operations[0])
		if got := toolNames(t, operations); !maps.Equal(got, want) {
			t.Errorf("names of %v = %v, want %v", operations, got, want)
		}
		slices.Reverse(operations)
		if got := toolNames(t, operations); !maps.Equal(got, want) {
			t.Errorf("names of %v = %v, want %v", operations, got, want)
		}
	}
}

// TestConfiguredToolNamesAreChecked checks that an invalid name in an mcp object is refused and not converted.
func TestConfiguredToolNamesAreChecked(t *testing.T) {
	for _, mcp := range []string{
		`{"name": "a/b"}`, `{"type": "prompt", "name": "a b"}`, `{"type": "graphql", "executeTool": {"name": "a/b"}}`,
	} {
		files := namingFiles(t, []namedOperation{{"POST", "/a", "a", mcp}})
		_, result := compile(t, files, project.Input{Catalog: lenient{}})
		if len(result.Errors) != 1 || !strings.HasPrefix(result.Errors[0].Path, "/paths/~1a/post/x-gateway-route/mcp/") {
			t.Errorf("Compile(mcp %s) errors = %+v, want one in the mcp object", mcp, result.Errors)
		}
	}
}

// argumentsOf returns the arguments of a POST operation at /a/{id}: their locations and targets by their names.
func argumentsOf(t *testing.T, parameters []string, body string) map[string]string {
	t.Helper()
	operation := fmt.Sprintf(`"post": {"operationId": "o0", "parameters": [%s], "requestBody": {"content":
		{"application/json": {"schema": %s}}}, "responses": {"200": {"description": "d"}}, "x-gateway-route": {
		"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {}}}}`,
		strings.Join(parameters, ", "), body)
	a, result := compile(t, serverFiles(1, `"/a/{id}": {`+operation+`}`), project.Input{Catalog: lenient{}})
	if len(result.Errors) > 0 {
		t.Fatalf("Compile(parameters %v) errors = %+v, want none", parameters, result.Errors)
	}
	i := slices.IndexFunc(a.Routes, func(r project.Route) bool { return r.OperationID == "o0" })
	operationOffer := a.Routes[i].MCPOperation
	var input struct{ Properties map[string]json.RawMessage }
	if err := json.Unmarshal(operationOffer.Input, &input); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, argument := range operationOffer.Arguments {
		got[argument.Name] = string(argument.Location) + " " + argument.TargetName()
		if input.Properties[argument.Name] == nil {
			t.Errorf("properties of the input schema = %s, want %s among them", operationOffer.Input, argument.Name)
		}
	}
	if len(got) != len(operationOffer.Arguments) {
		t.Errorf("arguments = %+v, want distinct names", operationOffer.Arguments)
	}
	return got
}

// argumentNameCase has parameters, the schema of the body, and the locations and targets of the expected arguments by
// their names. D stands for a digest.
type argumentNameCase struct {
	name       string
	parameters []string
	body       string
	want       map[string]string
}

// argumentNameCases returns a case for each class of clashing or invalid names.
func argumentNameCases() []argumentNameCase {
	const bodyWithBodyProperty = `{"type": "object", "properties": {"body": {}}}`
	long := strings.Repeat("a", 70)
	parameter := func(in, name string) string { return fmt.Sprintf(`{"in": %q, "name": %q, "schema": {}}`, in, name) }
	return []argumentNameCase{
		{
			"comparisons",
			[]string{parameter("query", "Date"), parameter("query", "Date<"), parameter("query", "Date>=")},
			bodyWithBodyProperty,
			map[string]string{"Date": "query Date", "Date_lt": "query Date<", "Date_gt_eq": "query Date>="},
		},
		{
			"comparisons without a plain name",
			[]string{parameter("query", "Date<"), parameter("query", "Date>")},
			bodyWithBodyProperty,
			map[string]string{"Date_lt": "query Date<", "Date_gt": "query Date>"},
		},
		{
			"a single name with other characters",
			[]string{parameter("query", "$filter"), parameter("query", "page[size]")},
			bodyWithBodyProperty,
			map[string]string{"filter": "query $filter", "page_size": "query page[size]"},
		},
		{
			"one name in all locations",
			[]string{parameter("query", "id"), parameter("header", "id"), parameter("cookie", "id")},
			`{"type": "object", "properties": {"id": {}}}`,
			map[string]string{
				"id": "path id", "query_id": "query id", "header_id": "header id", "property_id": "property id",
			},
		},
		{
			"a body that is called like a parameter",
			[]string{parameter("query", "body"), parameter("header", "body_body")},
			`{"type": "array"}`,
			map[string]string{"body": "query body", "body_body": "header body_body", "body_D": "body body"},
		},
		{
			"a name that is derived and one that is written",
			[]string{
				parameter("query", "a!"), parameter("query", "a_not"), parameter("query", "a"), parameter("query", "query_a"),
			},
			bodyWithBodyProperty,
			map[string]string{
				"a": "query a", "a_not": "query a_not", "query_a": "query query_a", "query_a_not": "query a!",
			},
		},
		{
			"names without letters",
			[]string{parameter("query", "«"), parameter("query", "»"), parameter("query", "¿")},
			bodyWithBodyProperty,
			map[string]string{"argument": "query «", "query_argument": "query »", "argument_D": "query ¿"},
		},
		{
			"long names",
			[]string{parameter("query", long+"x"), parameter("query", long+"y"), parameter("header", long+"x")},
			bodyWithBodyProperty,
			map[string]string{
				long[:64]: "query " + long + "x", "query_" + long[:58]: "query " + long + "y",
				"header_" + long[:57]: "header " + long + "x",
			},
		},
	}
}

// TestArgumentNamesAreDistinct checks the names of arguments whose parameters have clashing or invalid names,
// for both orders of the parameters. Every name must be one that clients accept.
func TestArgumentNamesAreDistinct(t *testing.T) {
	valid := regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
	for _, tt := range argumentNameCases() {
		t.Run(tt.name, func(t *testing.T) {
			want := maps.Clone(tt.want)
			want["id"] = "path id"
			if strings.Contains(tt.body, `"body": {}`) {
				want["body"] = "property body"
			}
			for range 2 {
				got := map[string]string{}
				for name, target := range argumentsOf(t, tt.parameters, tt.body) {
					if !valid.MatchString(name) {
						t.Errorf("argument %q for %s: want a name that clients accept", name, target)
					}
					got[regexp.MustCompile(`_[0-9a-f]{8}$`).ReplaceAllString(name, "_D")] = target
				}
				if !maps.Equal(got, want) {
					t.Errorf("arguments for %v = %v, want %v", tt.parameters, got, want)
				}
				slices.Reverse(tt.parameters)
			}
		})
	}
}
