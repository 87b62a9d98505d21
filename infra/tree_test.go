package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/management/api"
)

// pathVariable matches a variable in a path, with any name.
var pathVariable = regexp.MustCompile(`\{[^}]*\}`)

// shapeOf returns a path without the names of its variables.
func shapeOf(path string) string { return pathVariable.ReplaceAllString(path, "{}") }

// placementsOf returns the place of each path and method of an API's tree: its logical id, its path, and the stack of a
// method. The keys have no names of variables.
func placementsOf(routes []route) map[string]string {
	out := map[string]string{}
	for _, r := range routes {
		out[r.method+" "+shapeOf(r.path)] = fmt.Sprint(methodsStackOf(r.path), " ", methodID(r), " of ", r.path)
		for path := r.path; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
			out[shapeOf(path)] = fmt.Sprint(pathID(path), " ", path)
		}
	}
	return out
}

// rearrange returns the declarations of specs in a random order. It renames parameters, removes some operations, and
// adds a function with others.
func rearrange(rt *rapid.T, specs []functionSpec) []functionSpec {
	out := rapid.Permutation(specs).Draw(rt, "groups")
	for i, f := range out {
		if len(f.routes) == 0 {
			continue
		}
		operations := rapid.Permutation(f.routes).Draw(rt, "operations of "+f.name)
		operations = operations[rapid.IntRange(0, min(2, len(operations))).Draw(rt, "removed of "+f.name):]
		for n, o := range operations {
			if o.SlashParameter == "" && rapid.Bool().Draw(rt, "renamed") {
				operations[n].Path = pathVariable.ReplaceAllString(o.Path, "{renamed}")
			}
		}
		out[i].routes = operations
	}
	added := functionSpec{name: "added"}
	for n := range rapid.IntRange(0, 3).Draw(rt, "number of added operations") {
		parent := rapid.SampledFrom([]string{
			"/v1", "/v1/accounts/{anotherName}",
			"/v1/accounts/{a}/key-buckets/{b}/consumers/{c}", "/v1/metering/{m}/plans/{p}", "/docs/{d}",
		}).Draw(rt, "parent of an added path")
		added.routes = append(added.routes, api.Declaration{
			ID: fmt.Sprintf("added_%d", n), Method: "GET",
			Path: fmt.Sprintf("%s/added-%d/{id}", parent, n),
		})
	}
	return slices.Insert(out, rapid.IntRange(0, len(out)).Draw(rt, "place of the added function"), added)
}

// TestOperationsDoNotMoveOtherPaths checks that the names, stacks and logical ids of paths do not depend on other
// operations.
func TestOperationsDoNotMoveOtherPaths(t *testing.T) {
	specs := functionSpecs(settingsFor(t, minimalContext(nil)))
	routes, err := routesOf(specs)
	if err != nil {
		t.Fatal(err)
	}
	before := placementsOf(routes)
	rapid.Check(t, func(rt *rapid.T) {
		routes, err := routesOf(rearrange(rt, specs))
		if err != nil {
			rt.Fatal(err)
		}
		after := placementsOf(routes)
		common := 0
		for key, placement := range after {
			if before[key] != "" {
				common++
			}
			if before[key] != "" && before[key] != placement {
				rt.Errorf("%s is %s, want %s as before", key, placement, before[key])
			}
		}
		if common < len(before)/2 {
			rt.Fatalf("%d of %d places remain, want at least half: otherwise the property proves nothing", common, len(before))
		}
	})
}

// withFunction returns a function with these operations, and creates its asset folder.
func (s Settings) withFunction(t *testing.T, name string, operations ...api.Declaration) functionSpec {
	t.Helper()
	if err := os.MkdirAll(s.assetFolder(name), 0o700); err != nil {
		t.Fatal(err)
	}
	return functionSpec{name: name, timeout: requestTimeout, memoryMB: 128, routes: operations}
}

// apiResourceJSON returns the properties of all resources of API Gateway except deployments, by stack and logical id.
func (a assembly) apiResourceJSON() map[string]string {
	out := map[string]string{}
	for file, stack := range a.stacks {
		for id, r := range stack.Resources {
			if strings.HasPrefix(r.Type, "AWS::ApiGateway::") && r.Type != "AWS::ApiGateway::Deployment" {
				raw, _ := json.Marshal(r.Properties)
				out[file+" "+id] = string(raw)
			}
		}
	}
	return out
}

// TestOrderOfDeclarationsChangesNothing checks that the resources of both APIs do not depend on the order of
// declarations, even if two functions share a path.
func TestOrderOfDeclarationsChangesNothing(t *testing.T) {
	s := settingsFor(t, minimalContext(nil))
	a, specs := withAddedFunctions(t)
	before := a.apiResourceJSON()
	slices.Reverse(specs)
	for i, f := range specs {
		writeAsset(t, s, f.name)
		specs[i].routes = slices.Clone(f.routes)
		slices.Reverse(specs[i].routes)
	}
	after := synthesizeWith(t, s, specs).apiResourceJSON()
	if len(before) < 100 {
		t.Errorf("the APIs have %d resources, want at least 100", len(before))
	}
	for id, text := range before {
		if after[id] != text {
			t.Errorf("%s after the reversal =\n%s\nwant\n%s", id, after[id], text)
		}
	}
	if len(after) != len(before) {
		t.Errorf("the APIs have %d resources, want %d as before", len(after), len(before))
	}
}

// TestAddedFirstGroupMovesNoResources adds a group before all others, with an operation on an existing path that has
// other parameter names. The existing resources must keep their stacks and logical ids.
func TestAddedFirstGroupMovesNoResources(t *testing.T) {
	before := synthesize(t, minimalContext(nil)).apiResources(t)
	a, _ := withAddedFunctions(t)
	after := a.apiResources(t)
	for _, old := range before {
		current := after[slices.IndexFunc(after, old.sameAs)]
		if current.stack != old.stack || current.id != old.id {
			t.Errorf("%s is %s in %s, want %s in %s as before", old, current.id, current.stack, old.id, old.stack)
		}
	}
	if want := len(before) + 4; len(after) != want { // a path and three methods
		t.Errorf("the APIs have %d resources, want %d", len(after), want)
	}
}

// TestPathVariablesAreUnique checks examples of the names of variables. The names are unique within a path and depend
// only on the path.
func TestPathVariablesAreUnique(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/accounts":                              "/v1/accounts",
		"/v1/accounts/{a}/keys/{b}":                 "/v1/accounts/{accounts}/keys/{keys}",
		"/v1/tunnels/{a}/$rotate-token":             "/v1/tunnels/{tunnels}/{tunnels_2}",
		"/v1/keys/{a}/roles/{b}/keys/{c}/keys":      "/v1/keys/{keys}/roles/{roles}/keys/{keys_2}/keys",
		"/{a}/b":                                    "/{root}/b",
		"/v1/environments/{a}/branches/{slashed}/x": "/v1/environments/{environments}/branches/{proxy+}",
	} {
		if got := routePath(api.Declaration{Path: path, SlashParameter: "{slashed}"}); got != want {
			t.Errorf("routePath(%s) = %s, want %s", path, got, want)
		}
	}
}
