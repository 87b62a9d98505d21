// Package repolint contains the rules for the repository that no linter checks: what the doc of a package says, which names are refused,
// which packages can depend on which through any number of imports, and that links and decision records are complete.
//
// It is not a style guide: the rules that a tool can check (formats, vet, single imports) are in .golangci.yml, and
// CONTRIBUTING.md explains the others. No code of the product imports this package. Its tests apply every rule to the
// repository. They also apply each rule to small trees that break it, to prove that the rule can fail.
//
// The rules are Go functions for two reasons. A plugin of golangci-lint requires a custom build of the linter, and does
// not read Markdown. A shell script that finds nothing looks the same as a script that checks nothing. All rules
// together take 0.5 s, and `go list` returns the import graph in 0.2 s without type-checking the AWS SDK.
//
// Read repolint.go first. source.go contains the rules about Go files, prose.go about documents, wordings.go about comments and names,
// stalenames.go about former names in comments, messages.go about failures of tests, longlines.go about lines of code, imports.go,
// folders.go and modules.go about imports, keyprefixes.go about the table's keys, records.go about stored records,
// commands.go and flags.go about commands, requestbodies.go about bodies of requests, state.go about package variables,
// and promoted.go about embedded readers.
package repolint

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Finding is one violation of a rule.
type Finding struct {
	Path string
	// Line is the number of the line, from 1, or 0 for the whole file.
	Line int
	Text string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.Path, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Rule checks a whole tree. The order of its findings is undefined.
type Rule func(*Tree) []Finding

// Tree is the repository in the form that rules read. It lacks ignoredFolders, generatedConsole, and the contents of
// the copies of libraries.
type Tree struct {
	// Texts maps the slash-separated path of each text file to its contents.
	Texts map[string]string
	// Paths contains the path of every file and folder, including binary files.
	Paths map[string]bool
	// Programs contains the paths of the executable files and object archives.
	Programs []string
	// Packages contains the folders with Go files, except those in testdata, sorted by path.
	Packages []Package

	fset *token.FileSet
}

// Package contains the Go files of one folder.
type Package struct {
	Dir string
	// Name is "" if the folder has only tests.
	Name string
	// Files contains the files by path, including tests and generated files.
	Files map[string]*ast.File
}

// ignoredFolders are the names of the folders that tools create in the tree. They contain none of our source code.
var ignoredFolders = []string{".git", ".bin", "dist", "node_modules", ".gatewright"}

// generatedConsole is the folder that builds and tests of the console write to, even while this package's tests run. Git ignores it.
const generatedConsole = "console/generated"

// thirdParty is the folder with the copies of libraries, each in a folder of its own. Their authors maintain the code.
const thirdParty = "shared/thirdparty"

// programMagics are the first bytes of executable files and of object archives on Linux, macOS and Windows.
var programMagics = []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "MZ", "!<arch>\n"}

// Read reads the tree below fsys's root.
func Read(fsys fs.FS) (*Tree, error) {
	t := &Tree{Texts: map[string]string{}, Paths: map[string]bool{}, fset: token.NewFileSet()}
	packages := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(ignoredFolders, d.Name()) || p == generatedConsole {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // a linked worktree has a file .git
		}
		t.Paths[p] = true
		if d.IsDir() && path.Dir(p) == thirdParty {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := fs.ReadFile(fsys, p)
		if err != nil {
			return err
		}
		if bytes.IndexByte(text, 0) >= 0 {
			if slices.ContainsFunc(programMagics, func(magic string) bool { return bytes.HasPrefix(text, []byte(magic)) }) {
				t.Programs = append(t.Programs, p)
			}
			return nil
		}
		t.Texts[p] = string(text)
		if path.Ext(p) == ".go" && !strings.Contains("/"+p, "/testdata/") {
			return t.addGo(packages, p, text)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the repository: %w", err)
	}
	for _, p := range packages {
		t.Packages = append(t.Packages, *p)
	}
	slices.SortFunc(t.Packages, func(a, b Package) int { return cmp.Compare(a.Dir, b.Dir) })
	return t, nil
}

func (t *Tree) addGo(packages map[string]*Package, p string, text []byte) error {
	file, err := parser.ParseFile(t.fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	dir := path.Dir(p)
	if packages[dir] == nil {
		packages[dir] = &Package{Dir: dir, Files: map[string]*ast.File{}}
	}
	packages[dir].Files[p] = file
	if !isTest(p) {
		packages[dir].Name = file.Name.Name
	}
	return nil
}

func (t *Tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// sources returns the package's files, except tests and generated files.
func (p Package) sources() map[string]*ast.File {
	sources := map[string]*ast.File{}
	for name, file := range p.Files {
		if !isTest(name) && !ast.IsGenerated(file) {
			sources[name] = file
		}
	}
	return sources
}

func isTest(p string) bool { return strings.HasSuffix(p, "_test.go") }
