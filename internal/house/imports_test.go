package house

import (
	"testing"
)

// graph makes one of packages of this module (by folder) and of others, each
// with what it reaches.
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

func TestBoundariesHoldThroughAnyNumberOfImports(t *testing.T) {
	for _, c := range []struct {
		name    string
		reaches map[string][]string
		want    string // "" for none
	}{
		{"shared reaches a function", map[string][]string{"shared/keys": {"functions/consumers"}}, "shared/keys: reaches " + Module + "/functions/consumers"},
		{"shared reaches shared", map[string][]string{"shared/keys": {"shared/store", "fmt"}}, ""},
		{"the gateway reaches the store", map[string][]string{"shared/gateway/upstream": {"shared/store"}}, "reaches " + Module + "/shared/store"},
		{"the gateway reaches AWS", map[string][]string{"shared/gateway": {"github.com/aws/aws-sdk-go-v2/service/s3"}}, "shared/gateway: reaches"},
		{"a name that begins alike", map[string][]string{"shared/gatewayed": {"shared/store"}}, ""},
		{"a function reaches the local run", map[string][]string{"functions/builder": {"local/datadir"}}, "functions/builder: reaches"},
		{"the client reaches the product", map[string][]string{"cmd/gatewright": {"local/product"}}, "cmd/gatewright: reaches " + Module + "/local/product"},
		{"the client reaches AWS", map[string][]string{"cmd/gatewright": {"github.com/aws/aws-sdk-go-v2/service/s3"}}, "cmd/gatewright: reaches"},
		{"the client reaches what sends spans", map[string][]string{"cmd/gatewright": {"go.opentelemetry.io/otel/sdk/trace"}}, "cmd/gatewright: reaches"},
		{"the server reaches the product", map[string][]string{"cmd/gatewright-server": {"local/product", "functions/gateway"}}, ""},
		{"a group reaches another", map[string][]string{"functions/consumers": {"functions/keybuckets"}}, "reaches functions/keybuckets"},
		{"a Lambda reaches its group", map[string][]string{"functions/consumers/lambda": {"functions/consumers"}}, ""},
		{"the list of all groups reaches them", map[string][]string{"functions": {"functions/consumers"}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := graph(c.reaches).Boundaries()
			if (c.want == "" && len(found) != 0) || (c.want != "" && !contains(found, c.want)) {
				t.Errorf("found %v, want %q", found, c.want)
			}
		})
	}
}

func TestDependenciesNameEachOnceAndNothingStandard(t *testing.T) {
	g := graph(map[string][]string{
		"functions/a":        {"fmt", "shared/keys", "example.com/m/b", "example.com/m/a"},
		"functions/a/lambda": {"fmt", "net/http", "functions/a", "shared/keys", "shared/store", "example.com/m/a", "github.com/aws/aws-sdk-go-v2/service/s3"},
	})
	const want = "# What this function links; `make goldens` writes it (internal/house).\n" +
		"\nthe package\n  shared/keys\n  example.com/m\n" +
		"\nits Lambda adds\n  shared/store\n  github.com/aws/aws-sdk-go-v2/service/s3\n"
	if got := g.Dependencies("a"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
