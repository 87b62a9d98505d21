package scaffold_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/client/scaffold"
)

// TestOperationsWithInputAreValidated checks that exactly the routes of operations with input have the policy that validates
// requests, after all other policies. It also checks a security scheme with the usual name of this policy.
func TestOperationsWithInputAreValidated(t *testing.T) {
	t.Parallel()
	const description = `{
  "openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "servers": [{"url": "https://up.example.com"}],
  "security": [{"validate-requests": []}, {"other": []}],
  "paths": {
    "/none": {"get": {"responses": {"200": {"description": ""}}}},
    "/query": {"get": {"parameters": [{"name": "q", "in": "query", "schema": {"type": "string"}}],
      "responses": {"200": {"description": ""}}}},
    "/item": {"parameters": [{"name": "h", "in": "header", "schema": {"type": "string"}}],
      "get": {"responses": {"200": {"description": ""}}}},
    "/body": {"post": {"requestBody": {"content": {"application/json": {}}},
      "responses": {"200": {"description": ""}}}},
    "/path/{id}": {"get": {"parameters": [
        {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
      "security": [], "responses": {"200": {"description": ""}}}}
  },
  "components": {"securitySchemes": {
    "validate-requests": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "other": {"type": "http", "scheme": "bearer"}
  }}
}`
	routes, err := scaffold.AddRoutes([]byte(description), scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const key, check = "validate-requests", "validate-requests-2"
	want := map[string][]string{
		"/none": {key}, "/query": {key, check}, "/item": {key, check}, "/body": {key, check}, "/path/{id}": {check},
	}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(routes.Text, &document); err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths {
		for _, method := range []string{"get", "post"} {
			var operation struct {
				Route struct {
					Policies struct{ Inbound []string }
				} `json:"x-gateway-route"`
			}
			if item[method] == nil {
				continue
			}
			if err := json.Unmarshal(item[method], &operation); err != nil {
				t.Fatal(err)
			}
			if got := operation.Route.Policies.Inbound; !slices.Equal(got, want[path]) {
				t.Errorf("inbound policies of %s = %q, want %q", path, got, want[path])
			}
		}
	}
	all := templateFiles(t, "")
	scaffold.UseDescription(all, routes)
	checkValid(t, all)
}
