package project_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// documentFiles returns a project with an OpenAPI document that has members.
func documentFiles(members string) project.Files {
	return project.Files{"config/routes.oas.json": []byte(`{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, ` +
		members + `}`)}
}

// routeFiles returns a project with one route, whose handler has options.
func routeFiles(options string) project.Files {
	return documentFiles(`"paths": {"/a": ` + operation(options, "") + `}`)
}

// operation returns a path object with a GET operation, whose handler has options. more are further members of its
// x-gateway-route, each after a comma.
func operation(options, more string) string {
	return `{"get": {"responses": {"200": {"description": "d"}},` +
		` "x-gateway-route": {"handler": {"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)",` +
		` "options": ` + options + `}` + more + `}}}`
}

// list returns n elements, separated by commas. If format contains %d, it is replaced by the index of the element.
func list(n int, format string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		if strings.Contains(format, "%d") {
			fmt.Fprintf(&b, format, i)
		} else {
			b.WriteString(format)
		}
	}
	return b.String()
}

// budgetCase is a budget with files that exceed it, and files at or just below its limit, or nil for no such files.
// actual is a text of the error about the exceeding files.
type budgetCase struct {
	budget, actual     string
	exceeding, atLimit project.Files
	at                 string // the reported pointer
}

// budgetCases returns cases of the budgets of files and of compiled parts, except those of
// URL patterns and MCP servers. The cases are for an environment whose variable V has 5 KiB.
func budgetCases() []budgetCase {
	const options = "/paths/~1a/get/x-gateway-route/handler/options"
	// extension returns a project with an extension of this value.
	extension := func(value string) project.Files { return documentFiles(`"paths": {}, "x-a": ` + value) }
	// pathsOf returns a project with these members of paths.
	pathsOf := func(members string) project.Files { return documentFiles(`"paths": {` + members + `}`) }
	nested := func(n int) project.Files { return extension(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	// deep returns a project with n nested objects whose names have 1,500 bytes.
	// With three levels, the pointer exceeds its budget, but no name does.
	deep := func(n int) project.Files {
		name := strings.Repeat("n", 1_500)
		return extension(strings.Repeat(`{"`+name+`":`, n) + "1" + strings.Repeat("}", n))
	}
	// secured returns a project with n operations. Each operation requires 1,000 security schemes.
	secured := func(n int) project.Files {
		return documentFiles(`"security": [{` + list(1_000, `"s%d": []`) + `}], "paths": {` +
			list(n, `"/%d": `+operation("{}", "")) + `}`)
	}
	return []budgetCase{
		{"security", "101,000 schemes", secured(101), secured(100), "/paths/~1100/get"},
		{
			"name", "2,049 bytes", documentFiles(`"paths": {"/` + strings.Repeat("a", 2_048) + `": 1}`),
			documentFiles(`"paths": {"/` + strings.Repeat("a", 2_047) + `": {}}`), "/paths",
		},
		{"pointer", "4,507 bytes", deep(3), deep(2), "/x-a"},
		{"nesting", "129 levels", nested(140), nested(120), "/x-a"},
		{"members", "20,001 members", pathsOf(list(20_001, `"/%d": {}`)), pathsOf(list(20_000, `"/%d": {}`)), "/paths"},
		{
			"values", "1,000,001 values", extension("[" + list(1_000_000, "0") + "]"), extension("[" + list(999_000, "0") + "]"),
			"/x-a",
		},
		{"number", "65 characters", extension(strings.Repeat("1", 65)), extension(strings.Repeat("1", 64)), "/x-a"},
		{
			"option values", "2,501 values", routeFiles(`{"a": [` + list(2_499, "0") + `]}`),
			routeFiles(`{"a": [` + list(1_998, "0") + `]}`), options,
		},
		{
			"options", "bytes", routeFiles(`{"a": "` + strings.Repeat("a", 70_000) + `"}`),
			routeFiles(`{"a": "` + strings.Repeat("a", 65_000) + `"}`), options,
		},
		{
			"options", "With the variables put in", routeFiles(`{"a": "` + strings.Repeat("$env(V)", 13) + `"}`),
			routeFiles(`{"a": "` + strings.Repeat("$env(V)", 12) + `"}`), options,
		},
		{
			"options", "bytes", routeFiles(`{"a": "` + strings.Repeat("<", 11_000) + `"}`),
			routeFiles(`{"a": "` + strings.Repeat("<", 10_000) + `"}`), options,
		},
		{
			"options", "bytes",
			documentFiles(`"paths": {"/a": ` + operation("{}", `, "mcp": {"name": "`+strings.Repeat("a", 70_000)+`"}`) + `}`),
			nil,
			"/paths/~1a/get/x-gateway-route/mcp",
		},
		{
			"address", "16,400 bytes", routeFiles(`{"rewritePattern": "https://` + strings.Repeat("a", 16_392) + `"}`),
			routeFiles(`{"rewritePattern": "https://` + strings.Repeat("a", 16_300) + `"}`), options + "/rewritePattern",
		},
		{
			"address", "bytes", routeFiles(`{"rewritePattern": "https://a/` + strings.Repeat("${env.V}", 4) + `"}`),
			routeFiles(`{"rewritePattern": "https://a/` + strings.Repeat("${env.V}", 3) + `"}`), options + "/rewritePattern",
		},
		{
			"artifact", "bytes", pathsOf(list(450, `"/%d": `+operation(`{"a": "`+strings.Repeat("a", 60_000)+`"}`, ""))),
			pathsOf(list(400, `"/%d": `+operation(`{"a": "`+strings.Repeat("a", 60_000)+`"}`, ""))),
			"/paths/~1417/get/x-gateway-route",
		},
		{
			"operations", "15,001 operations",
			pathsOf(list(15_001, `"/%d": {"get": {"responses": {"200": {"description": "d"}}}}`)),
			pathsOf(list(15_000, `"/%d": {"get": {"responses": {"200": {"description": "d"}}}}`)), "",
		},
	}
}

// TestEachBudgetIsReportedByName checks for each budget of budgetCases that exceeding it is reported, and that files
// within it are not reported. The budget "operations" is an exception: its error is after too many other errors to be
// listed, so the test checks only that errors are omitted.
func TestEachBudgetIsReportedByName(t *testing.T) {
	simulations.SkipUnderRace(t)
	value := strings.Repeat("v", 5<<10)
	in := project.Input{Catalog: lenient{}, Variables: map[string]string{"V": value}}
	for _, tt := range budgetCases() {
		t.Run(tt.budget+" "+tt.at, func(t *testing.T) {
			problemsOf := func(files project.Files) (problems []project.Problem) {
				if files == nil {
					return nil
				}
				_, result := compile(t, files, in)
				for _, p := range result.Errors {
					if strings.Contains(p.Message, "budget ") {
						problems = append(problems, p)
					}
				}
				return problems
			}
			if problems := problemsOf(tt.atLimit); len(problems) > 0 {
				t.Errorf("project at the limit of %s: first problem = %+v, want none", tt.budget, problems[0])
			}
			problems := problemsOf(tt.exceeding)
			if tt.budget == "operations" { // reported after the errors of 15,000 operations
				_, result := compile(t, tt.exceeding, in)
				if last := result.Errors[len(result.Errors)-1]; !strings.Contains(last.Message, "more of these") {
					t.Errorf("last error = %+v, want \"more of these\"", last)
				}
				return
			}
			want := fmt.Sprintf("over the budget %q: ", tt.budget)
			if len(problems) == 0 {
				t.Fatalf("problems = none, want %q", want)
			}
			if first := problems[0]; first.File != "config/routes.oas.json" || !strings.HasPrefix(first.Path, tt.at) {
				t.Errorf("first problem = %+v, want it in config/routes.oas.json at %s", first, tt.at)
			}
			if message := problems[0].Message; !strings.Contains(message, want) || !strings.Contains(message, tt.actual) {
				t.Errorf("message of the first problem = %q, want %q and %q", message, want, tt.actual)
			}
		})
	}
}

// TestBudgetOfAllFilesIsReportedOnce checks that only the first file over the budget is reported.
func TestBudgetOfAllFilesIsReportedOnce(t *testing.T) {
	simulations.SkipUnderRace(t)
	files := documentFiles(`"paths": {}, "x-a": [` + list(1_000_000, "0") + `]`)
	files["config/second.oas.json"], files["config/third.oas.json"] = files["config/routes.oas.json"],
		files["config/routes.oas.json"]
	_, result := compile(t, files, project.Input{Catalog: lenient{}})
	if len(result.Errors) != 1 || result.Errors[0].File != "config/routes.oas.json" {
		t.Errorf("errors = %+v, want one in config/routes.oas.json", result.Errors)
	}
}

// TestOmittedErrorsAreCounted checks the number of errors that are not
// listed, in a large and in a small document with only invalid entries.
func TestOmittedErrorsAreCounted(t *testing.T) {
	for _, n := range []int{201, 5_000, 19_000} {
		_, result := compile(t, documentFiles(`"paths": {`+list(n, `"/%d": 1`)+`}`), project.Input{Catalog: lenient{}})
		if len(result.Errors) != 201 {
			t.Fatalf("reported errors of %d = %d, want 201", n, len(result.Errors))
		}
		if want := fmt.Sprintf("There are %d more of these.", n-200); !strings.HasPrefix(result.Errors[200].Message, want) {
			t.Errorf("last error of %d = %+v, want %q", n, result.Errors[200], want)
		}
	}
}

// TestLargeDocumentReportsTheSameMistakes puts mistakes into a document that is checked at once.
// It also puts them into the same document with many valid entries, which is checked in parts.
func TestLargeDocumentReportsTheSameMistakes(t *testing.T) {
	simulations.SkipUnderRace(t)
	const mistakes = `"/a": {"get": {"responses": 1}}, "/b": {"gett": {}}, "c": {}, "/d": 1`
	const parts = `"components": {"schemas": {"s": {"type": 1}, "not a name!": {}}, "responses": {"r": {}},` +
		` "no such": {}}, "tags": [1]`
	valid := list(19_000, `"/good%d": {"summary": "s", "description": "d", "servers": []}`)
	for _, version := range []string{"3.0.3", "3.1.0"} {
		problemsOf := func(paths string) (problems []string) {
			_, result := compile(t,
				project.Files{
					"config/routes.oas.json": []byte(`{"openapi": "` + version +
						`", "info": {"title": "t", "version": "1"}, "paths": {` + paths + `}, ` + parts + `}`),
				},
				project.Input{Catalog: lenient{}})
			for _, p := range result.Errors {
				problems = append(problems, p.Path+" "+p.Message)
			}
			return problems
		}
		small, large := problemsOf(mistakes), problemsOf(mistakes+","+valid)
		if len(small) < 5 || !slices.Equal(small, large) {
			t.Errorf("OpenAPI %s: problems of the large document =\n%s\nwant those of the small one, at least 5:\n%s",
				version, strings.Join(large, "\n"), strings.Join(small, "\n"))
		}
	}
}

// TestHugeNumbersAreRefused checks numbers that need too much memory in the arithmetic of schemas.
func TestHugeNumbersAreRefused(t *testing.T) {
	_, result := compile(t,
		documentFiles(`"paths": {}, "components": {"schemas": {"a": {"maxLength": 1e999999999, "multipleOf": 1e999999999}}}`),
		project.Input{Catalog: lenient{}})
	if len(result.Errors) == 0 ||
		!strings.Contains(result.Errors[0].Message, `the budget "number": it has to be between -1e308 and 1e308`) {
		t.Errorf("errors = %+v, want the budget \"number\"", result.Errors)
	}
}

// TestCompileStopsWithContext ends the context before and during the compilation.
func TestCompileStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	errStopped := errors.New("the work was stopped")
	cancel(errStopped)
	files := documentFiles(`"paths": {` + list(15_000, `"/%d": {"get": {"responses": {}}}`) + `}`)
	artifact, result, err := project.NewCompiler().Compile(ctx, files, project.Input{Catalog: lenient{}})
	if artifact != nil || len(result.Errors) > 0 || !errors.Is(err, errStopped) {
		t.Errorf("Compile() = %v, %d errors, %v, want only %v", artifact, len(result.Errors), err, errStopped)
	}
	checks := 0
	compileCtx, cancel := context.WithCancelCause(t.Context())
	_, _, err = project.NewCompiler().Compile(compileCtx,
		documentFiles(`"paths": {`+list(1_000, `"/%d": `+operation("{}", ""))+`}`),
		project.Input{Catalog: countingCatalog{&checks, func(n int) {
			if n == 10 {
				cancel(errStopped)
			}
		}}})
	if !errors.Is(err, errStopped) || checks != 10 {
		t.Errorf("Compile() error = %v after %d routes, want %v after 10", err, checks, errStopped)
	}
}

// countingCatalog is a catalog that counts the calls of CheckHandler, and passes their number to onCheck.
type countingCatalog struct {
	n       *int
	onCheck func(n int)
}

func (c countingCatalog) CheckHandler(project.Component) []project.Problem {
	*c.n++
	c.onCheck(*c.n)
	return nil
}
func (c countingCatalog) CheckPolicy(project.Policy) []project.Problem { return nil }
func (c countingCatalog) UsedVariables(project.Policy) []string        { return nil }

func (countingCatalog) Members(project.Policy) (names []string, expands bool) { return nil, false }

func (countingCatalog) CheckMembers(project.Policy, []project.Policy) []project.Problem { return nil }

func (c countingCatalog) Unprotected(project.SecurityScheme, []string, []project.Policy) string {
	return ""
}

func (c countingCatalog) WarnInbound([]project.Policy) map[int]string { return nil }

// Validates implements project.Catalog.
func (countingCatalog) WarnDescribed(project.Policy, *project.RequestDescription, project.ResponseDescription) string {
	return ""
}

func (countingCatalog) Validates(string) (request, responses bool) { return false, false }

func (countingCatalog) PolicyModule(string) string { return "$import(@gatewright/runtime)" }

func (countingCatalog) CredentialHeader(project.Policy) string { return "" }

func (countingCatalog) IsReservedHeader(string) bool { return false }

// TestFirstErrorsAreReported checks that the reported errors
// do not depend on the order of their detection.
func TestFirstErrorsAreReported(t *testing.T) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(6_000)
	var entries []string
	for _, i := range order {
		entries = append(entries, fmt.Sprintf(`"/%05d": 1`, i))
	}
	_, result := compile(t, documentFiles(`"paths": {`+strings.Join(entries, ",")+`}`), project.Input{Catalog: lenient{}})
	for i, p := range result.Errors[:200] {
		if want := fmt.Sprintf("/paths/~1%05d", i); p.Path != want {
			t.Fatalf("error %d is at %s, want %s", i, p.Path, want)
		}
	}
}

// TestGitHubUsesATenthOfTheBudgets checks that one of the largest public OpenAPI documents uses at most a tenth of each
// measured budget. Budgets in minMargins have other limits.
func TestGitHubUsesATenthOfTheBudgets(t *testing.T) {
	simulations.SkipUnderRace(t)
	data := githubDescription(t)
	used := measure(t, data)
	// These budgets bound the memory of one tree, so they have smaller margins.
	minMargins := map[string]float64{"nesting": 4, "values": 3, "file": 1.5, "configuration": 3}
	for _, b := range project.Budgets() {
		n, measured := used[b.Name]
		if !measured {
			continue
		}
		want := 10.0
		if w, ok := minMargins[b.Name]; ok {
			want = w
		}
		if margin := float64(b.Limit) / float64(n); margin < want {
			t.Errorf("%s: %d of %d %s, a margin of %.1f, want at least %.1f", b.Name, n, b.Limit, b.Unit, margin, want)
		} else {
			t.Logf("%-16s %9d of %9d %s, a margin of %.1f", b.Name, n, b.Limit, b.Unit, margin)
		}
	}
}

// measure returns how much of a budget a document uses, by the budget's name. Some budgets are not measured.
func measure(t *testing.T, data []byte) map[string]int {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]int{"file": len(data), "configuration": len(data)}
	raise := func(name string, n int) { used[name] = max(used[name], n) }
	var walk func(value any, depth, pointer int)
	walk = func(value any, depth, pointer int) {
		used["values"]++
		raise("nesting", depth)
		raise("pointer", pointer)
		switch v := value.(type) {
		case map[string]any:
			raise("members", len(v))
			for name, child := range v {
				raise("name", len(name))
				walk(child, depth+1, pointer+1+len(name))
			}
		case []any:
			for i, child := range v {
				walk(child, depth+1, pointer+1+len(fmt.Sprint(i)))
			}
		}
	}
	walk(doc, 0, 0)
	artifact, _ := compile(t, project.Files{
		"config/routes.oas.json": data,
		"config/policies.json": []byte(`{"policies": [{"name": "key", "policyType": "api-key-inbound",
			"handler": {"export": "ApiKeyInboundPolicy", "module": "$import(@gatewright/runtime)", "options": {}}}]}`),
	}, project.Input{Catalog: lenient{}})
	encoded, _, err := project.Encode(artifact, project.WrittenFormat)
	if err != nil {
		t.Fatal(err)
	}
	used["artifact"], used["operations"] = len(encoded), len(artifact.Routes)
	for _, r := range artifact.Routes {
		raise("options", len(r.Handler.Options))
		raise("address", len(r.Handler.Options))
	}
	return used
}

// TestBudgetsAreDocumented compares the table in docs/projects.md with project.Budgets. With -update it writes the
// table.
func TestBudgetsAreDocumented(t *testing.T) {
	const path, begin, end = "../../../docs/projects.md", "<!-- table: budgets -->\n", "<!-- end of the table -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: begin of the table of budgets found = %v, end = %v, want both", path, found, closed)
	}
	var table strings.Builder
	table.WriteString("\n| budget | most | of | what it protects |\n|---|--:|---|---|\n")
	for _, b := range project.Budgets() {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", b.Name, b.LimitText(), b.Measures, b.Protects)
	}
	table.WriteString("\n")
	golden.Equal(t, path, before+begin+table.String()+end+after)
}
