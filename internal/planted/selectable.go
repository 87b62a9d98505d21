package planted

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

	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// errNotSelectable is the error for a defect that cannot be selected at run time.
var errNotSelectable = errors.New("it changes more than the bodies of functions and the values of variables and " +
	"constants: change it, or change something else that does the same harm")

// sourceFiles are the files that defects change, by path.
type sourceFiles map[string]*source

// source is one file, with the functions that are added to it.
type source struct {
	file    *ast.File
	fset    *token.FileSet
	content string
	// insertions contains statements to insert at the beginning of functions, by the offset of the body. signatures
	// contains the new signatures of these functions, by the offsets of the old ones. All parameters in the new
	// signatures have names, so that a function can pass them to its copy.
	insertions map[int]string
	signatures map[[2]int]string
	// values contains the expressions that select a value, by the offsets of the original values. variables contains
	// the constants that must become variables, because a constant cannot be selected at run time.
	values    map[[2]int]string
	variables map[*ast.ValueSpec]*ast.GenDecl
	// appended is the text that is appended to the file.
	appended strings.Builder
}

// plantSelectable returns the source files with all defects, by path, and for each of their packages one more file,
// which selects a defect at run time.
func plantSelectable(tree fs.FS, defects []Defect) (map[string]string, error) {
	files := sourceFiles{}
	var wrong []error
	for _, d := range defects {
		if err := files.add(tree, d); err != nil {
			wrong = append(wrong, fmt.Errorf("the defect %s: %w", d.Name, err))
		}
	}
	return files.texts(), errors.Join(wrong...)
}

// add adds a defect. If it returns an error, it changes no source, but it can have added unchanged sources.
func (f sourceFiles) add(tree fs.FS, d Defect) error {
	planted, err := d.Plant(tree)
	if err != nil {
		return err
	}
	var changes []change
	for _, file := range slices.Sorted(maps.Keys(planted)) {
		s, ok := f[file]
		if !ok {
			original, err := fs.ReadFile(tree, file)
			if err != nil {
				return fmt.Errorf("read a file that %s changes: %w", d.Name, err)
			}
			if s, err = parse(file, string(original)); err != nil {
				return err
			}
			f[file] = s
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
			c.source.plant(decl, c.body, d.Name)
		case *ast.GenDecl:
			for _, v := range c.values {
				c.source.plantValue(decl, v, d.Name)
			}
		}
	}
	return nil
}

// parse returns the source of a file. It returns errNotSelectable for a test file.
func parse(file, content string) (*source, error) {
	s := &source{
		fset: token.NewFileSet(), content: content, insertions: map[int]string{}, signatures: map[[2]int]string{},
		values: map[[2]int]string{}, variables: map[*ast.ValueSpec]*ast.GenDecl{},
	}
	var err error
	if s.file, err = parser.ParseFile(s.fset, file, content, parser.SkipObjectResolution); err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	if strings.HasSuffix(s.file.Name.Name, "_test") || strings.HasSuffix(file, "_test.go") {
		return nil, errNotSelectable
	}
	return s, nil
}

// change is a declaration that a defect changes: a function with another body, or variables or constants with other
// values.
type change struct {
	source *source
	decl   ast.Decl
	// body is the changed body of a function, or "". values are the changed values of variables or constants.
	body   string
	values []value
}

// value is the value of a variable or constant, with the value that a defect assigns to it.
type value struct {
	spec    *ast.ValueSpec
	index   int // the index of the value in spec.Values
	planted string
}

// compare returns the declarations that differ between the source and text, the changed contents of the file. It
// returns errNotSelectable if the defect cannot be selected at run time.
func (s *source) compare(file, text string) ([]change, error) {
	other, err := parse(file, text)
	if err != nil {
		return nil, err
	}
	if len(other.file.Decls) != len(s.file.Decls) {
		return nil, errNotSelectable
	}
	var out []change
	for i, decl := range s.file.Decls {
		original, changed := s.text(decl), other.text(other.file.Decls[i])
		if original == changed {
			continue
		}
		c := change{source: s, decl: decl}
		switch d := decl.(type) {
		case *ast.FuncDecl:
			g, ok := other.file.Decls[i].(*ast.FuncDecl)
			if !ok || d.Body == nil || g.Body == nil ||
				s.between(d.Pos(), d.Body.Pos()) != other.between(g.Pos(), g.Body.Pos()) {
				return nil, errNotSelectable
			}
			c.body = other.text(g.Body)
		case *ast.GenDecl:
			g, ok := other.file.Decls[i].(*ast.GenDecl)
			if !ok || g.Tok != d.Tok || len(g.Specs) != len(d.Specs) || d.Tok != token.VAR && d.Tok != token.CONST {
				return nil, errNotSelectable
			}
			if c.values, err = s.compareValues(d, g, other); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, errNotSelectable // a comment or the order of imports, which have no effect at run time
	}
	return out, nil
}

// compareValues returns the values that differ in a declaration of variables or constants.
func (s *source) compareValues(original, changed *ast.GenDecl, other *source) ([]value, error) {
	var out []value
	if original.Tok == token.CONST && isPositional(original) {
		return nil, errNotSelectable
	}
	for i := range original.Specs {
		if s.text(original.Specs[i]) == other.text(changed.Specs[i]) {
			continue
		}
		a, isValue := original.Specs[i].(*ast.ValueSpec)
		b, ok := changed.Specs[i].(*ast.ValueSpec)
		if !isValue || !ok || len(a.Values) == 0 || len(a.Values) != len(a.Names) || len(b.Values) != len(a.Values) ||
			s.between(a.Pos(), a.Values[0].Pos()) != other.between(b.Pos(), b.Values[0].Pos()) {
			return nil, errNotSelectable
		}
		for j := range a.Values {
			if s.text(a.Values[j]) != other.text(b.Values[j]) {
				out = append(out, value{a, j, other.text(b.Values[j])})
			}
		}
	}
	return out, nil
}

// isPositional reports whether constants depend on their place in the declaration.
func isPositional(decl *ast.GenDecl) (found bool) {
	for _, spec := range decl.Specs {
		v, ok := spec.(*ast.ValueSpec)
		found = found || !ok || len(v.Values) == 0
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "iota"
		return !found
	})
	return found
}

// text returns the source text of a node.
func (s *source) text(n ast.Node) string { return s.between(n.Pos(), n.End()) }

func (s *source) between(from, to token.Pos) string {
	return s.content[s.fset.Position(from).Offset:s.fset.Position(to).Offset]
}

// plant appends a copy of a function with the changed body, and makes the function call the copy when the defect is
// selected. Both have the same parameters, all with names, because a parameter without a name cannot be passed on.
func (s *source) plant(fn *ast.FuncDecl, body, defect string) {
	// The name is unexported, because some tests list the exported methods of a type.
	copyName := fmt.Sprintf("%s_%s", identifier(defect), fn.Name.Name)
	receiver, params := withNames(fn.Recv, "r"), withNames(fn.Type.Params, "p")
	callee := copyName
	var signature strings.Builder
	signature.WriteString("func ")
	if receiver != nil {
		callee = receiver.List[0].Names[0].Name + "." + copyName
		fmt.Fprintf(&signature, "(%s) ", s.fields(receiver))
	}
	var types, args []string
	typeParams := ""
	if fn.Type.TypeParams != nil {
		for _, f := range fn.Type.TypeParams.List {
			for _, n := range f.Names {
				types = append(types, n.Name)
			}
		}
		callee += "[" + strings.Join(types, ", ") + "]"
		typeParams = s.text(fn.Type.TypeParams)
	}
	for _, f := range params.List {
		for _, n := range f.Names {
			if _, variadic := f.Type.(*ast.Ellipsis); variadic {
				n = ast.NewIdent(n.Name + "...")
			}
			args = append(args, n.Name)
		}
	}
	results := ""
	call := fmt.Sprintf("%s(%s)", callee, strings.Join(args, ", "))
	if fn.Type.Results != nil {
		results = s.text(fn.Type.Results)
		call = "return " + call
	} else {
		call += "; return"
	}
	suffix := fmt.Sprintf("%s(%s) %s ", typeParams, s.fields(params), results)
	s.signatures[[2]int{s.offset(fn.Pos()), s.offset(fn.Body.Pos())}] = signature.String() + fn.Name.Name + suffix
	s.insertions[s.offset(fn.Body.Lbrace)+1] += fmt.Sprintf(" if %s == %q { %s };", selectionVar, defect, call)
	fmt.Fprintf(&s.appended, "\n%s%s%s%s\n", signature.String(), copyName, suffix, body)
}

// plantValue changes a declaration so that the program selects the original value or the defect's value when it starts.
// For this, a constant becomes a variable. The compiler reports an error where a constant is required.
func (s *source) plantValue(decl *ast.GenDecl, v value, defect string) {
	original := v.spec.Values[v.index]
	callee := selectFunc
	if v.spec.Type != nil {
		callee += "[" + s.text(v.spec.Type) + "]"
	}
	at := [2]int{s.offset(original.Pos()), s.offset(original.End())}
	text, ok := s.values[at]
	if !ok {
		text = s.text(original)
		if decl.Tok == token.CONST {
			s.variables[v.spec] = decl
		}
	}
	s.values[at] = fmt.Sprintf("%s(%q, %s, %s)", callee, defect, v.planted, text)
}

// moveConstants appends the constants that have become variables to the file. It returns the edits that remove them
// from their declarations.
func (s *source) moveConstants() []edit {
	var edits []edit
	for spec, decl := range s.variables {
		removed := ast.Node(spec)
		if !decl.Lparen.IsValid() {
			removed = decl
		}
		edits = append(edits, edit{s.offset(removed.Pos()), s.offset(removed.End()), ""})
		for i, name := range spec.Names {
			original := spec.Values[i]
			at := [2]int{s.offset(original.Pos()), s.offset(original.End())}
			text, ok := s.values[at]
			if !ok {
				text = s.text(original)
			}
			delete(s.values, at)
			if spec.Type != nil {
				text = s.text(spec.Type) + "(" + text + ")"
			}
			fmt.Fprintf(&s.appended, "\nvar %s = %s\n", name.Name, text)
		}
	}
	return edits
}

func (s *source) offset(p token.Pos) int { return s.fset.Position(p).Offset }

// selectionVar is the variable in each package that contains the name of the selected defect.
const selectionVar = "guardsPlanted"

// selectFunc is the function in each package that selects one of two values.
const selectFunc = "guardsChosen"

// identifier returns an identifier for a defect's name.
func identifier(name string) string {
	return "guards_" + strings.Map(func(r rune) rune {
		if r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
}

// withNames returns a copy of a list of fields where each field has a name. New names begin with "guards" and the
// prefix.
func withNames(list *ast.FieldList, prefix string) *ast.FieldList {
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

// fields returns the source text of a list of fields, such as parameters.
func (s *source) fields(list *ast.FieldList) string {
	out := make([]string, 0, len(list.List))
	for _, f := range list.List {
		var names []string
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		var b bytes.Buffer
		if err := printer.Fprint(&b, s.fset, f.Type); err != nil {
			b.WriteString(s.text(f.Type))
		}
		out = append(out, strings.Join(names, ", ")+" "+b.String())
	}
	return strings.Join(out, ", ")
}

// selectionFile is the name of the file that is added to each package with defects, and selectionTemplate is the format
// of its text.
const selectionFile = "guards_planted.go"

const selectionTemplate = `package %[1]s

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

// texts returns the changed files, by path, and for each of their packages one more file, which selects a defect.
func (f sourceFiles) texts() map[string]string {
	out := map[string]string{}
	for file, s := range f {
		out[file] = s.render()
		dir, name := path.Dir(file), s.file.Name.Name
		out[path.Join(dir, selectionFile)] = fmt.Sprintf(selectionTemplate, name, selectionVar, deadline.VarPlanted,
			selectFunc, endMark, endBytes)
	}
	return out
}

// edit replaces a part of a source.
type edit struct {
	from, to int
	text     string
}

// render returns the text of the source with the changes of all defects.
func (s *source) render() string {
	edits := s.moveConstants()
	for at, text := range s.values {
		edits = append(edits, edit{at[0], at[1], text})
	}
	for at, text := range s.signatures {
		edits = append(edits, edit{at[0], at[1], text})
	}
	for at, text := range s.insertions {
		edits = append(edits, edit{at, at, text})
	}
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var b strings.Builder
	at := 0
	for _, e := range edits {
		b.WriteString(s.content[at:e.from])
		b.WriteString(e.text)
		at = e.to
	}
	b.WriteString(s.content[at:])
	b.WriteString(s.appended.String())
	return b.String()
}
