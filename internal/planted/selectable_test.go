package planted

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

// shapes has functions of every shape that can call their changed copy.
const shapes = `package shapes

import "strconv"

// Box holds something.
type Box[T any] struct{ in T }

func (Box[T]) Size(_ int, more ...int) int { return len(more) }

// Numbers counts.
type Numbers struct{ n int }

func (n *Numbers) Add(int, int) { n.n++ }

func First[T any, S ~[]T](all S, _ int) (first T, err error) { // the first
	if len(all) == 0 {
		return first, strconv.ErrRange
	}
	return all[0], nil
}

func Twice(f func(int) int, n int) int {
	if n == 0 {
		return 0
	}
	return f(n) + Twice(f, n-1)
}

const limit = 3

func Limit() int { return limit }

const (
	low, high       = 5, 6
	small     uint8 = 8
)

const (
	zero = iota
	one
)

var names, anything = []string{"a", "b"}, any(nil)

var number any = 1
`

const shapesTest = `package shapes

import "testing"

func TestSize(t *testing.T) { is(t, Box[int]{}.Size(0, 1, 2), 2) }

func TestAdd(t *testing.T) {
	var n Numbers
	n.Add(1, 2)
	is(t, n.n, 1)
}

func TestFirst(t *testing.T) {
	first, err := First([]int{7}, 0)
	if err != nil {
		t.Error(err)
	}
	is(t, first, 7)
}

func TestTwice(t *testing.T) { is(t, Twice(func(n int) int { return n }, 3), 6) }

func TestLimits(t *testing.T) {
	is(t, Limit(), 3)
	is(t, low+high, 11)
	is(t, zero+one, 1)
	is(t, int(small), 8)
}

func TestNames(t *testing.T) {
	is(t, int(names[0][0]), 'a')
	if number != 1 || anything != nil {
		t.Error(number, anything)
	}
}

func is(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Error(got)
	}
}
`

// TestOneBinaryHasManyDefects checks that each defect is active only if it is selected, in functions and values of
// every kind.
func TestOneBinaryHasManyDefects(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/shapes\n\ngo 1.26\n", "shapes.go": shapes,
		"shapes_test.go": shapesTest,
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	caught := []Defect{
		shape("a method of a type with parameters", "TestSize", "len(more)", "0"),
		shape("a method without a result", "TestAdd", "n.n++", "n.n--"),
		shape("a function with parameters of types", "TestFirst", "return all[0], nil", "return first, nil"),
		shape("the-same-function", "TestFirst", "len(all) == 0", "len(all) == 1"),
		shape("recursion", "TestTwice", "f(n) + Twice", "f(n) - Twice"),
		shape("a constant", "TestLimits", "limit = 3", "limit = 4"),
		shape("the same constant", "TestLimits", "limit = 3", "limit = 2"),
		shape("constants of a group", "TestLimits", "5, 6", "5, 7"),
		shape("a constant with a type", "TestLimits", "uint8 = 8", "uint8 = 9"),
		shape("a variable", "TestNames", `"a", "b"`, `"b", "a"`),
		shape("a variable with a type", "TestNames", "any = 1", `any = "1"`),
	}
	passed := shape("nothing", "TestTwice", "n-1", "n - 1*1")
	tree := Tree{Root: root, Timeout: time.Minute}
	b := build(t, tree, append([]Defect{passed}, caught...)...)
	var guards []Guard
	for _, d := range caught {
		guards = append(guards, d.Guard)
		if _, err := b.Check(t.Context(), d); err != nil {
			t.Errorf("Check(%s) = %v, want nil", d.Name, err)
		}
	}
	if _, err := b.CheckUnplanted(t.Context(), guards); err != nil {
		t.Errorf("CheckUnplanted() = %v, want nil", err)
	}
	if _, err := b.Check(t.Context(), passed); err == nil || !strings.Contains(err.Error(), "passes with it") {
		t.Errorf("Check(a change that changes nothing) = %v, want an error that says that the guard passes", err)
	}
}

// shape returns a defect in shapes.
func shape(name, test, find, replace string) Defect {
	return Defect{Name: name, Harm: "It is wrong.", Guard: Guard{".", test}, Edits: []Edit{{"shapes.go", find, replace}}}
}

// build builds the test binary of the root package of a module with defects.
func build(t *testing.T, tree Tree, defects ...Defect) *Binary {
	t.Helper()
	p, err := tree.Plant(t.Context(), t.TempDir(), defects)
	if err != nil {
		t.Fatal(err)
	}
	binaries, err := p.Build(t.Context(), t.TempDir(), ".")
	if err != nil {
		t.Fatal(err)
	}
	return binaries["."]
}

// TestUnselectableChangesAreRefused checks that changes that cannot be selected at run time are refused.
func TestUnselectableChangesAreRefused(t *testing.T) {
	tree := fstest.MapFS{"shapes.go": {Data: []byte(shapes)}, "shapes_test.go": {Data: []byte(shapesTest)}}
	for _, d := range []Defect{
		shape("a signature", "TestLimits", "func Limit() int {", "func Limit() int16 {"),
		shape("one more declaration", "TestLimits", "func Limit() int", "const other = 1\n\nfunc Limit() int"),
		shape("a type", "TestAdd", "n int }", "n int64 }"),
		shape("a counted constant", "TestLimits", "zero = iota", "zero = iota + 1"),
		shape("a comment", "TestSize", "// Box holds something.", "// Box holds nothing."),
		shape("a syntax error", "TestFirst", "return all[0], nil", "return all["),
		{Name: "a test", Guard: Guard{".", "TestLimits"}, Edits: []Edit{{"shapes_test.go", "t.Error(got)", "t.Log(got)"}}},
	} {
		if _, err := plantSelectable(tree, []Defect{d}); err == nil || !strings.Contains(err.Error(), d.Name) {
			t.Errorf("plantSelectable(%s) = %v, want an error that names the defect", d.Name, err)
		}
	}
}

// TestUncompilableDefectIsRefused checks that Plant or Build returns an error for a defect that no longer
// applies, and for a defect that does not compile.
func TestUncompilableDefectIsRefused(t *testing.T) {
	tree := module(t)
	for find, want := range map[string]string{"a * b": "no longer applies", "a + b": "undefined: c"} {
		d := Defect{Name: "difference", Guard: Guard{".", "TestSum"}, Edits: []Edit{{"sum.go", find, "c"}}}
		p, err := tree.Plant(t.Context(), t.TempDir(), []Defect{d})
		if err == nil {
			_, err = p.Build(t.Context(), t.TempDir(), ".")
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Plant() and Build() with %q replaced: error = %v, want %q", find, err, want)
		}
	}
}
