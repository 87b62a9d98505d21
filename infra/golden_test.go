package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// deployedRoute is a route in the template. The name of its API has no prefix with the product and the stage. function
// is the reference to the ARN of its function.
type deployedRoute struct {
	api, method, path, function string
}

// routes returns the routes in the templates. The path of a route is joined from its parent resources, and its function
// is the target of its integration.
func (a assembly) routes(t *testing.T) []deployedRoute {
	t.Helper()
	var out []deployedRoute
	for _, stack := range a.stacks {
		for _, r := range stack.Resources {
			if r.Type != "AWS::ApiGateway::Method" {
				continue
			}
			api := a.find(get(r.Properties, "RestApiId", "Ref").(string)).Properties["Name"].(string)
			d := deployedRoute{api: strings.TrimPrefix(api, "gatewright-dev-"), method: r.Properties["HttpMethod"].(string)}
			parent := r.Properties["ResourceId"]
			for get(parent, "Ref") != nil {
				parentResource := a.find(get(parent, "Ref").(string))
				d.path = "/" + parentResource.Properties["PathPart"].(string) + d.path
				parent = parentResource.Properties["ParentId"]
			}
			d.function = "${" + a.integratedFunction(r) + ".Arn}"
			if d.path == "" {
				d.path = "/"
			}
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(x, y deployedRoute) int {
		return strings.Compare(x.api+x.path+" "+x.method, y.api+y.path+" "+y.method)
	})
	return out
}

// TestFunctionSummariesMatchGolden compares a summary of each function with a golden file: its settings, its callers,
// its permissions and its alarms. A new function adds a file and changes no other file. Each route must have a
// function, and each golden file must belong to one.
func TestFunctionSummariesMatchGolden(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	specs := allFunctions(settingsFor(t, minimalContext(nil)))
	wantFiles := map[string]bool{}
	for _, f := range specs {
		wantFiles[f.name+".txt"] = true
		golden.Equal(t, filepath.Join("testdata/functions", f.name+".txt"), a.describe(t, f, specs))
	}
	for _, r := range a.routes(t) {
		name := strings.TrimSuffix(strings.TrimPrefix(r.function, "${"), ".Arn}")
		if a.all("AWS::Lambda::Function")[name].Type == "" {
			t.Errorf("%s %s has the integration %s, want a function", r.method, r.path, r.function)
		}
	}
	entries, err := os.ReadDir("testdata/functions")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !wantFiles[e.Name()] {
			t.Errorf("testdata/functions/%s belongs to no function, want it removed", e.Name())
		}
	}
}

// describe returns the text of a function's golden file.
func (a assembly) describe(t *testing.T, f functionSpec, specs []functionSpec) string {
	t.Helper()
	var out strings.Builder
	id := logicalID(f.name) + "Function"
	p := a.all("AWS::Lambda::Function")[id].Properties
	fmt.Fprintf(&out, "%s %s %s, %v MB, %v s, tracing %v\n", id, p["Runtime"], texts(p["Architectures"])[0],
		p["MemorySize"], p["Timeout"],
		get(p, "TracingConfig", "Mode"))

	declaredRoutes, err := routesOf(specs)
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString("\ncalled by\n")
	for _, r := range a.routes(t) {
		if r.function != "${"+id+".Arn}" {
			continue
		}
		fmt.Fprintf(&out, "    %-7s %-7s %s\n", r.api, r.method, r.path)
		for _, declaredRoute := range declaredRoutes {
			if r.api == management && declaredRoute.path == r.path && declaredRoute.method == r.method {
				for _, operation := range declaredRoute.operations {
					fmt.Fprintf(&out, "        %s\n", operation)
				}
			}
		}
	}
	for _, line := range a.callers(t) {
		if line.function == id {
			fmt.Fprintf(&out, "    %s\n", line.text)
		}
	}

	a.listGrants(&out, func(name string) bool { return name == f.name }, specs)
	out.WriteString("\nalarms\n")
	a.listAlarms(&out, func(name string) bool { return name == f.name }, specs)
	out.WriteString("\nresources\n")
	a.countResources(&out, func(name string) bool { return name == f.name }, specs)
	return out.String()
}

// caller is a line about a caller of a function that is not a route.
type caller struct{ function, text string }

// callers returns the callers of functions that are not routes.
func (a assembly) callers(t *testing.T) []caller {
	t.Helper()
	var out []caller
	add := func(function any, format string, args ...any) {
		out = append(out, caller{a.aliasTarget(refID(function)), fmt.Sprintf(format, args...)})
	}
	for _, id := range slices.Sorted(maps.Keys(a.all("AWS::Lambda::EventSourceMapping"))) {
		p := a.find(id).Properties
		add(p["FunctionName"], "%s: %s, filter %s", id, render(p["EventSourceArn"]),
			get(p, "FilterCriteria", "Filters", 0, "Pattern"))
	}
	for _, id := range slices.Sorted(maps.Keys(a.all("AWS::Scheduler::Schedule"))) {
		p := a.find(id).Properties
		add(get(p, "Target", "Arn"), "%s: %s %s", id, p["ScheduleExpression"], get(p, "Target", "Input"))
	}
	notifications, _ := get(a.only(t, "AWS::S3::Bucket").Properties, "NotificationConfiguration",
		"LambdaConfigurations").([]any)
	for _, n := range notifications {
		add(get(n, "Function"), "Bucket: %s, filter %s", get(n, "Event"), render(get(n, "Filter", "S3Key", "Rules")))
	}
	return out
}

// owner returns the name of the function to which a resource belongs, or "" if it belongs to the whole installation. A
// resource belongs to the function with the longest name with which the resource's logical id begins. Other permissions
// and methods belong to the function to which they refer.
func owner(id string, r resource, specs []functionSpec) string {
	found := ""
	for _, f := range specs {
		suffix, ok := strings.CutPrefix(id, logicalID(f.name))
		if ok && strings.ToLower(suffix[:min(len(suffix), 1)]) != suffix[:min(len(suffix), 1)] && len(f.name) > len(found) {
			found = f.name
		}
	}
	if found != "" || !slices.Contains([]string{"AWS::Lambda::Permission", "AWS::ApiGateway::Method"}, r.Type) {
		return found
	}
	raw, _ := json.Marshal(r.Properties)
	for _, f := range specs {
		if strings.Contains(string(raw), `"`+logicalID(f.name)+`Live"`) {
			return f.name
		}
	}
	return ""
}

// listGrants writes the permissions of the roles whose owner satisfies matches.
func (a assembly) listGrants(out *strings.Builder, matches func(function string) bool, specs []functionSpec) {
	grants := a.grants()
	for _, role := range slices.Sorted(maps.Keys(grants)) {
		if !matches(owner(strings.Trim(role, "${}"), resource{}, specs)) {
			continue
		}
		fmt.Fprintf(out, "\n%s may\n", role)
		for _, s := range grants[role] {
			fmt.Fprintf(out, "    %s\n", strings.Join(s.resources, " "))
			for _, action := range s.actions {
				fmt.Fprintf(out, "        %s\n", action)
			}
			for _, prefix := range s.keyPrefixes {
				fmt.Fprintf(out, "        of %s\n", prefix)
			}
		}
	}
}

// listAlarms writes the alarms whose owner satisfies matches.
func (a assembly) listAlarms(out *strings.Builder, matches func(function string) bool, specs []functionSpec) {
	alarms := a.all("AWS::CloudWatch::Alarm")
	for _, id := range slices.Sorted(maps.Keys(alarms)) {
		if matches(owner(id, alarms[id], specs)) {
			fmt.Fprintf(out, "    %s: %s\n", id, alarms[id].Properties["AlarmDescription"])
		}
	}
}

// countResources writes the number of resources of each type. It counts the resources whose owner satisfies matches. It
// does not count the paths of the management API, because the routes already determine their number.
func (a assembly) countResources(out *strings.Builder, matches func(function string) bool, specs []functionSpec) {
	counts := map[string]int{}
	for name, stack := range a.stacks {
		for id, r := range stack.Resources {
			if matches(owner(id, r, specs)) && !strings.Contains(name, logicalID(pathsStack)) {
				counts[r.Type]++
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "    %4d %s\n", counts[kind], kind)
	}
}

// TestEveryOperationHasARouteToItsFunction checks that the first route that matches an operation calls the operation's
// function. The routes are sorted, so that literal parts come before variables. API Gateway prefers literal parts too.
func TestEveryOperationHasARouteToItsFunction(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	routes := a.routes(t)
	for _, g := range functions.Groups() {
		for _, o := range g.Declarations() {
			found := ""
			for _, r := range routes {
				if r.api == management &&
					(r.method == o.Method || r.method == anyMethod && strings.HasSuffix(r.path, greedyVariable)) &&
					routeMatches(strings.Split(r.path, "/"), strings.Split(o.Path, "/")) {
					found = r.function
					break
				}
			}
			if want := fmt.Sprintf("${%sFunction.Arn}", logicalID(g.Name)); found != want {
				t.Errorf("%s: function of the route for %s %s = %q, want %s", o.ID, o.Method, o.Path, found, want)
			}
		}
	}
}

// routeMatches reports whether a route matches the path of an operation, both split at slashes. A variable of the route
// matches only a variable, or a part with a dollar sign. A greedy variable matches one or more parts of any kind.
func routeMatches(route, path []string) bool {
	for i, part := range route {
		if part == greedyVariable {
			return len(path) > i
		}
		if i >= len(path) {
			return false
		}
		variable := strings.HasPrefix(path[i], "{") || strings.Contains(path[i], "$")
		if strings.HasPrefix(part, "{") != variable || (!variable && part != path[i]) {
			return false
		}
	}
	return len(route) == len(path)
}

// TestPathsSatisfyAPIGateway checks that each path has at most one variable directly below it. No part may have a
// dollar sign, which an emulator refuses. No path may be one of the two that API Gateway reserves.
func TestPathsSatisfyAPIGateway(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	children := map[string]string{}
	for id, r := range a.all("AWS::ApiGateway::Resource") {
		part := r.Properties["PathPart"].(string)
		parent := render(r.Properties["RestApiId"]) + render(r.Properties["ParentId"])
		if strings.HasPrefix(part, "{") {
			if other := children[parent]; other != "" {
				t.Errorf("%s has the variable children %s and %s, want at most one", parent, other, part)
			}
			children[parent] = part
		}
		if strings.Contains(part, "$") {
			t.Errorf("path part of %s = %s, want none with a dollar sign", id, part)
		}
		if get(r.Properties, "ParentId", "Fn::GetAtt") != nil && (part == "ping" || part == "sping") {
			t.Errorf("an API has the path /%s, want none that API Gateway reserves", part)
		}
	}
}

// statement is a permission of a role.
type statement struct {
	actions, resources []string
	// keyPrefixes are the key prefixes of the table to which the permission is limited. It is nil if the permission has
	// no such limit.
	keyPrefixes []string
}

// grants returns the statements of each role, by the reference to the role. They are from the policies of the role and
// from the role's first inline policy. If several stacks have a policy with the same logical id, as the stacks of
// services do, it returns only one of them. So use an assembly with one stack for services.
func (a assembly) grants() map[string][]statement {
	out := map[string][]statement{}
	for _, p := range a.all("AWS::IAM::Policy") {
		statements, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
		for _, role := range texts(p.Properties["Roles"]) {
			for _, s := range statements {
				out[role] = append(out[role], statement{texts(get(s, "Action")), texts(get(s, "Resource")), keyPrefixesOf(s)})
			}
		}
	}
	for id, r := range a.all("AWS::IAM::Role") {
		statements, _ := get(r.Properties, "Policies", 0, "PolicyDocument", "Statement").([]any)
		for _, s := range statements {
			out["${"+id+"}"] = append(out["${"+id+"}"], statement{
				texts(get(s, "Action")), texts(get(s, "Resource")),
				keyPrefixesOf(s),
			})
		}
	}
	return out
}

// keyPrefixesOf returns the key prefixes in the condition of a statement.
func keyPrefixesOf(s any) (out []string) {
	patterns, _ := get(s, "Condition", "ForAllValues:StringLike", "dynamodb:LeadingKeys").([]any)
	for _, pattern := range patterns {
		if name, ok := strings.CutSuffix(render(pattern), "#*"); ok {
			out = append(out, name)
		}
	}
	return out
}

// actionsWithoutResource are the actions that do not support resource-level permissions.
var actionsWithoutResource = []string{
	"dynamodb:ListStreams", "ecr:GetAuthorizationToken",
	"elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeRules",
	"elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth", "xray:PutTelemetryRecords",
	"xray:PutTraceSegments",
}

// TestGrantsHaveNoWildcards checks that no role may do all actions of a service, or an action on all resources if the
// action supports named resources. A wildcard at the end of a resource's name must stand for a whole part of the name.
// Only the function that rotates the root key may scan the table.
func TestGrantsHaveNoWildcards(t *testing.T) {
	var scan []string
	for _, f := range functionSpecs(settingsFor(t, servicesContext(nil))) {
		if slices.Contains(f.uses, api.ScanTable) {
			scan = append(scan, "${"+logicalID(f.name)+"Role}")
		}
	}
	if !slices.Equal(scan, []string{"${OperationsRole}"}) {
		t.Errorf("roles that may scan the table = %v, want OperationsRole alone, for the rotation of the root key", scan)
	}
	for file, stack := range synthesize(t, servicesContext(nil)).stacks { // roles of services have the same logical ids
		for role, statements := range (assembly{stacks: map[string]template{file: stack}}).grants() {
			for _, s := range statements {
				s.checkWildcards(t, role, slices.Contains(scan, role))
			}
		}
	}
}

// checkWildcards checks that a statement of a role has no wildcard that TestGrantsHaveNoWildcards forbids.
func (s statement) checkWildcards(t *testing.T, role string, mayScan bool) {
	t.Helper()
	for _, action := range s.actions {
		if strings.Contains(action, "*") {
			t.Errorf("%s may %s, want an action without a wildcard", role, action)
		}
		if action == "dynamodb:Scan" && !mayScan {
			t.Errorf("%s may %s, want no undeclared scan", role, action)
		}
		for _, r := range s.resources {
			if r == "*" && !slices.Contains(actionsWithoutResource, action) {
				t.Errorf("%s may %s on every resource, want named resources", role, action)
			}
			if strings.HasSuffix(r, "*") && r != "*" && !strings.HasSuffix(r, "/*") && !strings.HasSuffix(r, ":*") {
				t.Errorf("%s may %s on %s, want a wildcard for a whole part of the name only", role, action, r)
			}
		}
	}
}

// TestRolesMatchDeclaredUses compares actions of each role with the declared uses of the role's function. The test has
// its own table of these actions, so that it does not depend on the code that creates the roles.
func TestRolesMatchDeclaredUses(t *testing.T) {
	s := settingsFor(t, minimalContext(nil))
	grants := synthesize(t, minimalContext(nil)).grants()
	for _, f := range allFunctions(s) {
		var actions []string
		for _, st := range grants["${"+logicalID(f.name)+"Role}"] {
			actions = append(actions, st.actions...)
		}
		for use, action := range map[api.Use]string{
			api.GetItem: "dynamodb:GetItem", api.BatchGetItem: "dynamodb:BatchGetItem", api.Query: "dynamodb:Query",
			api.UpdateItem: "dynamodb:UpdateItem", api.DeleteItem: "dynamodb:DeleteItem",
			api.CheckItem: "dynamodb:ConditionCheckItem",
			api.RootKey:   "kms:Decrypt", api.CreateRootKey: "kms:GenerateDataKeyWithoutPlaintext",
			api.ListObjects: "s3:ListBucket",
		} {
			want := slices.Contains(f.uses, use) || (use == api.GetItem && slices.Contains(f.uses, api.RootKey)) ||
				(use == api.Query && slices.Contains(f.uses, api.QueryDue))
			if want != slices.Contains(actions, action) {
				t.Errorf("role of %s allows %s = %v, want %v according to its declared uses (%q)", f.name, action, !want, want, use)
			}
		}
	}
}

// TestTemplateSummaryMatchesGolden compares a summary of the resources that belong to no function with a golden file.
func TestTemplateSummaryMatchesGolden(t *testing.T) {
	a := synthesize(t, minimalContext(nil))
	specs := allFunctions(settingsFor(t, minimalContext(nil)))
	unowned := func(name string) bool { return name == "" }
	var out strings.Builder
	out.WriteString("alarms\n")
	a.listAlarms(&out, unowned, specs)
	a.listGrants(&out, unowned, specs)
	out.WriteString("\nresources\n")
	a.countResources(&out, unowned, specs)
	golden.Equal(t, "testdata/template.txt", out.String())
}
