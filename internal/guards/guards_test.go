package guards

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// switchedOnce plants all defects of the repository once for all tests.
var switchedOnce = sync.OnceValues(func() (map[string]string, error) {
	all, err := Read(os.DirFS("defects"))
	if err == nil && len(all) == 0 {
		err = errors.New("there are no defects")
	}
	if err != nil {
		return nil, err
	}
	return switched(os.DirFS(repository), all)
})

// TestEveryDefectStillApplies fails as soon as somebody changes a line that a defect replaces, and for a defect that cannot be chosen at run time.
func TestEveryDefectStillApplies(t *testing.T) {
	if _, err := switchedOnce(); err != nil {
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

func TestQuiet(t *testing.T) {
	if os.Getenv("RAPID_NOFAILFILE") != "true" || os.Getenv("RAPID_SHRINKTIME") != "0s" {
		t.Error("rapid writes the input of a failure to testdata")
	}
}

func TestBrief(t *testing.T) {
	if os.Getenv("GATEWRIGHT_SIMULATIONS") != "0.1" {
		t.Error("simulations make all runs")
	}
}

func TestHurried(t *testing.T) {
	if os.Getenv("PLANTED_DEFECT") == "" {
		t.Error("waits are longer than with a defect")
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

// difference is a defect of the file sum.go in the module.
func difference(name, test, find, replace string) Defect {
	return Defect{Name: name, Harm: "Sums are wrong.", Guard: Guard{".", test}, Edits: []Edit{{"sum.go", find, replace}}}
}

// TestOnlyAFailureOfTheGuardIsACatch: what does nothing, fits nothing, compiles
// to nothing or dies on the way must not look like a defect that was caught.
func TestOnlyAFailureOfTheGuardIsACatch(t *testing.T) {
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
		{difference("ends the process", "TestSum", "return a + b", "go func() { panic(0) }(); select {}"), "keeps its guard from running"},
		{difference("has a guard that does not exist", "TestProduct", "a + b", "a - b"), "does not run"},
		{difference("has a guard that is skipped", "TestSkipped", "a + b", "a - b"), "does not run"},
		{difference("has a guard that may write to the tree", "TestQuiet", "a + b", "a - b"), "passes with it"},
		{difference("has a guard that makes fewer runs", "TestBrief", "a + b", "a - b"), ""},
		{difference("says its name", "TestNothing", "a + b", "a - b"), "says its name"},
		{difference("says what it would do", "TestNothing", "a + b", "a - b"), "Sums are wrong."},
	}
	hangs := difference("hangs", "TestSum", "return a + b", "select {}")
	all := []Defect{hangs}
	for _, c := range cases {
		all = append(all, c.Defect)
	}
	b := build(t, tree, all...) // once for all, since linking a binary costs more than to run it
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			_, err := b.Check(t.Context(), c.Defect)
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("Check() = %v, want %q", err, c.want)
			}
		})
	}
	t.Run(hangs.Name, func(t *testing.T) {
		tree.Timeout = time.Second
		impatient := &Binary{planted: &Planted{tree: tree, test2json: b.planted.test2json}, pkg: b.pkg, path: b.path}
		if _, err := impatient.Check(t.Context(), hangs); err == nil || !strings.Contains(err.Error(), "keeps its guard from running") {
			t.Errorf("Check() = %v, want an error that says that the guard does not run", err)
		}
	})
	// A test that fails anyway catches nothing.
	t.Run("guards have to pass without a defect", func(t *testing.T) {
		good := []Guard{{".", "TestSum/of one and two"}, {".", "TestCalls"}, {".", "TestSum"}, {".", "TestQuiet"}, {".", "TestBrief"}, {".", "TestHurried"}}
		if _, err := b.CheckUnplanted(t.Context(), good); err != nil {
			t.Errorf("CheckUnplanted() = %v, want nil", err)
		}
		for _, test := range []string{"TestRed", "TestProduct", "TestSkipped", "TestSum/of three"} {
			_, err := b.CheckUnplanted(t.Context(), append(good, Guard{".", test}))
			if err == nil || !strings.Contains(err.Error(), test) {
				t.Errorf("CheckUnplanted(%s) = %v, want an error that names it", test, err)
			}
		}
	})
}

// TestDefectThatAppliesNowhereOrTwiceIsRefused before anything is built. TestDefectThatDoesNotCompileIsNoBinary has the others.
func TestDefectThatAppliesNowhereOrTwiceIsRefused(t *testing.T) {
	tree := module(t)
	for name, find := range map[string]string{"nowhere": "a * b", "twice": "Sum"} {
		d := difference(name, "TestSum", find, "Total")
		if _, err := tree.Plant(t.Context(), t.TempDir(), []Defect{d}); err == nil || !strings.Contains(err.Error(), "no longer applies") {
			t.Errorf("Plant(%s) = %v, want an error that says that it no longer applies", name, err)
		}
	}
}
