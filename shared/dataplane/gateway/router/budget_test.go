package router

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	urlpattern "github.com/dunglas/go-urlpattern"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestPatternsOverBudgetAreRefused checks which patterns exceed a budget, and that the error contains the name of the
// budget.
func TestPatternsOverBudgetAreRefused(t *testing.T) {
	long := "/" + strings.Repeat("a", project.MaxPatternBytes)
	for _, test := range []struct {
		name    string
		pattern func(i int) string
		n       int
		want    string // part of the problem with the last of n patterns, "" if it is accepted
	}{
		{"a pattern of one byte too many", func(int) string { return long }, 1, `the budget "pattern": 1,025 bytes`},
		{"a pattern of 40 KB", func(int) string {
			return "/(" + strings.Repeat("a?", 20_000) + ")"
		}, 1, `the budget "pattern": 40,003 bytes`},
		{"a short pattern with 1,000 repetitions", func(int) string {
			return "/(a{1000})"
		}, 1, `the budget "pattern steps": 1,00`},
		{"100 parts with 1,000 repetitions each", func(int) string {
			return strings.Repeat("/(a{1000})", 100)
		}, 1, `the budget "pattern steps": 10`},
		{"a year and a number", func(int) string { return "/([0-9]{4})/:number([0-9]{1,9})/*" }, 1, ""},
		{"five large patterns", func(i int) string { return fmt.Sprintf("/%d(a{900})", i) }, 5, ""},
		{"six large patterns", func(i int) string {
			return fmt.Sprintf("/%d(a{900})", i)
		}, 6, `the budget "all pattern steps"`},
		{"the largest number of patterns", func(i int) string { return fmt.Sprintf("/%d", i) }, project.MaxPatterns, ""},
		{"one pattern too many", func(i int) string {
			return fmt.Sprintf("/%d", i)
		}, project.MaxPatterns + 1, `the budget "patterns": 251 patterns`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r Router
			var err error
			for i := range test.n {
				if err = r.Add("GET", test.pattern(i), project.URLPattern, i); err != nil && i < test.n-1 {
					t.Fatalf("Add(pattern %d) = %v, want no error before the last pattern", i, err)
				}
			}
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("Add(pattern %d) error = %v, want it to contain %q (no error if empty)", test.n-1, err, test.want)
			}
		})
	}
}

// patternWithSteps returns a pattern with exactly this number of steps. It matches repetitions of letter.
func patternWithSteps(t *testing.T, letter rune, steps int) string {
	t.Helper()
	const sampleRepeats = 100
	path := func(n int) string { return fmt.Sprintf("/(%c{%d})", letter, n) }
	sampleSteps := mustCountSteps(t, path(sampleRepeats))
	if got := mustCountSteps(t, path(sampleRepeats+steps-sampleSteps)); got != steps {
		t.Fatalf("countSteps(%s) = %d, want %d", path(sampleRepeats+steps-sampleSteps), got, steps)
	}
	return path(sampleRepeats + steps - sampleSteps)
}

func mustCountSteps(t *testing.T, path string) int {
	t.Helper()
	p, err := parsePattern(path)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := countSteps(p.compiled.Pathname())
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestPatternsAtTheBudgetAreAccepted checks that patterns at a limit are accepted, that patterns just above it are
// refused, and that the error about all patterns contains the sum of their steps.
func TestPatternsAtTheBudgetAreAccepted(t *testing.T) {
	add := func(r *Router, path string) error { return r.Add("GET", path, project.URLPattern, 0) }
	name := strings.Repeat("n", project.MaxPatternBytes-len("/:"))
	if err := add(new(Router), "/:"+name); err != nil {
		t.Errorf("Add(pattern of %d bytes) = %v, want no error", project.MaxPatternBytes, err)
	}
	if !HasParam("/:"+name, project.URLPattern, name) {
		t.Errorf("HasParam(pattern of %d bytes) = false, want true", project.MaxPatternBytes)
	}
	name += "n"
	if add(new(Router), "/:"+name) == nil {
		t.Errorf("Add(pattern of %d bytes) = nil, want an error", project.MaxPatternBytes+1)
	}
	if HasParam("/:"+name, project.URLPattern, name) {
		t.Errorf("HasParam(pattern of %d bytes) = true, want false", project.MaxPatternBytes+1)
	}
	if add(new(Router), patternWithSteps(t, 'a', project.MaxPatternSteps+1)) == nil {
		t.Errorf("Add(pattern of %d steps) = nil, want an error", project.MaxPatternSteps+1)
	}
	var r Router
	for i := range project.MaxTotalPatternSteps / project.MaxPatternSteps {
		if err := add(&r, patternWithSteps(t, 'a'+rune(i), project.MaxPatternSteps)); err != nil {
			t.Fatalf("Add(pattern at the limit of steps) = %v, want no error", err)
		}
	}
	if err := add(&r, patternWithSteps(t, 'z', 100)); err == nil ||
		!strings.Contains(err.Error(), `"all pattern steps": 5,100`) {
		t.Errorf("Add(pattern of 100 steps over the total) = %v, want an error with the sum 5,100", err)
	}
}

func TestPathIsMatchedWithinItsBudget(t *testing.T) {
	const steps = 1000
	paths := []string{patternWithSteps(t, 'a', steps-mustCountSteps(t, "/*")), "/*"}
	r := newRouter(t, project.URLPattern, paths...)
	longest := "/" + strings.Repeat("x", project.MaxMatchSteps/steps-1)
	if got := describeMatch(r, paths, longest); got != "/* 0="+longest[1:] {
		t.Errorf("Find(longest path) = %.40s, want %.40s", got, "/* 0="+longest[1:])
	}
	if got := describeMatch(r, paths, longest+"x"); got != "-" {
		t.Errorf("Find(longest path and one byte) = %.40s, want no match", got)
	}
}

// TestRefusedPatternsAreNotAllCompiled checks that refused patterns also count as patterns of the router, and that a
// pattern over their maximum number is refused without being parsed or compiled. Compiling the most expensive pattern
// of the maximum length takes 30 ms and 5 MB.
func TestRefusedPatternsAreNotAllCompiled(t *testing.T) {
	var r Router
	for i := range project.MaxPatterns {
		if r.Add("GET", strings.Repeat("/(a{1000})", 100), project.URLPattern, i) == nil {
			t.Fatal("Add(pattern of 100,000 steps) = nil, want an error")
		}
	}
	if err := r.Add("GET", "/(", project.URLPattern, 0); err == nil || !strings.Contains(err.Error(), "budget") {
		t.Errorf("Add(/() after %d patterns = %v, want an error about the budget", project.MaxPatterns, err)
	}
}

// TestMatchStepsAreLimited checks, for generated patterns, that a path has a route while its bytes times all counted
// steps are within the budget. A longer path has no route.
func TestMatchStepsAreLimited(t *testing.T) {
	simulations.SkipUnderRace(t)
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{
			"/a", "/:x%d", "/*", "(a{%d})", "{/b}?", "([^/]{1,%d})", "/(a|b|c)+", "(.{0,%d}z)",
			"((?:a{9}){%d})",
		}
		var r Router
		var steps int
		counted := map[string]bool{}
		for i := range rapid.IntRange(1, 12).Draw(t, "patterns") {
			text := "/"
			for range rapid.IntRange(1, 6).Draw(t, "parts") {
				part := rapid.SampledFrom(parts).Draw(t, "part")
				if strings.Contains(part, "%d") {
					part = fmt.Sprintf(part, rapid.IntRange(1, 111).Draw(t, "n"))
				}
				text += part
			}
			if r.Add("GET", text, project.URLPattern, i) == nil {
				p, err := parsePattern(text)
				if err != nil {
					t.Fatal(err)
				}
				if n, err := countSteps(p.compiled.Pathname()); err != nil || n > project.MaxPatternSteps {
					t.Fatalf("countSteps(%s) = %d, %v, want at most %d for an accepted pattern", text, n, err, project.MaxPatternSteps)
				} else if !counted[text] {
					counted[text] = true // the same path counts only once
					steps += n
				}
			}
		}
		if r.Add("GET", "/*", project.URLPattern, 99) != nil {
			return // the budget has no steps left for a pattern that every path matches
		}
		anyPathSteps, err := countSteps("/*")
		if err != nil {
			t.Fatal(err)
		}
		if r.budget.steps < steps {
			t.Fatalf("counted steps = %d, want at least %d, the steps of the accepted patterns without /*",
				r.budget.steps, steps)
		}
		if steps += anyPathSteps; steps > project.MaxTotalPatternSteps {
			t.Fatalf("steps of the accepted patterns = %d, want at most %d", steps, project.MaxTotalPatternSteps)
		}
		path := "/" + strings.Repeat("a", project.MaxMatchSteps/r.budget.steps)
		var m Match
		if _, ok := r.Find("GET", path[:len(path)/2], &m); !ok {
			t.Fatalf("Find(path of %d bytes) with %d steps = no match, want a match", len(path)/2, r.budget.steps)
		}
		if _, ok := r.Find("GET", path, &m); ok {
			t.Fatalf("Find(path of %d bytes) with %d steps = a match, want none", len(path), r.budget.steps)
		}
	})
}

// TestCountedStepsCoverTheProgram checks that the counted steps of a pattern are at least its
// compiled program's length, and at most four times that, so that cheap patterns are not refused.
func TestCountedStepsCoverTheProgram(t *testing.T) {
	for pattern, want := range map[string][2]int{"/a": {3, 20}, "/(a{100})": {100, 130}, "/((?:a{10}){10})": {100, 150}} {
		if n, err := countSteps(pattern); err != nil || n < want[0] || n > want[1] {
			t.Errorf("countSteps(%s) = %d, %v, want %d to %d", pattern, n, err, want[0], want[1])
		}
	}
	parts := rapid.SampledFrom([]string{
		"/a", "/:x", "/:x(a{30})", "(a{20})", "/(é|[^/]{1,9})", "/*", "{/b:y(\\d{9})c}", "{(c?){d}}", "{/:z-}", "/ü", "\\:",
		"(.*)", "((?:a*)*)", "b", "_:w\\.json", "((?i)ab{7})",
	})
	modifiers := rapid.SampledFrom([]string{"", "", "?", "*", "+"})
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		text := "/"
		for i := range rapid.IntRange(1, 5).Draw(t, "parts") {
			part := parts.Draw(t, "part")
			for _, param := range []string{":x", ":y", ":z", ":w"} { // a pattern must not repeat a name
				part = strings.ReplaceAll(part, param, fmt.Sprintf("%s%d", param, i))
			}
			text += part + modifiers.Draw(t, "modifier")
		}
		p, err := parsePattern(text)
		if err != nil {
			return
		}
		accepted++
		n, err := countSteps(p.compiled.Pathname())
		if actual := instructions(t, p.compiled); err != nil || n < actual || n > 4*actual {
			t.Fatalf("countSteps(%s, normalized %s) = %d, %v, want %d to 4 times that",
				text, p.compiled.Pathname(), n, err, actual)
		}
	})
	if accepted < 10 {
		t.Errorf("accepted patterns = %d, want at least 10", accepted)
	}
}

// instructions returns the number of instructions in a pattern's compiled program,
// which the library does not export. This number must not exceed the result of countSteps.
func instructions(t *rapid.T, compiled *urlpattern.URLPattern) int {
	v := reflect.ValueOf(compiled)
	for _, field := range []string{"pathname", "regularExpression", "prog", "Inst"} {
		if v = v.Elem().FieldByName(field); !v.IsValid() {
			t.Fatalf("the library has no field %s, want one to measure its program", field)
		}
	}
	return v.Len()
}
