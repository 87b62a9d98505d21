package repolint

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// refusedNames are names that say nothing about a package's contents. Any code fits into such a package, so it grows
// without a subject.
var refusedNames = []string{
	"util", "utils", "common", "helper", "helpers", "misc", "types", "models", "model", "base", "lib",
}

// PackageNames reports names that say nothing about a package's contents.
func PackageNames(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for _, name := range []string{p.Name, path.Base(p.Dir)} {
			if slices.Contains(refusedNames, name) {
				found = append(found, Finding{Path: p.Dir, Text: fmt.Sprintf("package %s: name it after the one thing it is about",
					name)})
				break
			}
		}
	}
	return found
}

const (
	// A doc comment says what the package is, what it is not and where its rules come from. No doc comment so far could
	// do that in fewer words.
	minDocWords = 20
	// A main package only calls other packages, so its doc comment can be shorter.
	minMainDocWords = 8
	// If a package has more files, its doc comment must name the file to read first. Tests and generated files do not
	// count.
	filesWithoutGuide = 2
)

var goFileName = regexp.MustCompile(`[\w/]+\.go\b`)

// PackageDocs reports each package that does not have exactly one doc comment. The doc comment must begin with
// "Package" and the name, or with "Command" for a main package, and must be long enough. If the package has more than
// filesWithoutGuide files, the doc comment must name at least one file. It must not name a file that does not exist.
func PackageDocs(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		sources := p.sources()
		if len(sources) == 0 {
			continue // only tests
		}
		add := func(format string, args ...any) {
			found = append(found, Finding{Path: p.Dir, Text: fmt.Sprintf(format, args...)})
		}
		var docs []string
		for _, file := range sources {
			if text := file.Doc.Text(); text != "" {
				docs = append(docs, text)
			}
		}
		if len(docs) != 1 {
			add("has %d package docs: write one, in one file", len(docs))
			continue
		}
		doc, minWords := docs[0], minDocWords
		opening := "Package " + p.Name + " "
		if p.Name == "main" {
			opening, minWords = "Command ", minMainDocWords
		}
		if !strings.HasPrefix(doc, opening) {
			add("want a package doc that begins with %q", opening)
		}
		if n := len(strings.Fields(doc)); n < minWords {
			add("the package doc has %d words: say what it is, what it is not, and where its rules come from", n)
		}
		named := goFileName.FindAllString(doc, -1)
		if len(sources) > filesWithoutGuide && len(named) == 0 {
			add("the package doc names no file: which of the %d is to be read first?", len(sources))
		}
		for _, name := range named {
			if !t.Paths[path.Join(p.Dir, name)] && !t.Paths[name] {
				add("the package doc names %s, which does not exist", name)
			}
		}
	}
	return found
}

const maxFileLines = 500

// FileLengths reports Go files of more than maxFileLines lines that no program has generated: such a file covers two
// subjects.
func FileLengths(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.Files {
			if n := strings.Count(t.Texts[name], "\n"); n > maxFileLines && !ast.IsGenerated(file) {
				found = append(found, Finding{Path: name, Text: fmt.Sprintf("has %d lines, more than %d: split it by subject", n,
					maxFileLines)})
			}
		}
	}
	return found
}

// InitFunctions reports init functions: code that runs before main cannot receive a clock, a context or settings.
func InitFunctions(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.Files {
			for _, decl := range file.Decls {
				if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
					found = append(found, Finding{name, t.line(f.Pos()), "init(): make it a function that main calls"})
				}
			}
		}
	}
	return found
}

// RegularExpressions reports calls of lazy.Regexp whose argument is an invalid regular expression, because it is
// compiled only at its first use. The argument must be a literal. In the client, RegularExpressions also reports
// package-level calls of regexp.MustCompile, because every start of the client would compile these expressions.
func RegularExpressions(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.sources() {
			for _, decl := range file.Decls {
				ast.Inspect(decl, func(n ast.Node) bool {
					call, ok := n.(*ast.CallExpr)
					if !ok {
						return true
					}
					_, isPackageLevel := decl.(*ast.GenDecl)
					switch fun := types.ExprString(call.Fun); {
					case fun == "regexp.MustCompile" && isPackageLevel && within(name, "client"):
						found = append(found, Finding{name, t.line(call.Pos()), "an expression that is compiled at each start: create " +
							"it with lazy.Regexp"})
					case fun == "lazy.Regexp":
						text, ok := call.Args[0].(*ast.BasicLit)
						if !ok {
							found = append(found, Finding{name, t.line(call.Pos()), "lazy.Regexp takes a literal, which is compiled here"})
							break
						}
						if expression, err := strconv.Unquote(text.Value); err == nil {
							if _, err := regexp.Compile(expression); err != nil {
								found = append(found, Finding{name, t.line(call.Pos()), err.Error()})
							}
						}
					}
					return true
				})
			}
		}
	}
	return found
}

// mayMakeContexts returns the files that may create contexts because no caller passes one, with the reasons.
func mayMakeContexts() map[string]string {
	return map[string]string{
		"shared/management/api/problem.go": "huma creates errors with a function that receives no context",
	}
}

// RootContexts reports context.Background and context.TODO outside main packages, because the caller must pass the
// context. It does not check tests, generated files and the files of mayMakeContexts.
func RootContexts(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		if p.Name == "main" {
			continue
		}
		for name, file := range p.sources() {
			if mayMakeContexts()[name] != "" {
				continue
			}
			for n := range ast.Preorder(file) {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					continue
				}
				pkg, ok := sel.X.(*ast.Ident)
				if ok && pkg.Name == "context" && (sel.Sel.Name == "Background" || sel.Sel.Name == "TODO") {
					found = append(found, Finding{
						name, t.line(sel.Pos()),
						"context." + sel.Sel.Name + " below main: take the caller's context, or context.WithoutCancel of it",
					})
				}
			}
		}
	}
	return found
}

var (
	todo          = regexp.MustCompile(`(?m)^\W*(TODO|FIXME|XXX)\b`)
	todoWithIssue = regexp.MustCompile(`(?m)^\W*TODO\(#\d+\): \S`)
)

// Todos reports each TODO comment that does not name the issue that will remove it, and each FIXME and XXX comment.
func Todos(t *Tree) (found []Finding) {
	for _, p := range t.Packages {
		for name, file := range p.Files {
			for _, group := range file.Comments {
				for _, c := range group.List {
					if todo.MatchString(c.Text) && !todoWithIssue.MatchString(c.Text) {
						found = append(found, Finding{name, t.line(c.Pos()), "write TODO(#issue): what, or do it"})
					}
				}
			}
		}
	}
	return found
}
