package scaffold_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/scaffold"
)

// TestReferencedPathItemsAreWrittenOut checks that a path that refers to a path item gets the item's operations with
// routes, that its own members replace them, and that operation ids stay unique.
func TestReferencedPathItemsAreWrittenOut(t *testing.T) {
	t.Parallel()
	const text = `
openapi: 3.1.0
info: {title: t, version: "1"}
servers: [{url: "https://a.example.com"}]
paths:
  /a: {$ref: '#/components/pathItems/A'}
  /b: {$ref: '#/paths/~1c~1%7Bid%7D', parameters: [{name: q, in: query, schema: {type: string}}]}
  /c/{id}:
    parameters: [{name: id, in: path, required: true, schema: {type: string}}]
    get: {operationId: c, responses: {default: {description: d}}}
  /d: {$ref: '#/components/pathItems/B', get: {operationId: own, responses: {default: {description: d}}}}
  /e: {$ref: '#/components/pathItems/A'}
components:
  pathItems:
    A:
      servers: [{url: "https://items.example.com"}]
      get: {operationId: item, responses: {default: {description: d}}}
    B: {$ref: '#/components/pathItems/C'}
    C:
      get: {operationId: replaced, responses: {default: {description: d}}}
      put: {operationId: put, responses: {default: {description: d}}}
`
	got, err := scaffold.AddRoutes([]byte(text), scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"get /a": "https://items.example.com", "get /b": "https://a.example.com", "get /c/{id}": "https://a.example.com",
		"get /d": "https://a.example.com", "put /d": "https://a.example.com", "get /e": "https://items.example.com",
	}
	if urls := baseURLs(t, got.Text); !maps.Equal(urls, want) || got.Added != len(want) {
		t.Errorf("AddRoutes() = %d routes to %v, want %v", got.Added, urls, want)
	}
	notes := []string{
		"line 7 (/paths/~1b): the copied operation get has no operationId, because another operation has c already",
		"line 12 (/paths/~1e): the copied operation get has no operationId, because another operation has item " +
			"already",
	}
	if !slices.Equal(got.Notes, notes) {
		t.Errorf("AddRoutes() notes = %q, want %q", got.Notes, notes)
	}
	all := templateFiles(t, "")
	scaffold.UseDescription(all, got)
	checkValid(t, all)
}

// TestReferenceThatCannotBeWrittenOutStays checks references that AddRoutes does not follow, and a cycle.
func TestReferenceThatCannotBeWrittenOutStays(t *testing.T) {
	t.Parallel()
	const text = `{"openapi": "3.1.0", "servers": [{"url": "https://a"}], "paths": {"/a": {"get": {}}, "/b": {"$ref": %q}},
 "components": {"pathItems": {"A": {"$ref": "#/components/pathItems/B"}, "B": {"$ref": "#/components/pathItems/A"}}}}`
	for _, ref := range []string{"other.json#/a", "#/components/pathItems/none", "#/openapi", "#", "#/%zz"} {
		got, err := scaffold.AddRoutes(fmt.Appendf(nil, text, ref), scaffold.Options{})
		if err != nil || !strings.Contains(string(got.Text), fmt.Sprintf(`"$ref": %q`, ref)) || got.Added != 1 {
			t.Errorf("AddRoutes() with the reference %s = %d routes, %s, %v, want 1 route and the reference", ref, got.Added,
				got.Text, err)
		}
	}
	_, err := scaffold.AddRoutes(fmt.Appendf(nil, text, "#/components/pathItems/A"), scaffold.Options{})
	if exit.CodeOf(err) != exit.Invalid ||
		!strings.Contains(fmt.Sprint(err), "line 1 (/paths/~1b): the path refers to itself") {
		t.Errorf("AddRoutes() with a cycle = %v, want code %d and its place", err, exit.Invalid)
	}
}

// TestOperationsOfOpenAPI32BecomeRoutes checks the operations that OpenAPI 3.2 adds. In earlier versions, the same
// members are no operations.
func TestOperationsOfOpenAPI32BecomeRoutes(t *testing.T) {
	t.Parallel()
	const text = `
openapi: %s
servers: [{url: "https://a.example.com"}]
paths:
  /a:
    get: {}
    query: {}
    additionalOperations:
      COPY: {servers: [{url: "https://copy.example.com"}]}
      LINK: {}
`
	want := map[string]string{
		"get /a": "https://a.example.com", "query /a": "https://a.example.com", "LINK /a": "https://a.example.com",
		"COPY /a": "https://copy.example.com",
	}
	got, err := scaffold.AddRoutes(fmt.Appendf(nil, text, "3.2.0"), scaffold.Options{})
	if err != nil || got.Added != 4 || !maps.Equal(baseURLs(t, got.Text), want) {
		t.Errorf("AddRoutes() of 3.2 = %d routes, %s, %v, want %v", got.Added, got.Text, err, want)
	}
	got, err = scaffold.AddRoutes(fmt.Appendf(nil, text, "3.1.0"), scaffold.Options{})
	if err != nil || got.Added != 1 {
		t.Errorf("AddRoutes() of 3.1 = %d routes, %s, %v, want 1", got.Added, got.Text, err)
	}
	_, err = scaffold.AddRoutes([]byte(strings.Replace(fmt.Sprintf(text, "3.2.0"), "LINK: {}", "LINK: []", 1)),
		scaffold.Options{})
	if exit.CodeOf(err) != exit.Invalid || !strings.Contains(fmt.Sprint(err), "line 8") {
		t.Errorf("AddRoutes() with a list as an operation = %v, want code %d and its line", err, exit.Invalid)
	}
}
