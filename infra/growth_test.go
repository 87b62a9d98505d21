package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/api"
)

// The size that the product is expected to have in the end, with room: design, section 11, has 220 operations.
const (
	expectedGroups     = 27
	expectedOperations = 250
)

// TestStacksStayBelowTheirLimit deploys a product of the expected size: what is
// declared today, and invented groups that make up for what is missing.
func TestStacksStayBelowTheirLimit(t *testing.T) {
	s := settingsFor(t, serving(nil))
	fs := grown(declaredFunctions(s))
	var operations []string
	for _, f := range fs {
		if err := os.MkdirAll(s.asset(f.name), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, o := range f.routes {
			operations = append(operations, o.ID)
		}
	}
	routes, err := routesOf(fs)
	if err != nil {
		t.Fatal(err)
	}
	a := synthesiseOf(t, s, fs)
	deployed := a.routes(t)
	var reached []string
	for _, r := range routes {
		want := deployedRoute{management, r.method, r.path, fmt.Sprintf("${%sFunction.Arn}", exported(r.function))}
		if slices.Contains(deployed, want) {
			reached = append(reached, r.operations...)
		}
	}
	slices.Sort(operations)
	slices.Sort(reached)
	if len(operations) < expectedOperations || !slices.Equal(operations, reached) {
		t.Errorf("%d of %d operations have a route, at least %d are to have one", len(reached), len(operations), expectedOperations)
	}
	compareSizes(t, a, fs)
	for name, stack := range a.stacks {
		t.Logf("%s: %d resources, %d outputs, %d parameters", name, len(stack.Resources), len(stack.Outputs), len(stack.Parameters))
		if n := len(stack.Resources); n >= 400 {
			t.Errorf("%s has %d resources, CloudFormation takes 500", name, n)
		}
		if n := len(stack.Outputs); n >= 200 {
			t.Errorf("%s has %d outputs, CloudFormation takes 200", name, n)
		}
		if n := len(stack.Parameters); n >= 200 {
			t.Errorf("%s has %d parameters, CloudFormation takes 200", name, n)
		}
	}
	if n := len(a.all("AWS::ApiGateway::Resource")); n >= 300 {
		t.Errorf("the APIs have %d resources, API Gateway takes 300 in each", n)
	}
	if got, want := len(a.all("AWS::Lambda::Function")), len(fs)+1; got != want { // with the hook of releases
		t.Errorf("%d functions, want %d", got, want)
	}
}

// grown adds groups until there are expectedGroups, one at least if operations
// are missing, and gives them the operations that are missing, as evenly as it
// goes: a collection's and its items' five, and three that have a path of their
// own, and the same again.
func grown(fs []declared) []declared {
	groups, operations := 0, 0
	for _, f := range fs {
		if len(f.routes) > 0 {
			groups, operations = groups+1, operations+len(f.routes)
		}
	}
	shape := []struct{ method, path string }{
		{"GET", ""},
		{"POST", ""},
		{"GET", "/{thing}"},
		{"PATCH", "/{thing}"},
		{"DELETE", "/{thing}"},
		{"POST", "/{thing}/start"},
		{"POST", "/{thing}/stop"},
		{"GET", "/{thing}/status"},
	}
	missing := max(expectedOperations-operations, 0)
	added := max(expectedGroups-groups, min(missing, 1))
	for g := range added {
		f := declared{name: fmt.Sprintf("grown%d", g), timeout: requestTimeout, memory: 256}
		for n := range missing*(g+1)/added - missing*g/added {
			o := shape[n%len(shape)]
			f.routes = append(f.routes, api.Declaration{
				ID: fmt.Sprintf("%s_%d", f.name, n), Method: o.method,
				Path: fmt.Sprintf("/v1/accounts/{accountName}/%s-%d%s", f.name, n/len(shape), o.path),
			})
		}
		fs = append(fs, f)
	}
	return fs
}

// TestGrowthReachesTheExpectedSize whatever there is already: without that, the
// test above would pass for a product that is smaller than it says.
func TestGrowthReachesTheExpectedSize(t *testing.T) {
	group := func(operations int) declared {
		f := declared{name: "group"}
		for range operations {
			f.routes = append(f.routes, api.Declaration{})
		}
		return f
	}
	tests := []struct {
		name               string
		have               []declared
		groups, operations int
	}{
		{"nothing", nil, expectedGroups, expectedOperations},
		{"functions that events call do not count", []declared{{name: "builder"}}, expectedGroups, expectedOperations},
		{"one group", []declared{group(7)}, expectedGroups, expectedOperations},
		{"few large groups", []declared{group(expectedOperations)}, expectedGroups, expectedOperations},
		{"many small groups", slices.Repeat([]declared{group(1)}, expectedGroups), expectedGroups + 1, expectedOperations},
		{"more of both", slices.Repeat([]declared{group(10)}, expectedGroups+1), expectedGroups + 1, 10 * (expectedGroups + 1)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			groups, operations := 0, 0
			for _, f := range grown(tt.have) {
				if len(f.routes) > 0 || strings.HasPrefix(f.name, "grown") {
					groups++
				}
				operations += len(f.routes)
			}
			if groups != tt.groups || operations != tt.operations {
				t.Errorf("%d groups with %d operations, want %d with %d", groups, operations, tt.groups, tt.operations)
			}
		})
	}
}
