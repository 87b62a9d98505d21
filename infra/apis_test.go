package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// apiResource is a resource of API Gateway. Only one resource with the same api, kind and name can exist.
type apiResource struct {
	api  string // the logical id of the REST API, "-" for none
	kind string // the type without AWS::ApiGateway::
	name string // the name in API Gateway, such as GET:/v1/accounts, without spaces
	// stack is the logical id of the nested stack, and id the logical id of the resource in that stack.
	stack, id string
	// function is the function behind a method, or "-".
	function string
	// deleted says that the resource no longer exists in the current templates.
	deleted bool
}

func (r apiResource) String() string { return fmt.Sprintf("%s %s", r.kind, r.name) }

// sameAs reports whether two resources are the same for API Gateway.
func (r apiResource) sameAs(other apiResource) bool {
	return r.api == other.api && r.kind == other.kind && r.name == other.name
}

func (r apiResource) compare(other apiResource) int {
	return cmp.Or(cmp.Compare(r.api, other.api), cmp.Compare(r.kind, other.kind), cmp.Compare(r.name, other.name))
}

// stackIDs returns the logical ids of the nested stacks, by the names of their files.
func (a assembly) stackIDs() map[string]string {
	out := map[string]string{}
	for _, stack := range a.stacks {
		for id, r := range stack.Resources {
			if file, ok := r.Metadata["aws:asset:path"].(string); ok && r.Type == "AWS::CloudFormation::Stack" {
				out[file] = id
			}
		}
	}
	return out
}

// apiResources returns the resources of API Gateway except deployments, sorted.
func (a assembly) apiResources(t *testing.T) []apiResource {
	t.Helper()
	stackIDs := a.stackIDs()
	var out []apiResource
	for file, stack := range a.stacks {
		for id, r := range stack.Resources {
			kind, ok := strings.CutPrefix(r.Type, "AWS::ApiGateway::")
			if !ok || kind == "Deployment" { // every change of an API creates a new deployment
				continue
			}
			p := apiResource{
				api: cmp.Or(refID(r.Properties["RestApiId"]), "-"), kind: kind,
				stack: cmp.Or(stackIDs[file], "installation"), id: id, function: "-",
			}
			switch kind {
			case "RestApi":
				p.api, p.name = id, render(r.Properties["Name"])
			case "Resource":
				p.name = a.pathOf(map[string]any{"Ref": id})
			case "Method":
				p.name = render(r.Properties["HttpMethod"]) + ":" + a.pathOf(r.Properties["ResourceId"])
				p.function = a.integratedFunction(r)
			case "GatewayResponse":
				p.name = render(r.Properties["ResponseType"])
			case "Stage":
				p.name = render(r.Properties["StageName"])
			case "Account":
				p.name = "-" // there is only one in an account and region
			case "DomainName", "BasePathMapping":
				p.api, p.name = "-", cmp.Or(refID(r.Properties["DomainName"]), render(r.Properties["DomainName"]))
			default:
				t.Fatalf("%s has the type %s, want a known type: add its name in API Gateway to apis_test.go", id, r.Type)
			}
			out = append(out, p)
		}
	}
	slices.SortFunc(out, apiResource.compare)
	return out
}

// pathOf returns the path of the resource to which a reference refers, or "/" for the API itself.
func (a assembly) pathOf(reference any) string {
	path := ""
	for id := refID(reference); id != ""; {
		r := a.find(id)
		path = "/" + render(r.Properties["PathPart"]) + path
		id = refID(r.Properties["ParentId"])
	}
	return cmp.Or(path, "/")
}

// integratedFunction returns the logical id of the function that a method calls.
func (a assembly) integratedFunction(method resource) string {
	_, uri, _ := strings.Cut(render(get(method.Properties, "Integration", "Uri")), "/functions/${")
	alias, _, _ := strings.Cut(uri, "}")
	return a.aliasTarget(alias)
}

// aliasTarget returns the logical id of the function behind an alias, "" if there is no such alias.
func (a assembly) aliasTarget(alias string) string {
	return refID(a.all("AWS::Lambda::Alias")[alias].Properties["FunctionName"])
}

// refID returns the logical id in a reference (Ref), or "" for any other value.
func refID(v any) string {
	id, _ := get(v, "Ref").(string)
	return id
}
