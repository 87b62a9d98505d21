package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// anyPolicy accepts all policies.
type anyPolicy struct{ catalog }

func (anyPolicy) CheckPolicy(project.Policy) []project.Problem { return nil }

// TestGraphQLRoutesAreTagged checks routes that are GraphQL routes because of the
// extension or of a policy, and that GraphQL routes that no client could call are refused.
func TestGraphQLRoutesAreTagged(t *testing.T) {
	policies := func(types ...string) []byte {
		var all []string
		for _, name := range types {
			all = append(all,
				fmt.Sprintf(
					`{"name": %q, "policyType": %q, "handler": {"export": "x", "module": "$import(@gatewright/graphql)",`+
						` "options": {}}}`, name, strings.TrimSuffix(name, "-2")))
		}
		return []byte(`{"policies": [` + strings.Join(all, ",") + `]}`)
	}
	const (
		limit  = "graphql-complexity-limit-inbound"
		filter = "graphql-introspection-filter-outbound"
	)
	for name, test := range map[string]struct {
		method, extension, inbound, outbound string
		tagged                               bool
		path, message                        string // of the expected error
	}{
		"no x-graphql":                              {"post", "", "", "", false, "", ""},
		"x-graphql is true":                         {"post", `"x-graphql": true,`, "", "", true, "", ""},
		"x-graphql is false":                        {"post", `"x-graphql": false,`, "", "", false, "", ""},
		"an inbound policy":                         {"post", "", limit, "", true, "", ""},
		"an outbound policy":                        {"post", "", "", filter, true, "", ""},
		"an inbound policy, and x-graphql is false": {"post", `"x-graphql": false,`, limit, "", true, "", ""},
		"x-graphql is a string": {
			"post", `"x-graphql": "yes",`, "", "", false, "/post/x-graphql", "Write true",
		},
		"x-graphql on a GET route":        {"get", `"x-graphql": true,`, "", "", false, "/get", "called with POST"},
		"a GraphQL policy on a PUT route": {"put", "", limit, "", false, "/put", "called with POST"},
		"two filters": {
			"post", "", "", filter + `","` + filter + "-2", false, "/post/x-gateway-route/policies/outbound", "into one",
		},
	} {
		t.Run(name, func(t *testing.T) {
			list := func(names string) string {
				if names == "" {
					return "[]"
				}
				return `["` + names + `"]`
			}
			files := project.Files{
				"config/policies.json": policies(limit, filter, filter+"-2"),
				"config/routes.oas.json": []byte(
					fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/graphql": {%q: {%s
					"responses": {"200": {"description": "d"}},
					"x-gateway-route": {"handler": {"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)",
						"options": {"rewritePattern": "https://up.example.com"}},
					"policies": {"inbound": %s, "outbound": %s}}}}}}`,
						test.method, test.extension, list(test.inbound), list(test.outbound))),
			}
			artifact, result := compile(t, files, project.Input{Catalog: anyPolicy{}})
			if test.message != "" {
				if len(result.Errors) != 1 || result.Errors[0].Path != "/paths/~1graphql"+test.path ||
					!strings.Contains(result.Errors[0].Message, test.message) {
					t.Errorf("errors = %+v, want one at /paths/~1graphql%s with %q", result.Errors, test.path, test.message)
				}
				return
			}
			if len(result.Errors) > 0 || artifact.Routes[0].GraphQL != test.tagged {
				t.Errorf("errors = %+v, want none and a route tagged GraphQL = %v", result.Errors, test.tagged)
			}
		})
	}
}

// TestUselessIntrospectionToolIsReported checks an introspection tool on a route with a policy that forbids
// introspection.
func TestUselessIntrospectionToolIsReported(t *testing.T) {
	const closed = "graphql-disable-introspection-inbound"
	for kind, want := range map[string]int{"graphql": 1, "tool": 0} {
		_, result := compile(t, project.Files{
			"config/policies.json": []byte(`{"policies": [{"name": "closed", "policyType": "` +
				closed + `", "handler": {"export": "x", "module": "$import(@gatewright/graphql)"}}]}`),
			"config/routes.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
				"/mcp": {"post": {"responses": {"default": {"description": "d"}}, "x-gateway-route": {
					"handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)",
						"options": {"operations": [{"file": "config/routes.oas.json", "id": "shop"}]}}}}},
				"/graphql": {"post": {"operationId": "shop", "responses": {"default": {"description": "d"}}, "x-gateway-route": {
					"handler": {"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)",
						"options": {"rewritePattern": "https://up.example.com"}},
					"policies": {"inbound": ["closed"]}, "mcp": {"type": "` + kind + `"}}}}}}`),
		}, project.Input{Catalog: anyPolicy{}})
		if len(result.Errors) > 0 || len(result.Warnings) != want || want > 0 && !strings.Contains(result.Warnings[0].Message,
			`the policy "closed"`) {
			t.Errorf("%s: result = %+v, want %d warnings of the policy closed and no errors", kind, result, want)
		}
	}
}
