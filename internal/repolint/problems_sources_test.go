package repolint

import (
	"cmp"
	"go/ast"
	"go/token"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/management/api"
)

// sources contains the constants and functions of a package that its details depend on.
type sources struct {
	constants   map[string]ast.Expr
	statusFuncs map[string]int // the status of each function that returns a parameter as the detail of this status
}

// declarations records the constants and functions that n declares. It is a function for ast.Inspect.
func (s sources) declarations(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				s.constants[name.Name] = n.Values[i]
			}
		}
	case *ast.FuncDecl:
		s.addStatusFunc(n.Name.Name, n.Type, n.Body)
	case *ast.AssignStmt:
		if f, ok := n.Rhs[0].(*ast.FuncLit); ok {
			if name, ok := n.Lhs[0].(*ast.Ident); ok {
				s.addStatusFunc(name.Name, f.Type, f.Body)
			}
		}
	}
	return true
}

// addStatusFunc records the status of a function if its body has a status followed by one of its parameters.
func (s sources) addStatusFunc(name string, signature *ast.FuncType, body *ast.BlockStmt) {
	if body == nil {
		return
	}
	var texts []string
	for _, field := range signature.Params.List {
		for _, name := range field.Names {
			texts = append(texts, name.Name)
		}
	}
	ast.Inspect(body, func(n ast.Node) bool {
		all := expressions(n)
		for i := range len(all) - 1 {
			text, ok := all[i+1].(*ast.Ident)
			if status := statusIn(all[i]); status != 0 && ok && slices.Contains(texts, text.Name) {
				s.statusFuncs[name] = status
			}
		}
		return true
	})
}

// expressions returns the expressions of a node in their order, such as the arguments of a call.
func expressions(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.CallExpr:
		return n.Args
	case *ast.ReturnStmt:
		return n.Results
	case *ast.CompositeLit:
		all := slices.Clone(n.Elts)
		for i, element := range all {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				all[i] = pair.Value
			}
		}
		return all
	}
	return nil
}

// details returns the details in a node, by status.
func (s sources) details(n ast.Node) map[int]string {
	all, out := expressions(n), map[int]string{}
	for i, e := range all {
		if status := statusIn(e); status != 0 {
			out[status] = ""
			if i+1 < len(all) {
				out[status] = s.text(all[i+1])
			}
		}
	}
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return out
	}
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		if pkg, ok := f.X.(*ast.Ident); ok && pkg.Name == "fault" {
			s.fault(f.Sel.Name, call.Args, out)
			return out
		}
		if status := s.statusFuncs[f.Sel.Name]; status != 0 {
			out[status] = s.text(call.Args[len(call.Args)-1])
		}
		if f.Sel.Name == "Add" && len(call.Args) > 1 { // the method Add of fault.Fields
			if message := s.format(call.Args[1]); hasWords.MatchString(message) {
				out[api.StatusOf(fault.Invalid)] = cmp.Or(s.text(call.Args[0]), "body") + ": " + message
			}
		}
	case *ast.Ident:
		if status := s.statusFuncs[f.Name]; status != 0 {
			out[status] = s.text(call.Args[len(call.Args)-1])
		}
	}
	return out
}

// fault adds to out the detail of the fault that a call of a function of package fault creates, by its status.
func (s sources) fault(function string, args []ast.Expr, out map[int]string) {
	switch function {
	case "Missing":
		f := fault.Missing(s.text(args[0]))
		out[api.StatusOf(f.Kind)] = f.Public
	case "InvalidField":
		out[api.StatusOf(fault.Invalid)] = s.text(args[0]) + ": " + s.format(args[1])
	case "New":
		kinds := map[string]fault.Kind{
			"Invalid": fault.Invalid, "Unauthenticated": fault.Unauthenticated, "Forbidden": fault.Forbidden,
			"NotFound": fault.NotFound,
			"Conflict": fault.Conflict, "Unprocessable": fault.Unprocessable, "PreconditionFailed": fault.PreconditionFailed,
			"TooLarge":  fault.TooLarge,
			"Throttled": fault.Throttled, "Unavailable": fault.Unavailable, "DatabaseUnavailable": fault.DatabaseUnavailable,
		}
		if kind, ok := args[0].(*ast.SelectorExpr); ok {
			out[api.StatusOf(kinds[kind.Sel.Name])] = s.format(args[1])
		}
	}
}

// statuses contains the status of each constant of net/http for an error, by the constant's name.
var statuses = func() map[string]int {
	all := map[string]int{
		"StatusRequestEntityTooLarge": http.StatusRequestEntityTooLarge,
		"StatusRequestURITooLong":     http.StatusRequestURITooLong,
	}
	for status := http.StatusBadRequest; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			all["Status"+strings.NewReplacer(" ", "", "-", "", "'", "").Replace(text)] = status
		}
	}
	return all
}()

// statusIn returns the status that an expression stands for, such as 404 for http.StatusNotFound or for its title. It
// returns 0 for an expression that is not the status of an error.
func statusIn(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if pkg, ok := e.X.(*ast.Ident); ok && pkg.Name == "http" {
			return statuses[e.Sel.Name]
		}
	case *ast.BasicLit:
		if title, err := strconv.Unquote(e.Value); err == nil && title != "" {
			for _, status := range statuses {
				if http.StatusText(status) == title {
					return status
				}
			}
		}
	}
	return 0
}

var (
	// verb matches a verb of a format, such as %d.
	verb = regexp.MustCompile(`%[a-z]`)
	// hasWords matches texts that contain at least two words.
	hasWords = regexp.MustCompile(`\p{L}+[ ,]+\p{L}+`)
)

// format returns the text of a format, with … for each of its verbs.
func (s sources) format(e ast.Expr) string {
	return strings.ReplaceAll(verb.ReplaceAllString(s.text(e), "…"), "%%", "%")
}

// text returns the text of an expression, with … for each part that is known only at run time.
func (s sources) text(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	case *ast.BinaryExpr:
		return s.text(e.X) + s.text(e.Y)
	case *ast.CallExpr:
		if f, ok := e.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
			return s.format(e.Args[0])
		}
	case *ast.Ident:
		if value, ok := s.constants[e.Name]; ok {
			return s.text(value)
		}
	}
	return "…"
}
