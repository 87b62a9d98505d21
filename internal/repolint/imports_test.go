package repolint

import (
	"testing"
)

// graph returns a graph of packages. reaches has the packages that each package depends on. Packages of this module
// have the names of their folders.
func graph(reaches map[string][]string) Graph {
	type module = struct{ Path string }
	g := Graph{}
	add := func(name string) string {
		p := &Linked{ImportPath: Module + "/" + name, Module: &module{Module}}
		switch name {
		case "fmt", "net/http":
			p = &Linked{ImportPath: name, Standard: true}
		case "example.com/m/a", "example.com/m/b":
			p = &Linked{ImportPath: name, Module: &module{"example.com/m"}}
		case "github.com/aws/aws-sdk-go-v2/service/s3", "go.opentelemetry.io/otel/sdk/trace":
			p = &Linked{ImportPath: name, Module: &module{name}}
		case "local", "cmd/gatewright-server", "functions/consumers/lambda", "internal/bench":
			p.Name = "main"
		}
		if g[p.ImportPath] == nil {
			g[p.ImportPath] = p
		}
		return p.ImportPath
	}
	for name, deps := range reaches {
		from := add(name)
		for _, dep := range deps {
			g[from].Deps = append(g[from].Deps, add(dep))
		}
	}
	return g
}

// reaching returns the argument of graph for one package with dependencies.
func reaching(pkg string, imports ...string) map[string][]string {
	return map[string][]string{pkg: imports}
}

// indirectImports has packages with their dependencies, and a part of the expected finding.
var indirectImports = []struct {
	name    string
	reaches map[string][]string
	want    string // "" for none
}{
	{
		"shared reaches a function",
		reaching("shared/resource/keys", "functions/consumers"),
		"shared/resource/keys: reaches " + Module + "/functions/consumers",
	},
	{"shared reaches shared", reaching("shared/resource/keys", "shared/core/store", "fmt"), ""},
	{
		"the gateway reaches the store",
		reaching("shared/dataplane/gateway/upstream", "shared/core/store"),
		"reaches " + Module + "/shared/core/store",
	},
	{
		"the gateway reaches AWS",
		reaching("shared/dataplane/gateway", "github.com/aws/aws-sdk-go-v2/service/s3"), "shared/dataplane/gateway: reaches",
	},
	{"a package whose name begins with gateway", reaching("shared/gatewayed", "shared/core/store"), ""},
	{"a function reaches the local run", reaching("functions/builder", "local/datadir"), "functions/builder: reaches"},
	{
		"the client reaches the product",
		reaching("cmd/gatewright", "local/product"),
		"cmd/gatewright: reaches " + Module + "/local/product",
	},
	{
		"the client reaches AWS",
		reaching("cmd/gatewright", "github.com/aws/aws-sdk-go-v2/service/s3"), "cmd/gatewright: reaches",
	},
	{
		"the client reaches the exporter of spans",
		reaching("cmd/gatewright", "go.opentelemetry.io/otel/sdk/trace"), "cmd/gatewright: reaches",
	},
	{"the server reaches the product", reaching("cmd/gatewright-server", "local/product", "functions/gateway"), ""},
	{
		"the server links helpers of tests",
		reaching("cmd/gatewright-server", "shared/testing/freeport"),
		"cmd/gatewright-server: reaches " + Module + "/shared/testing/freeport",
	},
	{"the local run links helpers of tests", reaching("local", "shared/testing/freeport"), "local: reaches"},
	{
		"a Lambda links helpers of tests",
		reaching("functions/consumers/lambda", "shared/testing/freeport"), "functions/consumers/lambda: reaches",
	},
	{"a program of contributors links helpers of tests", reaching("internal/bench", "shared/testing/freeport"), ""},
	{"helpers of tests reach helpers of tests", reaching("functions/functionstest", "shared/testing/freeport"), ""},
	{
		"a copy of a library reaches a layer",
		reaching("shared/thirdparty/jsonschema", "shared/base/fault"), "shared/thirdparty/jsonschema: reaches",
	},
	{
		"a copy of a library reaches its own packages",
		reaching("shared/thirdparty/jsonschema", "shared/thirdparty/jsonschema/kind"), "",
	},
	{
		"a group reaches another group",
		reaching("functions/consumers", "functions/keybuckets"), "reaches functions/keybuckets",
	},
	{"a Lambda reaches its group", reaching("functions/consumers/lambda", "functions/consumers"), ""},
	{"the list of all groups reaches a group", reaching("functions", "functions/consumers"), ""},
}

func TestBoundariesFollowIndirectImports(t *testing.T) {
	for _, c := range indirectImports {
		t.Run(c.name, func(t *testing.T) {
			found := graph(c.reaches).Boundaries()
			if (c.want == "" && len(found) != 0) || (c.want != "" && !contains(found, c.want)) {
				t.Errorf("Boundaries() = %v, want a finding with %q, or none if this is empty", found, c.want)
			}
		})
	}
}

func TestDependenciesAreUniqueWithoutStandardLibrary(t *testing.T) {
	g := graph(map[string][]string{
		"functions/a": {"fmt", "shared/resource/keys", "example.com/m/b", "example.com/m/a"},
		"functions/a/lambda": {
			"fmt", "net/http", "functions/a", "shared/resource/keys", "shared/core/store",
			"example.com/m/a", "github.com/aws/aws-sdk-go-v2/service/s3",
		},
	})
	const want = "# What this function links; `make goldens` writes it (internal/repolint).\n" +
		"\nthe package\n  shared/resource/keys\n  example.com/m\n" +
		"\nits Lambda adds\n  shared/core/store\n  github.com/aws/aws-sdk-go-v2/service/s3\n"
	if got := g.Dependencies("a"); got != want {
		t.Errorf("Dependencies(a) =\n%s\nwant\n%s", got, want)
	}
}
