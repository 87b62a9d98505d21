package house

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

	"github.com/gatewright/gatewright/internal/gobuild"
)

// Module is the path of this module.
const Module = "github.com/gatewright/gatewright"

// Graph is what imports what in a build of the module, by import path.
type Graph map[string]*Linked

// Linked is a package of the module or of one it needs.
type Linked struct {
	ImportPath string
	Name       string
	// Deps are all packages it reaches, through any number of imports.
	Deps     []string
	Standard bool
	// Module is nil in the standard library.
	Module *struct{ Path string }
}

// ReadGraph asks the go command about every package below root, as functions
// are built for Lambda, on every machine: what is linked differs between systems.
// Tests' own imports are left out.
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

// boundary says what packages below a folder of the module must not reach,
// however long the way. Single imports are depguard's (.golangci.yml): these
// are the rules that a chain of innocent ones would break.
type boundary struct {
	from   string
	refuse []string
	why    string
}

func boundaries() []boundary {
	return []boundary{
		{
			"shared",
			[]string{Module + "/functions", Module + "/infra", Module + "/local", Module + "/cmd"},
			"shared packages stand below everything that uses them",
		},
		{
			"client",
			[]string{Module + "/functions", Module + "/infra", Module + "/local/product", Module + "/shared/store/embedded", "github.com/aws/aws-sdk-go-v2"},
			"the command line client is small, and uses the public API alone",
		},
		{
			"shared/gateway",
			[]string{Module + "/shared/store", Module + "/shared/blob", "github.com/aws/aws-sdk-go-v2"},
			"the data plane declares the interfaces it needs and runs without AWS in a container",
		},
		{
			"functions",
			[]string{Module + "/infra", Module + "/local", "github.com/aws/aws-cdk-go", "github.com/aws/jsii-runtime-go"},
			"a function carries nothing that only builds or runs it",
		},
		{
			"cmd/gatewright",
			[]string{Module + "/functions", Module + "/local/product", Module + "/shared/store/embedded", "github.com/aws/aws-sdk-go-v2", "go.opentelemetry.io/otel/sdk"},
			"the client is small and starts at once; the server is a binary of its own (docs/decisions/0068-the-server-is-a-binary-of-its-own.md)",
		},
	}
}

// carriers are the mains that link all groups, while their packages link none: the tools of mcp are the operations of all groups, and
// releasecheck calls all functions.
var carriers = []string{"functions/mcp/lambda", "functions/releasecheck/lambda"}

// Boundaries names every package that reaches what its folder must not, and
// groups that reach one another.
func (g Graph) Boundaries() (found []Finding) {
	for _, p := range g {
		dir, ours := strings.CutPrefix(p.ImportPath, Module+"/")
		if !ours {
			continue
		}
		for _, b := range boundaries() {
			for _, refused := range b.refuse {
				if !within(dir, b.from) {
					continue
				}
				if i := slices.IndexFunc(p.Deps, func(dep string) bool { return within(dep, refused) }); i >= 0 {
					found = append(found, Finding{Path: dir, Text: "reaches " + p.Deps[i] + ": " + b.why})
				}
			}
		}
		if group := groupOf(p.ImportPath); group != "" && !slices.Contains(carriers, dir) {
			for _, dep := range p.Deps {
				if other := groupOf(dep); other != "" && other != group {
					found = append(found, Finding{Path: dir, Text: "reaches functions/" + other + ": what two groups need belongs into shared"})
				}
			}
		}
	}
	return found
}

// within reports whether a path is a folder or below it.
func within(p, folder string) bool { return p == folder || strings.HasPrefix(p, folder+"/") }

// groupOf returns the name of the folder below functions, "" elsewhere.
func groupOf(importPath string) string {
	rest, ok := strings.CutPrefix(importPath, Module+"/functions/")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "/")
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

// Dependencies lists what a function links beyond the standard library: our
// packages, then modules of others without their versions, which go.mod has.
// First for its package, then what its Lambda or its container adds to that.
func (g Graph) Dependencies(function string) string {
	var b strings.Builder
	b.WriteString("# What this function links; `make goldens` writes it (internal/house).\n")
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
		var ours, modules []string
		for _, dep := range p.Deps {
			d := g[dep]
			switch {
			case d == nil || d.Standard || d.Module == nil || dep == folder:
			case d.Module.Path == Module:
				ours = append(ours, strings.TrimPrefix(dep, Module+"/"))
			default:
				modules = append(modules, d.Module.Path)
			}
		}
		slices.Sort(ours)
		slices.Sort(modules)
		for _, line := range slices.Concat(ours, slices.Compact(modules)) {
			if !seen[line] {
				seen[line] = true
				b.WriteString("  " + line + "\n")
			}
		}
	}
	return b.String()
}
