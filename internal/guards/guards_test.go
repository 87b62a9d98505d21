package guards

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var planted = flag.Bool("planted", false, "plant every defect and run its guard, which takes some minutes: make test-guards")

// planting is the part of the defects that is planted.
var planting = flag.String("part", "1/1", "which part of the defects to plant, such as 2/3: guards of one package are in one part")

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

// TestEveryDefectStillApplies is all of a defect that `make test` checks: who
// changes a line that one replaces hears of it at once.
func TestEveryDefectStillApplies(t *testing.T) {
	tree := os.DirFS(repository)
	for _, d := range defects(t) {
		if _, err := d.Plant(tree); err != nil {
			t.Errorf("%v\nGive internal/guards/defects/%s.txtar the text as it is now.", err, d.Name)
		}
	}
}

// TestPlantedDefectsAreCaught plants one defect after the other in the
// repository; without any, the same guards have to pass.
func TestPlantedDefectsAreCaught(t *testing.T) {
	if !*planted {
		t.Skip("make test-guards plants them")
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	tree := Tree{Root: root, Timeout: 2 * time.Minute}
	unplanted := Tree{Root: root, Timeout: 15 * time.Minute} // which runs all guards of a package at once
	all, err := Part(defects(t), *planting)
	if err != nil {
		t.Fatal(err)
	}
	packages := map[string]*selected{}
	for _, d := range all {
		s := packages[d.Guard.Package]
		if s == nil {
			s = &selected{tree: tree}
			dir := t.TempDir()
			s.switched = sync.OnceValues(func() (*Switched, error) { return tree.Switch(t.Context(), dir, s.defects) })
			packages[d.Guard.Package] = s
		}
		s.guards = append(s.guards, d.Guard)
		t.Run(d.Name, func(t *testing.T) {
			s.defects = append(s.defects, d)
			t.Parallel() // goes on when all that -run names have come here
			if err := s.check(t, d); err != nil {
				t.Error(err)
			}
		})
	}
	for pkg, s := range packages {
		t.Run("none in "+pkg, func(t *testing.T) {
			t.Parallel()
			if err := s.checkUnplanted(t, unplanted); err != nil {
				t.Error(err)
			}
		})
	}
}

// selected are the defects of one package's guards that a run of the test is for.
type selected struct {
	tree     Tree
	guards   []Guard
	defects  []Defect
	switched func() (*Switched, error)
}

// check plants a defect: one of many by a binary that has all of them, and in the
// source itself when that does not say that it is caught.
func (s *selected) check(t *testing.T, d Defect) error {
	t.Helper()
	if len(s.defects) > 1 {
		switched, err := s.switched()
		if err == nil && switched.Has(d) {
			err = switched.Check(t.Context(), d)
			if err == nil {
				return nil
			}
		}
		if err != nil {
			t.Logf("asked again by itself: %v", err)
		}
	}
	return s.tree.Check(t.Context(), d)
}

func (s *selected) checkUnplanted(t *testing.T, tree Tree) error {
	t.Helper()
	if len(s.defects) > 1 {
		if switched, err := s.switched(); err == nil && len(switched.has) > 0 {
			all := *switched
			all.tree = tree
			return all.CheckUnplanted(t.Context(), s.guards)
		}
	}
	return tree.CheckUnplanted(t.Context(), s.guards)
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
		{"does not compile", "TestSum", "a + b", "c", "keeps its guard from running"},
		{"panics", "TestSum", "a + b", "[]int{a}[b]", "keeps its guard from running"},
		{"ends the process", "TestSum", "var Calls = 1", "var Calls = func() int { panic(0) }()", "keeps its guard from running"},
		{"has a guard that does not exist", "TestProduct", "a + b", "a - b", "does not run"},
		{"has a guard that is skipped", "TestSkipped", "a + b", "a - b", "does not run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := Defect{Name: "difference", Harm: "Sums are wrong.", Guard: Guard{".", c.test}, Edits: []Edit{{"sum.go", c.find, c.replace}}}
			err := tree.Check(t.Context(), d)
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
	if err := tree.Check(t.Context(), d); err == nil || !strings.Contains(err.Error(), "keeps its guard from running") {
		t.Errorf("got %v", err)
	}
}

// TestAFailingGuardLeavesNothingBehind asks two packages of the repository for
// the flags of their tests.
func TestAFailingGuardLeavesNothingBehind(t *testing.T) {
	tree := Tree{Root: repository}
	for pkg, want := range map[string]string{"./shared/deployments": "-args -rapid.nofailfile", "./internal/guards": ""} {
		got, err := tree.quiet(pkg)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, %v, want %q", pkg, got, err, want)
		}
	}
}

func TestSurvivorSaysWhatItWouldDo(t *testing.T) {
	d := Defect{Name: "difference", Harm: "Sums are wrong.", Guard: Guard{".", "TestNothing"}, Edits: []Edit{{"sum.go", "a + b", "a - b"}}}
	if err := module(t).Check(t.Context(), d); err == nil || !strings.Contains(err.Error(), "difference") || !strings.Contains(err.Error(), d.Harm) {
		t.Errorf("got %v", err)
	}
}

// TestGuardsHaveToPassWithoutADefect: a test that fails anyway catches nothing.
func TestGuardsHaveToPassWithoutADefect(t *testing.T) {
	tree := module(t)
	good := []Guard{{".", "TestSum/of one and two"}, {".", "TestCalls"}, {".", "TestSum"}}
	if err := tree.CheckUnplanted(t.Context(), good); err != nil {
		t.Error(err)
	}
	for _, test := range []string{"TestRed", "TestProduct", "TestSkipped", "TestSum/of three"} {
		err := tree.CheckUnplanted(t.Context(), append(good, Guard{".", test}))
		if err == nil || !strings.Contains(err.Error(), test) {
			t.Errorf("%s: got %v", test, err)
		}
	}
}

// TestPartsAreAllDefects: each defect is in one part of as many as there are, guards of a package are in one, and parts are
// about as large as each other.
func TestPartsAreAllDefects(t *testing.T) {
	all := defects(t)
	for _, of := range []int{1, 2, 3, 7} {
		parts, seen := map[string]int{}, 0
		for part := 1; part <= of; part++ {
			some, err := Part(all, fmt.Sprintf("%d/%d", part, of))
			if err != nil {
				t.Fatal(err)
			}
			seen += len(some)
			if len(some) < len(all)/of/2 || len(some) > 2*len(all)/of {
				t.Errorf("part %d of %d has %d of %d defects", part, of, len(some), len(all))
			}
			for _, d := range some {
				if other, ok := parts[d.Guard.Package]; ok && other != part {
					t.Errorf("guards of %s are in the parts %d and %d of %d", d.Guard.Package, other, part, of)
				}
				parts[d.Guard.Package] = part
			}
		}
		if seen != len(all) {
			t.Errorf("%d parts have %d of %d defects", of, seen, len(all))
		}
	}
	for _, wrong := range []string{"", "0/3", "4/3", "1", "1/0", "-1/3", "1/3/", "a/b", "1/3 "} {
		if _, err := Part(all, wrong); err == nil {
			t.Errorf("%q is a part", wrong)
		}
	}
}
