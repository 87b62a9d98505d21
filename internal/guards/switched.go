package guards

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// varPlanted names the defect that a Switched binary has.
const varPlanted = "PLANTED_DEFECT"

// errNotSwitched says that a defect can't be had at run time: it changes more than the
// bodies of functions.
var errNotSwitched = errors.New("guards: the defect changes more than bodies of functions")

// Switched is the binary of a package's tests that has many defects, each a
// function beside the one it changes, of which a run chooses one: compiled and linked
// once, where Check does it for each defect. Make it by Tree.Switch.
type Switched struct {
	tree        Tree
	pkg, binary string
	has         map[string]bool
	quiet       []string
}

// Has reports whether the binary has a defect: one that changes nothing but bodies
// of functions. Others are for Check.
func (s *Switched) Has(d Defect) bool { return s.has[d.Name] }

// Switch builds the tests of the defects' package into dir. An error says why that
// cannot be; Check may still do for each of them.
func (t Tree) Switch(ctx context.Context, dir string, defects []Defect) (*Switched, error) {
	s := &Switched{tree: t, pkg: defects[0].Guard.Package, binary: filepath.Join(dir, "guards.test"), has: map[string]bool{}}
	tree := os.DirFS(t.Root)
	w := sources{}
	for _, d := range defects {
		switch err := w.add(tree, d); {
		case err == nil:
			s.has[d.Name] = true
		case !errors.Is(err, errNotSwitched):
			return nil, err
		}
	}
	if len(s.has) == 0 {
		return s, nil
	}
	overlay, err := t.overlay(dir, w.texts())
	if err != nil {
		return nil, fmt.Errorf("switch the defects of %s: %w", s.pkg, err)
	}
	if s.quiet, err = t.quiet(s.pkg); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay="+overlay, "-o="+s.binary, s.pkg) //nolint:gosec // G204: the list of defects is ours
	command.Dir = t.Root
	if out, err := command.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the tests of %s with their defects: %w\n%s", s.pkg, err, out)
	}
	return s, nil
}

// Check runs the guard of a defect that the binary has: nil when the guard fails. As the
// functions that are changed are called in a way that is not quite the product's
// own, an error here is no verdict: ask Tree.Check.
func (s *Switched) Check(ctx context.Context, d Defect) error {
	o, err := s.run(ctx, d.Name, d.Guard.Test, "-test.failfast")
	if err != nil {
		return err
	}
	return o.verdict(d)
}

// CheckUnplanted is Tree.CheckUnplanted with a binary that has defects and chooses
// none: what a guard then fails for is what having them does.
func (s *Switched) CheckUnplanted(ctx context.Context, guards []Guard) error {
	names, err := topLevel(guards)
	if err != nil {
		return err
	}
	o, err := s.run(ctx, "", names)
	if err != nil {
		return err
	}
	return o.passed(guards)
}

func (s *Switched) run(ctx context.Context, planted, names string, flags ...string) (outcome, error) {
	args := slices.Concat([]string{
		"tool", "test2json", "-t", s.binary, "-test.v=test2json", "-test.paniconexit0", "-test.count=1",
		"-test.timeout=" + s.tree.Timeout.String(), "-test.run=" + pattern(names),
	}, flags, s.flags())
	command := exec.CommandContext(ctx, "go", args...) //nolint:gosec // G204: the list of defects is ours
	command.Dir = filepath.Join(s.tree.Root, filepath.FromSlash(s.pkg))
	command.Env = append(os.Environ(), varPlanted+"="+planted)
	return output(ctx, command)
}

// flags are those of quiet as the binary takes them.
func (s *Switched) flags() []string {
	if len(s.quiet) == 0 {
		return nil
	}
	return s.quiet[1:] // without -args
}

// sources are the files that defects change, by their paths.
type sources map[string]*source

// source is one file with functions beside its own.
type source struct {
	file *ast.File
	fset *token.FileSet
	text string
	// begins are statements for the beginning of functions, by where their bodies
	// begin; renamed are signatures as they have to be to be called on, by where
	// they are.
	begins  map[int]string
	renamed map[[2]int]string
	// beside is what is appended.
	beside strings.Builder
}

// add adds a defect, or answers errNotSwitched and adds nothing.
func (w sources) add(tree fs.FS, d Defect) error {
	planted, err := d.Plant(tree)
	if err != nil {
		return err
	}
	var changes []change
	for _, file := range slices.Sorted(maps.Keys(planted)) {
		s, ok := w[file]
		if !ok {
			original, err := fs.ReadFile(tree, file)
			if err != nil {
				return fmt.Errorf("read what %s changes: %w", d.Name, err)
			}
			if s, err = parse(file, string(original)); err != nil {
				return err
			}
			w[file] = s
		}
		changed, err := s.compare(file, planted[file])
		if err != nil {
			return err
		}
		changes = append(changes, changed...)
	}
	for _, c := range changes {
		c.in.plant(c, d.Name)
	}
	return nil
}

func parse(file, text string) (*source, error) {
	s := &source{fset: token.NewFileSet(), text: text, begins: map[int]string{}, renamed: map[[2]int]string{}}
	var err error
	if s.file, err = parser.ParseFile(s.fset, file, text, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	if strings.HasSuffix(s.file.Name.Name, "_test") || strings.HasSuffix(file, "_test.go") {
		return nil, errNotSwitched
	}
	return s, nil
}

// change is a function of a source, and its body as a defect has it.
type change struct {
	in   *source
	of   *ast.FuncDecl
	body string
}

// compare gives the functions whose bodies differ in another text of the file.
func (s *source) compare(file, text string) ([]change, error) {
	other, err := parse(file, text)
	if err != nil {
		return nil, errNotSwitched // whatever the compiler says of it, Check tells
	}
	if len(other.file.Decls) != len(s.file.Decls) {
		return nil, errNotSwitched
	}
	var out []change
	for i, decl := range s.file.Decls {
		own, changed := s.of(decl), other.of(other.file.Decls[i])
		if own == changed {
			continue
		}
		f, isFunc := decl.(*ast.FuncDecl)
		g, is := other.file.Decls[i].(*ast.FuncDecl)
		if !isFunc || !is || f.Body == nil || g.Body == nil || s.between(f.Pos(), f.Body.Pos()) != other.between(g.Pos(), g.Body.Pos()) {
			return nil, errNotSwitched
		}
		out = append(out, change{s, f, other.of(g.Body)})
	}
	if len(out) == 0 {
		return nil, errNotSwitched // a comment, an import's order: nothing that a run shows
	}
	return out, nil
}

func (s *source) of(n ast.Node) string { return s.between(n.Pos(), n.End()) }

func (s *source) between(from, to token.Pos) string {
	return s.text[s.fset.Position(from).Offset:s.fset.Position(to).Offset]
}

// plant has a function call another one that a defect makes of it, when that is
// chosen. Both have the same parameters, all with names: an unnamed one cannot be
// passed on.
func (s *source) plant(c change, defect string) {
	// Unexported: some tests go through the methods of a type.
	beside := fmt.Sprintf("%s_%s", identifier(defect), c.of.Name.Name)
	receiver, params := named(c.of.Recv, "r"), named(c.of.Type.Params, "p")
	callee := beside
	var signature strings.Builder
	signature.WriteString("func ")
	if receiver != nil {
		callee = receiver.List[0].Names[0].Name + "." + beside
		fmt.Fprintf(&signature, "(%s) ", s.fields(receiver))
	}
	var types, passed []string
	typeParams := ""
	if c.of.Type.TypeParams != nil {
		for _, f := range c.of.Type.TypeParams.List {
			for _, n := range f.Names {
				types = append(types, n.Name)
			}
		}
		callee += "[" + strings.Join(types, ", ") + "]"
		typeParams = s.of(c.of.Type.TypeParams)
	}
	for _, f := range params.List {
		for _, n := range f.Names {
			if _, variadic := f.Type.(*ast.Ellipsis); variadic {
				n = ast.NewIdent(n.Name + "...")
			}
			passed = append(passed, n.Name)
		}
	}
	results := ""
	call := fmt.Sprintf("%s(%s)", callee, strings.Join(passed, ", "))
	if c.of.Type.Results != nil {
		results = s.of(c.of.Type.Results)
		call = "return " + call
	} else {
		call += "; return"
	}
	rest := fmt.Sprintf("%s(%s) %s ", typeParams, s.fields(params), results)
	s.renamed[[2]int{s.offset(c.of.Pos()), s.offset(c.of.Body.Pos())}] = signature.String() + c.of.Name.Name + rest
	s.begins[s.offset(c.of.Body.Lbrace)+1] += fmt.Sprintf(" if %s == %q { %s };", choice, defect, call)
	fmt.Fprintf(&s.beside, "\n%s%s%s%s\n", signature.String(), beside, rest, c.body)
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// choice is the variable of each package that has the defect of a run.
const choice = "guardsPlanted"

// identifier makes one of a defect's name.
func identifier(name string) string {
	return "guards_" + strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// named is a copy of fields that all have names.
func named(list *ast.FieldList, prefix string) *ast.FieldList {
	if list == nil {
		return nil
	}
	out := &ast.FieldList{}
	n := 0
	for _, f := range list.List {
		names := f.Names
		if len(names) == 0 {
			names = []*ast.Ident{ast.NewIdent("_")}
		}
		field := &ast.Field{Type: f.Type}
		for _, name := range names {
			if name.Name == "_" {
				n++
				name = ast.NewIdent(fmt.Sprintf("guards%s%d", prefix, n))
			}
			field.Names = append(field.Names, name)
		}
		out.List = append(out.List, field)
	}
	return out
}

// fields prints fields, each type as it is in the source.
func (s *source) fields(list *ast.FieldList) string {
	out := make([]string, 0, len(list.List))
	for _, f := range list.List {
		var names []string
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		var b bytes.Buffer
		if err := printer.Fprint(&b, s.fset, f.Type); err != nil {
			b.WriteString(s.of(f.Type))
		}
		out = append(out, strings.Join(names, ", ")+" "+b.String())
	}
	return strings.Join(out, ", ")
}

// texts are the files with all functions, and one for each package that has what
// a run chooses.
func (w sources) texts() map[string]string {
	out := map[string]string{}
	for file, s := range w {
		out[file] = s.render()
		dir, name := path.Dir(file), s.file.Name.Name
		out[path.Join(dir, "guards_planted.go")] = fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar %s = os.Getenv(%q)\n", name, choice, varPlanted)
	}
	return out
}

func (s *source) render() string {
	type edit struct {
		from, to int
		text     string
	}
	var edits []edit
	for at, text := range s.renamed {
		edits = append(edits, edit{at[0], at[1], text})
	}
	for at, text := range s.begins {
		edits = append(edits, edit{at, at, text})
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(s.text[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(s.text[at:])
	b.WriteString(s.beside.String())
	return b.String()
}

// output runs a command that prints what test2json does.
func output(ctx context.Context, command *exec.Cmd) (outcome, error) {
	command.WaitDelay = 10 * time.Second
	var out, complaints bytes.Buffer
	command.Stdout, command.Stderr = &out, &complaints
	err := command.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); err != nil && (!ended || ctx.Err() != nil) {
		return outcome{}, errors.Join(err, ctx.Err())
	}
	o := read(out.Bytes())
	if len(o.tests) == 0 && o.why == "" && err != nil {
		return outcome{}, fmt.Errorf("%w\n%s%s", err, complaints.String(), o.output)
	}
	return o, nil
}
