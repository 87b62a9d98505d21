package repolint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

// maxAlternatives is the maximum number of alternatives in a condition with one failure message. If a condition with
// more alternatives is true, the message does not show which alternative is true.
const maxAlternatives = 4

// Messages reports each failure message of a test that does not say what was wanted, and each condition with one message and more than
// maxAlternatives alternatives. A message needs no "want" if the condition is that an error is not nil, and the message shows the error.
//
// Messages reads only the syntax. It treats every method with the name Errorf, Fatalf, Error or Fatal as a method of
// package testing, except functions of package fmt and methods of loggers. It ignores an Error or Fatal whose first
// argument contains no string literal.
func Messages(t *Tree) (found []Finding) {
	t.eachFile(func(name string, file *ast.File) {
		var conditions []*ast.IfStmt // the if statements whose bodies contain the current node
		var inspect func(n ast.Node) bool
		inspect = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.IfStmt:
				for _, part := range []ast.Node{n.Init, n.Cond} {
					if part != nil {
						ast.Inspect(part, inspect)
					}
				}
				conditions = append(conditions, n)
				ast.Inspect(n.Body, inspect)
				conditions = conditions[:len(conditions)-1]
				if n.Else != nil {
					ast.Inspect(n.Else, inspect)
				}
				return false
			case *ast.FuncLit:
				outer := conditions
				conditions = nil
				ast.Inspect(n.Body, inspect)
				conditions = outer
				return false
			case *ast.CallExpr:
				if text, ok := failureMessage(n); ok {
					var condition ast.Expr
					if len(conditions) > 0 {
						condition = conditions[len(conditions)-1].Cond
					}
					if problem := messageProblem(text, condition); problem != "" {
						found = append(found, Finding{name, t.line(n.Pos()), problem})
					}
				}
			}
			return true
		}
		ast.Inspect(file, inspect)
	})
	return found
}

// messageProblem returns what is wrong with a failure message, or "". text is the source of the call's arguments.
// condition is the condition of the innermost if statement around the call, or nil.
func messageProblem(text string, condition ast.Expr) string {
	if n := alternatives(condition); n > maxAlternatives {
		return fmt.Sprintf("one message for %d alternatives: use a table or one check for each", n)
	}
	if strings.Contains(text, "want") {
		return ""
	}
	if c, ok := condition.(*ast.BinaryExpr); ok && c.Op == token.NEQ && types.ExprString(c.Y) == "nil" {
		if err := types.ExprString(c.X); strings.Contains(strings.ToLower(err), "err") && strings.Contains(text, err) {
			return ""
		}
	}
	return `the failure message does not say what was wanted: write "call = result, want expected"`
}

// failureMessage returns the source of a call's arguments if the call fails a test with a message. Otherwise, it
// returns false.
func failureMessage(call *ast.CallExpr) (text string, ok bool) {
	f, isSelector := call.Fun.(*ast.SelectorExpr)
	if !isSelector || len(call.Args) == 0 {
		return "", false
	}
	switch receiver := f.X.(type) {
	case *ast.Ident:
		if slices.Contains([]string{"fmt", "log", "slog", "logger"}, receiver.Name) {
			return "", false
		}
	case *ast.SelectorExpr:
		if strings.EqualFold(receiver.Sel.Name, "log") {
			return "", false
		}
	default:
		return "", false
	}
	switch f.Sel.Name {
	case "Errorf", "Fatalf":
	case "Error", "Fatal":
		if !hasText(call.Args[0]) {
			return "", false
		}
	default:
		return "", false
	}
	var args []string
	for _, a := range call.Args {
		args = append(args, types.ExprString(a))
	}
	return strings.Join(args, ", "), true
}

// hasText reports whether an expression contains a string literal.
func hasText(e ast.Expr) (has bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
			has = true
		}
		return !has
	})
	return has
}

// alternatives returns the number of alternatives in a condition: one more than it has operators ||. It returns 0 for
// no condition.
func alternatives(condition ast.Expr) int {
	if condition == nil {
		return 0
	}
	n := 1
	ast.Inspect(condition, func(node ast.Node) bool {
		if b, ok := node.(*ast.BinaryExpr); ok && b.Op == token.LOR {
			n++
		}
		return true
	})
	return n
}
