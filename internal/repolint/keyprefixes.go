package repolint

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

// storeDir is the folder of package store. Each constant of its type KeyPrefix names a family of the table's keys.
const storeDir = "shared/core/store"

// KeyPrefixes reports each store.KeyPrefix that could collide with another one. A key prefix must be a constant with a
// unique text that needs no escaping, and a comment must describe its access pattern.
//
// Keys must begin with a key prefix: KeyPrefixes also reports a store.Key that is a literal, and a partition that
// begins with a string literal, because they could collide with the key prefix of any package. In package store and
// below, the rule checks only the declared key prefixes.
//
// The rule finds key prefixes and keys by their type in the source. It does not find an untyped string constant that is
// passed to a parameter of type store.KeyPrefix, because it becomes a key prefix without a conversion.
func KeyPrefixes(t *Tree) (found []Finding) {
	owners := map[string]string{} // the first file that declares each text
	for _, p := range t.Packages {
		sources := p.sources()
		inStore := p.Dir == storeDir || strings.HasPrefix(p.Dir, storeDir+"/")
		for _, name := range slices.Sorted(maps.Keys(sources)) {
			file := sources[name]
			isPrefix, isKey := storeType(p, file, "KeyPrefix"), storeType(p, file, "Key")
			isPartition := storeType(p, file, "KeyIn")
			add := func(n ast.Node, format string, args ...any) {
				found = append(found, Finding{name, t.line(n.Pos()), fmt.Sprintf(format, args...)})
			}
			for n := range ast.Preorder(file) {
				switch n := n.(type) {
				case *ast.CompositeLit:
					if !inStore && isKey(n.Type) && len(n.Elts) > 0 {
						add(n, "a key literal: create it with Key of a store.KeyPrefix, or with store.KeyIn")
					}
				case *ast.CallExpr:
					if !inStore && isPrefix(n.Fun) {
						add(n, "a key prefix converted from a string: declare it as a constant of type store.KeyPrefix")
					}
					if !inStore && isPartition(n.Fun) && len(n.Args) > 0 && isText(n.Args[0]) {
						add(n, "a partition literal: create it with Partition of a store.KeyPrefix")
					}
				case *ast.GenDecl:
					for _, s := range prefixesOf(n, isPrefix) {
						if s.text == "" || strings.ContainsAny(s.text, "#%") {
							add(s.name, "the key prefix %s is not a constant with its own text, without # and %%", s.name.Name)
							continue
						}
						if s.doc.Text() == "" {
							add(s.name, "the key prefix %s has no comment: say which records have it and how they are read", s.name.Name)
						}
						if owner := owners[s.text]; owner != "" {
							add(s.name, "the key prefix %q is declared in %s too: their records would collide", s.text, owner)
						}
						owners[s.text] = cmp.Or(owners[s.text], name)
					}
				}
			}
		}
	}
	return found
}

// isText reports whether an expression is a string literal, or begins with one.
func isText(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.BinaryExpr:
		return isText(e.X)
	}
	return false
}

// storeType returns a function that reports whether an expression in the file refers to an identifier of package store.
// name is the identifier, such as KeyPrefix.
func storeType(p Package, file *ast.File, name string) func(ast.Expr) bool {
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
			return p.Dir == storeDir && e.Name == name
		case *ast.SelectorExpr:
			pkg, ok := e.X.(*ast.Ident)
			return ok && pkg.Name == qualifier && e.Sel.Name == name
		}
		return false
	}
}

// keyPrefix is a declared constant or variable of the type store.KeyPrefix.
type keyPrefix struct {
	name *ast.Ident
	text string // the value, or "" if it is not a constant with a string literal
	doc  *ast.CommentGroup
}

// prefixesOf returns the key prefixes in a declaration.
func prefixesOf(decl *ast.GenDecl, isPrefix func(ast.Expr) bool) (all []keyPrefix) {
	isPrefixSpec := false // a constant without type and value repeats those of the constant above
	for _, spec := range decl.Specs {
		v, ok := spec.(*ast.ValueSpec)
		if !ok {
			continue
		}
		isPrefixSpec = isPrefix(v.Type) || isPrefixSpec && v.Type == nil && len(v.Values) == 0
		if !isPrefixSpec {
			continue
		}
		for i, name := range v.Names {
			s := keyPrefix{name: name, doc: v.Doc}
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
