package main

import (
	"fmt"
	"maps"
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
			uri := render(get(r.Properties, "Integration", "Uri"))
			_, uri, _ = strings.Cut(uri, "/functions/")
			d.function, _, _ = strings.Cut(uri, "/invocations")
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

func TestRoutesAreListed(t *testing.T) {
	a := synthesise(t, needed(nil))
	answered, err := routesOf(declaredFunctions(settingsFor(t, needed(nil))))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, r := range a.routes(t) {
		fmt.Fprintf(&out, "%-8s %-7s %-95s %s\n", r.api, r.method, r.path, r.function)
		for _, with := range answered {
			if with.path == r.path && with.method == r.method {
				for _, id := range with.operations {
					fmt.Fprintf(&out, "    %s\n", id)
				}
			}
		}
	}
	golden.Equal(t, "testdata/routes.txt", out.String())
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
}

// grants gives the statements of each function's role.
func (a assembly) grants() map[string][]statement {
	out := map[string][]statement{}
	for _, p := range a.all("AWS::IAM::Policy") {
		list, _ := get(p.Properties, "PolicyDocument", "Statement").([]any)
		for _, role := range texts(p.Properties["Roles"]) {
			for _, s := range list {
				out[role] = append(out[role], statement{texts(get(s, "Action")), texts(get(s, "Resource"))})
			}
		}
	}
	for id, r := range a.all("AWS::IAM::Role") {
		list, _ := get(r.Properties, "Policies", 0, "PolicyDocument", "Statement").([]any)
		for _, s := range list {
			out["${"+id+"}"] = append(out["${"+id+"}"], statement{texts(get(s, "Action")), texts(get(s, "Resource"))})
		}
	}
	return out
}

func TestGrantsAreListed(t *testing.T) {
	var out strings.Builder
	grants := synthesise(t, needed(nil)).grants()
	for _, role := range slices.Sorted(maps.Keys(grants)) {
		fmt.Fprintf(&out, "%s\n", role)
		for _, s := range grants[role] {
			fmt.Fprintf(&out, "    %s\n", strings.Join(s.resources, " "))
			for _, action := range s.actions {
				fmt.Fprintf(&out, "        %s\n", action)
			}
		}
	}
	golden.Equal(t, "testdata/grants.txt", out.String())
}

// withoutResources are actions for which the service knows no resources.
var withoutResources = []string{"dynamodb:ListStreams", "xray:PutTelemetryRecords", "xray:PutTraceSegments"}

func TestNoGrantIsWiderThanItsUse(t *testing.T) {
	for role, statements := range synthesise(t, needed(nil)).grants() {
		for _, s := range statements {
			for _, action := range s.actions {
				if strings.Contains(action, "*") || action == "dynamodb:Scan" {
					t.Errorf("%s may %s", role, action)
				}
				for _, r := range s.resources {
					if r == "*" && !slices.Contains(withoutResources, action) {
						t.Errorf("%s may %s on everything", role, action)
					}
					if strings.HasSuffix(r, "*") && r != "*" && !strings.HasSuffix(r, "/*") {
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
	for _, f := range declaredFunctions(s) {
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

func TestTemplateIsSummarised(t *testing.T) {
	var out strings.Builder
	a := synthesise(t, needed(nil))
	for _, name := range slices.Sorted(maps.Keys(a.stacks)) {
		fmt.Fprintf(&out, "%s\n", name)
		counts := map[string]int{}
		for _, r := range a.stacks[name].Resources {
			counts[r.Type]++
		}
		for _, kind := range slices.Sorted(maps.Keys(counts)) {
			fmt.Fprintf(&out, "    %4d %s\n", counts[kind], kind)
		}
	}
	out.WriteString("\nfunctions\n")
	fs := a.all("AWS::Lambda::Function")
	for _, id := range slices.Sorted(maps.Keys(fs)) {
		p := fs[id].Properties
		fmt.Fprintf(&out, "    %-24s %s %s, %v MB, %v s, tracing %v\n", id, p["Runtime"], texts(p["Architectures"])[0], p["MemorySize"], p["Timeout"],
			get(p, "TracingConfig", "Mode"))
	}
	out.WriteString("\nwhat calls functions\n")
	for _, kind := range []string{"AWS::Lambda::EventSourceMapping", "AWS::Scheduler::Schedule", "AWS::S3::Bucket"} {
		for id, r := range a.all(kind) {
			switch kind {
			case "AWS::Lambda::EventSourceMapping":
				fmt.Fprintf(&out, "    %s: %s from %s, filter %s\n", id, render(r.Properties["FunctionName"]), render(r.Properties["EventSourceArn"]),
					get(r.Properties, "FilterCriteria", "Filters", 0, "Pattern"))
			case "AWS::Scheduler::Schedule":
				fmt.Fprintf(&out, "    %s: %s %s %s\n", id, render(get(r.Properties, "Target", "Arn")), r.Properties["ScheduleExpression"], get(r.Properties, "Target", "Input"))
			default:
				fmt.Fprintf(&out, "    %s: %s\n", id, render(r.Properties["NotificationConfiguration"]))
			}
		}
	}
	out.WriteString("\nalarms\n")
	alarms := a.all("AWS::CloudWatch::Alarm")
	for _, id := range slices.Sorted(maps.Keys(alarms)) {
		fmt.Fprintf(&out, "    %s: %s\n", id, alarms[id].Properties["AlarmDescription"])
	}
	golden.Equal(t, "testdata/template.txt", out.String())
}
