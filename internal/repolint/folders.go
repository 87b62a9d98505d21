package repolint

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// topFolders returns the top-level folders whose Go packages import other top-level folders, or are imported by them,
// in the order of dependencies. Code in a folder imports only packages of its own folder and of earlier ones.
func topFolders() []string {
	return []string{
		"shared", "docs", "console", "events", "functions", "infra", "local", "client", "cmd", "packaging",
		"internal",
	}
}

// layers returns the folders of shared, in the order of dependencies. A package imports only packages of its own layer
// and of earlier ones. .golangci.yml has a depguard rule for each layer except the last, so that an editor shows a
// wrong import at once.
func layers() []string {
	return []string{"testing", "base", "format", "core", "resource", "management", "dataplane", "runtime"}
}

// thirdPartyLayer is the folder of shared with copies of libraries. Every layer can import it, and it imports no layer.
const thirdPartyLayer = "thirdparty"

// FolderOrder reports imports from a top-level folder to a later one, and folders that have no place in the order.
// Tests can import later folders: FolderImports lists these imports.
func FolderOrder(t *Tree) (found []Finding) {
	order := topFolders()
	for imp, file := range folderImports(t) {
		from, to := slices.Index(order, imp.from), slices.Index(order, imp.to)
		for _, folder := range []string{imp.from, imp.to} {
			if !slices.Contains(order, folder) {
				found = append(found, Finding{Path: folder, Text: "has no place in the order of folders: add it to topFolders in " +
					"internal/repolint/folders.go"})
			}
		}
		if from >= 0 && from < to && !imp.test {
			found = append(found, Finding{Path: file, Text: fmt.Sprintf(
				"imports a package of %s, which stands later than %s (topFolders in internal/repolint/folders.go): move the code "+
					"that both need to an earlier folder", imp.to, imp.from)})
		}
	}
	return found
}

// Layers reports packages of shared that are in no layer, imports from a layer to a later one, and pairs of layers
// without a rule of depguard. depguard reads neither generated files nor files for other systems: this rule reads all
// files except tests.
func Layers(t *Tree) []Finding {
	order := layers()
	found := unlistedLayers(t, order)
	for _, p := range t.Packages {
		from, ok := layerOf(p.Dir)
		if !ok {
			continue
		}
		for name, file := range p.Files {
			for _, imported := range moduleImports(file) {
				if to, ok := layerOf(imported); ok && !isTest(name) && layerIndex(order, from) < layerIndex(order, to) {
					found = append(found, Finding{Path: name, Text: fmt.Sprintf("imports %s, but %s stands after %s: move the code "+
						"that both need to an earlier layer", imported, path.Join("shared", to), path.Join("shared", from))})
				}
			}
		}
	}
	return append(found, missingLinterRules(t, order)...)
}

// unlistedLayers reports the folders of shared that have packages and no place in the order, and shared itself if it has files.
func unlistedLayers(t *Tree, order []string) (found []Finding) {
	var reported []string
	for _, p := range t.Packages {
		layer, ok := layerOf(p.Dir)
		if !ok || layer == thirdPartyLayer || slices.Contains(order, layer) || slices.Contains(reported, layer) {
			continue
		}
		reported = append(reported, layer)
		found = append(found, Finding{
			Path: path.Join("shared", layer),
			Text: "has no place in the order of layers: add it to layers in internal/repolint/folders.go, or move its " +
				"packages to a layer",
		})
	}
	return found
}

// missingLinterRules reports pairs of layers without a rule of depguard.
func missingLinterRules(t *Tree, order []string) (found []Finding) {
	const linterConfig = ".golangci.yml"
	for i, earlier := range order {
		for _, later := range order[i+1:] {
			denied := fmt.Sprintf("            - pkg: %s/shared/%s\n              desc: shared/%s stands after shared/%s\n",
				Module, later, later, earlier)
			if !strings.Contains(t.Texts[linterConfig], denied) {
				found = append(found, Finding{Path: linterConfig, Text: fmt.Sprintf("depguard lets shared/%s import shared/%s: "+
					"add to the rule shared-%s\n%s", earlier, later, earlier, denied)})
			}
		}
	}
	return found
}

// layerOf returns the layer that contains a folder, or "" for shared itself. It returns false for a folder outside
// shared.
func layerOf(folder string) (layer string, ok bool) {
	if !within(folder, "shared") {
		return "", false
	}
	layer, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(folder, "shared"), "/"), "/")
	return layer, true
}

// layerIndex returns the place of a layer in the order. Copies of libraries come before all layers, and a folder that
// is not in order comes after them.
func layerIndex(order []string, layer string) int {
	switch i := slices.Index(order, layer); {
	case layer == thirdPartyLayer:
		return -1
	case i < 0:
		return len(order)
	default:
		return i
	}
}

// UncheckedImports reports imports of packages that Read leaves out, such as packages in testdata, because no rule would
// check the imports of such packages. Imports of the copies of libraries are exempt. Tests are exempt too: they can
// import packages that a build has written.
func UncheckedImports(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.Files {
			for _, imported := range moduleImports(file) {
				if !isTest(name) && !within(imported, thirdParty) && !slices.ContainsFunc(t.Packages, func(p Package) bool {
					return p.Dir == imported
				}) {
					found = append(found, Finding{Path: name, Text: fmt.Sprintf("imports %s, whose files no rule reads: move the "+
						"package to a folder with another name", imported)})
				}
			}
		}
	}
	return found
}

// FolderImports returns the imports between top-level folders as a text, with one pair of folders in each line, in the
// order of topFolders. Imports that only tests have are at the end.
func FolderImports(t *Tree) string {
	all := folderImports(t)
	var b strings.Builder
	b.WriteString("# Imports between the top-level folders; `make goldens` writes it (internal/repolint).\n")
	write := func(title string, test bool) {
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, from := range topFolders() {
			for _, to := range topFolders() {
				if _, ok := all[folderImport{from, to, test}]; ok && (!test || all[folderImport{from, to, false}] == "") {
					fmt.Fprintf(&b, "  %s -> %s\n", from, to)
				}
			}
		}
	}
	write("code", false)
	write("tests only", true)
	return b.String()
}

// folderImport is an import of a package in one top-level folder by a package in another.
type folderImport struct {
	from, to string
	// test is true for an import in test files, and false for an import in other files. If both kinds of files have the
	// import, there are two folderImports.
	test bool
}

// folderImports returns the imports between top-level folders, each with the path of a file that has the import.
func folderImports(t *Tree) map[folderImport]string {
	all := map[folderImport]string{}
	for _, p := range t.Packages {
		from, _, _ := strings.Cut(p.Dir, "/")
		for _, name := range slices.Sorted(maps.Keys(p.Files)) {
			for _, to := range moduleImports(p.Files[name]) {
				if to, _, _ = strings.Cut(to, "/"); to != from {
					all[folderImport{from, to, isTest(name)}] = name
				}
			}
		}
	}
	return all
}

// moduleImports returns the folders of the module's packages that a file imports.
func moduleImports(f *ast.File) (folders []string) {
	for _, spec := range f.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if folder, ok := strings.CutPrefix(imported, Module+"/"); err == nil && ok {
			folders = append(folders, folder)
		}
	}
	return folders
}
