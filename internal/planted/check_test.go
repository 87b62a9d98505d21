package planted

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// repository is the path of the repository's root from this package.
const repository = "../.."

func defects(t *testing.T) []Defect {
	t.Helper()
	all, err := Read(os.DirFS("defects"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("Read() = no defects, want some")
	}
	return all
}

// sourcesWithDefects plants all defects of the repository, once for all tests.
var sourcesWithDefects = sync.OnceValues(func() (map[string]string, error) {
	all, err := Read(os.DirFS("defects"))
	if err == nil && len(all) == 0 {
		err = errors.New("there are no defects")
	}
	if err != nil {
		return nil, err
	}
	return plantSelectable(os.DirFS(repository), all)
})

// TestEveryDefectStillApplies fails if a line that a defect replaces has changed, or if a defect cannot be selected at
// run time.
func TestEveryDefectStillApplies(t *testing.T) {
	if _, err := sourcesWithDefects(); err != nil {
		t.Errorf("%v\nFix the files of these defects in internal/planted/defects.", err)
	}
}

// TestEveryGuardExists fails if a guard has been moved or renamed. Without this test, `make test-guards` would report a
// missing package or test only after it has compiled other packages.
func TestEveryGuardExists(t *testing.T) {
	for _, d := range defects(t) {
		name, _, _ := strings.Cut(d.Guard.Test, "/")
		if err := declares(filepath.Join(repository, filepath.FromSlash(d.Guard.Package)), name); err != nil {
			t.Errorf("%s: %v: correct the line with its guard in internal/planted/defects/%s.txtar", d.Name, err, d.Name)
		}
	}
}

// declares returns an error unless a test file in a folder declares a test.
func declares(folder, test string) error {
	names, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "\nfunc "+test+"(") {
			return nil
		}
	}
	return fmt.Errorf("none of the %d test files in %s declares %s", len(names), folder, test)
}

func TestMissingGuardIsFound(t *testing.T) {
	for _, c := range []struct{ folder, test, want string }{
		{".", "TestMissingGuardIsFound", ""},
		{".", "TestMissingGuard", "declares TestMissingGuard"},
		{"gone", "TestMissingGuardIsFound", "none of the 0 test files in gone"},
	} {
		err := declares(c.folder, c.test)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("declares(%s, %s) error = %v, want %q, or none if this is empty", c.folder, c.test, err, c.want)
		}
	}
}

const defect = `Sums are wrong.
-- guard . TestSum --
-- find sum.go --
a + b
-- replace --
a - b
`

func TestDefectIsRead(t *testing.T) {
	got, err := Parse("difference", []byte(defect))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Defect{
		Name: "difference", Harm: "Sums are wrong.", Guard: Guard{".", "TestSum"},
		Edits: []Edit{{"sum.go", "a + b", "a - b"}},
	}); !reflect.DeepEqual(got, want) {
		t.Errorf("Parse() = %+v, want %+v", got, want)
	}
}

func TestIncompleteDefectIsRefused(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"no description of the harm", "Sums are wrong.\n", "", "say first"},
		{"no guard", "-- guard . TestSum --\n", "", "name its guard"},
		{"no test", " TestSum", "", "name its guard"},
		{"no replacement", "-- replace --\na - b\n", "", "an edit is"},
		{"nothing to find", "\na + b", "", "no text to find"},
		{"a defect without an edit", defect[strings.Index(defect, "-- find"):], "", "changes nothing"},
		{"a file other than Go", "sum.go", "sum.json", "only Go files"},
	} {
		_, err := Parse("difference", []byte(strings.Replace(defect, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: Parse() error = %v, want %q", c.name, err, c.want)
		}
	}
}

// module creates a small module with its own guards, and returns its Tree.
func module(t *testing.T) Tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/sum\n\ngo 1.26\n",
		"sum.go": "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a + b }\n\n// Calls counts " +
			"nothing.\nvar Calls = 1\n",
		"sum_test.go": `package sum

import (
	"os"
	"testing"
)

func TestSum(t *testing.T) {
	t.Run("of one and two", func(t *testing.T) {
		if got := Sum(1, 2); got != 3 {
			t.Errorf("panic: got %d", got)
		}
	})
	t.Run("of nothing", func(t *testing.T) { Sum(0, 0) })
}

func TestCalls(t *testing.T) {
	if Calls != 1 {
		t.Error(Calls)
	}
}

func TestNothing(t *testing.T) {}

func TestRapidIsConfigured(t *testing.T) {
	if os.Getenv("RAPID_NOFAILFILE") != "true" || os.Getenv("RAPID_SHRINKTIME") != "0s" {
		t.Error("the variables of rapid are not set, want RAPID_NOFAILFILE=true and RAPID_SHRINKTIME=0s")
	}
}

func TestSimulationsAreShort(t *testing.T) {
	if os.Getenv("GATEWRIGHT_SIMULATIONS") != "0.1" {
		t.Error("GATEWRIGHT_SIMULATIONS is not 0.1, want a tenth of the runs")
	}
}

func TestDefectIsNamed(t *testing.T) {
	if os.Getenv("PLANTED_DEFECT") == "" {
		t.Error("PLANTED_DEFECT is empty, want a value, because it shortens the waits of guards")
	}
}

func TestSkipped(t *testing.T) { t.Skip() }

func TestRed(t *testing.T) { t.Error() }
`,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Tree{Root: root, Timeout: 10 * time.Second}
}

// difference returns a defect in the file sum.go of the module.
func difference(name, test, find, replace string) Defect {
	return Defect{Name: name, Harm: "Sums are wrong.", Guard: Guard{".", test}, Edits: []Edit{{"sum.go", find, replace}}}
}

// TestOnlyAGuardFailureCountsAsCaught checks that a defect counts as caught only if its guard fails. A defect that
// changes nothing, that only another test catches, or that crashes the process, is not caught.
func TestOnlyAGuardFailureCountsAsCaught(t *testing.T) {
	tree := module(t)
	cases := []struct {
		Defect
		want string
	}{
		{difference("caught", "TestSum", "a + b", "a - b"), ""},
		{difference("caught by a subtest", "TestSum/of one and two", "a + b", "a - b"), ""},
		{difference("does nothing", "TestSum", "a + b", "b + a"), "is not caught: . TestSum passes"},
		{difference("caught by another test alone", "TestCalls", "a + b", "a - b"), "is not caught: . TestCalls passes"},
		{difference("caught by another subtest alone", "TestSum/of nothing", "a + b", "a - b"), "passes with it"},
		{difference("panics", "TestSum", "a + b", "[]int{a}[b]"), "keeps its guard from running"},
		{
			difference("ends the process", "TestSum", "return a + b", "go func() { panic(0) }(); select {}"),
			"keeps its guard from running",
		},
		{difference("has a guard that does not exist", "TestProduct", "a + b", "a - b"), "does not run"},
		{difference("has a guard that is skipped", "TestSkipped", "a + b", "a - b"), "does not run"},
		{
			difference("has a guard that fails if rapid writes to the tree", "TestRapidIsConfigured", "a + b", "a - b"),
			"passes with it",
		},
		{difference("has a guard that fails if simulations make all runs", "TestSimulationsAreShort", "a + b", "a - b"), ""},
		{difference("says its name", "TestNothing", "a + b", "a - b"), "says its name"},
		{difference("says what it would do", "TestNothing", "a + b", "a - b"), "Sums are wrong."},
	}
	hangs := difference("hangs", "TestSum", "return a + b", "select {}")
	all := []Defect{hangs}
	for _, c := range cases {
		all = append(all, c.Defect)
	}
	b := build(t, tree, all...) // one binary for all cases, because linking a binary takes longer than running it
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			_, err := b.Check(t.Context(), c.Defect)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check() error = %v, want one with %q, or none if this is empty", err, c.want)
			}
		})
	}
	t.Run(hangs.Name, func(t *testing.T) {
		tree.Timeout = time.Second
		shortTimeout := &Binary{planted: &Planted{tree: tree, test2json: b.planted.test2json}, pkg: b.pkg, path: b.path}
		if _, err := shortTimeout.Check(t.Context(), hangs); err == nil ||
			!strings.Contains(err.Error(), "keeps its guard from running") {
			t.Errorf("Check() = %v, want an error that says that the guard does not run", err)
		}
	})
	// A guard that fails without a defect proves nothing.
	t.Run("guards have to pass without a defect", func(t *testing.T) {
		passing := []Guard{
			{".", "TestSum/of one and two"},
			{".", "TestCalls"},
			{".", "TestSum"},
			{".", "TestRapidIsConfigured"},
			{".", "TestSimulationsAreShort"},
			{".", "TestDefectIsNamed"},
		}
		if _, err := b.CheckUnplanted(t.Context(), passing); err != nil {
			t.Errorf("CheckUnplanted() = %v, want nil", err)
		}
		for _, test := range []string{"TestRed", "TestProduct", "TestSkipped", "TestSum/of three"} {
			_, err := b.CheckUnplanted(t.Context(), append(passing, Guard{".", test}))
			if err == nil || !strings.Contains(err.Error(), test) {
				t.Errorf("CheckUnplanted(%s) = %v, want an error that names it", test, err)
			}
		}
	})
}

// TestDefectMustApplyExactlyOnce checks that Plant refuses a defect that does not apply, or applies twice, before anything
// is compiled. TestUncompilableDefectIsRefused covers the other errors.
func TestDefectMustApplyExactlyOnce(t *testing.T) {
	tree := module(t)
	for name, find := range map[string]string{"nowhere": "a * b", "twice": "Sum"} {
		d := difference(name, "TestSum", find, "Total")
		if _, err := tree.Plant(t.Context(), t.TempDir(), []Defect{d}); err == nil ||
			!strings.Contains(err.Error(), "no longer applies") {
			t.Errorf("Plant(%s) = %v, want an error that says that it no longer applies", name, err)
		}
	}
}
