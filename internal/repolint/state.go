package repolint

import (
	"errors"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"slices"
)

// PackageState reports package variables that change after the program's start: a function assigns to them, increments
// them, writes into them or deletes from them, or their type is only useful if the value changes (packages sync and
// atomic). All tests and all instances in a process would share such state.
//
// The rule checks only the code of the package that declares the variable, and does not follow pointers.
func PackageState(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		sources := p.sources()
		uses := t.uses(p, sources)
		for name, file := range sources {
			for _, spec := range packageVars(file) {
				if isMutable(spec) {
					found = append(found, Finding{
						name, t.line(spec.Pos()),
						spec.Names[0].Name + " is state of the package: put it into a struct that main creates",
					})
				}
			}
			for n := range ast.Preorder(file) {
				for _, target := range assignedExprs(n) {
					ident := root(target)
					if v, ok := uses[ident].(*types.Var); ok && v.Parent() == v.Pkg().Scope() {
						found = append(found, Finding{
							name, t.line(n.Pos()),
							ident.Name + " is a package variable: do not change it after the start",
						})
					}
				}
			}
		}
	}
	return found
}

// uses returns the object that each identifier in the files refers to. It does not read imported packages, so it has no
// objects for their names. The rule needs only the package's own variables, and the local variables that hide them.
func (t *Tree) uses(p Package, files map[string]*ast.File) map[*ast.Ident]types.Object {
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: emptyImporter{}, Error: func(error) {}}
	// Ignore the error: it is the first of the errors that config.Error ignores.
	_, _ = config.Check(p.Dir, t.fset, slices.Collect(maps.Values(files)), info)
	return info.Uses
}

// emptyImporter fails every import, so that uses reads no imported packages.
type emptyImporter struct{}

func (emptyImporter) Import(string) (*types.Package, error) {
	return nil, errors.New("imports are not read")
}

func packageVars(file *ast.File) (specs []*ast.ValueSpec) {
	for _, decl := range file.Decls {
		if gen, ok := decl.(*ast.GenDecl); ok && gen.Tok == token.VAR {
			for _, spec := range gen.Specs {
				if v, ok := spec.(*ast.ValueSpec); ok {
					specs = append(specs, v)
				}
			}
		}
	}
	return specs
}

// isMutable reports whether the variable's type is a type of package sync or atomic, such as a lock or a counter, or a
// pointer to one. The result of a function of package sync, such as sync.OnceValue, is not mutable.
func isMutable(spec *ast.ValueSpec) bool {
	exprs := []ast.Expr{spec.Type}
	for _, v := range spec.Values {
		if address, ok := v.(*ast.UnaryExpr); ok {
			v = address.X
		}
		switch v := v.(type) {
		case *ast.CompositeLit:
			exprs = append(exprs, v.Type)
		case *ast.CallExpr:
			if f, ok := v.Fun.(*ast.Ident); ok && f.Name == "new" && len(v.Args) == 1 {
				exprs = append(exprs, v.Args[0])
			}
		}
	}
	for _, e := range exprs {
		if pointer, ok := e.(*ast.StarExpr); ok {
			e = pointer.X
		}
		if sel, ok := e.(*ast.SelectorExpr); ok {
			pkg, ok := sel.X.(*ast.Ident)
			if ok && (pkg.Name == "sync" || pkg.Name == "atomic") {
				return true
			}
		}
	}
	return false
}

// assignedExprs returns the expressions whose values a statement or a call changes.
func assignedExprs(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		return n.Lhs // the names that := declares are local, so they do not refer to a package variable
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.CallExpr:
		if mutatesFirstArgument(n.Fun) && len(n.Args) > 0 {
			return n.Args[:1]
		}
	}
	return nil
}

// mutatesFirstArgument reports whether a function changes the contents of its first argument.
func mutatesFirstArgument(f ast.Expr) bool {
	name := ""
	switch f := f.(type) {
	case *ast.Ident:
		name = f.Name
	case *ast.SelectorExpr:
		if pkg, ok := f.X.(*ast.Ident); ok {
			name = pkg.Name + "." + f.Sel.Name
		}
	}
	return slices.Contains([]string{
		"delete", "clear", "copy", "maps.Copy", "maps.DeleteFunc", "maps.Insert",
		"slices.Sort", "slices.SortFunc", "slices.SortStableFunc", "slices.Reverse",
	}, name)
}

// root returns the identifier x of the expressions x, x.f, x[i] and *x, or nil for other expressions.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.SelectorExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return nil
		}
	}
}
