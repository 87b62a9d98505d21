package repolint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/testing/gobuild"
)

// Module is the path of this module.
const Module = "github.com/gatewright/gatewright"

// Graph contains the packages of a build of the module with their dependencies, by import path.
type Graph map[string]*Linked

// Linked is a package of the module, or a package that the module needs.
type Linked struct {
	ImportPath string
	Name       string
	// Deps are all packages that the package depends on, directly or indirectly.
	Deps     []string
	Standard bool
	// Module is nil in the standard library.
	Module *struct{ Path string }
}

// ReadGraph returns the graph of every package below root, as `go list` reports it. On every machine it uses the build
// of functions for Lambda, because the linked packages differ between systems. It leaves out imports of tests.
func ReadGraph(ctx context.Context, root string) (Graph, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-deps", "-e", "-json=ImportPath,Name,Deps,Standard,Module", "./...")
	cmd.Dir, cmd.Env = root, append(gobuild.Environ(), "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	g := Graph{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p Linked
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return g, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		g[p.ImportPath] = &p
	}
}

// boundary lists the packages that no package in a folder of the module may depend on, directly or indirectly. depguard
// checks direct imports (.golangci.yml); these rules also find dependencies through a chain of allowed imports.
type boundary struct {
	from   string   // the folder, relative to the module
	denied []string // import paths: packages at and below them are denied
	reason string
}

func boundaries() []boundary {
	return []boundary{
		{
			"shared",
			[]string{Module + "/functions", Module + "/infra", Module + "/local", Module + "/cmd"},
			"shared packages stand below everything that uses them",
		},
		{
			thirdParty,
			sharedFolders(layers()),
			"a copy of a library imports only what the original imports, and no layer of shared",
		},
		{
			"client",
			[]string{
				Module + "/functions", Module + "/infra", Module + "/local/product", Module + "/shared/core/store/embedded",
				"github.com/aws/aws-sdk-go-v2",
			},
			"the command line client is small, and uses the public API alone",
		},
		{
			"shared/dataplane/gateway",
			[]string{Module + "/shared/core/store", Module + "/shared/core/blob", "github.com/aws/aws-sdk-go-v2"},
			"the data plane declares the interfaces it needs and runs without AWS in a container",
		},
		{
			"functions",
			[]string{Module + "/infra", Module + "/local", "github.com/aws/aws-cdk-go", "github.com/aws/jsii-runtime-go"},
			"a function carries nothing that only builds or runs it",
		},
		{
			"cmd/gatewright",
			[]string{
				Module + "/functions", Module + "/local/product", Module + "/shared/core/store/embedded",
				"github.com/aws/aws-sdk-go-v2", "go.opentelemetry.io/otel/sdk",
			},
			"the client is small and starts at once; the server is a binary of its own " +
				"(docs/decisions/0068-the-server-is-a-binary-of-its-own.md)",
		},
	}
}

// testHelpers is the folder with the helpers for tests of all folders.
const testHelpers = Module + "/shared/testing"

// isProgram reports whether the package is a program of the product: a command, a function, or the local run. dir is
// the package's folder.
func (l *Linked) isProgram(dir string) bool {
	return l.Name == "main" && (dir == "local" || within(dir, "cmd") || within(dir, "functions"))
}

// sharedFolders returns the import paths of the folders of shared with these names.
func sharedFolders(names []string) (folders []string) {
	for _, name := range names {
		folders = append(folders, Module+"/shared/"+name)
	}
	return folders
}

// mayLinkAllGroups are the main packages that may link all groups: the MCP server offers the operations of all groups
// as tools, and releasecheck calls all functions.
var mayLinkAllGroups = []string{"functions/mcp/lambda", "functions/releasecheck/lambda"}

// Boundaries reports each package that violates a boundary of its folder, programs that link helpers of tests, and
// groups that depend on one another.
func (g Graph) Boundaries() (found []Finding) {
	for _, p := range g {
		dir, isOwn := strings.CutPrefix(p.ImportPath, Module+"/")
		if !isOwn {
			continue
		}
		for _, b := range boundaries() {
			for _, refused := range b.denied {
				if !within(dir, b.from) {
					continue
				}
				if i := slices.IndexFunc(p.Deps, func(dep string) bool { return within(dep, refused) }); i >= 0 {
					found = append(found, Finding{Path: dir, Text: "reaches " + p.Deps[i] + ": " + b.reason})
				}
			}
		}
		if i := slices.IndexFunc(p.Deps, func(dep string) bool {
			return within(dep, testHelpers)
		}); i >= 0 && p.isProgram(dir) {
			found = append(found, Finding{Path: dir, Text: "reaches " + p.Deps[i] + ": no program of the product links " +
				"helpers of tests (shared/README.md)"})
		}
		if group := groupOf(p.ImportPath); group != "" && !slices.Contains(mayLinkAllGroups, dir) {
			for _, dep := range p.Deps {
				if other := groupOf(dep); other != "" && other != group {
					found = append(found,
						Finding{Path: dir, Text: "reaches functions/" + other + ": code that two groups need belongs in shared"})
				}
			}
		}
	}
	return found
}

// within reports whether the path p is folder or is below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// groupOf returns the name of the folder below functions, or "" for other packages.
func groupOf(importPath string) string {
	folder, ok := strings.CutPrefix(importPath, Module+"/functions/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(folder, "/")
	return name
}

// Functions returns the names of the folders below functions, sorted.
func (g Graph) Functions() []string {
	names := map[string]bool{}
	for importPath := range g {
		if name := groupOf(importPath); name != "" {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// Dependencies lists what a function links, except the standard library: packages of this module, and then the paths of
// other modules. Versions are left out, because they are in go.mod. The first list is for the function's package. The
// next lists have only what its Lambda links in addition, and what its container links in addition to both.
func (g Graph) Dependencies(function string) string {
	var b strings.Builder
	b.WriteString("# What this function links; `make goldens` writes it (internal/repolint).\n")
	folder := path.Join(Module, "functions", function)
	seen := map[string]bool{}
	for _, part := range []struct{ title, importPath string }{
		{"the package", folder},
		{"its Lambda adds", path.Join(folder, "lambda")},
		{"its container adds", path.Join(folder, "container")},
	} {
		p := g[part.importPath]
		if p == nil {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n", part.title)
		var packages, modules []string
		for _, dep := range p.Deps {
			d := g[dep]
			switch {
			case d == nil || d.Standard || d.Module == nil || dep == folder:
			case d.Module.Path == Module:
				packages = append(packages, strings.TrimPrefix(dep, Module+"/"))
			default:
				modules = append(modules, d.Module.Path)
			}
		}
		slices.Sort(packages)
		slices.Sort(modules)
		for _, line := range slices.Concat(packages, slices.Compact(modules)) {
			if !seen[line] {
				seen[line] = true
				b.WriteString("  " + line + "\n")
			}
		}
	}
	return b.String()
}
