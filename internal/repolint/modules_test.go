package repolint

import (
	"os"
	"path"
	"testing"
)

func TestServerLinksListedModulesOnly(t *testing.T) {
	readRepository(t) // makes every source an input of this test, for Go's test cache
	list, err := os.ReadFile(path.Join(repository, ServerModules))
	if err != nil {
		t.Fatal(err)
	}
	g := readGraph(t)
	if len(g.modules(serverFolder)) == 0 || len(g.modules(localFolder)) == 0 {
		t.Fatalf("modules of %s = %d, of %s = %d, want some of both", serverFolder, len(g.modules(serverFolder)), localFolder,
			len(g.modules(localFolder)))
	}
	report(t, g.Modules(string(list)))
}

func TestModulesReportsMissingAndUnlistedModules(t *testing.T) {
	const s3 = "github.com/aws/aws-sdk-go-v2/service/s3"
	for _, c := range []struct {
		name    string
		reaches map[string][]string
		list    string
		want    string // "" for none
	}{
		{
			"only listed modules",
			map[string][]string{serverFolder: {"example.com/m/a", s3, "fmt", "shared/resource/keys"}},
			"example.com/m\n" + s3 + "\n", "",
		},
		{
			"a new module of the server",
			map[string][]string{serverFolder: {"shared/resource/keys", "shared/core/blob", s3, "fmt"}, "shared/core/blob": {s3}},
			"",
			serverFolder + ": links the new module " + s3 + " through shared/core/blob: do without it, or add the line",
		},
		{
			"a listed module that the server does not link",
			map[string][]string{serverFolder: {"fmt"}},
			"example.com/m\n",
			ServerModules + ": example.com/m: the server does not link this module: remove the line",
		},
		{
			"a module of make run only",
			map[string][]string{serverFolder: {"example.com/m/a"}, localFolder: {"example.com/m/b", s3}},
			"example.com/m",
			localFolder + ": links the module " + s3 + " through local, and the server does not",
		},
		{
			"fewer modules in make run",
			map[string][]string{serverFolder: {"example.com/m/a", s3}, localFolder: {"example.com/m/b"}},
			"example.com/m " + s3, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := graph(c.reaches).Modules(c.list)
			if (c.want == "" && len(found) != 0) || (c.want != "" && (len(found) != 1 || !contains(found, c.want))) {
				t.Errorf("Modules() = %v, want only one finding with %q, or none if this is empty", found, c.want)
			}
		})
	}
}
