package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/management/api"
)

// These numbers are the expected final size of the product, with a reserve: section 11 of the design expects 220
// operations.
const (
	expectedGroups     = 27
	expectedOperations = 250
)

// TestStacksStayBelowLimits synthesizes a product of the expected size: the current declarations, and invented groups
// for the missing operations. All operations must have a route, and the stacks and APIs must stay below the limits of
// AWS.
func TestStacksStayBelowLimits(t *testing.T) {
	s := settingsFor(t, servicesContext(nil))
	specs := growToExpectedSize(functionSpecs(s))
	var operations []string
	for _, f := range specs {
		if err := os.MkdirAll(s.assetFolder(f.name), 0o700); err != nil {
			t.Fatal(err)
		}
		for _, o := range f.routes {
			operations = append(operations, o.ID)
		}
	}
	routes, err := routesOf(specs)
	if err != nil {
		t.Fatal(err)
	}
	a := synthesizeWith(t, s, specs)
	deployed := a.routes(t)
	var routed []string
	for _, r := range routes {
		want := deployedRoute{management, r.method, r.path, fmt.Sprintf("${%sFunction.Arn}", logicalID(r.function))}
		if slices.Contains(deployed, want) {
			routed = append(routed, r.operations...)
		}
	}
	slices.Sort(operations)
	slices.Sort(routed)
	if len(operations) < expectedOperations || !slices.Equal(operations, routed) {
		t.Errorf("%d of %d operations have a route, want all, and at least %d", len(routed), len(operations),
			expectedOperations)
	}
	compareSizes(t, a, specs)
	for name, stack := range a.stacks {
		t.Logf("%s: %d resources, %d outputs, %d parameters", name, len(stack.Resources), len(stack.Outputs),
			len(stack.Parameters))
		if n := len(stack.Resources); n >= 400 {
			t.Errorf("%s has %d resources, want fewer than 400 (CloudFormation allows 500)", name, n)
		}
		if n := len(stack.Outputs); n >= 200 {
			t.Errorf("%s has %d outputs, want fewer than 200 (the limit of CloudFormation)", name, n)
		}
		if n := len(stack.Parameters); n >= 200 {
			t.Errorf("%s has %d parameters, want fewer than 200 (the limit of CloudFormation)", name, n)
		}
	}
	if n := len(a.all("AWS::ApiGateway::Resource")); n >= 300 {
		t.Errorf("the APIs have %d resources, want fewer than 300 (the limit of API Gateway for each)", n)
	}
	if got, want := len(a.all("AWS::Lambda::Function")), len(specs)+1; got != want { // the hook of releases is one more
		t.Errorf("%d functions, want %d", got, want)
	}
}

// growToExpectedSize adds groups until there are expectedGroups, or one group if only operations are missing. It
// distributes the missing operations evenly over the added groups. Each group repeats the same eight operations: five
// for a collection and its items, and three with paths of their own.
func growToExpectedSize(specs []functionSpec) []functionSpec {
	groups, operations := 0, 0
	for _, f := range specs {
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
		f := functionSpec{name: fmt.Sprintf("grown%d", g), timeout: requestTimeout, memoryMB: 256}
		for n := range missing*(g+1)/added - missing*g/added {
			o := shape[n%len(shape)]
			f.routes = append(f.routes, api.Declaration{
				ID: fmt.Sprintf("%s_%d", f.name, n), Method: o.method,
				Path: fmt.Sprintf("/v1/accounts/{accountName}/%s-%d%s", f.name, n/len(shape), o.path),
			})
		}
		specs = append(specs, f)
	}
	return specs
}

// TestGrowthReachesTheExpectedSize checks that the grown product has at least the expected size: otherwise
// TestStacksStayBelowLimits would pass for a smaller product.
func TestGrowthReachesTheExpectedSize(t *testing.T) {
	group := func(operations int) functionSpec {
		f := functionSpec{name: "group"}
		for range operations {
			f.routes = append(f.routes, api.Declaration{})
		}
		return f
	}
	tests := []struct {
		name               string
		existing           []functionSpec
		groups, operations int
	}{
		{"no functions", nil, expectedGroups, expectedOperations},
		{"functions without operations", []functionSpec{{name: "builder"}}, expectedGroups, expectedOperations},
		{"one group", []functionSpec{group(7)}, expectedGroups, expectedOperations},
		{"one group with all operations", []functionSpec{group(expectedOperations)}, expectedGroups, expectedOperations},
		{
			"many small groups", slices.Repeat([]functionSpec{group(1)}, expectedGroups), expectedGroups + 1,
			expectedOperations,
		},
		{
			"more groups and operations than expected", slices.Repeat([]functionSpec{group(10)}, expectedGroups+1),
			expectedGroups + 1, 10 * (expectedGroups + 1),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			groups, operations := 0, 0
			for _, f := range growToExpectedSize(tt.existing) {
				if len(f.routes) > 0 || strings.HasPrefix(f.name, "grown") {
					groups++
				}
				operations += len(f.routes)
			}
			if groups != tt.groups || operations != tt.operations {
				t.Errorf("growToExpectedSize() = %d groups with %d operations, want %d with %d", groups, operations, tt.groups,
					tt.operations)
			}
		})
	}
}
