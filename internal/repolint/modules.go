package repolint

import (
	"fmt"
	"slices"
	"strings"
)

const (
	// The folders of the programs whose modules are compared. `make run` starts the program in localFolder. The first
	// `make run` waits until everything that this program links is compiled.
	serverFolder = "cmd/gatewright-server"
	localFolder  = "local"
	// ServerModules is the path of the file with the modules that the server is allowed to link, one per line.
	ServerModules = "internal/repolint/testdata/server-modules.txt"
)

// Modules compares the modules that the server links with the list of allowed modules, in both directions. It also reports each module
// that `make run` links in addition to the server's.
//
// The list is edited by hand and is not a golden file, so that `make goldens` cannot add a module. The server once grew
// by a third because of modules that it did not need, and nobody noticed.
func (g Graph) Modules(list string) (found []Finding) {
	allowed := strings.Fields(list)
	linked := g.modules(serverFolder)
	for _, module := range linked {
		if !slices.Contains(allowed, module) {
			found = append(found, Finding{Path: serverFolder, Text: fmt.Sprintf(
				"links the new module %s through %s: do without it, or add the line %s to %s and say in the commit what it is "+
					"for and how many bytes it adds", module, g.importer(serverFolder, module), module, ServerModules)})
		}
	}
	for _, module := range allowed {
		if !slices.Contains(linked, module) {
			found = append(found, Finding{Path: ServerModules, Text: module + ": the server does not link this module: " +
				"remove the line"})
		}
	}
	for _, module := range g.modules(localFolder) {
		if !slices.Contains(linked, module) {
			found = append(found, Finding{Path: localFolder, Text: fmt.Sprintf(
				"links the module %s through %s, and the server does not: move what needs it into a program of its own, as "+
					"local/dev/emulator/process is", module, g.importer(localFolder, module))})
		}
	}
	return found
}

// modules returns the paths of the other modules that the program in a folder links, sorted.
func (g Graph) modules(folder string) (out []string) {
	p := g[Module+"/"+folder]
	if p == nil {
		return nil
	}
	for _, dep := range p.Deps {
		if d := g[dep]; d != nil && d.Module != nil && d.Module.Path != Module {
			out = append(out, d.Module.Path)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// importer returns the folder of the package of this module that causes a program to link another module: the package
// with the fewest dependencies among those that depend on the module.
func (g Graph) importer(program, module string) string {
	reaches := func(p *Linked) bool {
		return p != nil && p.Module != nil && p.Module.Path == Module && slices.ContainsFunc(p.Deps, func(dep string) bool {
			d := g[dep]
			return d != nil && d.Module != nil && d.Module.Path == module
		})
	}
	nearest := g[Module+"/"+program]
	for _, dep := range nearest.Deps {
		if p := g[dep]; reaches(p) && len(p.Deps) < len(nearest.Deps) {
			nearest = p
		}
	}
	return strings.TrimPrefix(nearest.ImportPath, Module+"/")
}
