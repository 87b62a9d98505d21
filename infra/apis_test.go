package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// part is a resource of API Gateway that can be there only once: what it is called
// there, and what CloudFormation calls it.
type part struct {
	api  string // the logical id of the REST API, "-" for what is none's
	kind string // of API Gateway
	name string // what API Gateway calls it, such as GET:/v1/accounts; without spaces
	// stack and id are CloudFormation's names for the nested stack and for the part in it.
	stack, id string
	// calls is the function behind a method, "-" for what calls none.
	calls string
	// gone says that it is there no more.
	gone bool
}

func (p part) String() string { return fmt.Sprintf("%s %s", p.kind, p.name) }

// same reports whether API Gateway takes two for one.
func (p part) same(other part) bool {
	return p.api == other.api && p.kind == other.kind && p.name == other.name
}

func (p part) compare(other part) int {
	return cmp.Or(cmp.Compare(p.api, other.api), cmp.Compare(p.kind, other.kind), cmp.Compare(p.name, other.name))
}

// stackOf is what CloudFormation calls the nested stacks, by the names of their files.
func (a assembly) stackOf() map[string]string {
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

// parts are those of both APIs, sorted.
func (a assembly) parts(t *testing.T) []part {
	t.Helper()
	stackOf := a.stackOf()
	var out []part
	for file, stack := range a.stacks {
		for id, r := range stack.Resources {
			kind, ok := strings.CutPrefix(r.Type, "AWS::ApiGateway::")
			if !ok || kind == "Deployment" { // any number of them, of any name
				continue
			}
			p := part{api: cmp.Or(unreferred(r.Properties["RestApiId"]), "-"), kind: kind, stack: cmp.Or(stackOf[file], "installation"), id: id, calls: "-"}
			switch kind {
			case "RestApi":
				p.api, p.name = id, render(r.Properties["Name"])
			case "Resource":
				p.name = a.pathOf(map[string]any{"Ref": id})
			case "Method":
				p.name = render(r.Properties["HttpMethod"]) + ":" + a.pathOf(r.Properties["ResourceId"])
				p.calls = a.behind(r)
			case "GatewayResponse":
				p.name = render(r.Properties["ResponseType"])
			case "Stage":
				p.name = render(r.Properties["StageName"])
			case "Account":
				p.name = "-" // a setting of the account and the region
			case "DomainName", "BasePathMapping":
				p.api, p.name = "-", cmp.Or(unreferred(r.Properties["DomainName"]), render(r.Properties["DomainName"]))
			default:
				t.Fatalf("%s is an %s, of which nothing is known: say in apis_test.go what API Gateway calls it", id, r.Type)
			}
			out = append(out, p)
		}
	}
	slices.SortFunc(out, part.compare)
	return out
}

// pathOf is the path of a resource that is referred to, "/" for the API itself.
func (a assembly) pathOf(reference any) string {
	path := ""
	for id := unreferred(reference); id != ""; {
		r := a.find(id)
		path = "/" + render(r.Properties["PathPart"]) + path
		id = unreferred(r.Properties["ParentId"])
	}
	return cmp.Or(path, "/")
}

// behind is the function that a method's integration names.
func (a assembly) behind(method resource) string {
	_, uri, _ := strings.Cut(render(get(method.Properties, "Integration", "Uri")), "/functions/${")
	alias, _, _ := strings.Cut(uri, "}")
	return a.aliased(alias)
}

// aliased is the logical id of the function that an alias leads to, "" where there is no such alias.
func (a assembly) aliased(alias string) string {
	return unreferred(a.all("AWS::Lambda::Alias")[alias].Properties["FunctionName"])
}

// unreferred is the logical id in a reference, "" for what is none.
func unreferred(v any) string {
	id, _ := get(v, "Ref").(string)
	return id
}
