package guards

import (
	"bytes"
	"encoding/json"
	"errors"
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
	"testing"
)

// TestEveryDefectCompiles checks the types of what a defect changes: one that no
// longer compiles keeps its guard from running, which `make test-guards` would say
// half an hour later. What the change does to packages that import the changed ones
// is left to that.
func TestEveryDefectCompiles(t *testing.T) {
	listed := list(t)
	tree := os.DirFS(repository)
	for _, d := range defects(t) {
		planted, err := d.Plant(tree)
		if err != nil {
			continue // TestEveryDefectStillApplies says so
		}
		if err := listed.check(planted); err != nil {
			t.Errorf("the defect %s does not compile: %v\nChange internal/guards/defects/%s.txtar to what does.", d.Name, err, d.Name)
		}
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
	command := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles,Deps,Module", "./...")
	command.Dir = repository
	command.Stderr = t.Output()
	out, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	l := &listing{fset: token.NewFileSet(), of: map[string]*listed{}, own: map[string]*listed{}, parsed: map[string]*ast.File{}}
	exports := map[string]string{}
	for in := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
		if p.Module != nil && p.Module.Main {
			dir, err := filepath.Rel(root, p.Dir)
			if err != nil {
				t.Fatal(err)
			}
			p.Dir = filepath.ToSlash(dir)
			l.of[p.Dir], l.own[p.ImportPath] = &p, &p
		}
	}
	l.imported = importer.ForCompiler(l.fset, "gc", func(name string) (io.ReadCloser, error) { return os.Open(exports[name]) })
	return l
}

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
	for _, base := range p.GoFiles {
		file, err := c.parse(path.Join(p.Dir, base))
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	config := types.Config{Importer: c}
	checked, err := config.Check(name, c.fset, files, nil)
	c.done[name] = checked
	return checked, err
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
