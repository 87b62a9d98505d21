package scaffold_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/client/scaffold"
)

// severalFiles is a description of several files.
func severalFiles() fstest.MapFS {
	text := map[string]string{
		"openapi.yaml": `openapi: 3.0.3
info: {title: shop, version: "1"}
servers: [{url: https://shop.example.com}]
paths:
  /pets: {$ref: paths/pets.yaml}
  /pets/{id}: {$ref: "./paths/pets.yaml#/x-items/one"}
  /orders:
    get:
      parameters: [{$ref: "schemas/common.json#/parameters/limit"}]
      responses: {200: {description: They, content: {application/json: {schema: {$ref: schemas/order.yml}}}}}
components: {schemas: {Pet: {type: object, properties: {name: {type: string}}}}}
`,
		"paths/pets.yaml": `post:
  operationId: addPet
  requestBody: {content: {application/json: {schema: {$ref: "../openapi.yaml#/components/schemas/Pet"}}}}
  responses: {default: {description: It}}
x-items:
  one:
    parameters: [{$ref: "../schemas/common.json#/parameters/id"}]
    get:
      operationId: onePet
      responses:
        200: {$ref: "#/x-responses/It"}
        default:
          description: It
          content: {application/json: {schema: {$ref: ../schemas/sub.json}, example: {$ref: b.json}}}
x-responses: {It: {description: It}}
`,
		"schemas/common.json": `{"parameters": {
			"id": {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
			"limit": {"name": "limit", "in": "query", "schema": {"type": "integer"}}}}`,
		"schemas/order.yml": "properties: {pet: {$ref: '../openapi.yaml#/components/schemas/Pet'}, parent: {$ref: '#'}}\n",
		"schemas/sub.json": `{"discriminator": {"propertyName": "a", "mapping": {"b": "deep/b.json"}}, "type": "object",
			"required": ["a"], "properties": {"a": {"type": "string"}}}`,
		"schemas/deep/b.json": `{"type": "object"}`,
		"schemas/unused.json": `{}`,
	}
	out := fstest.MapFS{}
	for name, content := range text {
		out[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return out
}

// TestFilesOfADescriptionAreCopied checks that a description of several files becomes a valid project: its path items
// are written out, and all other files are copied.
func TestFilesOfADescriptionAreCopied(t *testing.T) {
	t.Parallel()
	source := severalFiles()
	got, err := scaffold.AddRoutes(source["openapi.yaml"].Data, scaffold.Options{Folder: source, Name: "openapi.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if got.Added != 3 {
		t.Errorf("AddRoutes() added %d routes, want 3", got.Added)
	}
	want := []string{
		"config/openapi.yaml", "config/paths/pets.yaml", "config/schemas/common.json", "config/schemas/deep/b.json",
		"config/schemas/order.yml", "config/schemas/sub.json",
	}
	if names := slices.Sorted(maps.Keys(got.Files)); !slices.Equal(names, want) {
		t.Errorf("AddRoutes() files = %q, want %q", names, want)
	}
	for _, text := range []string{
		`"$ref": "#/components/schemas/Pet"`, `"$ref": "paths/pets.yaml#/x-responses/It"`, `"$ref": "schemas/sub.json"`,
		`"$ref": "schemas/common.json#/parameters/id"`, `"$ref": "b.json"`,
	} {
		if !strings.Contains(string(got.Text), text) {
			t.Errorf("AddRoutes() = %s, want %s in it", got.Text, text)
		}
	}
	all := templateFiles(t, "")
	scaffold.UseDescription(all, got)
	checkValid(t, all)
}

// TestFilesThatCannotBeCopied checks the notes and errors about files that are not copied.
func TestFilesThatCannotBeCopied(t *testing.T) {
	t.Parallel()
	const head = `{"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
		"servers": [{"url": "https://a.example.com"}], "paths": {"/a": {"get": {
		"responses": {"default": {"description": "d"}}, "parameters": [{"$ref": "REF"}]}}}}`
	for reference, tt := range map[string]struct {
		note, err string
		noFolder  bool
	}{
		"../a.json":                  {note: "../a.json is not copied, because it is not in the folder of the description"},
		"a.json#/a":                  {note: "they come from stdin", noFolder: true},
		"x.oas.yaml":                 {err: "rename the file"},
		"policies.json":              {err: "rename the file"},
		"broken.yaml":                {note: "broken.yaml: line 1: the file is no YAML"},
		"none.json":                  {},
		"https://example.com/a.json": {},
		"/etc/passwd.json":           {},
		"#/components/parameters/a":  {},
		"folder.json":                {},
	} {
		folder := fstest.MapFS{
			"x.oas.yaml": {Data: []byte("a: 1")}, "policies.json": {Data: []byte("{}")}, "broken.yaml": {Data: []byte("a: [")},
			"folder.json": {Mode: os.ModeDir},
		}
		o := scaffold.Options{Folder: folder, Name: "openapi.json"}
		if tt.noFolder {
			o.Folder, tt.note = nil, "it comes from stdin"
		}
		got, err := scaffold.AddRoutes([]byte(strings.Replace(head, "REF", reference, 1)), o)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("AddRoutes(%s) error = %v, want one with %q", reference, err, tt.err)
			}
			continue
		}
		notes := strings.Join(got.Notes, "\n")
		if err != nil || !strings.Contains(notes, tt.note) || len(got.Files) > 0 {
			t.Errorf("AddRoutes(%s) = files %v, notes %q, error %v, want no file and a note with %q", reference, got.Files,
				notes, err, tt.note)
		}
		if tt.note == "" && strings.Contains(notes, "copied") {
			t.Errorf("AddRoutes(%s) notes = %q, want none about copies: the build reports the reference", reference, notes)
		}
	}
	_, err := scaffold.AddRoutes([]byte(`{"swagger": "2.0", "info": {"title": "t", "version": "1"},
		"host": "a.example.com", "paths": {"/a": {"get": {"responses": {"200": {"$ref": "a.json"}}}}}}`), scaffold.Options{})
	if err == nil || !strings.Contains(err.Error(), "refers to other files") {
		t.Errorf("AddRoutes(Swagger 2.0) error = %v, want one about other files", err)
	}
}

// TestPathItemsThatCannotBeWrittenOut checks that AddRoutes refuses references to path items that it cannot read. A build
// could read them, and would serve their routes without the checks of AddRoutes.
func TestPathItemsThatCannotBeWrittenOut(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{"a.json": {Data: []byte(`[{"get": {"x-gateway-route": {}}}]`)}}
	for _, reference := range []string{"a.json#/0", "a.json", "a.json#name", "./a.json#/none"} {
		_, err := scaffold.AddRoutes([]byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
			"servers": [{"url": "https://a.example.com"}], "paths": {"/a": {"$ref": "`+reference+`"}}}`),
			scaffold.Options{Folder: folder, Name: "openapi.json"})
		if want := "which is no path item"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("AddRoutes(%s) error = %v, want one with %q", reference, err, want)
		}
	}
}

// TestPathItemsThatReferInACircle checks path items in files that refer to each other.
func TestPathItemsThatReferInACircle(t *testing.T) {
	t.Parallel()
	folder := fstest.MapFS{"a.json": {Data: []byte(`{"$ref": "b.yaml"}`)}, "b.yaml": {Data: []byte(`$ref: a.json`)}}
	_, err := scaffold.AddRoutes([]byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"},
		"servers": [{"url": "https://a.example.com"}], "paths": {"/a": {"$ref": "a.json"}}}`),
		scaffold.Options{Folder: folder, Name: "openapi.json"})
	if err == nil || !strings.Contains(err.Error(), "the path refers to itself") {
		t.Errorf("AddRoutes() error = %v, want one about a path that refers to itself", err)
	}
}

// TestOtherRoutesFilesAreNotJoined checks that WriteFiles refuses a folder that has a routes file of another name.
func TestOtherRoutesFilesAreNotJoined(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const other = "config/shop.oas.yaml"
	if err := os.MkdirAll(filepath.Join(dir, "config"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(other)), []byte("openapi: 3.1.0"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := scaffold.WriteFiles(dir, templateFiles(t, ""))
	if err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("WriteFiles() error = %v, want one with %s", err, other)
	}
}
