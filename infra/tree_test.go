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

	"github.com/gatewright/gatewright/shared/api"
)

// variable is one of a path, whatever it is called.
var variable = regexp.MustCompile(`\{[^}]*\}`)

// shapeOf is a path without the names of its variables.
func shapeOf(path string) string { return variable.ReplaceAllString(path, "{}") }

// placesOf are the parts of an API's tree: for the shape of each path, and of each of
// its methods, where it is and what it is called there.
func placesOf(routes []route) map[string]string {
	out := map[string]string{}
	for _, r := range routes {
		out[r.method+" "+shapeOf(r.path)] = fmt.Sprint(methodsOf(r.path), " ", methodID(r), " of ", r.path)
		for path := r.path; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
			out[shapeOf(path)] = fmt.Sprint(pathID(path), " ", path)
		}
	}
	return out
}

// rearranged gives declarations in another order, with other names of parameters,
// without some of the operations and with others that nobody has declared.
func rearranged(rt *rapid.T, fs []declared) []declared {
	out := rapid.Permutation(fs).Draw(rt, "groups")
	for i, f := range out {
		if len(f.routes) == 0 {
			continue
		}
		operations := rapid.Permutation(f.routes).Draw(rt, "operations of "+f.name)
		operations = operations[rapid.IntRange(0, min(2, len(operations))).Draw(rt, "removed of "+f.name):]
		for n, o := range operations {
			if o.Slashed == "" && rapid.Bool().Draw(rt, "renamed") {
				operations[n].Path = variable.ReplaceAllString(o.Path, "{renamed}")
			}
		}
		out[i].routes = operations
	}
	added := declared{name: "added"}
	for n := range rapid.IntRange(0, 3).Draw(rt, "added") {
		above := rapid.SampledFrom([]string{"/v1", "/v1/accounts/{anotherName}", "/v1/accounts/{a}/key-buckets/{b}/consumers/{c}", "/v1/metering/{m}/plans/{p}", "/docs/{d}"}).Draw(rt, "above")
		added.routes = append(added.routes, api.Declaration{ID: fmt.Sprintf("added_%d", n), Method: "GET", Path: fmt.Sprintf("%s/added-%d/{id}", above, n)})
	}
	return slices.Insert(out, rapid.IntRange(0, len(out)).Draw(rt, "place"), added)
}

// TestNoOperationMovesThePathsOfOthers: neither their names nor the stack that they
// are in, nor what they are called there, depend on what else there is.
func TestNoOperationMovesThePathsOfOthers(t *testing.T) {
	fs := declaredFunctions(settingsFor(t, needed(nil)))
	routes, err := routesOf(fs)
	if err != nil {
		t.Fatal(err)
	}
	before := placesOf(routes)
	rapid.Check(t, func(rt *rapid.T) {
		routes, err := routesOf(rearranged(rt, fs))
		if err != nil {
			rt.Fatal(err)
		}
		after := placesOf(routes)
		both := 0
		for at, place := range after {
			if before[at] != "" {
				both++
			}
			if before[at] != "" && before[at] != place {
				rt.Errorf("%s was %s, and is %s", at, before[at], place)
			}
		}
		if both < len(before)/2 {
			rt.Fatalf("only %d of %d places remain: the property says nothing", both, len(before))
		}
	})
}

// withFunction gives a function of these operations, and it its code.
func (s Settings) withFunction(t *testing.T, name string, operations ...api.Declaration) declared {
	t.Helper()
	if err := os.MkdirAll(s.asset(name), 0o700); err != nil {
		t.Fatal(err)
	}
	return declared{name: name, timeout: requestTimeout, memory: 128, routes: operations}
}

// apiTexts are the resources of API Gateway but its deployments, by stack and logical id.
func (a assembly) apiTexts() map[string]string {
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

// TestOrderOfDeclarationsChangesNothing of either API, in the templates themselves, also where
// two functions share a path.
func TestOrderOfDeclarationsChangesNothing(t *testing.T) {
	s := settingsFor(t, needed(nil))
	a, fs := withAdded(t)
	before := a.apiTexts()
	slices.Reverse(fs)
	for i, f := range fs {
		writeAsset(t, s, f.name)
		fs[i].routes = slices.Clone(f.routes)
		slices.Reverse(fs[i].routes)
	}
	after := synthesiseOf(t, s, fs).apiTexts()
	if len(before) < 100 {
		t.Errorf("the APIs have %d parts only", len(before))
	}
	for at, text := range before {
		if after[at] != text {
			t.Errorf("%s was\n%s\nand is\n%s", at, text, after[at])
		}
	}
	if len(after) != len(before) {
		t.Errorf("there are %d parts of APIs, and were %d", len(after), len(before))
	}
}

// TestOperationsOfAGroupThatIsFirstMoveNothing: a group of a new name, before all
// others, with operations on paths of theirs and parameters called otherwise.
func TestOperationsOfAGroupThatIsFirstMoveNothing(t *testing.T) {
	before := synthesise(t, needed(nil)).parts(t)
	a, _ := withAdded(t)
	after := a.parts(t)
	for _, was := range before {
		is := after[slices.IndexFunc(after, was.same)]
		if is.stack != was.stack || is.id != was.id {
			t.Errorf("%s was %s in %s, and is %s in %s", was, was.id, was.stack, is.id, is.stack)
		}
	}
	if want := len(before) + 4; len(after) != want { // a path and three methods
		t.Errorf("there are %d parts, want %d", len(after), want)
	}
}

// TestVariablesOfAPathAreTold apart, and by the path alone.
func TestVariablesOfAPathAreToldApart(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/accounts":                              "/v1/accounts",
		"/v1/accounts/{a}/keys/{b}":                 "/v1/accounts/{accounts}/keys/{keys}",
		"/v1/tunnels/{a}/$rotate-token":             "/v1/tunnels/{tunnels}/{tunnels_2}",
		"/v1/keys/{a}/roles/{b}/keys/{c}/keys":      "/v1/keys/{keys}/roles/{roles}/keys/{keys_2}/keys",
		"/{a}/b":                                    "/{root}/b",
		"/v1/environments/{a}/branches/{slashed}/x": "/v1/environments/{environments}/branches/{proxy+}",
	} {
		if got := routePath(api.Declaration{Path: path, Slashed: "{slashed}"}); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
}
