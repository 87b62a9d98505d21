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

func files(t *testing.T, upstream string) map[string][]byte {
	t.Helper()
	all, err := scaffold.Files(upstream)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// valid validates a folder that is made of files.
func valid(t *testing.T, all map[string][]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new")
	if err := scaffold.Make(dir, all); err != nil {
		t.Fatal(err)
	}
	of, err := folder.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	result, err := validate.New().Folder(t.Context(), of, validate.Options{})
	if err != nil || len(result.Errors) > 0 || len(result.Warnings) > 0 {
		t.Errorf("of it a deploy would say %v %v, %v", result.Errors, result.Warnings, err)
	}
}

func TestTemplateIsAProject(t *testing.T) {
	t.Parallel()
	for _, upstream := range []string{"", "http://127.0.0.1:8080", `https://upstream.example.com/a"b`} {
		all := files(t, upstream)
		if upstream == "" {
			upstream = scaffold.DefaultUpstream
		}
		quoted, _ := json.Marshal(upstream)
		if !strings.Contains(string(all[scaffold.RoutesFile]), `"baseUrl": `+string(quoted)) || strings.Contains(string(all[scaffold.RoutesFile]), `"UPSTREAM"`) {
			t.Errorf("it forwards elsewhere than to %s: %s", upstream, all[scaffold.RoutesFile])
		}
		valid(t, all)
	}
	for _, upstream := range []string{"upstream.example.com", "ftp://x", "https://u:p@x", "https://x?y", "https://x#y", "https://"} {
		if _, err := scaffold.Files(upstream); exit.Of(err) != exit.Usage || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s is taken: %v", upstream, err)
		}
	}
}

const described = `
# an API
openapi: 3.0.3
info: {title: Shop, version: "1.10", x-number: 1.50}
servers: [{url: "/v1"}, {url: "https://{region}.example.com"}, {url: https://shop.example.com/v1/}]
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

func TestDescriptionBecomesRoutes(t *testing.T) {
	t.Parallel()
	text, routes, err := scaffold.Describe([]byte(described), "")
	if err != nil || routes != 3 {
		t.Fatalf("%d routes, %v", routes, err)
	}
	for _, want := range []string{`"x-number": 1.50`, `"version": "1.10"`, `"openapi": "3.0.3"`, `"https://shop.example.com/v1"`, `"https://other.example.com"`, `"200": {`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("it has no %s: %s", want, text)
		}
	}
	if strings.Index(string(text), `"x-more"`) > strings.Index(string(text), `"/items/{id}"`) || strings.Index(string(text), `"/items/{id}"`) > strings.Index(string(text), `"/items":`) {
		t.Errorf("it is in another order: %s", text)
	}
	all := files(t, "")
	all[scaffold.RoutesFile] = text
	delete(all, scaffold.PoliciesFile)
	valid(t, all)
	again, more, err := scaffold.Describe([]byte(described), "https://mine.example.com")
	if err != nil || more != 3 || strings.Count(string(again), "https://mine.example.com") != 3 {
		t.Errorf("with an upstream: %d routes, %v", more, err)
	}
	// A description in JSON that was YAML is the same but for the routes.
	var before, after map[string]any
	if err := errors.Join(yaml.Unmarshal([]byte(described), &before), json.Unmarshal(text, &after)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before["info"], after["info"]) {
		t.Errorf("info is %v, and was %v", after["info"], before["info"])
	}
}

func TestWhatIsNoDescriptionIsRefused(t *testing.T) {
	t.Parallel()
	bomb := "openapi: 3.1.0\na0: &a0 [x]\n"
	bomb += "a1: &a1 [*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0,*a0]\na2: &a2 [*a1,*a1,*a1,*a1,*a1,*a1,*a1,*a1,*a1,*a1]\na3: &a3 [*a2,*a2,*a2,*a2,*a2,*a2,*a2,*a2,*a2,*a2]\n" +
		"a4: &a4 [*a3,*a3,*a3,*a3,*a3,*a3,*a3,*a3,*a3,*a3]\na5: &a5 [*a4,*a4,*a4,*a4,*a4,*a4,*a4,*a4,*a4,*a4]\na6: &a6 [*a5,*a5,*a5,*a5,*a5,*a5,*a5,*a5,*a5,*a5]\na7: [*a6,*a6,*a6,*a6,*a6,*a6,*a6,*a6,*a6,*a6]\n"
	for name, text := range map[string]string{
		"nothing": "", "another thing": "hello", "a list": "[]", "torn": `{"openapi": "3.1.0",`, "Swagger": `{"swagger": "2.0"}`, "no paths": `{"openapi": "3.1.0"}`,
		"paths that are a list": `{"openapi": "3.1.0", "servers": [{"url": "https://x"}], "paths": []}`, "a path that is a text": `{"openapi": "3.1.0", "servers": [{"url": "https://x"}], "paths": {"/a": "b"}}`,
		"an operation that is a list": `{"openapi": "3.1.0", "servers": [{"url": "https://x"}], "paths": {"/a": {"get": []}}}`,
		"names twice":                 `{"openapi": "3.1.0", "openapi": "3.1.0"}`, "a bomb": bomb, "a part of itself": "openapi: 3.1.0\nservers: [{url: https://x}]\npaths: &p {/a: {get: *p}}",
		"odd names": "openapi: 3.1.0\n? [a]\n: b\n", "no server": `{"openapi": "3.1.0", "servers": [{"url": "/v1"}], "paths": {"/a": {"get": {}}}}`,
	} {
		if got, _, err := scaffold.Describe([]byte(text), ""); err == nil || got != nil || exit.Of(err) == exit.Failure {
			t.Errorf("%s is taken: %.100s, %v", name, got, err)
		}
	}
}

func TestNothingIsWrittenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "gatewright.jsonc")
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := scaffold.Make(dir, files(t, ""))
	if exit.Of(err) != exit.Conflict || !strings.Contains(err.Error(), "gatewright.jsonc") {
		t.Errorf("it ends with %v", err)
	}
	text, err := os.ReadFile(path)
	left, globbed := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || globbed != nil || string(text) != "mine" || len(left) != 1 {
		t.Errorf("there are %v, and the file has %q: %v", left, text, err)
	}
	// A link that leads nowhere is there too.
	dir = t.TempDir()
	if err := os.Symlink(filepath.Join(t.TempDir(), "elsewhere"), filepath.Join(dir, "gatewright.jsonc")); err != nil {
		t.Skip(err)
	}
	if err := scaffold.Make(dir, files(t, "")); exit.Of(err) != exit.Conflict {
		t.Errorf("through a link it ends with %v", err)
	}
}

// TestAllFilesAreMadeOrNone has a file stand where a folder has to be, in a folder that is there and in one that is made for the files.
func TestAllFilesAreMadeOrNone(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{".", "new", "new/deep"} {
		dir := t.TempDir()
		all := files(t, "")
		all["zzz"], all["zzz/below"] = []byte("x"), []byte("x")
		if err := scaffold.Make(filepath.Join(dir, folder), all); err == nil {
			t.Fatal("a file is made below a file")
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 {
			t.Errorf("in %s %v is left, %v", folder, left, err)
		}
	}
}
