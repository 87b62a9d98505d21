package guards

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

// TestEveryDefectCompiles checks the types of all packages that defects change, with all defects: one that no
// longer compiles keeps every guard from running, which `make test-guards` would say first.
func TestEveryDefectCompiles(t *testing.T) {
	texts, err := switchedOnce()
	if err != nil {
		t.Fatal(err)
	}
	if err := list(t).check(texts); err != nil {
		t.Errorf("%v\nFix these defects in internal/guards/defects.", err)
	}
}

func TestDefectThatDoesNotCompileIsTold(t *testing.T) {
	listed := list(t)
	text, err := os.ReadFile("guards.go")
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
			t.Fatalf("%s: guards.go has no %q", wrong, change[0])
		}
		if err := listed.check(map[string]string{"internal/guards/guards.go": changed}); err == nil {
			t.Errorf("%s compiles", wrong)
		}
	}
	if err := listed.check(map[string]string{"internal/guards/guards.go": string(text)}); err != nil {
		t.Errorf("guards.go itself: %v", err)
	}
}

// listing is what the go command knows of the packages of the module and of all that they import.
type listing struct {
	fset *token.FileSet
	// of and own are the module's own packages, by their folders and by their names.
	of, own map[string]*listed
	// imported reads what the compiler exported.
	imported types.Importer
	parsed   map[string]*ast.File
}

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

// listOnce asks the go command once for all tests: it takes seconds.
var listOnce = sync.OnceValues(func() (*listing, error) {
	command := exec.CommandContext(context.Background(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Deps,Module", "./...")
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
	l := &listing{fset: token.NewFileSet(), of: map[string]*listed{}, own: map[string]*listed{}, parsed: map[string]*ast.File{}}
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
			l.of[p.Dir], l.own[p.ImportPath] = &p, &p
		}
	}
	l.imported = importer.ForCompiler(l.fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	return l, nil
})

// check checks the types of the packages that have planted files.
func (l *listing) check(planted map[string]string) error {
	c := checking{listing: l, planted: planted, changed: map[string]bool{}, done: map[string]*types.Package{}}
	for file := range planted {
		if p := l.of[path.Dir(file)]; p != nil && !strings.HasSuffix(file, "_test.go") {
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

// checking is the check of one defect: an importer that has the packages it changes,
// and what lies between two of them, from their sources.
type checking struct {
	*listing
	planted map[string]string
	changed map[string]bool
	done    map[string]*types.Package
}

func (c checking) Import(name string) (*types.Package, error) {
	p := c.own[name]
	if p == nil || !c.changed[name] && !slices.ContainsFunc(p.Deps, func(d string) bool { return c.changed[d] }) {
		return c.imported.Import(name)
	}
	if c.done[name] != nil {
		return c.done[name], nil
	}
	var files []*ast.File
	names := p.GoFiles
	if _, ok := c.planted[path.Join(p.Dir, chosenName)]; ok {
		names = append(slices.Clone(names), chosenName)
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
	checked, _ := config.Check(name, c.fset, files, nil) // the first of wrong
	c.done[name] = checked
	return checked, errors.Join(wrong...)
}

// locate adds the name of the function to an error, which says which defect made the function.
func (c checking) locate(files []*ast.File, err error) error {
	wrong, ok := errors.AsType[types.Error](err)
	if !ok {
		return err
	}
	for _, file := range files {
		for _, decl := range file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Pos() <= wrong.Pos && wrong.Pos < f.End() {
				return fmt.Errorf("%s: %w", f.Name.Name, err)
			}
		}
	}
	return err
}

func (c checking) parse(name string) (*ast.File, error) {
	if text, ok := c.planted[name]; ok {
		return parser.ParseFile(c.fset, name, text, parser.SkipObjectResolution)
	}
	if file := c.parsed[name]; file != nil {
		return file, nil
	}
	file, err := parser.ParseFile(c.fset, filepath.Join(repository, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
	c.parsed[name] = file
	return file, err
}
