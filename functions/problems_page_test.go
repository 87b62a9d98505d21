package functions_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/internal/house"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/fault"
)

// answerers are the folders whose texts reach a client, by who answers it. The
// longest that fits holds; "" is for texts that commands print.
var answerers = map[string]string{
	"functions": "API", "shared": "API", "infra": "API in AWS", "local/apigateway": "API",
	"functions/gateway": "gateway", "shared/gateway": "gateway",
	"shared/listen":     "both addresses",
	"shared/blob/files": "upload address",
	"shared/operation":  "", "functions/accounts": "", "local": "", "internal": "", "events": "", "examples": "",
}

// saysWhatToDo is a detail of two sentences or clauses, of a field and its rule, a
// command, or the one of what is not there, which names both causes.
var saysWhatToDo = regexp.MustCompile(`[.;:] \S|^(Begin|Send|Write) |^This .+ does not exist, or this key cannot see it\.$`)

var (
	// contracted are the details that existing clients know (contract 3.6 and 4.5).
	contracted = []string{"No Authorization Header", "Invalid Authorization Scheme", "No key present", "Authorization Failed", "Rate limit exceeded"}
	// unanswered are the faults that who asked for them turns into others.
	unanswered = []string{
		"The client's certificate leads to none of the account's CAs.", "This gateway knows no clients.", "The deployment was deleted while it was built.",
	}
)

// TestProblemsAreDocumented holds docs/problems.md to the sources: the table of titles
// has each that may be answered, and the lists of details are derived.
func TestProblemsAreDocumented(t *testing.T) {
	const path, end = "../docs/problems.md", "<!-- end of the table -->"
	tree, err := house.Read(os.DirFS(".."))
	if err != nil {
		t.Fatal(err)
	}
	found := answered{}
	for kind := range fault.Unanswered + 1 {
		found.add(api.StatusOf(kind), "", "", "")
	}
	for _, p := range tree.Packages {
		if who := answererOf(p.Dir); who != "" {
			found.read(p, who)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	before, rest, found1 := strings.Cut(text, "<!-- table: details -->\n")
	_, after, found2 := strings.Cut(rest, end)
	if !found1 || !found2 {
		t.Fatalf("%s has no table of details", path)
	}
	var titles []string
	for _, row := range regexp.MustCompile(`(?m)^\| \[([^]]+)\]\(#[^)]+\) \| (\d+) \|`).FindAllStringSubmatch(before, -1) {
		titles = append(titles, row[2]+" "+row[1])
	}
	if want := found.titles(); !slices.Equal(titles, want) {
		t.Errorf("the table of titles has\n%s\nand what may be answered is\n%s", strings.Join(titles, "\n"), strings.Join(want, "\n"))
	}
	for title, details := range found {
		for detail := range details {
			if !saysWhatToDo.MatchString(detail) && !slices.Contains(contracted, detail) {
				t.Errorf("%s: %q: say what to do about it", title, detail)
			}
		}
	}
	golden.Equal(t, path, before+"<!-- table: details -->\n\n"+found.lists()+end+after)
}

func answererOf(dir string) string {
	for ; ; dir = dir[:max(0, strings.LastIndex(dir, "/"))] {
		if who, ok := answerers[dir]; ok || dir == "" {
			return who
		}
	}
}

// answered are who answers which details, by status and title, as "404 Not Found".
type answered map[string]map[string][]string

func (p answered) add(status int, title, detail, who string) {
	at := fmt.Sprintf("%d %s", status, cmp.Or(title, http.StatusText(status)))
	if p[at] == nil {
		p[at] = map[string][]string{}
	}
	if wordy.MatchString(detail) && !slices.Contains(unanswered, detail) && !slices.Contains(p[at][detail], who) {
		p[at][detail] = append(p[at][detail], who)
	}
}

func (p answered) titles() []string { return slices.Sorted(maps.Keys(p)) }

func (p answered) lists() string {
	var out strings.Builder
	for _, title := range p.titles() {
		status, name, _ := strings.Cut(title, " ")
		fmt.Fprintf(&out, "### %s\n\n", name)
		if len(p[title]) == 0 {
			fmt.Fprintf(&out, "Status %s.\n\n", status)
			continue
		}
		out.WriteString("| detail | of |\n|---|---|\n")
		for _, detail := range slices.Sorted(maps.Keys(p[title])) {
			fmt.Fprintf(&out, "| %s | %s |\n", strings.NewReplacer("|", `\|`, "<", `\<`).Replace(detail), strings.Join(slices.Sorted(slices.Values(p[title][detail])), ", "))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// read adds what the package's sources answer: a detail behind a status in a call, a
// literal or a return, or handed to a function of the package that answers one status;
// and the texts of faults.
func (p answered) read(pkg house.Package, who string) {
	s := sources{constants: map[string]ast.Expr{}, refusers: map[string]int{}}
	for name, file := range pkg.Files {
		if strings.HasSuffix(name, "_test.go") {
			delete(pkg.Files, name)
			continue
		}
		ast.Inspect(file, s.declarations)
	}
	for _, file := range pkg.Files {
		for _, decl := range file.Decls {
			title := ""
			ast.Inspect(decl, func(n ast.Node) bool {
				if selected, ok := n.(*ast.SelectorExpr); ok && selected.Sel.Name == "InitializationError" {
					title = "Gateway Initialization Error"
				}
				return true
			})
			ast.Inspect(decl, func(n ast.Node) bool {
				for status, detail := range s.answers(n) {
					p.add(status, title, detail, who)
				}
				return true
			})
		}
	}
}

// sources is what a package's expressions mean.
type sources struct {
	constants map[string]ast.Expr
	refusers  map[string]int // functions that answer one status with the text they are given
}

func (s sources) declarations(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.ValueSpec:
		for i, name := range n.Names {
			if i < len(n.Values) {
				s.constants[name.Name] = n.Values[i]
			}
		}
	case *ast.FuncDecl:
		s.refuser(n.Name.Name, n.Type, n.Body)
	case *ast.AssignStmt:
		if f, ok := n.Rhs[0].(*ast.FuncLit); ok {
			if name, ok := n.Lhs[0].(*ast.Ident); ok {
				s.refuser(name.Name, f.Type, f.Body)
			}
		}
	}
	return true
}

func (s sources) refuser(name string, signature *ast.FuncType, body *ast.BlockStmt) {
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
				s.refusers[name] = status
			}
		}
		return true
	})
}

// expressions are what stands side by side in a node.
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

// answers are the details in a node, by status.
func (s sources) answers(n ast.Node) map[int]string {
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
		if of, ok := f.X.(*ast.Ident); ok && of.Name == "fault" {
			s.fault(f.Sel.Name, call.Args, out)
			return out
		}
		if status := s.refusers[f.Sel.Name]; status != 0 {
			out[status] = s.text(call.Args[len(call.Args)-1])
		}
		if f.Sel.Name == "Add" && len(call.Args) > 1 { // of fault.Fields
			if message := s.format(call.Args[1]); wordy.MatchString(message) {
				out[api.StatusOf(fault.Invalid)] = cmp.Or(s.text(call.Args[0]), "body") + ": " + message
			}
		}
	case *ast.Ident:
		if status := s.refusers[f.Name]; status != 0 {
			out[status] = s.text(call.Args[len(call.Args)-1])
		}
	}
	return out
}

func (s sources) fault(function string, args []ast.Expr, out map[int]string) {
	switch function {
	case "Missing":
		f := fault.Missing(s.text(args[0]))
		out[api.StatusOf(f.Kind)] = f.Public
	case "InvalidField":
		out[api.StatusOf(fault.Invalid)] = s.text(args[0]) + ": " + s.format(args[1])
	case "New":
		kinds := map[string]fault.Kind{
			"Invalid": fault.Invalid, "Unauthenticated": fault.Unauthenticated, "Forbidden": fault.Forbidden, "NotFound": fault.NotFound,
			"Conflict": fault.Conflict, "Unprocessable": fault.Unprocessable, "Outdated": fault.Outdated, "TooLarge": fault.TooLarge,
			"Throttled": fault.Throttled, "Unavailable": fault.Unavailable, "Unanswered": fault.Unanswered,
		}
		if kind, ok := args[0].(*ast.SelectorExpr); ok {
			out[api.StatusOf(kinds[kind.Sel.Name])] = s.format(args[1])
		}
	}
}

var statuses = func() map[string]int {
	all := map[string]int{"StatusRequestEntityTooLarge": http.StatusRequestEntityTooLarge, "StatusRequestURITooLong": http.StatusRequestURITooLong}
	for status := http.StatusBadRequest; status < 600; status++ {
		if text := http.StatusText(status); text != "" {
			all["Status"+strings.NewReplacer(" ", "", "-", "", "'", "").Replace(text)] = status
		}
	}
	return all
}()

// statusIn is the status of an error that an expression is: http.StatusNotFound, or its
// title. It is 0 for any other.
func statusIn(e ast.Expr) int {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok && of.Name == "http" {
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
	verb = regexp.MustCompile(`%[a-z]`)
	// wordy are texts of which more is known than their form.
	wordy = regexp.MustCompile(`\p{L}+[ ,]+\p{L}+`)
)

// format is the text that a format makes.
func (s sources) format(e ast.Expr) string {
	return strings.ReplaceAll(verb.ReplaceAllString(s.text(e), "…"), "%%", "%")
}

// text is an expression's text, with … for what is known only when it runs.
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
