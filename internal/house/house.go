// Package house holds the rules that keep the repository in order and that no
// linter checks: what a package's doc says, which names are refused, who may
// reach whom through any number of imports, that links and records are whole.
//
// It is no style guide: what a tool decides (formats, vet, single imports)
// stands in .golangci.yml, and CONTRIBUTING.md explains the rest. Nothing of the
// product imports it; its tests apply every rule to the repository and, to show that
// each can fail, to small trees that break it.
//
// Why functions in Go: a plugin of golangci-lint means building a linter of
// one's own, which does not read Markdown; a shell script that finds nothing
// looks like one that looks at nothing. All rules together take 0.5 s, and
// `go list` gives the import graph in 0.2 s without type-checking the AWS SDK.
//
// Read house.go first; source.go has the rules about Go files, prose.go those
// about documents, imports.go and modules.go those about the import graph, spaces.go the one
// about the table's keys.
package house

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

// Finding is one breach of a rule.
type Finding struct {
	Path string
	// Line counts from 1; 0 means the file as a whole.
	Line int
	Text string
}

func (f Finding) String() string {
	if f.Line == 0 {
		return fmt.Sprintf("%s: %s", f.Path, f.Text)
	}
	return fmt.Sprintf("%s:%d: %s", f.Path, f.Line, f.Text)
}

// Rule looks at a whole tree. Its findings are in no order.
type Rule func(*Tree) []Finding

// Tree is the repository as the rules see it, read once.
type Tree struct {
	// Texts holds the files that are text, by slash-separated path.
	Texts map[string]string
	// Paths has every file and folder, also those that are no text.
	Paths map[string]bool
	// Programs are the files that a compiler or linker has made.
	Programs []string
	// Packages has the folders with Go files, testdata excepted, by path.
	Packages []Package

	fset *token.FileSet
}

// Package is the Go files of one folder.
type Package struct {
	Dir  string
	Name string
	// Files by path, tests and generated ones included.
	Files map[string]*ast.File
}

// leftOut are what tools put into the tree: no work of ours.
var leftOut = []string{".git", ".bin", "dist", "node_modules", ".gatewright"}

// generatedConsole is the folder that builds and tests of the console write, also while this package's tests run. Git ignores it.
const generatedConsole = "console/generated"

// thirdParty is the folder whose folders are copies of libraries, which their authors keep in order.
const thirdParty = "thirdparty"

// programs are what executable files and archives of objects begin with on Linux, macOS and Windows.
var programs = []string{"\x7fELF", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "MZ", "!<arch>\n"}

// Read reads the tree below fsys's root.
func Read(fsys fs.FS) (*Tree, error) {
	t := &Tree{Texts: map[string]string{}, Paths: map[string]bool{}, fset: token.NewFileSet()}
	packages := map[string]*Package{}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if slices.Contains(leftOut, d.Name()) || p == generatedConsole {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil // a linked work tree has a file .git
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
			if slices.ContainsFunc(programs, func(magic string) bool { return bytes.HasPrefix(text, []byte(magic)) }) {
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

// sources returns the package's own files: no tests, nothing generated.
func (p Package) sources() map[string]*ast.File {
	own := map[string]*ast.File{}
	for name, file := range p.Files {
		if !isTest(name) && !ast.IsGenerated(file) {
			own[name] = file
		}
	}
	return own
}

func isTest(p string) bool { return strings.HasSuffix(p, "_test.go") }
