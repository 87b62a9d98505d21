package scaffold_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/scaffold"
	"github.com/gatewright/gatewright/client/validate"
)

func templateFiles(t *testing.T, upstream string) map[string][]byte {
	t.Helper()
	all, err := scaffold.TemplateFiles(upstream)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkValid writes files to a folder, and checks that the project is valid.
func checkValid(t *testing.T, all map[string][]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	if err := scaffold.WriteFiles(dir, all); err != nil {
		t.Fatal(err)
	}
	p, err := folder.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	result, err := validate.New().Folder(t.Context(), p, validate.Options{})
	if err != nil || len(result.Errors) > 0 || len(result.Warnings) > 0 {
		t.Errorf("Folder() = errors %v, warnings %v, %v, want none", result.Errors, result.Warnings, err)
	}
}

func TestTemplateIsValid(t *testing.T) {
	t.Parallel()
	for _, upstream := range []string{"", "http://127.0.0.1:8080", `https://upstream.example.com/a"b`} {
		all := templateFiles(t, upstream)
		if upstream == "" {
			upstream = scaffold.DefaultUpstream
		}
		quoted, _ := json.Marshal(upstream)
		if !strings.Contains(string(all[scaffold.RoutesFile]), `"baseUrl": `+string(quoted)) ||
			strings.Contains(string(all[scaffold.RoutesFile]), `"UPSTREAM"`) {
			t.Errorf("TemplateFiles(%s) has the routes %s, want this baseUrl", upstream, all[scaffold.RoutesFile])
		}
		checkValid(t, all)
	}
	for _, upstream := range []string{
		"upstream.example.com", "ftp://x", "https://u:p@x", "https://x?y", "https://x#y",
		"https://",
	} {
		if _, err := scaffold.TemplateFiles(upstream); exit.CodeOf(err) != exit.Usage ||
			strings.Contains(err.Error(), "u:p") {
			t.Errorf("TemplateFiles(%s) error = %v, want code %d without the password", upstream, err, exit.Usage)
		}
	}
}

const sampleDescription = `
# an API
openapi: 3.0.3
info: {title: Shop, version: "1.10", x-number: 1.50}
servers: [{url: "/v1"}, {url: "ftp://shop.example.com"}, {url: https://shop.example.com/v1/}]
x-any: &any [1, 0x10, null, true, "yes"]
paths:
  x-more: *any
  /items/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: item, responses: {200: {description: An item}}}
    put:
      responses: {"204": {description: Done}}
      x-gateway-route: {handler: {export: urlForwardHandler, module: $import(@gatewright/runtime), options: {baseUrl: "https://other.example.com"}}}
  /items: {get: {responses: {default: {description: Items}}}, post: {responses: {201: {description: Made}}}}
`

func TestAddRoutes(t *testing.T) {
	t.Parallel()
	routes, err := scaffold.AddRoutes([]byte(sampleDescription), scaffold.Options{})
	text := routes.Text
	if err != nil || routes.Added != 3 {
		t.Fatalf("AddRoutes() = %d routes, %v, want 3", routes.Added, err)
	}
	for _, want := range []string{
		`"x-number": 1.50`, `"version": "1.10"`, `"openapi": "3.0.3"`,
		`"https://shop.example.com/v1"`, `"https://other.example.com"`, `"200": {`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("AddRoutes() = %s, want %s in it", text, want)
		}
	}
	if strings.Index(string(text), `"x-more"`) > strings.Index(string(text), `"/items/{id}"`) ||
		strings.Index(string(text), `"/items/{id}"`) > strings.Index(string(text), `"/items":`) {
		t.Errorf("AddRoutes() = %s, want the order of the description", text)
	}
	all := templateFiles(t, "")
	scaffold.UseDescription(all, routes)
	checkValid(t, all)
	withUpstream, err := scaffold.AddRoutes([]byte(sampleDescription),
		scaffold.Options{Upstream: "https://mine.example.com"})
	if err != nil || withUpstream.Added != 3 ||
		strings.Count(string(withUpstream.Text), `"https://mine.example.com/v1"`) != 3 {
		t.Errorf("AddRoutes() with an upstream = %d routes, %v, %s, want 3 routes to it", withUpstream.Added, err,
			withUpstream.Text)
	}
	// The member info must have the same values as in the YAML description.
	var before, after map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(sampleDescription), &before), json.Unmarshal(text, &after)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before["info"], after["info"]) {
		t.Errorf("AddRoutes(): info = %v, want %v", after["info"], before["info"])
	}
}

func TestInvalidDescriptionIsRefused(t *testing.T) {
	t.Parallel()
	bomb := "openapi: 3.1.0\na0: &a0 [x]\n"
	bomb += "a1: &a1 [*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0]\na2: &a2 [*a1,*a1,*a1,*a1,*a1,*a1,*a1,*a1,*a1,*a1]\na3: " +
		"&a3 [*a2,*a2,*a2,*a2,*a2,*a2,*a2,*a2,*a2,*a2]\n" +
		"a4: &a4 [*a3,*a3,*a3,*a3,*a3,*a3,*a3,*a3,*a3,*a3]\na5: &a5 [*a4,*a4,*a4,*a4,*a4,*a4,*a4,*a4,*a4,*a4]\na6: &a6 " +
		"[*a5,*a5,*a5,*a5,*a5,*a5,*a5,*a5,*a5,*a5]\na7: [*a6,*a6,*a6,*a6,*a6,*a6,*a6,*a6,*a6,*a6]\n"
	for name, text := range map[string]string{
		"empty file": "", "text": "hello", "a list": "[]", "truncated JSON": `{"openapi": "3.1.0",`,
		"Swagger": `{"swagger": "2.0"}`, "no paths": `{"openapi": "3.1.0"}`,
		"list as paths":  `{"openapi": "3.1.0", "servers": [{"url": "https://x"}], "paths": []}`,
		"text as a path": `{"openapi": "3.1.0", "servers": [{"url": "https://x"}], "paths": {"/a": "b"}}`,
		"list as an operation": `{"openapi": "3.1.0", "servers": [{"url": "https://x"}], ` +
			`"paths": {"/a": {"get": []}}}`,
		"duplicate members": `{"openapi": "3.1.0", "openapi": "3.1.0"}`, "YAML bomb": bomb,
		"recursive alias":         "openapi: 3.1.0\nservers: [{url: https://x}]\npaths: &p {/a: {get: *p}}",
		"list as a member's name": "openapi: 3.1.0\n? [a]\n: b\n",
		"no server":               `{"openapi": "3.1.0", "servers": [{"url": "/v1"}], "paths": {"/a": {"get": {}}}}`,
	} {
		got, err := scaffold.AddRoutes([]byte(text), scaffold.Options{})
		if err == nil || got.Text != nil || exit.CodeOf(err) == exit.Failure {
			t.Errorf("%s: AddRoutes() = %.100s, %v, want no text and another code than %d", name, got.Text, err, exit.Failure)
		}
	}
}

func TestExistingFileIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gatewright.jsonc")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := scaffold.WriteFiles(dir, templateFiles(t, ""))
	if exit.CodeOf(err) != exit.Conflict || !strings.Contains(err.Error(), "gatewright.jsonc") {
		t.Errorf("WriteFiles() over an existing file: error = %v, want code %d and its name", err, exit.Conflict)
	}
	text, err := os.ReadFile(path)
	remaining, globErr := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || globErr != nil || string(text) != "mine" || len(remaining) != 1 {
		t.Errorf("after WriteFiles() the folder has %v, and the file has %q (errors %v, %v), want only the file with %q",
			remaining, text, err, globErr, "mine")
	}
	// A broken link counts as an existing file.
	dir = t.TempDir()
	if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(dir, "gatewright.jsonc")); err != nil {
		t.Skip(err)
	}
	if err := scaffold.WriteFiles(dir, templateFiles(t, "")); exit.CodeOf(err) != exit.Conflict {
		t.Errorf("WriteFiles() through a link: error = %v, want code %d", err, exit.Conflict)
	}
}

// TestWriteFilesIsAtomic checks that WriteFiles leaves no files if it fails, in an existing and in a new folder. It
// fails because a file has the path of another file's folder.
func TestWriteFilesIsAtomic(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{".", "new", "new/deep"} {
		dir := t.TempDir()
		all := templateFiles(t, "")
		all["zzz"], all["zzz/below"] = []byte("x"), []byte("x")
		if err := scaffold.WriteFiles(filepath.Join(dir, folder), all); err == nil {
			t.Fatal("WriteFiles() with a file below a file succeeds, want an error")
		}
		remaining, err := os.ReadDir(dir)
		if err != nil || len(remaining) > 0 {
			t.Errorf("failed WriteFiles() to %q leaves %v, %v, want no files", folder, remaining, err)
		}
	}
}
