package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/project"
)

// anyPolicy knows all policies.
type anyPolicy struct{ catalogue }

func (anyPolicy) CheckPolicy(project.Policy) []project.Problem { return nil }

// TestGraphQLRoutesAreTagged by hand or by a policy, and refused where nobody could call them.
func TestGraphQLRoutesAreTagged(t *testing.T) {
	policies := func(types ...string) []byte {
		var all []string
		for _, name := range types {
			all = append(all, fmt.Sprintf(`{"name": %q, "policyType": %q, "handler": {"export": "x", "module": "$import(@gatewright/graphql)", "options": {}}}`, name, strings.TrimSuffix(name, "-2")))
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
		path, says                           string // of an error
	}{
		"neither":               {"post", "", "", "", false, "", ""},
		"by hand":               {"post", `"x-graphql": true,`, "", "", true, "", ""},
		"by hand, and not":      {"post", `"x-graphql": false,`, "", "", false, "", ""},
		"by an inbound policy":  {"post", "", limit, "", true, "", ""},
		"by an outbound policy": {"post", "", "", filter, true, "", ""},
		"whatever it says":      {"post", `"x-graphql": false,`, limit, "", true, "", ""},
		"no truth value":        {"post", `"x-graphql": "yes",`, "", "", false, "/post/x-graphql", "Write true"},
		"by GET":                {"get", `"x-graphql": true,`, "", "", false, "/get", "called with POST"},
		"a policy by PUT":       {"put", "", limit, "", false, "/put", "called with POST"},
		"two filters":           {"post", "", "", filter + `","` + filter + "-2", false, "/post/x-gateway-route/policies/outbound", "into one"},
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
				"config/routes.oas.json": []byte(fmt.Sprintf(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/graphql": {%q: {%s
					"responses": {"200": {"description": "d"}},
					"x-gateway-route": {"handler": {"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)", "options": {"rewritePattern": "https://up.example.com"}},
					"policies": {"inbound": %s, "outbound": %s}}}}}}`, test.method, test.extension, list(test.inbound), list(test.outbound))),
			}
			artifact, result := compile(t, files, project.Input{Catalogue: anyPolicy{}})
			if test.says != "" {
				if len(result.Errors) != 1 || result.Errors[0].Path != "/paths/~1graphql"+test.path || !strings.Contains(result.Errors[0].Message, test.says) {
					t.Errorf("errors %+v", result.Errors)
				}
				return
			}
			if len(result.Errors) > 0 || artifact.Routes[0].GraphQL != test.tagged {
				t.Errorf("%+v", result.Errors)
			}
		})
	}
}

// TestToolsThatAreAlwaysRefusedAreTold: one that introspects, on a route of which a policy forbids that.
func TestToolsThatAreAlwaysRefusedAreTold(t *testing.T) {
	const closed = "graphql-disable-introspection-inbound"
	for kind, want := range map[string]int{"graphql": 1, "tool": 0} {
		_, result := compile(t, project.Files{
			"config/policies.json": []byte(`{"policies": [{"name": "closed", "policyType": "` + closed + `", "handler": {"export": "x", "module": "$import(@gatewright/graphql)"}}]}`),
			"config/routes.oas.json": []byte(`{"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {
				"/mcp": {"post": {"responses": {"default": {"description": "d"}}, "x-gateway-route": {
					"handler": {"export": "mcpServerHandler", "module": "$import(@gatewright/runtime)", "options": {"operations": [{"file": "config/routes.oas.json", "id": "shop"}]}}}}},
				"/graphql": {"post": {"operationId": "shop", "responses": {"default": {"description": "d"}}, "x-gateway-route": {
					"handler": {"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)", "options": {"rewritePattern": "https://up.example.com"}},
					"policies": {"inbound": ["closed"]}, "mcp": {"type": "` + kind + `"}}}}}}`),
		}, project.Input{Catalogue: anyPolicy{}})
		if len(result.Errors) > 0 || len(result.Warnings) != want || want > 0 && !strings.Contains(result.Warnings[0].Message, `the policy "closed"`) {
			t.Errorf("%s: %+v", kind, result)
		}
	}
}
