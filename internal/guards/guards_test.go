package guards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository is its root, seen from this package.
const repository = "../.."

func defects(t *testing.T) []Defect {
	t.Helper()
	all, err := Read(os.DirFS("defects"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("there are no defects")
	}
	return all
}

// TestEveryDefectStillApplies fails as soon as somebody changes a line that a defect replaces, and for a defect that cannot be chosen at run time.
func TestEveryDefectStillApplies(t *testing.T) {
	if _, err := switched(os.DirFS(repository), defects(t)); err != nil {
		t.Errorf("%v\nFix the files of these defects in internal/guards/defects.", err)
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
	if got.Name != "difference" || got.Harm != "Sums are wrong." || got.Guard != (Guard{".", "TestSum"}) ||
		len(got.Edits) != 1 || got.Edits[0] != (Edit{"sum.go", "a + b", "a - b"}) {
		t.Errorf("got %+v", got)
	}
}

func TestIncompleteDefectIsRefused(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"no harm", "Sums are wrong.\n", "", "say first"},
		{"no guard", "-- guard . TestSum --\n", "", "name its guard"},
		{"no test", " TestSum", "", "name its guard"},
		{"no replacement", "-- replace --\na - b\n", "", "an edit is"},
		{"nothing to find", "\na + b", "", "no text to find"},
		{"no edit", defect[strings.Index(defect, "-- find"):], "", "changes nothing"},
		{"a file that tests read", "sum.go", "sum.json", "Go files alone"},
	} {
		_, err := Parse("difference", []byte(strings.Replace(defect, c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// module is a tree with guards of its own.
func module(t *testing.T) Tree {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/sum\n\ngo 1.26\n",
		"sum.go": "package sum\n\n// Sum adds.\nfunc Sum(a, b int) int { return a + b }\n\n// Calls counts nothing.\nvar Calls = 1\n",
		"sum_test.go": `package sum

import "testing"

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

// check plants one defect and runs its guard.
func check(t *testing.T, tree Tree, d Defect) error {
	t.Helper()
	p, err := tree.Plant(t.Context(), t.TempDir(), []Defect{d})
	if err != nil {
		return err
	}
	binaries, err := p.Build(t.Context(), t.TempDir(), d.Guard.Package)
	if err != nil {
		return err
	}
	return binaries[d.Guard.Package].Check(t.Context(), d)
}

// TestOnlyAFailureOfTheGuardIsACatch: what does nothing, fits nothing, compiles
// to nothing or dies on the way must not look like a defect that was caught.
func TestOnlyAFailureOfTheGuardIsACatch(t *testing.T) {
	tree := module(t)
	for _, c := range []struct{ name, test, find, replace, want string }{
		{"caught", "TestSum", "a + b", "a - b", ""},
		{"caught by a subtest", "TestSum/of one and two", "a + b", "a - b", ""},
		{"does nothing", "TestSum", "a + b", "b + a", "is not caught: . TestSum passes"},
		{"caught by another test alone", "TestCalls", "a + b", "a - b", "is not caught: . TestCalls passes"},
		{"caught by another subtest alone", "TestSum/of nothing", "a + b", "a - b", "passes with it"},
		{"no longer applies", "TestSum", "a * b", "a - b", "no longer applies"},
		{"applies twice", "TestSum", "Sum", "Total", "no longer applies"},
		{"does not compile", "TestSum", "a + b", "c", "undefined: c"},
		{"panics", "TestSum", "a + b", "[]int{a}[b]", "keeps its guard from running"},
		{"ends the process", "TestSum", "return a + b", "go func() { panic(0) }(); select {}", "keeps its guard from running"},
		{"has a guard that does not exist", "TestProduct", "a + b", "a - b", "does not run"},
		{"has a guard that is skipped", "TestSkipped", "a + b", "a - b", "does not run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := Defect{Name: "difference", Harm: "Sums are wrong.", Guard: Guard{".", c.test}, Edits: []Edit{{"sum.go", c.find, c.replace}}}
			err := check(t, tree, d)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestDefectThatHangsIsNotCaught(t *testing.T) {
	tree := module(t)
	tree.Timeout = time.Second
	d := Defect{Name: "hang", Guard: Guard{".", "TestSum"}, Edits: []Edit{{"sum.go", "return a + b", "select {}"}}}
	if err := check(t, tree, d); err == nil || !strings.Contains(err.Error(), "keeps its guard from running") {
		t.Errorf("got %v", err)
	}
}

// TestAFailingGuardLeavesNothingBehind asks two packages of the repository for
// the flags of their tests.
func TestAFailingGuardLeavesNothingBehind(t *testing.T) {
	tree := Tree{Root: repository}
	for pkg, want := range map[string]string{"./shared/deployments": "-rapid.nofailfile -rapid.shrinktime=0s", "./internal/guards": ""} {
		got, err := tree.quiet(pkg)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, %v, want %q", pkg, got, err, want)
		}
	}
}

func TestSurvivorSaysWhatItWouldDo(t *testing.T) {
	d := Defect{Name: "difference", Harm: "Sums are wrong.", Guard: Guard{".", "TestNothing"}, Edits: []Edit{{"sum.go", "a + b", "a - b"}}}
	if err := check(t, module(t), d); err == nil || !strings.Contains(err.Error(), "difference") || !strings.Contains(err.Error(), d.Harm) {
		t.Errorf("got %v", err)
	}
}

// TestGuardsHaveToPassWithoutADefect: a test that fails anyway catches nothing.
func TestGuardsHaveToPassWithoutADefect(t *testing.T) {
	b := build(t, module(t), Defect{Name: "difference", Guard: Guard{".", "TestSum"}, Edits: []Edit{{"sum.go", "a + b", "a - b"}}})
	good := []Guard{{".", "TestSum/of one and two"}, {".", "TestCalls"}, {".", "TestSum"}}
	if err := b.CheckUnplanted(t.Context(), good); err != nil {
		t.Error(err)
	}
	for _, test := range []string{"TestRed", "TestProduct", "TestSkipped", "TestSum/of three"} {
		err := b.CheckUnplanted(t.Context(), append(good, Guard{".", test}))
		if err == nil || !strings.Contains(err.Error(), test) {
			t.Errorf("%s: got %v", test, err)
		}
	}
}
