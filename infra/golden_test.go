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
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
)

// deployedRoute is a route as the template has it.
type deployedRoute struct {
	api, method, path, function string
}

// routes reads the routes of a template back: parents up to the root, and the
// function that the integration names.
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
				above := a.find(get(parent, "Ref").(string))
				d.path = "/" + above.Properties["PathPart"].(string) + d.path
				parent = above.Properties["ParentId"]
			}
			d.function = "${" + a.behind(r) + ".Arn}"
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

// TestFunctionsAreListed has a file for each function: how it runs, what calls
// it, what it may do, and what watches it. A new function brings its file along
// and changes nobody else's.
func TestFunctionsAreListed(t *testing.T) {
	a := synthesise(t, needed(nil))
	fs := everyFunction(settingsFor(t, needed(nil)))
	listed := map[string]bool{}
	for _, f := range fs {
		listed[f.name+".txt"] = true
		golden.Equal(t, filepath.Join("testdata/functions", f.name+".txt"), a.describe(t, f, fs))
	}
	for _, r := range a.routes(t) {
		if name := strings.TrimSuffix(strings.TrimPrefix(r.function, "${"), ".Arn}"); a.all("AWS::Lambda::Function")[name].Type == "" {
			t.Errorf("%s %s leads to %s, which is no function", r.method, r.path, r.function)
		}
	}
	entries, err := os.ReadDir("testdata/functions")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !listed[e.Name()] {
			t.Errorf("testdata/functions/%s is of no function: remove it", e.Name())
		}
	}
}

// describe writes what belongs to one of the functions.
func (a assembly) describe(t *testing.T, f declared, fs []declared) string {
	t.Helper()
	var out strings.Builder
	id := exported(f.name) + "Function"
	p := a.all("AWS::Lambda::Function")[id].Properties
	fmt.Fprintf(&out, "%s %s %s, %v MB, %v s, tracing %v\n", id, p["Runtime"], texts(p["Architectures"])[0], p["MemorySize"], p["Timeout"],
		get(p, "TracingConfig", "Mode"))

	answered, err := routesOf(fs)
	if err != nil {
		t.Fatal(err)
	}
	out.WriteString("\ncalled by\n")
	for _, r := range a.routes(t) {
		if r.function != "${"+id+".Arn}" {
			continue
		}
		fmt.Fprintf(&out, "    %-7s %-7s %s\n", r.api, r.method, r.path)
		for _, with := range answered {
			if r.api == management && with.path == r.path && with.method == r.method {
				for _, operation := range with.operations {
					fmt.Fprintf(&out, "        %s\n", operation)
				}
			}
		}
	}
	for _, line := range a.triggers(t) {
		if line.function == id {
			fmt.Fprintf(&out, "    %s\n", line.text)
		}
	}

	a.listGrants(&out, func(of string) bool { return of == f.name }, fs)
	out.WriteString("\nalarms\n")
	a.listAlarms(&out, func(of string) bool { return of == f.name }, fs)
	out.WriteString("\nresources\n")
	a.countResources(&out, func(of string) bool { return of == f.name }, fs)
	return out.String()
}

// called is a line about what calls a function beside routes.
type called struct{ function, text string }

// triggers lists what calls functions beside routes.
func (a assembly) triggers(t *testing.T) []called {
	t.Helper()
	var out []called
	add := func(function any, format string, args ...any) {
		out = append(out, called{a.aliased(unreferred(function)), fmt.Sprintf(format, args...)})
	}
	for _, id := range slices.Sorted(maps.Keys(a.all("AWS::Lambda::EventSourceMapping"))) {
		p := a.find(id).Properties
		add(p["FunctionName"], "%s: %s, filter %s", id, render(p["EventSourceArn"]), get(p, "FilterCriteria", "Filters", 0, "Pattern"))
	}
	for _, id := range slices.Sorted(maps.Keys(a.all("AWS::Scheduler::Schedule"))) {
		p := a.find(id).Properties
		add(get(p, "Target", "Arn"), "%s: %s %s", id, p["ScheduleExpression"], get(p, "Target", "Input"))
	}
	notified, _ := get(a.only(t, "AWS::S3::Bucket").Properties, "NotificationConfiguration", "LambdaConfigurations").([]any)
	for _, n := range notified {
		add(get(n, "Function"), "Bucket: %s, filter %s", get(n, "Event"), render(get(n, "Filter", "S3Key", "Rules")))
	}
	return out
}

// owner is the function that a resource belongs to, "" for the installation's
// own: by its id, or, of those that connect a function with what they stand in,
// by the one function they name.
func owner(id string, r resource, fs []declared) string {
	found := ""
	for _, f := range fs {
		rest, ok := strings.CutPrefix(id, exported(f.name))
		if ok && strings.ToLower(rest[:min(len(rest), 1)]) != rest[:min(len(rest), 1)] && len(f.name) > len(found) {
			found = f.name
		}
	}
	if found != "" || !slices.Contains([]string{"AWS::Lambda::Permission", "AWS::ApiGateway::Method"}, r.Type) {
		return found
	}
	raw, _ := json.Marshal(r.Properties)
	for _, f := range fs {
		if strings.Contains(string(raw), `"`+exported(f.name)+`Live"`) {
			return f.name
		}
	}
	return ""
}

// listGrants writes what the roles of those that belong may do.
func (a assembly) listGrants(out *strings.Builder, belongs func(function string) bool, fs []declared) {
	grants := a.grants()
	for _, role := range slices.Sorted(maps.Keys(grants)) {
		if !belongs(owner(strings.Trim(role, "${}"), resource{}, fs)) {
			continue
		}
		fmt.Fprintf(out, "\n%s may\n", role)
		for _, s := range grants[role] {
			fmt.Fprintf(out, "    %s\n", strings.Join(s.resources, " "))
			for _, action := range s.actions {
				fmt.Fprintf(out, "        %s\n", action)
			}
			for _, space := range s.spaces {
				fmt.Fprintf(out, "        of %s\n", space)
			}
		}
	}
}

// listAlarms writes the alarms of those that belong.
func (a assembly) listAlarms(out *strings.Builder, belongs func(function string) bool, fs []declared) {
	alarms := a.all("AWS::CloudWatch::Alarm")
	for _, id := range slices.Sorted(maps.Keys(alarms)) {
		if belongs(owner(id, alarms[id], fs)) {
			fmt.Fprintf(out, "    %s: %s\n", id, alarms[id].Properties["AlarmDescription"])
		}
	}
}

// countResources writes how many resources of each type belong. How many paths
// the management API has is not among them: it follows from the routes.
func (a assembly) countResources(out *strings.Builder, belongs func(function string) bool, fs []declared) {
	counts := map[string]int{}
	for name, stack := range a.stacks {
		for id, r := range stack.Resources {
			if belongs(owner(id, r, fs)) && !strings.Contains(name, exported(paths)) {
				counts[r.Type]++
			}
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(out, "    %4d %s\n", counts[kind], kind)
	}
}

// TestEveryOperationHasARouteToItsFunction follows each operation's path through
// the template as API Gateway does: a part of its own first, then the variable
// child, then the greedy one.
func TestEveryOperationHasARouteToItsFunction(t *testing.T) {
	a := synthesise(t, needed(nil))
	routes := a.routes(t)
	for _, g := range functions.Groups() {
		for _, o := range g.Declarations() {
			found := ""
			for _, r := range routes {
				if r.api == management && (r.method == o.Method || r.method == anyMethod && strings.HasSuffix(r.path, greedy)) && leads(strings.Split(r.path, "/"), strings.Split(o.Path, "/")) {
					found = r.function
					break
				}
			}
			if want := fmt.Sprintf("${%sFunction.Arn}", exported(g.Name)); found != want {
				t.Errorf("%s (%s %s) leads to %q, want %s", o.ID, o.Method, o.Path, found, want)
			}
		}
	}
}

// leads reports whether a route takes a path.
func leads(route, path []string) bool {
	for i, part := range route {
		if part == greedy {
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

// TestPathsAreThoseThatRESTAllows: one variable child for each parent, no
// dollar (an emulator refuses it), and not the two names that the platform
// keeps for itself.
func TestPathsAreThoseThatRESTAllows(t *testing.T) {
	a := synthesise(t, needed(nil))
	children := map[string]string{}
	for id, r := range a.all("AWS::ApiGateway::Resource") {
		part := r.Properties["PathPart"].(string)
		parent := render(r.Properties["RestApiId"]) + render(r.Properties["ParentId"])
		if strings.HasPrefix(part, "{") {
			if other := children[parent]; other != "" {
				t.Errorf("%s has two variable children, %s and %s", parent, other, part)
			}
			children[parent] = part
		}
		if strings.Contains(part, "$") {
			t.Errorf("%s holds a dollar: %s", id, part)
		}
		if get(r.Properties, "ParentId", "Fn::GetAtt") != nil && (part == "ping" || part == "sping") {
			t.Errorf("/%s is answered by the platform itself", part)
		}
	}
}

// statement is a permission of a role.
type statement struct {
	actions, resources []string
	// spaces are those of the table that it is held to, nil for all.
	spaces []string
}

// grants gives the statements of each function's role.
func (a assembly) grants() map[string][]statement {
	out := map[string][]statement{}
	for _, p := range a.all("AWS::IAM::Policy") {
		list, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
		for _, role := range texts(p.Properties["Roles"]) {
			for _, s := range list {
				out[role] = append(out[role], statement{texts(get(s, "Action")), texts(get(s, "Resource")), spacesOf(s)})
			}
		}
	}
	for id, r := range a.all("AWS::IAM::Role") {
		list, _ := get(r.Properties, "Policies", 0, "PolicyDocument", "Statement").([]any)
		for _, s := range list {
			out["${"+id+"}"] = append(out["${"+id+"}"], statement{texts(get(s, "Action")), texts(get(s, "Resource")), spacesOf(s)})
		}
	}
	return out
}

// spacesOf reads the condition of a statement, each space once.
func spacesOf(s any) (out []string) {
	list, _ := get(s, "Condition", "ForAllValues:StringLike", "dynamodb:LeadingKeys").([]any)
	for _, pattern := range list {
		if name, many := strings.CutSuffix(render(pattern), "#*"); many {
			out = append(out, name)
		}
	}
	return out
}

// withoutResources are actions for which the service knows no resources.
var withoutResources = []string{"dynamodb:ListStreams", "ecr:GetAuthorizationToken", "elasticloadbalancing:DescribeListeners", "elasticloadbalancing:DescribeRules", "elasticloadbalancing:DescribeTargetGroups", "elasticloadbalancing:DescribeTargetHealth", "xray:PutTelemetryRecords", "xray:PutTraceSegments"}

func TestNoGrantIsWiderThanItsUse(t *testing.T) {
	var scan []string
	for _, f := range declaredFunctions(settingsFor(t, serving(nil))) {
		if slices.Contains(f.uses, api.ScanTable) {
			scan = append(scan, "${"+exported(f.name)+"Role}")
		}
	}
	if !slices.Equal(scan, []string{"${OperationsRole}"}) {
		t.Errorf("%v may read all of the table: the rotation of the root key alone has to", scan)
	}
	for role, statements := range synthesise(t, serving(nil)).grants() {
		for _, s := range statements {
			for _, action := range s.actions {
				if strings.Contains(action, "*") || action == "dynamodb:Scan" && !slices.Contains(scan, role) {
					t.Errorf("%s may %s", role, action)
				}
				for _, r := range s.resources {
					if r == "*" && !slices.Contains(withoutResources, action) {
						t.Errorf("%s may %s on everything", role, action)
					}
					if strings.HasSuffix(r, "*") && r != "*" && !strings.HasSuffix(r, "/*") && !strings.HasSuffix(r, ":*") {
						t.Errorf("%s may %s on %s, which ends in the middle of a name", role, action, r)
					}
				}
			}
		}
	}
}

// TestEachFunctionMayDoWhatItDeclares compares roles with declarations, by
// another way than the one that made them: the uses' own words.
func TestEachFunctionMayDoWhatItDeclares(t *testing.T) {
	s := settingsFor(t, needed(nil))
	grants := synthesise(t, needed(nil)).grants()
	for _, f := range everyFunction(s) {
		var has []string
		for _, st := range grants["${"+exported(f.name)+"Role}"] {
			has = append(has, st.actions...)
		}
		for use, action := range map[api.Use]string{
			api.GetItem: "dynamodb:GetItem", api.BatchGetItem: "dynamodb:BatchGetItem", api.Query: "dynamodb:Query",
			api.UpdateItem: "dynamodb:UpdateItem", api.DeleteItem: "dynamodb:DeleteItem", api.CheckItem: "dynamodb:ConditionCheckItem",
			api.RootKey: "kms:Decrypt", api.MakeRootKey: "kms:GenerateDataKeyWithoutPlaintext", api.ListObjects: "s3:ListBucket",
		} {
			declares := slices.Contains(f.uses, use) || (use == api.GetItem && slices.Contains(f.uses, api.RootKey)) ||
				(use == api.Query && slices.Contains(f.uses, api.QueryDue))
			if declares != slices.Contains(has, action) {
				t.Errorf("%s declares %q: %v; its role has %s: %v", f.name, use, declares, action, !declares)
			}
		}
	}
}

// TestTemplateIsSummarised lists what belongs to the installation and to no
// function.
func TestTemplateIsSummarised(t *testing.T) {
	a := synthesise(t, needed(nil))
	fs := everyFunction(settingsFor(t, needed(nil)))
	nobodys := func(of string) bool { return of == "" }
	var out strings.Builder
	out.WriteString("alarms\n")
	a.listAlarms(&out, nobodys, fs)
	a.listGrants(&out, nobodys, fs)
	out.WriteString("\nresources\n")
	a.countResources(&out, nobodys, fs)
	golden.Equal(t, "testdata/template.txt", out.String())
}
