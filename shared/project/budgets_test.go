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

	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/project"
)

// described is a document with members; routed one with a route whose handler has
// these options.
func described(members string) project.Files {
	return project.Files{"config/routes.oas.json": []byte(`{"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, ` + members + `}`)}
}

func routed(options string) project.Files {
	return described(`"paths": {"/a": ` + operation(options, "") + `}`)
}

func operation(options, more string) string {
	return `{"get": {"responses": {"200": {"description": "d"}}, "x-gateway-route": {"handler": {"export": "urlRewriteHandler", "module": "$import(@gatewright/runtime)", "options": ` + options + `}` + more + `}}}`
}

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

// TestEachBudgetIsToldByItsName goes over each budget of a project's files, and
// asks that what is just within it is not told of.
func TestEachBudgetIsToldByItsName(t *testing.T) {
	simulations.Sequential(t)
	value := strings.Repeat("v", 5<<10)
	in := project.Input{Catalogue: lenient{}, Variables: map[string]string{"V": value}}
	nested := func(n int) project.Files {
		return described(`"paths": {}, "x-a": ` + strings.Repeat("[", n) + strings.Repeat("]", n))
	}
	// deep has names of 1,500 bytes within each other: a pointer, but no name, over
	// its budget.
	deep := func(n int) project.Files {
		name := strings.Repeat("n", 1_500)
		return described(`"paths": {}, "x-a": ` + strings.Repeat(`{"`+name+`":`, n) + "1" + strings.Repeat("}", n))
	}
	for _, tt := range []struct {
		budget, found string
		over, within  project.Files
		at            string // the pointer that is told
	}{
		{"name", "2,049 bytes", described(`"paths": {"/` + strings.Repeat("a", 2_048) + `": 1}`), described(`"paths": {"/` + strings.Repeat("a", 2_047) + `": {}}`), "/paths"},
		{"pointer", "4,507 bytes", deep(3), deep(2), "/x-a"},
		{"nesting", "129 levels", nested(140), nested(120), "/x-a"},
		{"members", "20,001 members", described(`"paths": {` + list(20_001, `"/%d": {}`) + `}`), described(`"paths": {` + list(20_000, `"/%d": {}`) + `}`), "/paths"},
		{"values", "1,000,001 values", described(`"paths": {}, "x-a": [` + list(1_000_000, "0") + `]`), described(`"paths": {}, "x-a": [` + list(999_000, "0") + `]`), "/x-a"},
		{"number", "65 characters", described(`"paths": {}, "x-a": ` + strings.Repeat("1", 65)), described(`"paths": {}, "x-a": ` + strings.Repeat("1", 64)), "/x-a"},
		{"option values", "2,001 values", routed(`{"a": [` + list(1_999, "0") + `]}`), routed(`{"a": [` + list(1_998, "0") + `]}`), "/paths/~1a/get/x-gateway-route/handler/options"},
		{"options", "bytes", routed(`{"a": "` + strings.Repeat("a", 70_000) + `"}`), routed(`{"a": "` + strings.Repeat("a", 65_000) + `"}`), "/paths/~1a/get/x-gateway-route/handler/options"},
		{"options", "With the variables put in", routed(`{"a": "` + strings.Repeat("$env(V)", 13) + `"}`), routed(`{"a": "` + strings.Repeat("$env(V)", 12) + `"}`), "/paths/~1a/get/x-gateway-route/handler/options"},
		{"options", "bytes", routed(`{"a": "` + strings.Repeat("<", 11_000) + `"}`), routed(`{"a": "` + strings.Repeat("<", 10_000) + `"}`), "/paths/~1a/get/x-gateway-route/handler/options"},
		{"options", "bytes", described(`"paths": {"/a": ` + operation("{}", `, "mcp": {"name": "`+strings.Repeat("a", 70_000)+`"}`) + `}`), nil, "/paths/~1a/get/x-gateway-route/mcp"},
		{"address", "16,400 bytes", routed(`{"rewritePattern": "https://` + strings.Repeat("a", 16_392) + `"}`), routed(`{"rewritePattern": "https://` + strings.Repeat("a", 16_300) + `"}`), "/paths/~1a/get/x-gateway-route/handler/options/rewritePattern"},
		{"address", "bytes", routed(`{"rewritePattern": "https://a/` + strings.Repeat("${env.V}", 4) + `"}`), routed(`{"rewritePattern": "https://a/` + strings.Repeat("${env.V}", 3) + `"}`), "/paths/~1a/get/x-gateway-route/handler/options/rewritePattern"},
		{"artifact", "bytes", described(`"paths": {` + list(200, `"/%d": `+operation(`{"a": "`+strings.Repeat("a", 60_000)+`"}`, "")) + `}`), described(`"paths": {` + list(100, `"/%d": `+operation(`{"a": "`+strings.Repeat("a", 60_000)+`"}`, "")) + `}`), "/paths/~1139/get/x-gateway-route"},
		{"operations", "15,001 operations", described(`"paths": {` + list(15_001, `"/%d": {"get": {"responses": {"200": {"description": "d"}}}}`) + `}`), described(`"paths": {` + list(15_000, `"/%d": {"get": {"responses": {"200": {"description": "d"}}}}`) + `}`), ""},
	} {
		t.Run(tt.budget+" "+tt.at, func(t *testing.T) {
			about := func(files project.Files) (told []project.Problem) {
				if files == nil {
					return nil
				}
				_, result := compile(t, files, in)
				for _, p := range result.Errors {
					if strings.Contains(p.Message, "budget ") {
						told = append(told, p)
					}
				}
				return told
			}
			if told := about(tt.within); len(told) > 0 {
				t.Errorf("within it: %+v", told[0])
			}
			told := about(tt.over)
			if tt.budget == "operations" { // told behind the errors of 15,000 operations
				_, result := compile(t, tt.over, in)
				if last := result.Errors[len(result.Errors)-1]; !strings.Contains(last.Message, "more of these") {
					t.Errorf("the last error is %+v", last)
				}
				return
			}
			want := fmt.Sprintf("over the budget %q: ", tt.budget)
			if len(told) == 0 || told[0].File != "config/routes.oas.json" || !strings.HasPrefix(told[0].Path, tt.at) ||
				!strings.Contains(told[0].Message, want) || !strings.Contains(told[0].Message, tt.found) {
				t.Errorf("told %+v", told)
			}
		})
	}
}

// TestBudgetOfAllFilesIsToldOnce: the files after the one that is over it are not
// at fault.
func TestBudgetOfAllFilesIsToldOnce(t *testing.T) {
	simulations.Sequential(t)
	files := described(`"paths": {}, "x-a": [` + list(1_000_000, "0") + `]`)
	files["config/second.oas.json"], files["config/third.oas.json"] = files["config/routes.oas.json"], files["config/routes.oas.json"]
	_, result := compile(t, files, project.Input{Catalogue: lenient{}})
	if len(result.Errors) != 1 {
		t.Errorf("told %+v", result.Errors)
	}
}

// TestErrorsBeyondThoseToldAreCounted has each entry of a large and of a small
// document wrong.
func TestErrorsBeyondThoseToldAreCounted(t *testing.T) {
	for _, n := range []int{201, 5_000, 19_000} {
		_, result := compile(t, described(`"paths": {`+list(n, `"/%d": 1`)+`}`), project.Input{Catalogue: lenient{}})
		if len(result.Errors) != 201 {
			t.Fatalf("%d errors are told of %d", len(result.Errors), n)
		}
		if want := fmt.Sprintf("There are %d more of these.", n-200); !strings.HasPrefix(result.Errors[200].Message, want) {
			t.Errorf("the last error of %d is %+v", n, result.Errors[200])
		}
	}
}

// TestLargeDocumentTellsTheSameMistakes puts mistakes into a document that is
// checked at once, and into the same one with many good entries beside them,
// which is checked in parts.
func TestLargeDocumentTellsTheSameMistakes(t *testing.T) {
	simulations.Sequential(t)
	const mistakes = `"/a": {"get": {"responses": 1}}, "/b": {"gett": {}}, "c": {}, "/d": 1`
	const parts = `"components": {"schemas": {"s": {"type": 1}, "not a name!": {}}, "responses": {"r": {}}, "no such": {}}, "tags": [1]`
	good := list(19_000, `"/good%d": {"summary": "s", "description": "d", "servers": []}`)
	for _, version := range []string{"3.0.3", "3.1.0"} {
		tell := func(paths string) (told []string) {
			_, result := compile(t, project.Files{"config/routes.oas.json": []byte(`{"openapi": "` + version + `", "info": {"title": "t", "version": "1"}, "paths": {` + paths + `}, ` + parts + `}`)}, project.Input{Catalogue: lenient{}})
			for _, p := range result.Errors {
				told = append(told, p.Path+" "+p.Message)
			}
			return told
		}
		small, large := tell(mistakes), tell(mistakes+","+good)
		if len(small) < 5 || !slices.Equal(small, large) {
			t.Errorf("OpenAPI %s: told of the small document\n%s\nand of the large one\n%s", version, strings.Join(small, "\n"), strings.Join(large, "\n"))
		}
	}
}

// TestNumbersThatNobodyCanCountInAreNoEnd: the schemas' arithmetic has no value
// for them.
func TestNumbersThatNobodyCanCountInAreNoEnd(t *testing.T) {
	_, result := compile(t, described(`"paths": {}, "components": {"schemas": {"a": {"maxLength": 1e999999999, "multipleOf": 1e999999999}}}`), project.Input{Catalogue: lenient{}})
	if len(result.Errors) == 0 || !strings.Contains(result.Errors[0].Message, `the budget "number": it has to be between -1e308 and 1e308`) {
		t.Errorf("errors %+v", result.Errors)
	}
}

// TestCompileEndsWithItsContext ends it before and while a project is compiled.
func TestCompileEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("the work was stopped")
	cancel(stopped)
	files := described(`"paths": {` + list(15_000, `"/%d": {"get": {"responses": {}}}`) + `}`)
	artifact, result, err := project.NewCompiler().Compile(ctx, files, project.Input{Catalogue: lenient{}})
	if artifact != nil || len(result.Errors) > 0 || !errors.Is(err, stopped) {
		t.Errorf("artifact %v, %d errors, error %v", artifact, len(result.Errors), err)
	}
	checks := 0
	during, cancel := context.WithCancelCause(t.Context())
	_, _, err = project.NewCompiler().Compile(during, described(`"paths": {`+list(1_000, `"/%d": `+operation("{}", ""))+`}`), project.Input{Catalogue: counting{&checks, func(n int) {
		if n == 10 {
			cancel(stopped)
		}
	}}})
	if !errors.Is(err, stopped) || checks != 10 {
		t.Errorf("error %v after %d routes", err, checks)
	}
}

// counting is a catalogue that counts how often it is asked.
type counting struct {
	n     *int
	asked func(n int)
}

func (c counting) CheckHandler(project.Component) []project.Problem {
	*c.n++
	c.asked(*c.n)
	return nil
}
func (c counting) CheckPolicy(project.Policy) []project.Problem { return nil }

func (c counting) DoubtInbound([]project.Policy) map[int]string { return nil }

// TestTheFirstErrorsAreTold: what is kept of many errors does not depend on the
// order in which they are found.
func TestTheFirstErrorsAreTold(t *testing.T) {
	order := rand.New(rand.NewPCG(1, 2)).Perm(6_000)
	var entries []string
	for _, i := range order {
		entries = append(entries, fmt.Sprintf(`"/%05d": 1`, i))
	}
	_, result := compile(t, described(`"paths": {`+strings.Join(entries, ",")+`}`), project.Input{Catalogue: lenient{}})
	for i, p := range result.Errors[:200] {
		if want := fmt.Sprintf("/paths/~1%05d", i); p.Path != want {
			t.Fatalf("error %d is at %s, want %s", i, p.Path, want)
		}
	}
}

// TestGitHubUsesATenthOfTheBudgets measures what the largest public description
// leaves of each budget.
func TestGitHubUsesATenthOfTheBudgets(t *testing.T) {
	simulations.Sequential(t)
	data := githubDescription(t)
	used := measure(t, data)
	// Those that bound the memory of one tree.
	least := map[string]float64{"nesting": 4, "values": 3, "file": 1.5, "configuration": 3}
	for _, b := range project.Budgets() {
		n, measured := used[b.Name]
		if !measured {
			continue
		}
		want := 10.0
		if w, ok := least[b.Name]; ok {
			want = w
		}
		if margin := float64(b.Limit) / float64(n); margin < want {
			t.Errorf("%s: %d of %d %s, a margin of %.1f", b.Name, n, b.Limit, b.Unit, margin)
		} else {
			t.Logf("%-16s %9d of %9d %s, a margin of %.1f", b.Name, n, b.Limit, b.Unit, margin)
		}
	}
}

// measure counts in a document what has a budget.
func measure(t *testing.T, data []byte) map[string]int {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	used := map[string]int{"file": len(data), "configuration": len(data)}
	most := func(name string, n int) { used[name] = max(used[name], n) }
	var walk func(value any, depth, pointer int)
	walk = func(value any, depth, pointer int) {
		used["values"]++
		most("nesting", depth)
		most("pointer", pointer)
		switch v := value.(type) {
		case map[string]any:
			most("members", len(v))
			for name, child := range v {
				most("name", len(name))
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
	}, project.Input{Catalogue: lenient{}})
	encoded, _, err := project.Encode(artifact, project.WrittenFormat)
	if err != nil {
		t.Fatal(err)
	}
	used["artifact"], used["operations"] = len(encoded), len(artifact.Routes)
	for _, r := range artifact.Routes {
		most("options", len(r.Handler.Options))
		most("address", len(r.Handler.Options))
	}
	return used
}

// TestBudgetsAreDocumented derives the table of docs/projects.md.
func TestBudgetsAreDocumented(t *testing.T) {
	const path, begin, end = "../../docs/projects.md", "<!-- table: budgets -->\n", "<!-- end of the table -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no table of budgets", path)
	}
	var table strings.Builder
	table.WriteString("\n| budget | most | of | what it protects |\n|---|--:|---|---|\n")
	for _, b := range project.Budgets() {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", b.Name, b.Most(), b.Of, b.Why)
	}
	table.WriteString("\n")
	golden.Equal(t, path, before+begin+table.String()+end+after)
}
