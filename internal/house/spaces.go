package house

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// storeDir is the package whose type Space names families of the table's keys.
const storeDir = "shared/store"

// KeySpaces asks every store.Space for what keeps records of different packages
// apart: it is a constant with its access pattern in a comment, its text is no
// other one's and needs no escaping.
//
// Keys are made of spaces alone: a store.Key that is written out, or a partition
// that begins with a text, could stand in anybody's space.
//
// It sees spaces and keys by their type as it is written. A text that becomes a
// space as an argument, without a conversion, is not seen.
func KeySpaces(t *Tree) (found []Finding) {
	owners := map[string]string{} // the file of each text
	for _, p := range t.Packages {
		sources := p.sources()
		inStore := p.Dir == storeDir || strings.HasPrefix(p.Dir, storeDir+"/")
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			file := sources[name]
			isSpace, isKey := storeType(p, file, "Space"), storeType(p, file, "Key")
			isIn := storeType(p, file, "In")
			add := func(n ast.Node, format string, args ...any) {
				found = append(found, Finding{name, t.line(n.Pos()), fmt.Sprintf(format, args...)})
			}
			for n := range ast.Preorder(file) {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if !inStore && isKey(n.Type) && len(n.Elts) > 0 {
						add(n, "a key that is written out: make it with Key of a store.Space, or with store.In")
					}
				case *ast.CallExpr:
					if !inStore && isSpace(n.Fun) {
						add(n, "a space made from a text: declare it as a constant of type store.Space")
					}
					if !inStore && isIn(n.Fun) && len(n.Args) > 0 && isText(n.Args[0]) {
						add(n, "a partition that is written out: make it with Partition of a store.Space")
					}
				case *ast.GenDecl:
					for _, s := range spacesOf(n, isSpace) {
						if s.text == "" || strings.ContainsAny(s.text, "#%") {
							add(s.name, "the space %s is no constant with a text of its own, without # and %%", s.name.Name)
							continue
						}
						if s.doc.Text() == "" {
							add(s.name, "the space %s has no comment: say which records it has and how they are read", s.name.Name)
						}
						if owner := owners[s.text]; owner != "" {
							add(s.name, "the space %q stands in %s too: records of the two would meet", s.text, owner)
						}
						owners[s.text] = cmp.Or(owners[s.text], name)
					}
				}
			}
		}
	}
	return found
}

// isText reports whether an expression is a text, or begins with one.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText(e.X)
	}
	return false
}

// storeType returns what tells whether an expression of the file means a name of
// package store.
func storeType(p Package, file *ast.File, of string) func(ast.Expr) bool {
	qualifier := ""
	for _, spec := range file.Imports {
		if spec.Path.Value == strconv.Quote(Module+"/"+storeDir) {
			qualifier = path.Base(storeDir)
			if spec.Name != nil {
				qualifier = spec.Name.Name
			}
		}
	}
	return func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return p.Dir == storeDir && e.Name == of
		case *ast.SelectorExpr:
			pkg, ok := e.X.(*ast.Ident)
			return ok && pkg.Name == qualifier && e.Sel.Name == of
		}
		return false
	}
}

// space is a declared name of the type store.Space.
type space struct {
	name *ast.Ident
	text string // "" where it is no constant with a text
	doc  *ast.CommentGroup
}

// spacesOf returns the spaces that are declared together.
func spacesOf(decl *ast.GenDecl, isSpace func(ast.Expr) bool) (all []space) {
	repeated := false // a constant without type and value repeats the one above
	for _, spec := range decl.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		repeated = isSpace(v.Type) || repeated && v.Type == nil && len(v.Values) == 0
		if !repeated {
			continue
		}
		for i, name := range v.Names {
			s := space{name: name, doc: v.Doc}
			if !decl.Lparen.IsValid() {
				s.doc = decl.Doc
			}
			if decl.Tok == token.CONST && i < len(v.Values) {
				if lit, ok := v.Values[i].(*ast.BasicLit); ok {
					s.text, _ = strconv.Unquote(lit.Value)
				}
			}
			all = append(all, s)
		}
	}
	return all
}
