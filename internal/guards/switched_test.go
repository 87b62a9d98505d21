package guards

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// shapes has functions of every shape that one can be called on from.
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

func TestLimit(t *testing.T) { is(t, Limit(), 3) }

func is(t *testing.T, got, want int) {
	t.Helper()
	if got != want {
		t.Error(got)
	}
}
`

// TestOneBinaryHasManyDefects: each is there when it is chosen and at no other
// time, whatever function it is of.
func TestOneBinaryHasManyDefects(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/shapes\n\ngo 1.26\n", "shapes.go": shapes, "shapes_test.go": shapesTest} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(name, test, find, replace string) Defect {
		return Defect{Name: name, Harm: "It is wrong.", Guard: Guard{".", test}, Edits: []Edit{{"shapes.go", find, replace}}}
	}
	caught := []Defect{
		edit("a method of a type with parameters", "TestSize", "len(more)", "0"),
		edit("a method without a result", "TestAdd", "n.n++", "n.n--"),
		edit("a function with parameters of types", "TestFirst", "return all[0], nil", "return first, nil"),
		edit("the-same-function", "TestFirst", "len(all) == 0", "len(all) == 1"),
		edit("recursion", "TestTwice", "f(n) + Twice", "f(n) - Twice"),
	}
	passed := edit("nothing", "TestTwice", "n-1", "n - 1*1")
	constant := edit("a constant", "TestLimit", "limit = 3", "limit = 4")
	signature := edit("a signature", "TestLimit", "func Limit() int { return limit }", "func Limit() int16 { return limit }")
	tree := Tree{Root: root, Timeout: 10 * time.Second}
	s, err := tree.Switch(t.Context(), t.TempDir(), append([]Defect{passed, constant, signature}, caught...))
	if err != nil {
		t.Fatal(err)
	}
	var guards []Guard
	for _, d := range caught {
		guards = append(guards, d.Guard)
		if !s.Has(d) {
			t.Errorf("%s: it is not there", d.Name)
		} else if err := s.Check(t.Context(), d); err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
	}
	if err := s.CheckUnplanted(t.Context(), guards); err != nil {
		t.Errorf("none of them: %v", err)
	}
	if err := s.Check(t.Context(), passed); err == nil || !strings.Contains(err.Error(), "passes with it") {
		t.Errorf("a change that changes nothing: %v", err)
	}
	for _, d := range []Defect{constant, signature} {
		if s.Has(d) {
			t.Errorf("%s is no body of a function", d.Name)
		}
	}
}

// TestDefectThatDoesNotApplyIsNoBinary, and neither is one that does not compile.
func TestDefectThatDoesNotApplyIsNoBinary(t *testing.T) {
	tree := module(t)
	for find, want := range map[string]string{"a * b": "no longer applies", "a + b": "undefined: c"} {
		d := Defect{Name: "difference", Guard: Guard{".", "TestSum"}, Edits: []Edit{{"sum.go", find, "c"}}}
		if _, err := tree.Switch(t.Context(), t.TempDir(), []Defect{d}); err == nil || errors.Is(err, errNotSwitched) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", find, err, want)
		}
	}
}
