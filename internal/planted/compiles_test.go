package planted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestEveryDefectCompiles checks the types of all packages that defects change, with all defects at once. A defect that
// does not compile prevents all guards from running. Without this test, only `make test-guards` would report such a
// defect.
func TestEveryDefectCompiles(t *testing.T) {
	texts, err := sourcesWithDefects()
	if err != nil {
		t.Fatal(err)
	}
	if err := list(t).check(texts); err != nil {
		t.Errorf("%v\nFix these defects in internal/planted/defects.", err)
	}
}

func TestDefectThatDoesNotCompileIsReported(t *testing.T) {
	packages := list(t)
	text, err := os.ReadFile("planted.go")
	if err != nil {
		t.Fatal(err)
	}
	for wrong, change := range map[string][2]string{
		"another number of results": {"return planted, nil", "return nil"},
		"declared, not used":        {"planted := map[string]string{}", "planted, unused := map[string]string{}, 0"},
		"no such name":              {"return planted, nil", "return plannted, nil"},
	} {
		changed := strings.Replace(string(text), change[0], change[1], 1)
		if changed == string(text) {
			t.Fatalf("%s: planted.go has no %q, want it in the source", wrong, change[0])
		}
		if err := packages.check(map[string]string{"internal/planted/planted.go": changed}); err == nil {
			t.Errorf("check(%s) = no error, want an error", wrong)
		}
	}
	if err := packages.check(map[string]string{"internal/planted/planted.go": string(text)}); err != nil {
		t.Errorf("check(planted.go without a change) = %v, want nil", err)
	}
}

// listing contains the packages of the module and all packages that they import, as the go command lists them.
type listing struct {
	fset *token.FileSet
	// byDir and byImportPath are the packages of the module, by folder and by import path.
	byDir, byImportPath map[string]*listed
	// exported reads packages from the export data that the compiler has written.
	exported types.Importer
	parsed   map[string]*ast.File // files without a defect, by path
}

// listed is a package, as go list prints it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles, Deps           []string
	Module                  *struct{ Main bool }
}

func list(t *testing.T) *listing {
	t.Helper()
	l, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// listOnce runs the go command once for all tests, because it takes seconds.
var listOnce = sync.OnceValues(func() (*listing, error) {
	command := exec.CommandContext(context.Background(), "go", "list", "-export", "-deps",
		"-json=ImportPath,Dir,Export,GoFiles,Deps,Module", "./...")
	command.Dir = repository
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, stderr.Bytes())
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		return nil, err
	}
	l := &listing{
		fset: token.NewFileSet(), byDir: map[string]*listed{}, byImportPath: map[string]*listed{},
		parsed: map[string]*ast.File{},
	}
	exports := map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			dir, err := filepath.Rel(root, p.Dir)
			if err != nil {
				return nil, err
			}
			p.Dir = filepath.ToSlash(dir)
			l.byDir[p.Dir], l.byImportPath[p.ImportPath] = &p, &p
		}
	}
	l.exported = importer.ForCompiler(l.fset, "gc", func(name string) (io.ReadCloser, error) {
		return os.Open(exports[name])
	})
	return l, nil
})

// check checks the types of the packages that have planted files.
func (l *listing) check(planted map[string]string) error {
	c := checking{listing: l, planted: planted, changed: map[string]bool{}, done: map[string]*types.Package{}}
	for file := range planted {
		if p := l.byDir[path.Dir(file)]; p != nil && !strings.HasSuffix(file, "_test.go") {
			c.changed[p.ImportPath] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.changed)) {
		if _, err := c.Import(name); err != nil {
			return err
		}
	}
	return nil
}

// checking is the check of one set of planted files. It is an importer: it reads the changed packages, and the packages
// that import them, from their sources, and all other packages from export data.
type checking struct {
	*listing
	planted map[string]string         // the planted files, by path
	changed map[string]bool           // the import paths of packages with planted files
	done    map[string]*types.Package // the checked packages, by import path
}

// Import implements types.Importer.
func (c checking) Import(name string) (*types.Package, error) {
	p := c.byImportPath[name]
	if p == nil || !c.changed[name] && !slices.ContainsFunc(p.Deps, func(d string) bool { return c.changed[d] }) {
		return c.exported.Import(name)
	}
	if c.done[name] != nil {
		return c.done[name], nil
	}
	var files []*ast.File
	names := p.GoFiles
	if _, ok := c.planted[path.Join(p.Dir, selectionFile)]; ok {
		names = append(slices.Clone(names), selectionFile)
	}
	for _, base := range names {
		file, err := c.parse(path.Join(p.Dir, base))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	var wrong []error
	config := types.Config{Importer: c, Error: func(err error) { wrong = append(wrong, c.locate(files, err)) }}
	checked, _ := config.Check(name, c.fset, files, nil) // the error is also the first one in wrong
	c.done[name] = checked
	return checked, errors.Join(wrong...)
}

// locate adds the name of the function to a type error. The name of a changed copy contains the name of the defect.
func (c checking) locate(files []*ast.File, err error) error {
	wrong, ok := errors.AsType[types.Error](err)
	if !ok {
		return err
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Pos() <= wrong.Pos && wrong.Pos < f.End() {
				return fmt.Errorf("%s: %w", f.Name.Name, err)
			}
		}
	}
	return err
}

// parse returns the planted file with this path, or the file of the repository.
func (c checking) parse(name string) (*ast.File, error) {
	if text, ok := c.planted[name]; ok {
		return parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
	}
	if file := c.parsed[name]; file != nil {
		return file, nil
	}
	file, err := parser.ParseFile(c.fset, filepath.Join(repository, filepath.FromSlash(name)), nil,
		parser.SkipObjectResolution)
	c.parsed[name] = file
	return file, err
}
