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

// Go's coverage counts statements, and no statement contains the conditions of a switch's cases, so gremlins treats
// every such condition as code that no test runs. The copy for gremlins has if statements with the same conditions
// instead, on the same lines.

// edit replaces a part of a text.
type edit struct {
	from, to int
	text     string
	moved    int // the number of line breaks that another edit writes for this edit; negative in that other edit
}

// ifsForSwitches returns a Go file with a chain of ifs instead of each switch without a tag. It does not change a
// switch if the chain would have another meaning, and it does not change labeled and empty switches.
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
			return !isSwitch // a break with the label refers to the switch
		}
		s, ok := n.(*ast.SwitchStmt)
		if !ok || s.Tag != nil || len(s.Body.List) == 0 || !isChain(s.Body.List) {
			return true
		}
		init := ""
		if s.Init != nil {
			init = string(source[at(s.Init.Pos()):at(s.Init.End())]) + "; "
		}
		moved := strings.Count(init, "\n")
		edits = append(edits, edit{from: at(s.Switch), to: at(s.Body.Lbrace) + 1, moved: moved})
		for i, clause := range s.Body.List {
			c, _ := clause.(*ast.CaseClause) // a switch contains only case clauses
			keyword := "} else "
			if i == 0 {
				keyword = ""
			}
			if c.List == nil {
				edits = append(edits, edit{from: at(c.Case), to: at(c.Colon) + 1, text: keyword + "{"})
				continue
			}
			edits = append(edits, edit{at(c.Case), at(c.List[0].Pos()), keyword + "if " + init + "(", -moved})
			init, moved = "", 0
			for k, next := range c.List[1:] {
				edits = append(edits, edit{from: at(c.List[k].End()), to: at(next.Pos()), text: ") || ("})
			}
			edits = append(edits, edit{from: at(c.List[len(c.List)-1].End()), to: at(c.Colon) + 1, text: ") {"})
		}
		return true
	})
	slices.SortFunc(edits, func(a, b edit) int { return a.from - b.from })
	var out bytes.Buffer
	offset := 0
	for _, e := range edits {
		out.Write(source[offset:e.from])
		out.WriteString(e.text)
		breaks := bytes.Count(source[e.from:e.to], []byte("\n")) - strings.Count(e.text, "\n") - e.moved
		out.WriteString(strings.Repeat("\n", breaks))
		offset = e.to
	}
	out.Write(source[offset:])
	return out.Bytes(), nil
}

// isChain reports whether a switch with these clauses means the same as a chain of ifs: a default clause is the last
// one but not the only one, and no clause contains a fallthrough or a break that ends the clause.
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
				return false // a break in this statement does not end the clause
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

// rewriteSwitches applies ifsForSwitches to each Go file below a folder, except tests.
func rewriteSwitches(folder string) error {
	return eachSource(folder, func(path string, source []byte) error {
		rewritten, err := ifsForSwitches(source)
		if err != nil {
			return err
		}
		return os.WriteFile(path, rewritten, 0o600)
	})
}

// declarations returns the lines of the Go files below a folder that are outside function declarations, as "file:line".
// Coverage has no statements there, except in function literals.
func declarations(folder string) (map[string]bool, error) {
	lines := map[string]bool{}
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
					lines[fmt.Sprint(name, ":", line)] = true
				}
			}
		}
		return nil
	})
	return lines, err
}

// eachSource calls do with each Go file below a folder, except tests.
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
