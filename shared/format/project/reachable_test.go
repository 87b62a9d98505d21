package project_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/router"
	"github.com/gatewright/gatewright/shared/format/paths"
	"github.com/gatewright/gatewright/shared/format/project"
)

// projectOf returns a project with a GET route for each path.
func projectOf(t testingT, settings string, templates ...string) project.Files {
	handler := map[string]any{
		"export": "urlForwardHandler", "module": "$import(@gatewright/runtime)",
		"options": map[string]any{"baseUrl": "https://up.example.com"},
	}
	items := map[string]any{}
	for _, template := range templates {
		item := map[string]any{"get": map[string]any{
			"responses":       map[string]any{"200": map[string]any{"description": "fine"}},
			"x-gateway-route": map[string]any{"handler": handler},
		}}
		if strings.ContainsAny(template, ":*") {
			item["x-gateway-path"] = map[string]any{"pathMode": "url-pattern"}
		}
		items[template] = item
	}
	routes, err := json.Marshal(map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "Test", "version": "1"},
		"paths": items,
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return project.Files{"config/routes.oas.json": routes, "gatewright.jsonc": []byte(settings)}
}

// testingT has the methods of *testing.T and *rapid.T that projectOf and withPolicies use.
type testingT interface {
	Fatalf(format string, args ...any)
}

const preserveSettings = `{"version": 1, "pathNormalisation": "preserve"}`

// withPolicies adds a separate policy to the route of each path.
func withPolicies(t testingT, files project.Files, templates ...string) project.Files {
	var doc map[string]any
	if err := json.Unmarshal(files["config/routes.oas.json"], &doc); err != nil {
		t.Fatalf("%v", err)
	}
	policies := []any{}
	for i, template := range templates {
		name := fmt.Sprintf("own-%d", i)
		operation := doc["paths"].(map[string]any)[template].(map[string]any)["get"].(map[string]any)
		operation["x-gateway-route"].(map[string]any)["policies"] = map[string]any{"inbound": []any{name}}
		policies = append(policies, map[string]any{"name": name, "policyType": "api-key-inbound", "handler": map[string]any{
			"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)",
		}})
	}
	for name, content := range map[string]any{
		"config/routes.oas.json": doc,
		"config/policies.json":   map[string]any{"policies": policies},
	} {
		data, err := json.Marshal(content)
		if err != nil {
			t.Fatalf("%v", err)
		}
		files[name] = data
	}
	return files
}

// TestReachableRoutesAreReported checks the build's warnings. For each interpretation of a generated
// path, the route that the router finds must have a warning if it is not the route of the path itself.
func TestReachableRoutesAreReported(t *testing.T) {
	compiler := project.NewCompiler()
	all := []string{
		"/", "/{a}", "/{a}/", "/{a}/{b}", "/v1/{a}", "/v1/{a}.json", "/v1/admin", "/v1/admin/{b}", "/v1/{a}/keys", "/admin",
		"/admin/x/y", "/{a}/x/{b}", "/v1/$/{a}",
		"/*", "/admin/*", "/v1/:a", "/v1/:a/:b", "/v1/admin/:a?", "/v1/%24/*", "/:a/x", "/v1/x",
		"/v1", "/admin;p", "/v1/x;p/{b}", "/x%2Fy/{a}",
	}
	segment := rapid.SampledFrom([]string{
		"v1", "admin", "x", "y", "keys", "$", "%24", "a.json", ";p", "x;p", "admin;p",
		"%3Bp", "%2F", "%2F", "%5C", "/", "/", "/", "%2F;",
	})
	rapid.Check(t, func(t *rapid.T) {
		templates := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 2, 8, rapid.ID).Draw(t, "templates")
		artifact, result, err := compiler.Compile(t.Context(), withPolicies(t, projectOf(t, preserveSettings, templates...),
			templates...), project.Input{Catalog: catalog{}})
		if err != nil {
			t.Fatal(err)
		}
		if len(result.Errors) > 0 {
			t.Fatalf("errors = %v, want none", result.Errors)
		}
		var r router.Router
		declared := artifact.Routes
		for i, route := range declared {
			if err := r.Add(route.Method, route.Path, route.PathMode, i); err != nil {
				t.Fatalf("Add(%s) error = %v, want none", route.Path, err)
			}
		}
		for range 50 {
			path, err := paths.Canonical("/" + strings.Join(rapid.SliceOfN(segment, 1, 7).Draw(t, "path"), ""))
			if err != nil {
				continue
			}
			var m router.Match
			from, ok := r.Find("GET", path, &m)
			if !ok {
				continue
			}
			for _, interpretation := range paths.Interpretations(path) {
				to, ok := r.Find("GET", interpretation, &m)
				if !ok || to == from {
					continue
				}
				if !slices.ContainsFunc(result.Warnings, func(p project.Problem) bool {
					return p.Path == declared[to].Source.Pointer
				}) {
					t.Fatalf("%s leads to %s, and %s to %s: warnings = %v, want one for the second route",
						path, declared[from].Path, interpretation, declared[to].Path, result.Warnings)
				}
			}
		}
	})
}

// TestPolicyBypassesAreReportedFirst checks the order of warnings: the warning about a
// route with a policy that can be bypassed comes before those about other reachable routes.
func TestPolicyBypassesAreReportedFirst(t *testing.T) {
	templates := []string{"/*", "/z/{a}", "/z/admin"}
	for i := range 40 {
		templates = append(templates, fmt.Sprintf("/%d/x", i))
	}
	files := withPolicies(t, projectOf(t, preserveSettings, templates...), "/z/admin")
	_, result, err := project.NewCompiler().Compile(t.Context(), files, project.Input{Catalog: catalog{}})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Errors) > 0 || len(result.Warnings) != 3 {
		t.Fatalf("result = %+v, want 3 warnings and no errors", result)
	}
	for i, want := range []project.Problem{
		{
			Path:    "/paths/~1z~1admin/get",
			Message: `reachable past its policy "own-0", through GET /* in config/routes.oas.json and 1 more`,
		},
		{
			Path: "/paths/~1*/get", Message: "Through this route GET /0/x, GET /1/x, GET /10/x and 38 more routes are reachable",
		},
		{Path: "/paths/~1z~1{a}/get", Message: "Through this route GET /* is reachable"},
	} {
		if got := result.Warnings[i]; got.Path != want.Path || !strings.Contains(got.Message, want.Message) {
			t.Errorf("warning %d is %+v, want %+v", i, got, want)
		}
	}
}

func TestUnreachableRoutesAreNotReported(t *testing.T) {
	for _, templates := range [][]string{
		{"/a", "/b/c", "/d/"},
		{"/a/{x}", "/b/{x}", "/b/{x}/c"},
		{"/a/{x}/b", "/a"},
		{"/admin/*", "/v1/{x}"},
	} {
		_, result, err := project.NewCompiler().Compile(t.Context(), projectOf(t, preserveSettings, templates...),
			project.Input{Catalog: catalog{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range result.Warnings {
			if !strings.Contains(w.Message, "/b/{x}") { // "/b/{x}" reaches "/b/{x}/c" if x is y%2Fc
				t.Errorf("%v: warning = %v, want only warnings of /b/{x}", templates, w)
			}
		}
	}
	_, result, err := project.NewCompiler().Compile(t.Context(), projectOf(t, `{"version": 1}`, "/{a}", "/{a}/{b}"),
		project.Input{Catalog: catalog{}})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Warnings)+len(result.Errors) > 0 {
		t.Errorf("result in strict mode = %v, want no errors and warnings", result)
	}
}

// TestRouteComparisonsAreBounded checks that the build of a project with too many routes to compare succeeds with a
// warning. The comparisons are bounded because projects are untrusted.
func TestRouteComparisonsAreBounded(t *testing.T) {
	var templates []string
	for i := range 1500 {
		templates = append(templates, fmt.Sprintf("/{a}/{b}/{c}/{d}/{e}/%d", i))
	}
	artifact, result, err := project.NewCompiler().Compile(t.Context(), projectOf(t, preserveSettings, templates...),
		project.Input{Catalog: catalog{}})
	if err != nil {
		t.Fatal(err)
	}
	if artifact == nil || len(result.Warnings) == 0 || !slices.ContainsFunc(result.Warnings, func(p project.Problem) bool {
		return p.File == "gatewright.jsonc" && strings.Contains(p.Message, "too many")
	}) {
		t.Errorf("artifact %v, %d warnings, first %v, want an artifact and \"too many\" in gatewright.jsonc",
			artifact != nil, len(result.Warnings), result.Warnings[:min(1, len(result.Warnings))])
	}
}
