package commands_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

// TestInitWritesNotes checks that the notes of init are in its document, and in its error if the build has errors.
func TestInitWritesNotes(t *testing.T) {
	t.Parallel()
	const text = `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, 
"servers": [{"url": "https://a.example.com"}], "paths": {"/a": {"get": {"responses": {"200": {"description": "d"}}}}}}`
	const note = "the description requires no authentication: everybody may call each operation"
	fx := newFixtureWith(t, func(http.ResponseWriter, *http.Request, string) {
		t.Error("init sends a request, want none")
	})
	for _, c := range []struct {
		name, text string
		code       exit.Code
	}{
		{"valid", text, exit.OK},
		{"invalid", strings.Replace(text, `"info"`, `"tags": 1, "info"`, 1), exit.Invalid},
	} {
		for _, format := range []string{"json", "yaml", "table"} {
			got := fx.run(c.text, "init", filepath.Join(t.TempDir(), "new"), "--from", "-", "--output", format)
			if got.code != c.code {
				t.Errorf("%s: init --output %s = %+v, want code %d", c.name, format, got, c.code)
			}
			out := got.err
			if format == "json" && c.code == exit.OK {
				out = got.out
			}
			if !strings.Contains(out, note) {
				t.Errorf("%s: init --output %s = %+v, want the note %q", c.name, format, got, note)
			}
		}
	}
}

// openAPIWithMistakes has mistakes in itself, and refers to files that have others.
const openAPIWithMistakes = `openapi: 3.1.0
info: {title: t, version: "1"}
servers: [{url: https://a.example.com}]
paths:
  /a: {$ref: "paths/a.yaml#/item"}
  /b: {$ref: "#/components/pathItems/b"}
  /c: {get: {responses: {"200": {$ref: "other.json#/response"}}}}
components:
  pathItems:
    b:
      get:
        parametres: []
        responses: {"200": {description: d}}
  schemas:
    A: {pattern: "(("}
`

// swaggerWithMistakes has patterns that are no regular expressions.
const swaggerWithMistakes = `swagger: "2.0"
info: {title: t, version: "1"}
host: a.example.com
definitions:
  A: {type: string, pattern: "(("}
parameters:
  form: {name: form, in: formData, type: string, pattern: "(("}
paths:
  /a:
    put:
      parameters:
        - {name: body, in: body, schema: {type: array, items: {$ref: "#/definitions/A", x-y: 1}}}
        - {name: query, in: query, type: string, pattern: "(("}
      responses: {200: {description: d, schema: {type: string, pattern: "(("}}}
    post:
      parameters: [{$ref: "#/parameters/form"}]
      responses: {200: {description: d, headers: {H: {type: string, pattern: "(("}}}}
`

// TestInitReportsPlacesOfTheDescription checks that init reports mistakes in the description, or in its other files, at their
// place there, and mistakes in what it has written in the project.
func TestInitReportsPlacesOfTheDescription(t *testing.T) {
	t.Parallel()
	fx := newFixtureWith(t, func(http.ResponseWriter, *http.Request, string) {
		t.Error("init sends a request, want none")
	})
	for _, c := range []struct {
		name, text string
		code       exit.Code
		want       []string
	}{
		{"OpenAPI", openAPIWithMistakes, exit.Invalid, []string{
			"paths/a.yaml:4:5: error: ", "other.json:3:3: error: ", "description.yaml:12:9: error: ",
		}},
		{
			"JSON", `{"openapi": "3.1.0", "servers": [{"url": "https://a.example.com"}],
"info": {"names": "t", "title": "t", "version": "1"},
"paths": {"/a": {"get": {"responses": {"200": {"description": ""}}}}}}`,
			exit.Invalid,
			[]string{"description.yaml:2:10: error: "},
		},
		{"Swagger", swaggerWithMistakes, exit.OK, []string{
			"description.yaml:5:21: warning: ", "description.yaml:7:50: warning: ", "description.yaml:13:50: warning: ",
			"description.yaml:14:64: warning: ", "description.yaml:17:69: warning: ",
		}},
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"description.yaml": c.text,
			"paths/a.yaml":     "item:\n  get:\n    responses: {'200': {description: d}}\n    answers: {}\n",
			"other.json":       "{\n \"response\": {\"description\": \"\",\n  \"contents\": {}}}",
		} {
			file := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := fx.run("", "init", filepath.Join(dir, "new"), "--from", filepath.Join(dir, "description.yaml"))
		if got.code != c.code {
			t.Errorf("%s: init = %+v, want code %d", c.name, got, c.code)
		}
		if strings.Contains(got.err, "config/") {
			t.Errorf("%s: init = %s, want no place in config", c.name, got.err)
		}
		for _, want := range c.want {
			if want = filepath.Join(dir, filepath.FromSlash(want)); !strings.Contains(got.err, want) {
				t.Errorf("%s: init = %s, want %s", c.name, got.err, want)
			}
		}
	}
}
