package project_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// serverFiles returns a project with an MCP server that offers operations with the ids o0, o1 and so on.
// paths are the paths of these operations.
func serverFiles(operations int, paths string) project.Files {
	offered := list(operations, `{"file": "config/routes.oas.json", "id": "o%d"}`)
	server := `{"post": {"operationId": "server", "responses": {"200": {"description": "d"}}, "x-gateway-route": {
		"handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
			"options": {"operations": [` + offered + `]}}}}}`
	return documentFiles(`"paths": {"/mcp": ` + server + `, ` + paths + `}`)
}

// offeredPath returns a GET operation with additional members, and with members of its mcp object.
func offeredPath(members, mcp string) string {
	return `{"get": {` + members +
		`"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {"export": "urlForwardHandler",
		"module": "$import(@gatewright/runtime)", "options": {}}, "mcp": {` + mcp + `}}}}`
}

// TestOfferBounds checks that sizes within a bound are accepted, and that larger sizes are reported at
// their place. Servers send all operations to clients with each list, and gateways keep them in memory.
func TestOfferBounds(t *testing.T) {
	simulations.SkipUnderRace(t)
	const route = "/paths/~1a/get"
	single := func(members, mcp string) project.Files {
		return serverFiles(1, `"/a": `+offeredPath(`"operationId": "o0", `+members, mcp))
	}
	resource := func(member string, size int) project.Files {
		text := map[string]string{"name": "n", "uri": "docs://"}[member]
		return single("", fmt.Sprintf(`"type": "resource", %q: %q`, member, text+strings.Repeat("a", size-len(text))))
	}
	parameter := func(schema string) project.Files {
		return single(`"parameters": [{"name": "p", "in": "query", "schema": `+schema+`}], `, "")
	}
	levels := func(n int) project.Files {
		return parameter(strings.Repeat(`{"items": `, n-1) + `{"type": "string"}` + strings.Repeat("}", n-1))
	}
	const reference = `{"$ref": "#/paths/~1a/get/x-gateway-route/handler/options"}` // an empty object
	parts := func(n int, part string) project.Files { return parameter(`{"allOf": [` + list(n, part) + `]}`) }
	numerous := func(n int) project.Files {
		return serverFiles(n, list(n, `"/%d": `+strings.Replace(offeredPath(`"operationId": "oNUMBER", `, ""), "NUMBER",
			"%[1]d", 1)))
	}
	large := func(n int) project.Files {
		return serverFiles(n,
			list(n, `"/%d": `+strings.Replace(offeredPath(`"operationId": "oNUMBER", "description": "`+
				strings.Repeat("a", 60_000)+`", `, ""), "NUMBER", "%[1]d", 1)))
	}
	for _, tt := range []struct {
		name               string
		atLimit, exceeding project.Files
		at, message        string
	}{
		{
			"the name of a resource", resource("name", 256), resource("name", 257), route + "/x-gateway-route/mcp/name",
			"at most 256 bytes",
		},
		{
			"the uri of a resource", resource("uri", 1024), resource("uri", 1025), route + "/x-gateway-route/mcp/uri",
			"at most 1024 bytes",
		},
		{"levels of a schema", levels(64), levels(65), route + "/parameters/0/schema", "more than 64 levels"},
		{
			"empty schemas", parts(32_000, "{}"), parts(33_000, "{}"), route + "/parameters/0/schema", `the budget "tool"`,
		},
		{
			"schemas without a keyword that clients know", parts(20_000, `{"x-a": 1}`), parts(22_000, `{"x-a": 1}`),
			route + "/parameters/0/schema", `the budget "tool"`,
		},
		{
			"references to an empty schema", parts(13_000, reference), parts(14_000, reference),
			route + "/parameters/0/schema", `the budget "tool"`,
		},
		{
			"a description", single(`"description": "`+strings.Repeat("a", 64<<10)+`", `, ""),
			single(`"description": "`+strings.Repeat("a", 64<<10+1)+`", `, ""), route, `the budget "tool"`,
		},
		{
			"offered operations", numerous(500), numerous(501), "/paths/~1mcp/post/x-gateway-route/handler/options/operations",
			`the budget "MCP operations"`,
		},
		{"the size of all operations", large(410), large(430), "/paths/~1", `the budget "artifact"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, result := compile(t, tt.atLimit, project.Input{Catalog: lenient{}}); len(result.Errors) > 0 {
				t.Errorf("project at the limit: first error = %+v, want none", result.Errors[0])
			}
			_, result := compile(t, tt.exceeding, project.Input{Catalog: lenient{}})
			if len(result.Errors) != 1 || !strings.HasPrefix(result.Errors[0].Path, tt.at) ||
				!strings.Contains(result.Errors[0].Message, tt.message) {
				t.Errorf("project beyond the limit: errors = %+v, want one at %s with %q",
					result.Errors, tt.at, tt.message)
			}
		})
	}
}

// TestBodiesAreFlattenedIfEquivalent checks that the properties of an object are separate arguments.
// A schema with other constraints must become one argument, so that no constraint is lost.
func TestBodiesAreFlattenedIfEquivalent(t *testing.T) {
	const (
		open   = `{"type": "object", "properties": {"a": {}}}`
		other  = `{"type": "object", "required": ["b"], "properties": {"b": {}}}`
		closed = `{"type": "object", "properties": {"c": {}}, "additionalProperties": false}`
	)
	for schema, want := range map[string]string{
		open:   "property a",
		closed: "property c",
		`{"allOf": [` + open + `,` + other + `]}`:                                    "property a, property b",
		`{"allOf": [{"allOf": [` + open + `]}]}`:                                     "property a",
		`{"allOf": [` + open + `,` + closed + `]}`:                                   "body body",
		`{"allOf": [` + closed + `,` + other + `]}`:                                  "body body",
		`{"allOf": [` + closed + `]}`:                                                "body body",
		`{"allOf": [{"type": "string"},` + open + `]}`:                               "body body",
		`{"allOf": [` + open + `], "type": "object", "additionalProperties": false}`: "body body",
		`{"anyOf": [` + open + `,` + other + `]}`:                                    "body body",
		`{"type": "object", "properties": {"a": {}}, "minProperties": 1}`:            "body body",
		`{"type": "object", "nullable": true, "properties": {"a": {}}}`:              "body body",
		`{"type": "array", "items": ` + open + `}`:                                   "body body",
		`{"title": "Anything"}`:                                                      "body body",
	} {
		files := serverFiles(1,
			`"/a": {"post": {"operationId": "o0", "requestBody": {"required": true, "content": {"application/json": {"schema": `+
				schema+`}}}, "responses": {"200": {"description": "d"}},
			"x-gateway-route": {
				"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {}}}}}`)
		a, result := compile(t, files, project.Input{Catalog: lenient{}})
		if len(result.Errors) > 0 {
			t.Errorf("%s: errors = %+v, want none", schema, result.Errors)
			continue
		}
		var got []string
		for _, r := range a.Routes {
			if r.MCPOperation != nil {
				for _, argument := range r.MCPOperation.Arguments {
					got = append(got, string(argument.Location)+" "+argument.Name)
				}
			}
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("arguments of the body %s = %s, want %s", schema, all, want)
		}
	}
}

// TestOfferedOperationsOfDocument checks that every operation is offered without a handler, in the order of the
// document and of methods, unless it is disabled. An operation that cannot be a tool is reported at its place.
func TestOfferedOperationsOfDocument(t *testing.T) {
	const operation = `{"operationId": "%s",` +
		` "responses": {"200": {"content": {"application/json": {"schema": {"type": "object", "properties": {"a": {}}}}}}}%s}`
	operationJSON := func(id, extra string) string { return fmt.Sprintf(operation, id, extra) }
	document := `{"openapi": "3.1.0", "paths": {"/z/{id}": {"delete": ` +
		operationJSON("z_$delete", "") + `, "get": ` + operationJSON("z_get", "") + `, "parameters": []},
		"/a": {"post": ` + operationJSON("hidden", `, "x-mcp": {"enabled": false}`) +
		`, "put": ` + operationJSON("a", `, "x-mcp": {"name": "renamed"}`) + `}}}`
	offers, problems := project.OfferedOperations([]byte(document))
	var got []string
	for _, o := range offers {
		got = append(got, fmt.Sprint(o.Method, " ", o.Path, " ", o.Name, " ", len(o.Arguments), " ", len(o.Output) > 0, " ",
			o.Declared["operationId"]))
	}
	const want = "GET /z/{id} z_get 1 true z_get, DELETE /z/{id} z_delete 1 true z_$delete, PUT /a renamed 0 true a"
	if all := strings.Join(got, ", "); len(problems) > 0 || all != want {
		t.Errorf("OfferedOperations() = %s, problems %+v, want %s and no problems", all, problems, want)
	}
	for document, at := range map[string]string{
		`{"paths": {"/a": {"get": ` + operationJSON("a", "") + `, "put": ` + operationJSON("a", "") + `}}}`: "/paths/~1a/put",
		`{"paths": {"/a": {"get": ` + operationJSON("not a name",
			"") + `}}}`: "/paths/~1a/get/x-gateway-route/mcp/name",
		`[`: "",
	} {
		if _, problems := project.OfferedOperations([]byte(document)); len(problems) != 1 || problems[0].Path != at {
			t.Errorf("OfferedOperations(%s) problems = %+v, want one at %q", document, problems, at)
		}
	}
}

// TestNothingIsOfferedBeyondArtifactBudget checks that no operations are built after an operation that exceeds the budget
// "artifact": their mistakes are not reported.
func TestNothingIsOfferedBeyondArtifactBudget(t *testing.T) {
	simulations.SkipUnderRace(t)
	deep := strings.Repeat(`{"items": `, 65) + "{}" + strings.Repeat("}", 65)
	for _, tt := range []struct {
		operations int
		want       []string
	}{
		{400, []string{"/paths/~1last/get/parameters/0/schema"}},
		{450, []string{"/paths/~1415/get"}},
	} {
		paths := list(tt.operations, `"/%d": `+strings.Replace(offeredPath(`"operationId": "oNUMBER", "description": "`+
			strings.Repeat("a", 60_000)+`", `, ""), "NUMBER", "%[1]d", 1))
		last := fmt.Sprintf(`"operationId": "o%d", "parameters": [{"name": "p", "in": "query",
			"schema": %s}], `, tt.operations, deep)
		_, result := compile(t, serverFiles(tt.operations+1, paths+`, "/last": `+offeredPath(last, "")),
			project.Input{Catalog: lenient{}})
		var got []string
		for _, p := range result.Errors {
			got = append(got, p.Path)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%d operations: errors at %v, want %v", tt.operations, got, tt.want)
		}
	}
}

// TestRequiredPropertiesAreArguments checks that a tool has an argument for each property that a body requires, even if the
// schema does not declare the property: the route refuses requests without it. A property with readOnly must not become an
// argument, even if another part of the schema requires it.
func TestRequiredPropertiesAreArguments(t *testing.T) {
	for _, mediaType := range []string{
		"application/json; utf-8", "application/x-www-form-urlencoded", "multipart/form-data",
	} {
		document := strings.ReplaceAll(`{"openapi": "3.0.3", "info": {"title": "t", "version": "1"},
			"paths": {"/a": {"post": {"operationId": "a", "responses": {"200": {"description": "d"}},
			"requestBody": {"required": true, "content": {"TYPE": {"schema": {"allOf": [
				{"type": "object", "properties": {"id": {"type": "string", "readOnly": true}, "name": {"type": "string"}}},
				{"type": "object", "required": ["id", "name", "kind"]}
			]}}}}}}}}`, "TYPE", mediaType)
		offered, problems := project.OfferedOperations([]byte(document))
		if len(problems) > 0 || len(offered) != 1 {
			t.Fatalf("OfferedOperations() of a body of the type %s = %d operations, problems %v, want 1 without problems",
				mediaType, len(offered), problems)
		}
		if want, _, _ := strings.Cut(mediaType, ";"); offered[0].ContentType != want {
			t.Errorf("content type of a body of the type %s = %s, want %s", mediaType, offered[0].ContentType, want)
		}
		var names []string
		for _, a := range offered[0].Arguments {
			if a.Location == project.InProperty && a.Required {
				names = append(names, a.Name)
			}
		}
		slices.Sort(names)
		if want := []string{"kind", "name"}; !slices.Equal(names, want) {
			t.Errorf("required properties of a body of the type %s = %q, want %q", mediaType, names, want)
		}
	}
}

// TestReservedHeadersAreNoArguments checks which headers are left out of a tool: an optional header that the gateway
// writes itself, with a warning, and the header from which a policy of the route reads the caller's key.
func TestReservedHeadersAreNoArguments(t *testing.T) {
	const parameters = `"parameters": [
		{"name": "x-request-id", "in": "header", "schema": {"type": "string"}},
		{"name": "x-key", "in": "header", "required": true, "schema": {"type": "string"}},
		{"name": "X-Locale", "in": "header", "schema": {"type": "string"}}], `
	path := strings.Replace(offeredPath(`"operationId": "o0", `+parameters, ""), `"options": {}`,
		`"options": {"baseUrl": "https://upstream.test"}`, 1)
	files := serverFiles(1, `"/a": `+strings.Replace(path, `"mcp": {`, `"policies": {"inbound": ["key"]}, "mcp": {`, 1))
	files["config/policies.json"] = []byte(`{"policies": [{"name": "key", "policyType": "api-key-inbound",
		"handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": {}}}]}`)
	artifact, result := compile(t, files, project.Input{Catalog: catalog{}})
	if artifact == nil {
		t.Fatalf("compile() errors = %+v, want none", result.Errors)
	}
	var names []string
	for _, r := range artifact.Routes {
		if r.MCPOperation != nil {
			for _, a := range r.MCPOperation.Arguments {
				names = append(names, a.Name)
			}
		}
	}
	if !slices.Equal(names, []string{"X-Locale"}) {
		t.Errorf("arguments = %q, want X-Locale alone", names)
	}
	if !slices.ContainsFunc(result.Warnings, func(p project.Problem) bool {
		return p.Path == "/paths/~1a/get/parameters/0" && strings.Contains(p.Message, "x-request-id")
	}) {
		t.Errorf("warnings = %+v, want one about x-request-id", result.Warnings)
	}
}
