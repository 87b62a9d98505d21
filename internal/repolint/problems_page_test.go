package repolint

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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// components are the folders whose texts reach a client, with the component that returns them. The longest matching
// path applies. The component "" is for texts that commands print or log.
var components = map[string]string{
	"functions": "API", "shared": "API", "infra": "API in AWS", "local/apigateway": "API",
	"functions/gateway": "gateway", "shared/dataplane/gateway": "gateway", "shared/format/mcp": "API, gateway",
	"shared/base/bodies":         "both addresses",
	"shared/base/framing":        "both addresses",
	"shared/format/paths":        "gateway",
	"shared/management/endpoint": "API, gateway",
	"shared/dataplane/listen":    "both addresses",
	"shared/core/blob/files":     "upload address",
	"shared/resource/issuance":   "a certificate's `message`",
	"shared/format/tunnel":       "", // its responses go to agents, which write the text to their log
	"shared/core/operation":      "", "functions/accounts": "", "local": "", "internal": "", "events": "", "examples": "",
	"shared/runtime/commandline": "", "shared/base/processes": "", "shared/base/terminal": "", "shared/testing": "",
	"infra/recovery": "",
}

// actionable matches a detail that says what to do: a detail with two sentences or clauses, with a field and its rule,
// or with a command, or the detail about a missing object, which names both causes.
var actionable = regexp.MustCompile(
	`[.;:] \S|^(Begin|Send|Write) |^This .+ does not exist, or this key cannot see it\.$`)

var (
	// contractDetails are the details that existing clients rely on (contract 3.6, 4.4 and 4.5).
	contractDetails = []string{
		"No Authorization Header", "Invalid Authorization Scheme", "No key present", "Authorization Failed",
		"Rate limit exceeded",
		"Introspection queries are not allowed",
	}
	// internalDetails are the details of faults that callers replace with other faults.
	internalDetails = []string{
		"The client's certificate leads to none of the account's CAs.", "This gateway knows no clients.",
		"The deployment was deleted while it was built.",
	}
)

// TestProblemsAreDocumented compares docs/problems.md with the sources: the table of titles contains each title that
// can be returned, and the lists of details are generated from the sources.
func TestProblemsAreDocumented(t *testing.T) {
	const path, end = "../../docs/problems.md", "<!-- end of the table -->"
	tree, err := Read(os.DirFS(repository))
	if err != nil {
		t.Fatal(err)
	}
	returned := problems{}
	for kind := range fault.DatabaseUnavailable + 1 {
		returned.add(api.StatusOf(kind), "", "", "")
	}
	for _, p := range tree.Packages {
		if component := componentOf(p.Dir); component != "" {
			returned.read(p, component)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	before, tail, hasStart := strings.Cut(text, "<!-- table: details -->\n")
	_, after, hasEnd := strings.Cut(tail, end)
	if !hasStart || !hasEnd {
		t.Fatalf("%s: start of the table of details found = %v, end found = %v, want both", path, hasStart, hasEnd)
	}
	var titles []string
	for _, row := range regexp.MustCompile(`(?m)^\| \[([^]]+)\]\(#[^)]+\) \| (\d+) \|`).FindAllStringSubmatch(before, -1) {
		titles = append(titles, row[2]+" "+row[1])
	}
	if want := returned.titles(); !slices.Equal(titles, want) {
		t.Errorf("titles in the table =\n%s\nwant the titles that sources return:\n%s", strings.Join(titles, "\n"),
			strings.Join(want, "\n"))
	}
	for _, detail := range returned.unhelpful() {
		t.Errorf("the detail %q does not say what to do, want a sentence that does", detail)
	}
	golden.Equal(t, path, before+"<!-- table: details -->\n\n"+returned.lists()+end+after)
}

// TestDetailsAreFoundInSources checks with small sources which details are found, and which of them do not say what to
// do.
func TestDetailsAreFoundInSources(t *testing.T) {
	for _, c := range []struct{ name, source, want, unhelpful string }{
		{
			"a fault", `var e = fault.New(fault.Conflict, "In use by %s. Choose "+"another.", name)`,
			"409 Conflict: In use by …. Choose another.", "",
		},
		{
			"a fault without help", `var e = fault.New(fault.NotFound, "It is gone.")`, "404 Not Found: It is gone.",
			"404 Not Found: It is gone.",
		},
		{
			"a missing object", `var e = fault.Missing("bucket")`,
			"404 Not Found: This bucket does not exist, or this key cannot see it.", "",
		},
		{
			"a field", `var e = fault.InvalidField("name", "has more than %d bytes", most)`,
			"400 Bad Request: name: has more than … bytes", "",
		},
		{
			"a collected field", `func f(p *fault.Fields) { p.Add("tags", "has more than %d pairs", most) }`,
			"400 Bad Request: tags: has more than … pairs", "",
		},
		{
			"a status and a detail", `func f() { x.Problem(http.StatusGatewayTimeout, "Too slow. Try again.") }`,
			"504 Gateway Timeout: Too slow. Try again.", "",
		},
		{
			"a detail in a constant",
			"const late = \"Too slow. Try again.\"\nfunc f() { x.Problem(http.StatusGatewayTimeout, late) }",
			"504 Gateway Timeout: Too slow. Try again.", "",
		},
		{
			"a detail in a struct literal", `var e = Refusal{Status: http.StatusBadRequest, Detail: "No host. Send one."}`,
			"400 Bad Request: No host. Send one.", "",
		},
		{
			"a returned detail", `func f() (int, string) { return http.StatusRequestTimeout, "It stalled. Send it again." }`,
			"408 Request Timeout: It stalled. Send it again.", "",
		},
		{
			"an entry with a title", `var e = answer{"THROTTLED", "429", "Too Many Requests", "Too many. Repeat it later."}`,
			"429 Too Many Requests: Too many. Repeat it later.", "",
		},
		{
			"a function of one status", "func bad(detail string) r { return r{http.StatusBadGateway, detail} }\nvar e = " +
				"bad(\"It broke off. Try again.\")",
			"502 Bad Gateway: It broke off. Try again.", "",
		},
		{
			"an assigned title",
			`func f() { d := New(http.StatusInternalServerError, "Not served. Deploy again."); ` +
				`d.Title = problem.InitializationError }`,
			"500 Gateway Initialization Error: Not served. Deploy again.", "",
		},
		{"a success", `func f() { x.Answer(http.StatusOK, "It is well.") }`, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tree, err := Read(fstest.MapFS{"shared/x/x.go": {Data: []byte("package x\n" + c.source)}})
			if err != nil {
				t.Fatal(err)
			}
			found := problems{}
			found.read(tree.Packages[0], "API")
			var got []string
			for title, details := range found {
				for detail := range details {
					got = append(got, title+": "+detail)
				}
			}
			if strings.Join(got, "\n") != c.want || strings.Join(found.unhelpful(), "\n") != c.unhelpful {
				t.Errorf("read() = %q with the unhelpful details %q, want %q and %q", got, found.unhelpful(), c.want, c.unhelpful)
			}
		})
	}
}

// unhelpful returns the details that do not say what to do.
func (p problems) unhelpful() (found []string) {
	for _, title := range p.titles() {
		for _, detail := range slices.Sorted(maps.Keys(p[title])) {
			if !actionable.MatchString(detail) && !slices.Contains(contractDetails, detail) {
				found = append(found, title+": "+detail)
			}
		}
	}
	return found
}

// componentOf returns the component of the folder, or that of the nearest folder above it that has one.
func componentOf(dir string) string {
	for ; ; dir = dir[:max(0, strings.LastIndex(dir, "/"))] {
		if component, ok := components[dir]; ok || dir == "" {
			return component
		}
	}
}

// problems maps a status and title, such as "404 Not Found", and a detail to the components that return the detail.
type problems map[string]map[string][]string

// add adds a detail of a component below a status and its title. title "" means the standard title of the status. A
// detail without at least two words, or of internalDetails, adds only the title.
func (p problems) add(status int, title, detail, component string) {
	key := fmt.Sprintf("%d %s", status, cmp.Or(title, http.StatusText(status)))
	if p[key] == nil {
		p[key] = map[string][]string{}
	}
	if hasWords.MatchString(detail) && !slices.Contains(internalDetails, detail) &&
		!slices.Contains(p[key][detail], component) {
		p[key][detail] = append(p[key][detail], component)
	}
}

func (p problems) titles() []string { return slices.Sorted(maps.Keys(p)) }

// lists returns the part of the page that lists the details below each title.
func (p problems) lists() string {
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
			fmt.Fprintf(&out, "| %s | %s |\n", strings.NewReplacer("|", `\|`, "<", `\<`).Replace(detail),
				strings.Join(slices.Sorted(slices.Values(p[title][detail])), ", "))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// read adds the details that the package's sources return. A detail is a text after a status in a call, a literal or a
// return statement, the argument of a function of the package that always returns the same status, or the text of a
// fault. In a declaration that uses InitializationError, all details have the title of that error.
func (p problems) read(pkg Package, component string) {
	s := sources{constants: map[string]ast.Expr{}, statusFuncs: map[string]int{}}
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
				for status, detail := range s.details(n) {
					p.add(status, title, detail, component)
				}
				return true
			})
		}
	}
}
