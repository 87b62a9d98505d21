package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Go's coverage counts statements, and the conditions of a switch's cases stand
// in none: gremlins takes every one of them for code that no test runs. In the
// copy that it gets they are the conditions of ifs, on the same lines.

// edit replaces a part of a text.
type edit struct {
	from, to int
	text     string
}

// ifsForSwitches returns a Go file in which each switch without a tag is a chain
// of ifs, but for those in which that would mean something else.
func ifsForSwitches(source []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("read a source: %w", err)
	}
	at := func(p token.Pos) int { return files.Position(p).Offset }
	var edits []edit
	ast.Inspect(file, func(n ast.Node) bool {
		if labeled, ok := n.(*ast.LabeledStmt); ok {
			_, isSwitch := labeled.Stmt.(*ast.SwitchStmt)
			return !isSwitch // what breaks it says so by name
		}
		s, ok := n.(*ast.SwitchStmt)
		if !ok || s.Tag != nil || len(s.Body.List) == 0 || !isChain(s.Body.List) {
			return true
		}
		init := ""
		if s.Init != nil {
			init = string(source[at(s.Init.Pos()):at(s.Init.End())]) + "; "
		}
		edits = append(edits, edit{at(s.Switch), at(s.Body.Lbrace) + 1, ""})
		for i, clause := range s.Body.List {
			c, _ := clause.(*ast.CaseClause) // a switch has nothing else
			word := "} else "
			if i == 0 {
				word = ""
			}
			if c.List == nil {
				edits = append(edits, edit{at(c.Case), at(c.Colon) + 1, word + "{"})
				continue
			}
			edits = append(edits, edit{at(c.Case), at(c.List[0].Pos()), word + "if " + init + "("})
			init = ""
			for k, next := range c.List[1:] {
				edits = append(edits, edit{at(c.List[k].End()), at(next.Pos()), ") || ("})
			}
			edits = append(edits, edit{at(c.List[len(c.List)-1].End()), at(c.Colon) + 1, ") {"})
		}
		return true
	})
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	done := 0
	for _, e := range edits {
		out.Write(source[done:e.from])
		out.WriteString(e.text)
		out.WriteString(strings.Repeat("\n", bytes.Count(source[e.from:e.to], []byte("\n"))-strings.Count(e.text, "\n")))
		done = e.to
	}
	out.Write(source[done:])
	return out.Bytes(), nil
}

// isChain reports whether clauses mean the same as ifs: a default comes last and
// not alone, and none of them breaks or falls through.
func isChain(clauses []ast.Stmt) bool {
	for i, clause := range clauses {
		c, _ := clause.(*ast.CaseClause)
		if c.List == nil && (i == 0 || i < len(clauses)-1) {
			return false
		}
		chain := true
		ast.Inspect(c, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ForStmt, *ast.RangeStmt, *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.FuncLit:
				return false // a break in there is theirs
			case *ast.BranchStmt:
				chain = chain && n.Tok != token.FALLTHROUGH && (n.Tok != token.BREAK || n.Label != nil)
			}
			return true
		})
		if !chain {
			return false
		}
	}
	return true
}

// rewriteSwitches does so for the files of a package that are not tests.
func rewriteSwitches(folder string) error {
	return eachSource(folder, func(path string, source []byte) error {
		rewritten, err := ifsForSwitches(source)
		if err != nil {
			return err
		}
		return os.WriteFile(path, rewritten, 0o600)
	})
}

// declarations tells which lines of a package stand outside functions, by
// "file:line": no test can run those.
func declarations(folder string) (map[string]bool, error) {
	outside := map[string]bool{}
	err := eachSource(folder, func(path string, source []byte) error {
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, "", source, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok {
				for line := files.Position(g.Pos()).Line; line <= files.Position(g.End()).Line; line++ {
					outside[fmt.Sprint(name, ":", line)] = true
				}
			}
		}
		return nil
	})
	return outside, err
}

func eachSource(folder string, do func(path string, source []byte) error) error {
	return filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path) //nolint:gosec // in the copy
		if err != nil {
			return err
		}
		if err := do(path, source); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
}
