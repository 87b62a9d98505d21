package scaffold_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/scaffold"
)

const sampleSwagger = `
swagger: 2.0
info: {title: Shop, version: "1"}
host: shop.example.com
basePath: /v1
schemes: [wss, https]
produces: [application/xml]
securityDefinitions: {key: {type: apiKey, in: header, name: X-Key}, basic: {type: basic}}
parameters: {page: {name: page, in: query, type: integer, minimum: 1}}
definitions: {Item: {type: object, required: [id], properties: {id: {type: string}}}}
paths:
  /z/{id}:
    parameters: [{name: id, in: path, required: true, type: string}]
    get:
      parameters:
        - {$ref: '#/parameters/page'}
        - {name: csv, in: query, type: array, items: {type: string}, allowEmptyValue: true}
        - {name: multi, in: query, type: array, items: {type: string}, collectionFormat: multi}
        - {name: pipes, in: query, type: array, items: {type: string}, collectionFormat: pipes}
        - {name: tsv, in: query, type: array, items: {type: string}, collectionFormat: tsv}
      responses:
        200: {description: An item, schema: {$ref: '#/definitions/Item'}, examples: {application/xml: <a/>}}
  /a:
    post:
      schemes: [http]
      parameters: [{name: item, in: body, schema: {$ref: '#/definitions/Item'}}]
      responses: {201: {description: Made}}
  /m:
    post:
      parameters:
        - {name: tags, in: formData, type: array, items: {type: string}, allowEmptyValue: true}
      responses: {default: {description: Done}}
`

// TestSwaggerIsConverted checks the conversion of a description in Swagger 2.0: the order of paths, servers, media
// types, styles, and what it reports as left out. It also validates the created project.
func TestSwaggerIsConverted(t *testing.T) {
	t.Parallel()
	got, err := scaffold.AddRoutes([]byte(sampleSwagger), scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	wantURLs := map[string]string{}
	for _, route := range []string{"get /z/{id}", "post /a", "post /m"} {
		wantURLs[route] = "https://shop.example.com/v1"
	}
	if urls := baseURLs(t, got.Text); !maps.Equal(urls, wantURLs) {
		t.Errorf("AddRoutes() forwards to %v, want %v", urls, wantURLs)
	}
	text := string(got.Text)
	if z, a, m := strings.Index(text, `"/z/{id}"`), strings.Index(text, `"/a"`), strings.Index(text, `"/m"`); z < 0 ||
		a < z || m < a {
		t.Errorf("AddRoutes() has the paths /z/{id}, /a and /m at %d, %d and %d, want all of them in this order", z, a, m)
	}
	wantNotes := []string{
		"line 6 (/schemes) has 2 servers: routes forward to https://shop.example.com/v1, and not to " +
			"wss://shop.example.com/v1",
		"the description was converted from Swagger 2.0 to OpenAPI 3.0",
		"line 20 (/paths/~1z~1{id}/get/parameters/4/collectionFormat): OpenAPI 3 has no equivalent of tsv here, so the " +
			"parameter tsv becomes one text with all items, which are not checked",
		"the conversion from Swagger 2.0 leaves out allowEmptyValue (occurrences: 1)",
		"the conversion from Swagger 2.0 leaves out examples (occurrences: 1)",
		"the conversion from Swagger 2.0 leaves out schemes of an operation (occurrences: 1)",
	}
	if !slices.Equal(got.Notes, wantNotes) {
		t.Errorf("AddRoutes() notes = %q, want %q", got.Notes, wantNotes)
	}
	var document map[string]any
	if err := json.Unmarshal(got.Text, &document); err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]any{
		"openapi": "3.0.3",
		"paths//z/{id}/get/responses/200/content/application~xml/schema/$ref": "#/components/schemas/Item",
		"paths//a/post/requestBody/content/application~json/schema/$ref":      "#/components/schemas/Item",
		"paths//m/post/requestBody/content/application~x-www-form-urlencoded/encoding/tags": map[string]any{
			"style": "form", "explode": false,
		},
		"components/securitySchemes/key/in":       "header",
		"components/securitySchemes/basic/scheme": "basic",
		"components/parameters/page/schema":       map[string]any{"type": "integer", "minimum": 1.0},
	} {
		if value := at(document, pointer); !reflect.DeepEqual(value, want) {
			t.Errorf("AddRoutes(): %s = %v, want %v", pointer, value, want)
		}
	}
	parameters, _ := at(document, "paths//z/{id}/get/parameters").([]any)
	wantStyles := map[string]string{
		"csv": "form false", "multi": "form true", "pipes": "pipeDelimited false", "tsv": "<nil> <nil>",
	}
	styles := map[string]string{}
	for _, p := range parameters {
		if p, _ := p.(map[string]any); p["name"] != nil {
			styles[fmt.Sprint(p["name"])] = fmt.Sprint(p["style"], " ", p["explode"])
		}
	}
	if !maps.Equal(styles, wantStyles) {
		t.Errorf("AddRoutes(): styles = %v, want %v", styles, wantStyles)
	}
	tsv, _ := parameters[len(parameters)-1].(map[string]any)
	if schema := map[string]any{"type": "string"}; tsv["name"] != "tsv" || !reflect.DeepEqual(tsv["schema"], schema) {
		t.Errorf("AddRoutes(): the last parameter is %v, want tsv with the schema %v", tsv, schema)
	}
	all := templateFiles(t, "")
	scaffold.UseDescription(all, got)
	checkValid(t, all)
}

// TestSwaggerNumbersKeepTheirDigits checks that the conversion changes no number that a float64 cannot represent, and that
// it reports numbers that have the same float64 as another one.
func TestSwaggerNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	const text = `{"swagger": "2.0", "info": {"title": "t", "version": "1"}, "host": "a.example.com",
"definitions": {"A": {"type": "integer", "minimum": -9223372036854775808, "maximum": 9223372036854775807,
"multipleOf": 0.10,
"enum": [NUMBERS], "default": 1.23456789012345678901, "example": {"a": [1e2, 0]}}},
"paths": {"/a": {"get": {"responses": {"200": {"description": "d", "schema": {"$ref": "#/definitions/A"}}}}}}}`
	for _, c := range []struct{ name, numbers, want, note string }{
		{"exact", "9007199254740993, 7", `[9007199254740993,7]`, ""},
		{
			"ambiguous", "9007199254740992, 9007199254740993", `[9007199254740992,9007199254740992]`,
			"line 4 (/definitions/A/enum/1): the conversion cannot distinguish 9007199254740993 from 9007199254740992",
		},
	} {
		got, err := scaffold.AddRoutes([]byte(strings.Replace(text, "NUMBERS", c.numbers, 1)), scaffold.Options{})
		if err != nil {
			t.Errorf("%s: AddRoutes() error = %v, want none", c.name, err)
			continue
		}
		compact := jsontext.Value(got.Text)
		if err := compact.Compact(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			`"minimum":-9223372036854775808`, `"maximum":9223372036854775807`, `"multipleOf":0.1,`, `"enum":` + c.want,
			`"default":1.23456789012345678901`, `"a":[100,0]`,
		} {
			if !strings.Contains(string(compact), want) {
				t.Errorf("%s: AddRoutes() = %s, want %s", c.name, compact, want)
			}
		}
		notes := strings.Join(got.Notes, "\n")
		if c.note == "" && strings.Contains(notes, "cannot distinguish") || !strings.Contains(notes, c.note) {
			t.Errorf("%s: AddRoutes() notes = %q, want %q", c.name, got.Notes, c.note)
		}
	}
}

// at returns a nested value of a document. path has the names of the members, separated by slashes, such as
// paths//z/{id}/get: a path of the description keeps its own slashes. In other names, a tilde stands for a slash.
func at(value any, path string) any {
	rest := strings.ReplaceAll(path, "//", "/\x00")
	rest = strings.ReplaceAll(rest, "/{id}", "\x00{id}")
	for name := range strings.SplitSeq(rest, "/") {
		object, _ := value.(map[string]any)
		value = object[strings.ReplaceAll(strings.ReplaceAll(name, "\x00", "/"), "~", "/")]
	}
	return value
}

// TestSwaggerWithoutHost checks that the base path of a description without a host is resolved against the upstream.
func TestSwaggerWithoutHost(t *testing.T) {
	t.Parallel()
	const text = `{"swagger": "2.0", "info": {"title": "t", "version": "1"}, "basePath": "/v1", "paths": {"/a": {"get": ` +
		`{"responses": {"default": {"description": "d"}}}}}}`
	got, err := scaffold.AddRoutes([]byte(text), scaffold.Options{Upstream: "https://mine.example.com"})
	if urls := baseURLs(t, got.Text); err != nil || urls["get /a"] != "https://mine.example.com/v1" {
		t.Errorf("AddRoutes() with an upstream forwards to %v, %v, want https://mine.example.com/v1", urls, err)
	}
	if _, err := scaffold.AddRoutes([]byte(text), scaffold.Options{}); exit.CodeOf(err) != exit.Usage ||
		!strings.Contains(fmt.Sprint(err), "--upstream") {
		t.Errorf("AddRoutes() without an upstream = %v, want code %d and --upstream", err, exit.Usage)
	}
}

// TestInvalidSwaggerIsRefused checks that descriptions that the library cannot convert, or for which it panics, are an
// error.
func TestInvalidSwaggerIsRefused(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"swagger": "2.0"}`, `{"swagger": "2.0", "paths": []}`, `{"swagger": "2.0", "paths": {"/a": null}}`,
		`{"swagger": "2.0", "host": "a/b", "paths": {"/a": {"get": {"responses": {}}}}}`,
		`{"swagger": "2.0", "paths": {"/a": {"get": {"parameters": [null], "responses": {}}}}}`,
		`{"swagger": "2.0", "paths": {"/a": {"get": {"responses": {"200": {"$ref": "#/responses/none"}}}}}}`,
		`{"swagger": "2.0", "paths": {"/a": {"get": {"responses": {"200": {"schema": {"$ref": "other.json"}}}}}}}`,
	} {
		got, err := scaffold.AddRoutes([]byte(text), scaffold.Options{Upstream: "https://mine.example.com"})
		if exit.CodeOf(err) != exit.Invalid || got.Text != nil {
			t.Errorf("AddRoutes(%s) = %s, %v, want no text and code %d", text, got.Text, err, exit.Invalid)
		}
	}
}

// TestSwaggerNamesInAnotherCaseAreRefused checks names that differ from the name of a member only in case, which the
// library would read as this member. Names of the author's choice are not members.
func TestSwaggerNamesInAnotherCaseAreRefused(t *testing.T) {
	t.Parallel()
	const text = `{"swagger": "2.0", "info": {"title": "t", "version": "1"}, "host": "a.example.com", ROOT "security": [],
"parameters": {"p": {"name": "p", "in": "query", "type": "string" PARAMETER}},
"definitions": {"Host": {"type": "object", "properties": {"Type": {"type": "string"}}, "example": {"Type": 1} SCHEMA}},
"paths": {"/a": {"get": {"responses": {"200": {"description": "d", "headers": {"Type": {"type": "string" HEADER}}}}
OPERATION} PATH}}}`
	insert := func(place, member string) []byte {
		var pairs []string
		for _, p := range []string{"ROOT", "PARAMETER", "SCHEMA", "HEADER", "OPERATION", "PATH"} {
			if p != place {
				pairs = append(pairs, p, "")
			}
		}
		return []byte(strings.NewReplacer(append(pairs, place, member)...).Replace(text))
	}
	if got, err := scaffold.AddRoutes(insert("ROOT", ""), scaffold.Options{}); err != nil || got.Added != 1 {
		t.Errorf("AddRoutes() with names of the author's choice = %d routes, %v, want 1 and no error", got.Added, err)
	}
	for _, c := range []struct{ place, member, want string }{
		{"ROOT", `"Host": "evil.example",`, `line 1 (/Host): the name "Host" differs from "host" only in case`},
		{"ROOT", `"\u017fecurity": [{}],`, `differs from "security" only in case`}, // a long s
		{"PARAMETER", `, "IN": "header"`, `line 2 (/parameters/p/IN)`},
		{
			"SCHEMA", `, "items": {"additionalProperties": {"Type": "string"}}`,
			`line 3 (/definitions/Host/items/additionalProperties/Type)`,
		},
		{"HEADER", `, "Format": "f"`, `line 4 (/paths/~1a/get/responses/200/headers/Type/Format)`},
		{"OPERATION", `, "Security": [{}]`, `line 5 (/paths/~1a/get/Security)`},
		{"PATH", `, "GET": {"responses": {}}`, `line 5 (/paths/~1a/GET)`},
	} {
		got, err := scaffold.AddRoutes(insert(c.place, c.member), scaffold.Options{})
		if exit.CodeOf(err) != exit.Invalid || !strings.Contains(fmt.Sprint(err), c.want) || got.Text != nil {
			t.Errorf("AddRoutes() with %s = %q, %v, want no text, code %d and %q", c.member, got.Text, err, exit.Invalid,
				c.want)
		}
	}
}

// TestRequiredFieldMakesFormRequired checks that a form with a required field is required itself, and that other forms
// are not.
func TestRequiredFieldMakesFormRequired(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{true, false} {
		text := fmt.Sprintf(`{"swagger": "2.0", "info": {"title": "t", "version": "1"}, "host": "up.example.com", "paths": {
			"/a": {"post": {"consumes": ["multipart/form-data"], "responses": {"default": {"description": "d"}},
			"parameters": [{"name": "f", "in": "formData", "type": "file", "required": %t}]}}}}`, required)
		got, err := scaffold.AddRoutes([]byte(text), scaffold.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := json.Unmarshal(got.Text, &document); err != nil {
			t.Fatal(err)
		}
		if isRequired := at(document, "paths//a/post/requestBody/required") == true; isRequired != required {
			t.Errorf("field required = %t: body required = %t, want the same", required, isRequired)
		}
	}
}
