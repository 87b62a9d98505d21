package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/project"
)

// offering is a project of a server and what it offers: paths with operations, which are called o0, o1 and so on.
func offering(operations int, paths string) project.Files {
	server := `{"post": {"operationId": "server", "responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {"export": "mcpServerHandler",
		"module": "$import(@gatewright/runtime)", "options": {"operations": [` + list(operations, `{"file": "config/routes.oas.json", "id": "o%d"}`) + `]}}}}}`
	return described(`"paths": {"/mcp": ` + server + `, ` + paths + `}`)
}

// offered is an operation by GET with members, whose mcp object has others.
func offered(members, mcp string) string {
	return `{"get": {` + members + `"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {"export": "urlForwardHandler",
		"module": "$import(@gatewright/runtime)", "options": {}}, "mcp": {` + mcp + `}}}}`
}

// TestOffersAreTakenUpToTheirBounds: what is within one is no mistake, and what is beyond is told at its place. Clients are sent all of it
// with each list, and gateways have it in memory.
func TestOffersAreTakenUpToTheirBounds(t *testing.T) {
	simulations.Sequential(t)
	const route = "/paths/~1a/get"
	one := func(members, mcp string) project.Files {
		return offering(1, `"/a": `+offered(`"operationId": "o0", `+members, mcp))
	}
	resource := func(member string, size int) project.Files {
		text := map[string]string{"name": "n", "uri": "docs://"}[member]
		return one("", fmt.Sprintf(`"type": "resource", %q: %q`, member, text+strings.Repeat("a", size-len(text))))
	}
	levels := func(n int) project.Files {
		schema := strings.Repeat(`{"items": `, n-1) + `{"type": "string"}` + strings.Repeat("}", n-1)
		return one(`"parameters": [{"name": "p", "in": "query", "schema": `+schema+`}], `, "")
	}
	many := func(n int) project.Files {
		return offering(n, list(n, `"/%d": `+strings.Replace(offered(`"operationId": "oNUMBER", `, ""), "NUMBER", "%[1]d", 1)))
	}
	large := func(n int) project.Files {
		return offering(n, list(n, `"/%d": `+strings.Replace(offered(`"operationId": "oNUMBER", "description": "`+strings.Repeat("a", 60_000)+`", `, ""), "NUMBER", "%[1]d", 1)))
	}
	for _, tt := range []struct {
		name         string
		within, over project.Files
		at, says     string
	}{
		{"the name of a resource", resource("name", 256), resource("name", 257), route + "/x-gateway-route/mcp/name", "at most 256 bytes"},
		{"the uri of a resource", resource("uri", 1024), resource("uri", 1025), route + "/x-gateway-route/mcp/uri", "at most 1024 bytes"},
		{"levels of a schema", levels(64), levels(65), route + "/parameters/0/schema", "more than 64 levels"},
		{"a description", one(`"description": "`+strings.Repeat("a", 64<<10)+`", `, ""), one(`"description": "`+strings.Repeat("a", 64<<10+1)+`", `, ""), route, `the budget "tool"`},
		{"operations", many(500), many(501), "/paths/~1mcp/post/x-gateway-route/handler/options/operations", `the budget "MCP operations"`},
		{"all together", large(130), large(150), "/paths/~1", `the budget "artifact"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, result := compile(t, tt.within, project.Input{Catalogue: lenient{}}); len(result.Errors) > 0 {
				t.Errorf("within it: %+v", result.Errors[0])
			}
			_, result := compile(t, tt.over, project.Input{Catalogue: lenient{}})
			if len(result.Errors) != 1 || !strings.HasPrefix(result.Errors[0].Path, tt.at) || !strings.Contains(result.Errors[0].Message, tt.says) {
				t.Errorf("beyond it: %+v", result.Errors)
			}
		})
	}
}

// TestBodiesAreFlatWhereThatSaysTheSame: the properties of an object are arguments of their own, and what says more than which
// properties there are is one argument, since none of it may be lost.
func TestBodiesAreFlatWhereThatSaysTheSame(t *testing.T) {
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
		files := offering(1, `"/a": {"post": {"operationId": "o0", "requestBody": {"required": true, "content": {"application/json": {"schema": `+schema+`}}}, "responses": {"200": {"description": "d"}},
			"x-gateway-route": {"handler": {"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)", "options": {}}}}}`)
		a, result := compile(t, files, project.Input{Catalogue: lenient{}})
		if len(result.Errors) > 0 {
			t.Errorf("%s: %+v", schema, result.Errors)
			continue
		}
		var got []string
		for _, r := range a.Routes {
			if r.MCPOperation != nil {
				for _, argument := range r.MCPOperation.Arguments {
					got = append(got, string(argument.Place)+" "+argument.Name)
				}
			}
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("%s has the arguments %s, want %s", schema, all, want)
		}
	}
}

// TestOffersOfADocumentOfItsOwn: every operation is offered without a handler, in the order of the document and of methods, but what
// says that it is not; what cannot be one is told at its place.
func TestOffersOfADocumentOfItsOwn(t *testing.T) {
	const operation = `{"operationId": "%s", "responses": {"200": {"content": {"application/json": {"schema": {"type": "object", "properties": {"a": {}}}}}}}%s}`
	one := func(id, more string) string { return fmt.Sprintf(operation, id, more) }
	document := `{"openapi": "3.1.0", "paths": {"/z/{id}": {"delete": ` + one("z_$delete", "") + `, "get": ` + one("z_get", "") + `, "parameters": []},
		"/a": {"post": ` + one("hidden", `, "x-mcp": {"enabled": false}`) + `, "put": ` + one("a", `, "x-mcp": {"name": "renamed"}`) + `}}}`
	offers, problems := project.Offers([]byte(document))
	var got []string
	for _, o := range offers {
		got = append(got, fmt.Sprint(o.Method, " ", o.Path, " ", o.Name, " ", len(o.Arguments), " ", len(o.Output) > 0, " ", o.Declared["operationId"]))
	}
	if all := strings.Join(got, ", "); len(problems) > 0 || all != "GET /z/{id} z_get 1 true z_get, DELETE /z/{id} z_delete 1 true z_$delete, PUT /a renamed 0 true a" {
		t.Errorf("it offers %s: %+v", all, problems)
	}
	for document, at := range map[string]string{
		`{"paths": {"/a": {"get": ` + one("a", "") + `, "put": ` + one("a", "") + `}}}`: "/paths/~1a/put",
		`{"paths": {"/a": {"get": ` + one("not a name", "") + `}}}`:                     "/paths/~1a/get/x-gateway-route/mcp/name",
		`[`: "",
	} {
		if _, problems := project.Offers([]byte(document)); len(problems) != 1 || problems[0].Path != at {
			t.Errorf("%s: %+v", document, problems)
		}
	}
}
