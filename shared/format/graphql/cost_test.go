package graphql

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"pgregory.net/rapid"
)

// naive computes costs literally by the rules of docs/graphql.md: it visits
// a fragment at each spread, with unbounded numbers and without a cache.
type naive struct {
	fragments map[string]*ast.FragmentDefinition
}

// fields returns the number of fields, except __typename.
func (n naive) fields(set ast.SelectionSet) *big.Int {
	sum := new(big.Int)
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			if s.Name != "__typename" {
				sum.Add(sum, big.NewInt(1))
			}
			sum.Add(sum, n.fields(s.SelectionSet))
		case *ast.InlineFragment:
			sum.Add(sum, n.fields(s.SelectionSet))
		case *ast.FragmentSpread:
			sum.Add(sum, n.fields(n.fragments[s.Name].SelectionSet))
		}
	}
	return sum
}

// uncounted returns the number of selections that fields() does not count.
func (n naive) uncounted(set ast.SelectionSet) *big.Int {
	sum := new(big.Int)
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			if s.Name == "__typename" {
				sum.Add(sum, big.NewInt(1))
			}
			sum.Add(sum, n.uncounted(s.SelectionSet))
		case *ast.InlineFragment:
			sum.Add(sum, n.uncounted(s.SelectionSet)).Add(sum, big.NewInt(1))
		case *ast.FragmentSpread:
			sum.Add(sum, n.uncounted(n.fragments[s.Name].SelectionSet)).Add(sum, big.NewInt(1))
		}
	}
	return sum
}

func (n naive) depth(set ast.SelectionSet) int {
	deepest := 0
	for _, selection := range set {
		switch s := selection.(type) {
		case *ast.Field:
			if len(s.SelectionSet) > 0 && s.Name != "__schema" && s.Name != "__type" {
				deepest = max(deepest, 1+n.depth(s.SelectionSet))
			}
		case *ast.InlineFragment:
			deepest = max(deepest, n.depth(s.SelectionSet))
		case *ast.FragmentSpread:
			deepest = max(deepest, n.depth(n.fragments[s.Name].SelectionSet))
		}
	}
	return deepest
}

// drawSelection draws a selection set. It spreads only fragments
// with a number of at least first, so that no cycle is possible.
func drawSelection(rt *rapid.T, depth, first, fragments int) string {
	var b strings.Builder
	b.WriteByte('{')
	for range rapid.IntRange(1, 3).Draw(rt, "selections") {
		kind := rapid.IntRange(0, 6).Draw(rt, "kind")
		name := rapid.SampledFrom([]string{"a", "b", "c:a", "__typename", "__schema", "__type", "fields"}).Draw(rt, "name")
		switch {
		case kind < 2 && first < fragments:
			fmt.Fprintf(&b, "...F%d ", rapid.IntRange(first, fragments-1).Draw(rt, "fragment"))
		case kind == 2 && depth > 0:
			b.WriteString(rapid.SampledFrom([]string{"...", "...on T", "...@skip(if:true)"}).Draw(rt,
				"inline") + drawSelection(rt, depth-1, first, fragments))
		case kind > 3 && depth > 0:
			b.WriteString(name + drawSelection(rt, depth-1, first, fragments))
		default:
			b.WriteString(name + " ")
		}
	}
	return b.String() + "}"
}

func TestFragmentCostMatchesExpansion(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fragments := rapid.IntRange(0, 6).Draw(rt, "fragments")
		parts := []string{"query A" + drawSelection(rt, 3, 0, fragments), "mutation B" + drawSelection(rt, 3, 0, fragments)}
		for i := range fragments {
			parts = append(parts, fmt.Sprintf("fragment F%d on T", i)+drawSelection(rt, 3, i+1, fragments))
		}
		text := strings.Join(rapid.Permutation(parts).Draw(rt, "order"), " ")
		d, refused := Analyze(text, nil)
		if refused != nil {
			rt.Fatalf("Analyze(%s) refused = %v, want no refusal", text, refused)
		}
		parsed, refused := parse(text)
		if refused != nil {
			rt.Fatalf("parse() refused = %v, want no refusal", refused)
		}
		n := naive{map[string]*ast.FragmentDefinition{}}
		for _, f := range parsed.Fragments {
			n.fragments[f.Name] = f
		}
		for i, o := range parsed.Operations {
			if got, want := d.Operations[i].Complexity, n.fields(o.SelectionSet); want.Cmp(big.NewInt(int64(got))) != 0 {
				rt.Fatalf("Analyze(%s) complexity = %d, want %s", text, got, want)
			}
			if got, want := d.Operations[i].Uncounted, n.uncounted(o.SelectionSet); want.Cmp(big.NewInt(int64(got))) != 0 {
				rt.Fatalf("Analyze(%s) uncounted = %d, want %s", text, got, want)
			}
			if got, want := d.Operations[i].Depth, n.depth(o.SelectionSet); got != want {
				rt.Fatalf("Analyze(%s) depth = %d, want %d", text, got, want)
			}
		}
	})
}
