package functions_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/internal/house"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/fault"
)

// answerers are the folders whose texts reach a client, by who answers it. The
// longest that fits holds; "" is for texts that commands print.
var answerers = map[string]string{
	"functions": "API", "shared": "API", "infra": "API in AWS", "local/apigateway": "API",
	"functions/gateway": "gateway", "shared/gateway": "gateway", "shared/mcp": "API, gateway",
	"shared/bodies":     "both addresses",
	"shared/listen":     "both addresses",
	"shared/blob/files": "upload address",
	"shared/issuance":   "a certificate's `message`",
	"shared/tunnel":     "", // which answers agents, in words of their log
	"shared/operation":  "", "functions/accounts": "", "local": "", "internal": "", "events": "", "examples": "",
}

// saysWhatToDo is a detail of two sentences or clauses, of a field and its rule, a
// command, or the one of what is not there, which names both causes.
var saysWhatToDo = regexp.MustCompile(`[.;:] \S|^(Begin|Send|Write) |^This .+ does not exist, or this key cannot see it\.$`)

var (
	// contracted are the details that existing clients know (contract 3.6, 4.4 and 4.5).
	contracted = []string{
		"No Authorization Header", "Invalid Authorization Scheme", "No key present", "Authorization Failed", "Rate limit exceeded",
		"Introspection queries are not allowed",
	}
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
	for _, detail := range found.unhelpful() {
		t.Errorf("%s: say what to do about it", detail)
	}
	golden.Equal(t, path, before+"<!-- table: details -->\n\n"+found.lists()+end+after)
}

// TestDetailsAreFoundInSources shows in small sources what is found, and what is refused.
func TestDetailsAreFoundInSources(t *testing.T) {
	for _, c := range []struct{ name, source, want, unhelpful string }{
		{"a fault", `var e = fault.New(fault.Conflict, "In use by %s. Choose "+"another.", name)`, "409 Conflict: In use by …. Choose another.", ""},
		{"a fault that helps nobody", `var e = fault.New(fault.NotFound, "It is gone.")`, "404 Not Found: It is gone.", "404 Not Found: It is gone."},
		{"what is missing", `var e = fault.Missing("bucket")`, "404 Not Found: This bucket does not exist, or this key cannot see it.", ""},
		{"a field", `var e = fault.InvalidField("name", "has more than %d bytes", most)`, "400 Bad Request: name: has more than … bytes", ""},
		{"one field of several", `func f(p *fault.Fields) { p.Add("tags", "has more than %d pairs", most) }`, "400 Bad Request: tags: has more than … pairs", ""},
		{"a status and a detail", `func f() { x.Problem(http.StatusGatewayTimeout, "Too slow. Try again.") }`, "504 Gateway Timeout: Too slow. Try again.", ""},
		{"a constant", "const late = \"Too slow. Try again.\"\nfunc f() { x.Problem(http.StatusGatewayTimeout, late) }", "504 Gateway Timeout: Too slow. Try again.", ""},
		{"a literal", `var e = Refusal{Status: http.StatusBadRequest, Detail: "No host. Send one."}`, "400 Bad Request: No host. Send one.", ""},
		{"a return", `func f() (int, string) { return http.StatusRequestTimeout, "It stalled. Send it again." }`, "408 Request Timeout: It stalled. Send it again.", ""},
		{"a title", `var e = answer{"THROTTLED", "429", "Too Many Requests", "Too many. Repeat it later."}`, "429 Too Many Requests: Too many. Repeat it later.", ""},
		{
			"a function of one status", "func bad(detail string) r { return r{http.StatusBadGateway, detail} }\nvar e = bad(\"It broke off. Try again.\")",
			"502 Bad Gateway: It broke off. Try again.", "",
		},
		{
			"a title of its own", `func f() { d := New(http.StatusInternalServerError, "Not served. Deploy again."); d.Title = problem.InitializationError }`,
			"500 Gateway Initialization Error: Not served. Deploy again.", "",
		},
		{"a success", `func f() { x.Answer(http.StatusOK, "It is well.") }`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, err := house.Read(fstest.MapFS{"shared/x/x.go": {Data: []byte("package x\n" + c.source)}})
			if err != nil {
				t.Fatal(err)
			}
			found := answered{}
			found.read(tree.Packages[0], "API")
			var got []string
			for title, details := range found {
				for detail := range details {
					got = append(got, title+": "+detail)
				}
			}
			if strings.Join(got, "\n") != c.want || strings.Join(found.unhelpful(), "\n") != c.unhelpful {
				t.Errorf("found %q, of which %q do not help", got, found.unhelpful())
			}
		})
	}
}

// unhelpful are the details that do not say what to do.
func (p answered) unhelpful() (found []string) {
	for _, title := range p.titles() {
		for _, detail := range slices.Sorted(maps.Keys(p[title])) {
			if !saysWhatToDo.MatchString(detail) && !slices.Contains(contracted, detail) {
				found = append(found, title+": "+detail)
			}
		}
	}
	return found
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
