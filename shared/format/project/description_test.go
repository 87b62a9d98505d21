package project_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// forwarded returns an operation with an id that forwards requests. members are further members of the operation, each
// with a comma behind it.
func forwarded(id, members string) string {
	return fmt.Sprintf(`{"operationId": %q, %s "responses": {"200": {"description": "d"}}, "x-gateway-route": {
		"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {}}}}`, id, members)
}

// described compiles a document of a version of OpenAPI. members are the members of the document after its info object.
func described(t *testing.T, version, members string) (*project.Artifact, project.Result) {
	t.Helper()
	return compile(t, project.Files{"config/routes.oas.json": []byte(fmt.Sprintf(
		`{"openapi": %q, "info": {"title": "t", "version": "1"}, %s}`, version, members))}, project.Input{Catalog: lenient{}})
}

// wantProblem checks that problems has exactly one problem, with this place and a part of its message. It accepts no
// problem if at is "".
func wantProblem(t *testing.T, kind string, problems []project.Problem, at, message string) {
	t.Helper()
	if at == "" {
		if len(problems) > 0 {
			t.Errorf("%s = %+v, want none", kind, problems)
		}
		return
	}
	if len(problems) != 1 || problems[0].Path != at || !strings.Contains(problems[0].Message, message) {
		t.Errorf("%s = %+v, want one at %s with %q", kind, problems, at, message)
	}
}

// routesOf returns a line for each route of an artifact: the method, the path, the operation id and the place of the
// operation.
func routesOf(a *project.Artifact) string {
	var out []string
	if a != nil {
		for _, r := range a.Routes {
			out = append(out, r.Method+" "+r.Path+" "+r.OperationID+" "+r.Source.Pointer)
		}
	}
	return strings.Join(out, "\n")
}

// serverOf returns the operation of an MCP server that offers the operation with an id.
func serverOf(id string) string {
	return fmt.Sprintf(`{"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {
		"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
		"options": {"operations": [{"file": "config/routes.oas.json", "id": %q}]}}}}`, id)
}

// TestPatternsAreECMAScript checks patterns in a parameter that an MCP server offers. None of them fails the build.
func TestPatternsAreECMAScript(t *testing.T) {
	const at = "/paths/~1a/get/parameters/0/schema/pattern"
	for _, tt := range []struct{ pattern, at, warning string }{
		{pattern: `^(?=.*[a-z]).{8,}$`},
		{pattern: `^[a-z]{1,1024}$`},
		{pattern: `^\\u00e9+$`},
		{pattern: `^(a)\\1$`, at: at, warning: "has a back-reference"},
		{pattern: `^a(?=b)`, at: at, warning: "has a lookahead that is not at its beginning"},
		{pattern: `^(ab){1,5000}$`, at: at, warning: "more than 1,000 times"},
		{pattern: `^(ab$`, at: at, warning: "unterminated group at character 2"},
		{pattern: strings.Repeat("(", 50_000), at: at, warning: "more than 1000 groups"},
	} {
		for _, version := range []string{"3.0.3", "3.1.0", "3.2.0"} {
			parameter := `"parameters": [{"name": "p", "in": "query",
				"schema": {"type": "string", "pattern": "` + tt.pattern + `"}}],`
			_, result := described(t, version,
				`"paths": {"/a": {"get": `+forwarded("a", parameter)+`}, "/mcp": {"post": `+serverOf("a")+`}}`)
			name := fmt.Sprintf("Compile(OpenAPI %s with %.20s)", version, tt.pattern)
			wantProblem(t, name+" errors", result.Errors, "", "")
			wantProblem(t, name+" warnings", result.Warnings, tt.at, tt.warning)
		}
	}
}

// TestUncheckedPatternWithLargeNumberWarns checks that a number that no float64 can have does not hide the warning
// about a pattern of the same tool.
func TestUncheckedPatternWithLargeNumberWarns(t *testing.T) {
	parameters := `"parameters": [{"name": "n", "in": "query", "schema": {"type": "number", "maximum": 9e308}},
		{"name": "p", "in": "query", "schema": {"type": "string", "pattern": "^(a)\\1$"}}],`
	_, result := described(t, "3.1.0",
		`"paths": {"/a": {"get": `+forwarded("a", parameters)+`}, "/mcp": {"post": `+serverOf("a")+`}}`)
	wantProblem(t, "Compile() errors", result.Errors, "", "")
	const at = "/paths/~1a/get/parameters/1/schema/pattern"
	wantProblem(t, "Compile() warnings", result.Warnings, at, "has a back-reference")
}

// TestUncheckedPatternsOfOtherOperations checks patterns that no MCP server offers. A valid pattern is no warning. An
// invalid pattern is a warning everywhere, also as a name in patternProperties.
func TestUncheckedPatternsOfOtherOperations(t *testing.T) {
	for schema, at := range map[string]string{
		`{"pattern": "^(a)\\1$"}`:                       "",
		`{"pattern": "a++"}`:                            "/pattern",
		`{"patternProperties": {"[": {}}}`:              "/patternProperties/[",
		`{"properties": {"pattern": {"type": "null"}}}`: "",
		`{"example": {"pattern": "["}}`:                 "",
		`{"properties": {"default": {"pattern": "["}}}`: "/properties/default/pattern",
	} {
		_, result := described(t, "3.1.0", `"paths": {}, "components": {"schemas": {"S": `+schema+`}}`)
		if at != "" {
			at = "/components/schemas/S" + at
		}
		wantProblem(t, "Compile("+schema+") errors", result.Errors, "", "")
		wantProblem(t, "Compile("+schema+") warnings", result.Warnings, at, "no regular expression of ECMA-262")
	}
}

// TestInvalidAddressesAreWarnings checks the members of the info object whose formats OpenAPI's own schemas declare.
func TestInvalidAddressesAreWarnings(t *testing.T) {
	for info, at := range map[string]string{
		`"termsOfService": "http://a b"`:                       "/info/termsOfService",
		`"contact": {"url": "http://[::1"}`:                    "/info/contact/url",
		`"contact": {"email": "team"}`:                         "/info/contact/email",
		`"contact": {"email": "Team <team@example.com>"}`:      "/info/contact/email",
		`"license": {"name": "MIT", "url": "%zz"}`:             "/info/license/url",
		`"contact": {"email": "team@example.com", "url": "/"}`: "",
	} {
		for _, version := range []string{"3.0.3", "3.1.0", "3.2.0"} {
			_, result := compile(t, project.Files{"config/routes.oas.json": []byte(`{"openapi": "` + version +
				`", "info": {"title": "t", "version": "1", ` + info + `}, "paths": {}}`)}, project.Input{Catalog: lenient{}})
			wantProblem(t, "Compile("+info+") errors", result.Errors, "", "")
			wantProblem(t, "Compile("+info+") warnings", result.Warnings, at, "This is no ")
		}
	}
}

// TestPathsWithFragmentsAreLeftOut checks paths that no request can have: they are warnings, do not count as the same
// path as others, and cannot be offered by an MCP server.
func TestPathsWithFragmentsAreLeftOut(t *testing.T) {
	const paths = `"/files/{id}": {"put": %s}, "/files/{id}#add_link": {"put": %s}, "/files/{id}#remove_link": {"put": %s},
		"/files/{id}?link=1": {"put": %s}`
	members := fmt.Sprintf(`"paths": {`+paths,
		forwarded("a", ""), forwarded("b", ""), forwarded("c", ""), forwarded("d", ""))
	artifact, result := described(t, "3.0.3", members+"}")
	wantProblem(t, "Compile() errors", result.Errors, "", "")
	if got, want := routesOf(artifact), "PUT /files/{id} a /paths/~1files~1{id}/put"; got != want {
		t.Errorf("Compile() routes = %s, want %s", got, want)
	}
	for i, suffix := range []string{"#add_link", "#remove_link", "?link=1"} {
		if len(result.Warnings) != 3 || result.Warnings[i].Path != "/paths/~1files~1{id}"+suffix {
			t.Fatalf("Compile() warnings = %+v, want one at each left out path", result.Warnings)
		}
	}
	const offered = "/paths/~1mcp/post/x-gateway-route/handler/options/operations/0/id"
	for id, want := range map[string]string{"a": "", "b": offered} {
		_, result := described(t, "3.0.3", members+`, "/mcp": {"post": `+serverOf(id)+`}}`)
		wantProblem(t, "Compile(server of "+id+") errors", result.Errors, want, "is not served")
	}
}

// TestPathItemsByReference checks which routes paths by reference become, and the places of mistakes.
func TestPathItemsByReference(t *testing.T) {
	item := `"components": {"pathItems": {"Item": {"get": ` + forwarded("read", "") + `}}}`
	for name, tt := range map[string]struct{ members, routes, at, message, warnedAt string }{
		"components": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/Item"}}, ` + item,
			routes:  "GET /a read /components/pathItems/Item/get",
		},
		"two paths": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/Item"},
				"/b": {"$ref": "#/components/pathItems/Item"}}, ` + item,
			routes: "GET /a read /components/pathItems/Item/get\nGET /b  /components/pathItems/Item/get",
		},
		"another path": {
			members: `"paths": {"/a": {"$ref": "#/paths/~1b~1%7Bid%7D"}, "/b/{id}": {"get": ` + forwarded("read", "") + `}}`,
			routes:  "GET /a  /paths/~1b~1{id}/get\nGET /b/{id} read /paths/~1b~1{id}/get",
		},
		"parameters on both sides": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/P", "parameters": [
				{"name": "own", "in": "query", "schema": {}}]}}, "components": {"pathItems": {"P": {"parameters": [
				{"name": "other", "in": "query", "schema": {}}], "get": ` + forwarded("read", "") + `}}}`,
			routes: "GET /a read /components/pathItems/P/get", warnedAt: "/paths/~1a/parameters",
		},
		"another path that begins alike": {
			members: `"paths": {"/a": {"$ref": "#/paths/~1a~1b"}, "/a/b": {"get": ` + forwarded("read", "") + `}}`,
			routes:  "GET /a  /paths/~1a~1b/get\nGET /a/b read /paths/~1a~1b/get",
		},
		"several steps": {
			`"paths": {"/a": {"$ref": "#/paths/~1b"}, "/b": {"$ref": "#/components/pathItems/Item"}}, ` + item,
			"GET /a read /components/pathItems/Item/get\nGET /b  /components/pathItems/Item/get", "", "", "",
		},
		"siblings": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/Item", "put": ` + forwarded("write", "") + `}}, ` + item,
			routes:  "GET /a read /components/pathItems/Item/get\nPUT /a write /paths/~1a/put",
		},
		"a sibling of the same name": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/Item", "get": ` + forwarded("own", "") + `}}, ` + item,
			routes:  "GET /a own /paths/~1a/get", warnedAt: "/paths/~1a/get",
		},
		"no reference": {
			members: `"paths": {}, "components": {"pathItems": {"Item": {"get": {"responses": {"200": {"description": "d"}}}}}}`,
		},
		"no reference to a route": {
			members: `"paths": {}, ` + item, warnedAt: "/components/pathItems/Item/get/x-gateway-route",
		},
		"the route of a webhook": {
			members:  `"paths": {}, "webhooks": {"x-hook": {"post": ` + forwarded("hook", "") + `}}`,
			warnedAt: "/webhooks/x-hook/post/x-gateway-route",
		},
		"a cycle": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/A"}}, "components": {"pathItems": {
				"A": {"$ref": "#/components/pathItems/B"}, "B": {"$ref": "#/components/pathItems/A"}}}`,
			at: "/components/pathItems/B/$ref", message: "leads back to a path item",
		},
		"itself": {
			members: `"paths": {"/a": {"$ref": "#/paths/~1a"}}`, at: "/paths/~1a/$ref", message: "leads back to a path item",
		},
		"a missing item": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/None"}}`, at: "/paths/~1a/$ref", message: "leads nowhere",
		},
		"a file":    {members: `"paths": {"/a": {"$ref": "a.json"}}`, at: "/paths/~1a/$ref", message: `"config/a.json"`},
		"an anchor": {members: `"paths": {"/a": {"$ref": "#a"}}`, at: "/paths/~1a/$ref", message: "has this $anchor"},
		"a schema": {
			members: `"paths": {"/a": {"$ref": "#/components/schemas/A"}}, "components": {"schemas": {"A": {}}}`,
			at:      "/paths/~1a/$ref", message: "refers to no path item",
		},
		"a mistake in the item": {
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/A"}}, "components": {"pathItems": {"A": {
				"get": {"responses": {"200": {"description": "d"}}}}}}`,
			at: "/components/pathItems/A/get", message: "has no x-gateway-route",
		},
	} {
		t.Run(name, func(t *testing.T) {
			artifact, result := described(t, "3.1.0", tt.members)
			wantProblem(t, "Compile() errors", result.Errors, tt.at, tt.message)
			warnings := slices.DeleteFunc(result.Warnings, func(p project.Problem) bool { return p.Path == "/webhooks" })
			wantProblem(t, "Compile() warnings", warnings, tt.warnedAt, "no effect")
			if got := routesOf(artifact); got != tt.routes {
				t.Errorf("Compile() routes =\n%s\nwant\n%s", got, tt.routes)
			}
		})
	}
}

// TestReferredOperationsAreWhole checks what an operation in components can have like one in a path: variables,
// parameters of the path item, and a place in an MCP server. The parameters of the path that refers to it take
// precedence.
func TestReferredOperationsAreWhole(t *testing.T) {
	operation := strings.Replace(forwarded("read", ""), `"options": {}`, `"options": {"baseUrl": "$env(URL)"}`, 1)
	files := project.Files{"config/routes.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
		"paths": {"/mcp": {"post": ` + serverOf("read") + `}, "/a": {"$ref": "#/components/pathItems/Item",
			"parameters": [{"name": "own", "in": "query", "schema": {"type": "integer"}}]}},
		"components": {"pathItems": {"Item": {"get": ` + operation + `}}}}`)}
	artifact, result := compile(t, files, project.Input{
		Catalog: lenient{}, Variables: map[string]string{"URL": "https://upstream.example.com"},
	})
	wantProblem(t, "Compile() errors", result.Errors, "", "")
	wantProblem(t, "Compile() warnings", result.Warnings, "", "")
	if artifact == nil || len(artifact.Routes) != 2 {
		t.Fatalf("Compile() = %+v, want two routes", artifact)
	}
	route := artifact.Routes[1]
	if got, want := string(route.Handler.Options), `{"baseUrl":"https://upstream.example.com"}`; got != want {
		t.Errorf("options = %s, want %s", got, want)
	}
	if route.MCPOperation == nil || !strings.Contains(string(route.MCPOperation.Input), `"own":{"type":"integer"}`) {
		t.Errorf("MCP operation = %+v, want the argument own", route.MCPOperation)
	}
}

// TestManyReferencesEnd checks documents with many references, within the time of one test.
func TestManyReferencesEnd(t *testing.T) {
	for name, tt := range map[string]struct{ members, message string }{
		"10,000 paths by one item": {
			members: `"paths": {` + list(10_000, `"/%d": {"$ref": "#/components/pathItems/Item"}`) + `},
				"components": {"pathItems": {"Item": {"get": ` + forwarded("read", "") + `}}}`,
		},
		"10,000 paths by the next one": {
			members: `"paths": {` + list(10_000, `"/a%d": {"$ref": "#/paths/~1b%[1]d"}`) + `, ` +
				list(10_000, `"/b%d": {"get": `+forwarded("", "")+`}`) + `}`,
			message: `the budget "operations"`,
		},
		"a chain": {
			members: `"paths": {"/0": {"$ref": "#/components/pathItems/0"}}, "components": {"pathItems": {` +
				list(10_000, `"%d": {"$ref": "#/components/pathItems/1%[1]d"}`) + `}}`,
			message: "leads nowhere",
		},
		"10,000 schemas": {
			members: `"paths": {}, "components": {"schemas": {` +
				list(10_000, `"s%d": {"$ref": "#/components/schemas/s0"}`) + `}}`,
		},
	} {
		_, result := described(t, "3.1.0", tt.members)
		if tt.message == "" {
			wantProblem(t, name+": errors", result.Errors, "", "")
			continue
		}
		if !slices.ContainsFunc(result.Errors, func(p project.Problem) bool {
			return strings.Contains(p.Message, tt.message)
		}) {
			t.Errorf("%s: errors = %+v, want one with %s", name, result.Errors, tt.message)
		}
	}
}

// TestOpenAPI32 checks what OpenAPI 3.2 adds to paths.
func TestOpenAPI32(t *testing.T) {
	for name, tt := range map[string]struct{ version, members, routes, at, message string }{
		"methods": {
			version: "3.2.0",
			members: `"paths": {"/a": {"additionalOperations": {"copy": ` + forwarded("lower", "") + `, "COPY": ` +
				forwarded("copy", "") + `}, "query": ` + forwarded("find", "") + `, "get": ` + forwarded("read", "") + `}}`,
			routes: "GET /a read /paths/~1a/get\nQUERY /a find /paths/~1a/query\n" +
				"COPY /a copy /paths/~1a/additionalOperations/COPY\ncopy /a lower /paths/~1a/additionalOperations/copy",
		},
		"additional operations by reference": {
			version: "3.2.1",
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/I"}}, "components": {"pathItems": {"I": {
				"additionalOperations": {"COPY": ` + forwarded("copy", "") + `}}}}`,
			routes: "COPY /a copy /components/pathItems/I/additionalOperations/COPY",
		},
		"path item with the name additionalOperations": {
			version: "3.2.0",
			members: `"paths": {"/a": {"$ref": "#/components/pathItems/additionalOperations"}}, "components": {"pathItems": {
				"additionalOperations": {"get": ` + forwarded("read", "") + `}}}`,
			routes: "GET /a read /components/pathItems/additionalOperations/get",
		},
		"QUERY in 3.1": {
			version: "3.1.0", members: `"paths": {"/a": {"query": ` + forwarded("find", "") + `}}`,
			at: "/paths/~1a/query", message: "no such property",
		},
		"GET as an additional operation": {
			version: "3.2.0", members: `"paths": {"/a": {"additionalOperations": {"get": ` + forwarded("read", "") + `}}}`,
			at: "/paths/~1a/additionalOperations/get", message: `as the member "get"`,
		},
		"CONNECT": {
			version: "3.2.0", members: `"paths": {"/a": {"additionalOperations": {"CONNECT": ` + forwarded("read", "") + `}}}`,
			at: "/paths/~1a/additionalOperations/CONNECT", message: "does not serve CONNECT",
		},
		"a method with a space": {
			version: "3.2.0", members: `"paths": {"/a": {"additionalOperations": {"A B": ` + forwarded("read", "") + `}}}`,
			at: "/paths/~1a/additionalOperations/A B", message: "form that is not allowed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			artifact, result := described(t, tt.version, tt.members)
			wantProblem(t, "Compile() errors", result.Errors, tt.at, tt.message)
			wantProblem(t, "Compile() warnings", result.Warnings, "", "")
			if got := routesOf(artifact); got != tt.routes {
				t.Errorf("Compile() routes =\n%s\nwant\n%s", got, tt.routes)
			}
		})
	}
}

// TestPathsOfOneItemAreSeparateTools checks an MCP server that lists two paths of one path item: by the id, which
// belongs to the first path, and by method and path.
func TestPathsOfOneItemAreSeparateTools(t *testing.T) {
	const operations = `{"file": "config/routes.oas.json", "id": "read"},
		{"file": "config/routes.oas.json", "method": "get", "path": "/b"}`
	server := strings.Replace(serverOf("read"), `{"file": "config/routes.oas.json", "id": "read"}`, operations, 1)
	artifact, result := described(t, "3.1.0", `"paths": {"/mcp": {"post": `+server+`},
		"/a": {"$ref": "#/components/pathItems/Item"}, "/b": {"$ref": "#/components/pathItems/Item", "parameters": [
		{"name": "own", "in": "query", "schema": {"type": "integer"}}]}},
		"components": {"pathItems": {"Item": {"get": `+forwarded("read", "")+`}}}`)
	wantProblem(t, "Compile() errors", result.Errors, "", "")
	wantProblem(t, "Compile() warnings", result.Warnings, "", "")
	var got []string
	for _, r := range artifact.Routes {
		if r.MCPOperation != nil {
			hasOwn := strings.Contains(string(r.MCPOperation.Input), "own")
			got = append(got, fmt.Sprintf("%s %s %t", r.Path, r.MCPOperation.Name, hasOwn))
		}
	}
	if want := []string{"/a read false", "/b get_b true"}; !slices.Equal(got, want) {
		t.Errorf("MCP operations = %q, want %q", got, want)
	}
}

// TestWholeQueryStringsAreNoArguments checks that an MCP server reports a parameter that it cannot send.
func TestWholeQueryStringsAreNoArguments(t *testing.T) {
	parameter := `"parameters": [{"name": "q", "in": "querystring", "content": {"application/json": {"schema": {}}}}],`
	_, result := described(t, "3.2.0",
		`"paths": {"/a": {"get": `+forwarded("a", parameter)+`}, "/mcp": {"post": `+serverOf("a")+`}}`)
	wantProblem(t, "Compile() errors", result.Errors, "/paths/~1a/get/parameters/0/in", "a whole query string")
}

// TestBrokenReferencesAreFoundByTheirPlace checks references below names that mean data in one place and are names of
// the author's choice in another.
func TestBrokenReferencesAreFoundByTheirPlace(t *testing.T) {
	const broken = `{"$ref": "#/components/schemas/None"}`
	for _, name := range []string{
		"example", "default", "enum", "const", "value", "examples", "x-name", "properties", "$ref",
	} {
		for schema, isReported := range map[string]bool{
			`{"properties": {"` + name + `": ` + broken + `}}`:                               true,
			`{"patternProperties": {"` + name + `": ` + broken + `}}`:                        true,
			`{"$defs": {"` + name + `": {"definitions": {"` + name + `": ` + broken + `}}}}`: true,
			`{"dependentSchemas": {"` + name + `": {"allOf": [` + broken + `]}}}`:            true,
			`{"items": {"not": {"properties": {"` + name + `": ` + broken + `}}}}`:           true,
			`{"default": {"` + name + `": ` + broken + `}}`:                                  false,
			`{"const": {"properties": {"` + name + `": ` + broken + `}}}`:                    false,
			`{"x-extension": {"properties": {"` + name + `": ` + broken + `}}}`:              false,
		} {
			_, result := described(t, "3.1.0", `"paths": {}, "components": {"schemas": {"S": `+schema+`}}`)
			if got := len(result.Errors) > 0; got != isReported {
				t.Errorf("Compile(%s) errors = %+v, want one: %t", schema, result.Errors, isReported)
			}
		}
	}
	const response = `"responses": {"200": {"description": "d"}}`
	for _, tt := range []struct{ members, at string }{
		{`"components": {"responses": {"value": ` + broken + `}}`, "/components/responses/value/$ref"},
		{`"components": {"examples": {"default": ` + broken + `}}`, "/components/examples/default/$ref"},
		{
			`"webhooks": {"example": {"post": {"requestBody": ` + broken + `, ` + response + `}}}`,
			"/webhooks/example/post/requestBody/$ref",
		},
		{
			`"webhooks": {"h": {"post": {"responses": {"default": ` + broken + `}}}}`,
			"/webhooks/h/post/responses/default/$ref",
		},
		{
			`"webhooks": {"h": {"post": {"callbacks": {"value": {"/x": ` + broken + `}}, ` + response + `}}}`,
			"/webhooks/h/post/callbacks/value/~1x/$ref",
		},
		{
			`"components": {"headers": {"H": {"schema": {}, "examples": {"value": ` + broken + `}}}}`,
			"/components/headers/H/examples/value/$ref",
		},
		{`"components": {"examples": {"E": {"value": ` + broken + `}}}`, ""},
		{`"components": {"links": {"L": {"operationId": "o", "requestBody": ` + broken + `}}}`, ""},
		{`"x-extension": ` + broken, ""},
	} {
		_, result := described(t, "3.1.0", `"paths": {}, `+tt.members)
		wantProblem(t, "Compile("+tt.members+") errors", result.Errors, tt.at, "leads nowhere")
	}
}
