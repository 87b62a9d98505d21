package guards

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/internal/deadline"
)

// errNotSwitched says that a defect cannot be chosen at run time.
var errNotSwitched = errors.New("it changes more than the bodies of functions and the values of variables and constants: change it, or change something else that does the same harm")

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
	// values are values that are chosen, by where they are, and variables the constants that become variables for that.
	values    map[[2]int]string
	variables map[*ast.ValueSpec]*ast.GenDecl
	// beside is what is appended.
	beside strings.Builder
}

// switched returns the source files with all defects, by their paths, and one more file for each of their packages.
func switched(tree fs.FS, defects []Defect) (map[string]string, error) {
	w := sources{}
	var wrong []error
	for _, d := range defects {
		if err := w.add(tree, d); err != nil {
			wrong = append(wrong, fmt.Errorf("the defect %s: %w", d.Name, err))
		}
	}
	return w.texts(), errors.Join(wrong...)
}

// add adds a defect. If it returns an error, it adds nothing.
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
		switch decl := c.decl.(type) {
		case *ast.FuncDecl:
			c.in.plant(decl, c.body, d.Name)
		case *ast.GenDecl:
			for _, v := range c.values {
				c.in.plantValue(decl, v, d.Name)
			}
		}
	}
	return nil
}

func parse(file, text string) (*source, error) {
	s := &source{fset: token.NewFileSet(), text: text, begins: map[int]string{}, renamed: map[[2]int]string{}, values: map[[2]int]string{}, variables: map[*ast.ValueSpec]*ast.GenDecl{}}
	var err error
	if s.file, err = parser.ParseFile(s.fset, file, text, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	if strings.HasSuffix(s.file.Name.Name, "_test") || strings.HasSuffix(file, "_test.go") {
		return nil, errNotSwitched
	}
	return s, nil
}

// change is a declaration that a defect changes: the body of a function, or values.
type change struct {
	in   *source
	decl ast.Decl
	// body is what a function's body is with the defect, and values what values are, by their places in the source.
	body   string
	values []value
}

// value is the value of a variable or constant, and what a defect makes of it.
type value struct {
	spec    *ast.ValueSpec
	i       int // of the values of the spec
	planted string
}

// compare returns what differs in another text of the file.
func (s *source) compare(file, text string) ([]change, error) {
	other, err := parse(file, text)
	if err != nil {
		return nil, err
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
		c := change{in: s, decl: decl}
		switch d := decl.(type) {
		case *ast.FuncDecl:
			g, is := other.file.Decls[i].(*ast.FuncDecl)
			if !is || d.Body == nil || g.Body == nil || s.between(d.Pos(), d.Body.Pos()) != other.between(g.Pos(), g.Body.Pos()) {
				return nil, errNotSwitched
			}
			c.body = other.of(g.Body)
		case *ast.GenDecl:
			g, is := other.file.Decls[i].(*ast.GenDecl)
			if !is || g.Tok != d.Tok || len(g.Specs) != len(d.Specs) || d.Tok != token.VAR && d.Tok != token.CONST {
				return nil, errNotSwitched
			}
			if c.values, err = s.compareValues(d, g, other); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errNotSwitched // a comment, an import's order: nothing that a run shows
	}
	return out, nil
}

// compareValues returns the values that differ in a declaration of variables or constants.
func (s *source) compareValues(own, changed *ast.GenDecl, other *source) ([]value, error) {
	var out []value
	if own.Tok == token.CONST && counted(own) {
		return nil, errNotSwitched
	}
	for i := range own.Specs {
		if s.of(own.Specs[i]) == other.of(changed.Specs[i]) {
			continue
		}
		a, isValue := own.Specs[i].(*ast.ValueSpec)
		b, is := changed.Specs[i].(*ast.ValueSpec)
		if !isValue || !is || len(a.Values) == 0 || len(a.Values) != len(a.Names) || len(b.Values) != len(a.Values) ||
			s.between(a.Pos(), a.Values[0].Pos()) != other.between(b.Pos(), b.Values[0].Pos()) {
			return nil, errNotSwitched
		}
		for j := range a.Values {
			if s.of(a.Values[j]) != other.of(b.Values[j]) {
				out = append(out, value{a, j, other.of(b.Values[j])})
			}
		}
	}
	return out, nil
}

// counted reports whether constants depend on their place in the declaration.
func counted(of *ast.GenDecl) (found bool) {
	for _, spec := range of.Specs {
		v, ok := spec.(*ast.ValueSpec)
		found = found || !ok || len(v.Values) == 0
	}
	ast.Inspect(of, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "iota"
		return !found
	})
	return found
}

func (s *source) of(n ast.Node) string { return s.between(n.Pos(), n.End()) }

func (s *source) between(from, to token.Pos) string {
	return s.text[s.fset.Position(from).Offset:s.fset.Position(to).Offset]
}

// plant has a function call another one that a defect makes of it, when that is
// chosen. Both have the same parameters, all with names: an unnamed one cannot be
// passed on.
func (s *source) plant(of *ast.FuncDecl, body, defect string) {
	// Unexported: some tests go through the methods of a type.
	beside := fmt.Sprintf("%s_%s", identifier(defect), of.Name.Name)
	receiver, params := named(of.Recv, "r"), named(of.Type.Params, "p")
	callee := beside
	var signature strings.Builder
	signature.WriteString("func ")
	if receiver != nil {
		callee = receiver.List[0].Names[0].Name + "." + beside
		fmt.Fprintf(&signature, "(%s) ", s.fields(receiver))
	}
	var types, passed []string
	typeParams := ""
	if of.Type.TypeParams != nil {
		for _, f := range of.Type.TypeParams.List {
			for _, n := range f.Names {
				types = append(types, n.Name)
			}
		}
		callee += "[" + strings.Join(types, ", ") + "]"
		typeParams = s.of(of.Type.TypeParams)
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
	if of.Type.Results != nil {
		results = s.of(of.Type.Results)
		call = "return " + call
	} else {
		call += "; return"
	}
	rest := fmt.Sprintf("%s(%s) %s ", typeParams, s.fields(params), results)
	s.renamed[[2]int{s.offset(of.Pos()), s.offset(of.Body.Pos())}] = signature.String() + of.Name.Name + rest
	s.begins[s.offset(of.Body.Lbrace)+1] += fmt.Sprintf(" if %s == %q { %s };", choice, defect, call)
	fmt.Fprintf(&s.beside, "\n%s%s%s%s\n", signature.String(), beside, rest, body)
}

// plantValue chooses between two values as the program starts. A constant becomes a variable for that, which the compiler refuses where
// only a constant will do.
func (s *source) plantValue(in *ast.GenDecl, v value, defect string) {
	own := v.spec.Values[v.i]
	chosen := choose
	if v.spec.Type != nil {
		chosen += "[" + s.of(v.spec.Type) + "]"
	}
	at := [2]int{s.offset(own.Pos()), s.offset(own.End())}
	text, ok := s.values[at]
	if !ok {
		text = s.of(own)
		if in.Tok == token.CONST {
			s.variables[v.spec] = in
		}
	}
	s.values[at] = fmt.Sprintf("%s(%q, %s, %s)", chosen, defect, v.planted, text)
}

// moveConstants moves the constants that have become variables to the end of the file.
func (s *source) moveConstants() []edit {
	var edits []edit
	for spec, in := range s.variables {
		gone := ast.Node(spec)
		if !in.Lparen.IsValid() {
			gone = in
		}
		edits = append(edits, edit{s.offset(gone.Pos()), s.offset(gone.End()), ""})
		for i, name := range spec.Names {
			own := spec.Values[i]
			at := [2]int{s.offset(own.Pos()), s.offset(own.End())}
			text, ok := s.values[at]
			if !ok {
				text = s.of(own)
			}
			delete(s.values, at)
			if spec.Type != nil {
				text = s.of(spec.Type) + "(" + text + ")"
			}
			fmt.Fprintf(&s.beside, "\nvar %s = %s\n", name.Name, text)
		}
	}
	return edits
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// choice is the variable of each package that has the defect of a run.
const choice = "guardsPlanted"

// choose is the function of each package that chooses between two values.
const choose = "guardsChosen"

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

// chosenName is the name of the file that each package with defects has besides its own, and chosenFile its text.
const chosenName = "guards_planted.go"

const chosenFile = `package %[1]s

import (
	"os"
	"strings"
)

// Tests start their own binary, or a copy of it, with an environment of their own, so that the name of the defect may
// also be at the end of the binary.
var %[2]s = func() string {
	if defect := os.Getenv(%[3]q); defect != "" {
		return defect
	}
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	binary, err := os.Open(self)
	if err != nil {
		return ""
	}
	defer binary.Close()
	var end [%[6]d]byte
	if info, err := binary.Stat(); err == nil {
		binary.ReadAt(end[:], info.Size()-int64(len(end)))
	}
	if defect, found := strings.CutPrefix(string(end[:]), %[5]q); found {
		return strings.TrimSpace(defect)
	}
	return ""
}()

func %[4]s[T any](defect string, planted, own T) T {
	if %[2]s == defect {
		return planted
	}
	return own
}
`

// texts are the files with all functions, and one for each package that has what
// a run chooses.
func (w sources) texts() map[string]string {
	out := map[string]string{}
	for file, s := range w {
		out[file] = s.render()
		dir, name := path.Dir(file), s.file.Name.Name
		out[path.Join(dir, chosenName)] = fmt.Sprintf(chosenFile, name, choice, deadline.VarPlanted, choose, endMark, endBytes)
	}
	return out
}

// edit replaces a part of a source.
type edit struct {
	from, to int
	text     string
}

func (s *source) render() string {
	edits := s.moveConstants()
	for at, text := range s.values {
		edits = append(edits, edit{at[0], at[1], text})
	}
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
