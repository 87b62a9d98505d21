package router

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	urlpattern "github.com/dunglas/go-urlpattern"
	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/project"
)

func TestPatternsOverTheirBudgetsAreRefused(t *testing.T) {
	long := "/" + strings.Repeat("a", project.MaxPatternBytes)
	for _, test := range []struct {
		name    string
		pattern func(i int) string
		n       int
		want    string // what the last of n patterns is refused for, or ""
	}{
		{"too long", func(int) string { return long }, 1, `the budget "pattern": 1,025 bytes`},
		{"a pattern of 40 KB", func(int) string { return "/(" + strings.Repeat("a?", 20_000) + ")" }, 1, `the budget "pattern": 40,003 bytes`},
		{"a small pattern that repeats", func(int) string { return "/(a{1000})" }, 1, `the budget "pattern steps": 1,00`},
		{"many that repeat", func(int) string { return strings.Repeat("/(a{1000})", 100) }, 1, `the budget "pattern steps": 10`},
		{"a year and a number", func(int) string { return "/([0-9]{4})/:number([0-9]{1,9})/*" }, 1, ""},
		{"some that are large", func(i int) string { return fmt.Sprintf("/%d(a{900})", i) }, 5, ""},
		{"too many that are large", func(i int) string { return fmt.Sprintf("/%d(a{900})", i) }, 6, `the budget "all pattern steps"`},
		{"as many as may be", func(i int) string { return fmt.Sprintf("/%d", i) }, project.MaxPatterns, ""},
		{"too many", func(i int) string { return fmt.Sprintf("/%d", i) }, project.MaxPatterns + 1, `the budget "patterns": 251 patterns`},
	} {
		t.Run(test.name, func(t *testing.T) {
			var r Router
			var err error
			for i := range test.n {
				if err = r.Add("GET", test.pattern(i), project.URLPattern, i); err != nil && i < test.n-1 {
					t.Fatalf("pattern %d: %v", i, err)
				}
			}
			if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// costing returns a pattern of a letter that is counted as so many steps.
func costing(t *testing.T, letter rune, steps int) string {
	t.Helper()
	const some = 100
	path := func(n int) string { return fmt.Sprintf("/(%c{%d})", letter, n) }
	found := stepsFor(t, path(some))
	if got := stepsFor(t, path(some+steps-found)); got != steps {
		t.Fatalf("%s has %d steps, want %d", path(some+steps-found), got, steps)
	}
	return path(some + steps - found)
}

func stepsFor(t *testing.T, path string) int {
	t.Helper()
	p, err := parsePattern(path)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := stepsOf(p.compiled.Pathname())
	if err != nil {
		t.Fatal(err)
	}
	return steps
}

// TestWhatABudgetAllowsIsTaken: a bound is the largest that is allowed, and what
// is refused for it is told with a number beyond it.
func TestWhatABudgetAllowsIsTaken(t *testing.T) {
	add := func(r *Router, path string) error { return r.Add("GET", path, project.URLPattern, 0) }
	name := strings.Repeat("n", project.MaxPatternBytes-len("/:"))
	if err := add(new(Router), "/:"+name); err != nil || !HasParam("/:"+name, project.URLPattern, name) {
		t.Errorf("a pattern as long as may be: %v", err)
	}
	if name += "n"; add(new(Router), "/:"+name) == nil || HasParam("/:"+name, project.URLPattern, name) {
		t.Error("a pattern that is longer by one byte is taken")
	}
	if add(new(Router), costing(t, 'a', project.MaxPatternSteps+1)) == nil {
		t.Error("a pattern of one step more than may be is taken")
	}
	var r Router
	for i := range project.MaxPatternsSteps / project.MaxPatternSteps {
		if err := add(&r, costing(t, 'a'+rune(i), project.MaxPatternSteps)); err != nil {
			t.Fatalf("a pattern of as many steps as may be: %v", err)
		}
	}
	if err := add(&r, costing(t, 'z', 100)); err == nil || !strings.Contains(err.Error(), `"all pattern steps": 5,100`) {
		t.Errorf("more steps than all patterns may have: %v", err)
	}
}

func TestAPathIsMatchedAsLongAsItsBudgetLasts(t *testing.T) {
	const steps = 1000
	paths := []string{costing(t, 'a', steps-stepsFor(t, "/*")), "/*"}
	r := routes(t, project.URLPattern, paths...)
	longest := "/" + strings.Repeat("x", project.MaxMatchSteps/steps-1)
	if got := found(r, paths, longest); got != "/* 0="+longest[1:] {
		t.Errorf("a path as long as may be: %.40s", got)
	}
	if got := found(r, paths, longest+"x"); got != "-" {
		t.Errorf("a path that is longer by one byte: %.40s", got)
	}
}

// TestPatternsThatAreRefusedAreNotCompiledForEver: compiling the largest that its
// length allows takes 30 ms and 5 MB.
func TestPatternsThatAreRefusedAreNotCompiledForEver(t *testing.T) {
	var r Router
	for i := range project.MaxPatterns {
		if r.Add("GET", strings.Repeat("/(a{1000})", 100), project.URLPattern, i) == nil {
			t.Fatal("a pattern of a hundred thousand steps is taken")
		}
	}
	if err := r.Add("GET", "/(", project.URLPattern, 0); err == nil || !strings.Contains(err.Error(), "budget") {
		t.Errorf("it is looked at still: %v", err)
	}
}

// TestMatchingHasABudget: whatever patterns are taken, a path is tried only if
// bytes times steps are within the budget, and a long one has no route.
func TestMatchingHasABudget(t *testing.T) {
	simulations.Sequential(t)
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{"/a", "/:x%d", "/*", "(a{%d})", "{/b}?", "([^/]{1,%d})", "/(a|b|c)+", "(.{0,%d}z)", "((?:a{9}){%d})"}
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
				if n, err := stepsOf(p.compiled.Pathname()); err != nil || n > project.MaxPatternSteps {
					t.Fatalf("%s is taken with %d steps", text, n)
				} else if !counted[text] {
					counted[text] = true // one path, whatever its methods are
					steps += n
				}
			}
		}
		if r.Add("GET", "/*", project.URLPattern, 99) != nil {
			return // there is no room for one that any path matches
		}
		all, err := stepsOf("/*")
		if err != nil {
			t.Fatal(err)
		}
		if steps += all; steps > project.MaxPatternsSteps || r.budget.steps < steps-all {
			t.Fatalf("%d steps are taken, %d counted", steps, r.budget.steps)
		}
		path := "/" + strings.Repeat("a", project.MaxMatchSteps/r.budget.steps)
		var m Match
		if _, ok := r.Find("GET", path[:len(path)/2], &m); !ok {
			t.Fatalf("a path of %d bytes is not tried for %d steps", len(path)/2, steps)
		}
		if _, ok := r.Find("GET", path, &m); ok {
			t.Fatalf("a path of %d bytes is tried for %d steps", len(path), steps)
		}
	})
}

// TestStepsAreThoseOfTheProgramAtLeast: a pattern costs what is counted for it, or
// less, and not so much less that good ones are refused.
func TestStepsAreThoseOfTheProgramAtLeast(t *testing.T) {
	for pattern, want := range map[string][2]int{"/a": {3, 20}, "/(a{100})": {100, 130}, "/((?:a{10}){10})": {100, 150}} {
		if n, err := stepsOf(pattern); err != nil || n < want[0] || n > want[1] {
			t.Errorf("%s has %d steps, %v, want some between %v", pattern, n, err, want)
		}
	}
	part := rapid.SampledFrom([]string{
		"/a", "/:x", "/:x(a{30})", "(a{20})", "/(é|[^/]{1,9})", "/*", "{/b:y(\\d{9})c}", "{(c?){d}}", "{/:z-}", "/ü", "\\:", "(.*)", "((?:a*)*)", "b", "_:w\\.json", "((?i)ab{7})",
	})
	modifier := rapid.SampledFrom([]string{"", "", "?", "*", "+"})
	taken := 0
	rapid.Check(t, func(t *rapid.T) {
		text := "/"
		for i := range rapid.IntRange(1, 5).Draw(t, "parts") {
			name := part.Draw(t, "part")
			for _, x := range []string{":x", ":y", ":z", ":w"} {
				name = strings.ReplaceAll(name, x, fmt.Sprintf("%s%d", x, i))
			}
			text += name + modifier.Draw(t, "modifier")
		}
		p, err := parsePattern(text)
		if err != nil {
			return
		}
		taken++
		n, err := stepsOf(p.compiled.Pathname())
		if actual := instructions(t, p.compiled); err != nil || n < actual || n > 4*actual {
			t.Fatalf("%s, normalised %s, has %d steps, counted are %d, %v", text, p.compiled.Pathname(), actual, n, err)
		}
	})
	if taken < 10 {
		t.Errorf("%d patterns were taken: that shows little", taken)
	}
}

// instructions is what stepsOf bounds, which the library keeps to itself.
func instructions(t *rapid.T, compiled *urlpattern.URLPattern) int {
	v := reflect.ValueOf(compiled)
	for _, field := range []string{"pathname", "regularExpression", "prog", "Inst"} {
		if v = v.Elem().FieldByName(field); !v.IsValid() {
			t.Fatalf("the library has no field %s any more: look how its program can be measured now", field)
		}
	}
	return v.Len()
}
