package graphql

import (
	"runtime"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// TestAmendAllocationIsBounded checks that a long comment is not read again for each field with arguments.
func TestAmendAllocationIsBounded(t *testing.T) {
	text := "#" + strings.Repeat("x", 100<<10) + "\n{__schema{types{name}} " + strings.Repeat("a(b:1) ", 700) + "}"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, refused := Amend(text); refused != nil {
		t.Fatalf("Amend() refused = %v, want no refusal", refused)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
		t.Errorf("Amend(%d bytes) allocates %d bytes, want at most %d", len(text), allocated, 16<<20)
	}
}

// TestAmendUnwrapsAllTypes checks that Amend adds requests for the types inside at least as many list and non-null
// wrappers as tools request.
func TestAmendUnwrapsAllTypes(t *testing.T) {
	t.Parallel()
	const toolDepth = 9
	text, _, refused := Amend(`{__type(name:"A"){ofType{name} fields{name args{name}}}}`)
	if refused != nil {
		t.Fatalf("Amend() refused = %v, want no refusal", refused)
	}
	parsed, err := parser.ParseQuery(&ast.Source{Input: text})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	var levels func(set ast.SelectionSet) int
	levels = func(set ast.SelectionSet) int {
		deepest := 0
		for _, s := range set {
			if f, ok := s.(*ast.Field); ok && f.Alias == "ofType" {
				deepest = max(deepest, 1+levels(f.SelectionSet))
			}
		}
		return deepest
	}
	var visit func(set ast.SelectionSet)
	visit = func(set ast.SelectionSet) {
		for _, s := range set {
			f, ok := s.(*ast.Field)
			switch {
			case !ok:
			case f.Alias == markTypeRef, f.Alias == markOfType:
				found++
				if n := levels(f.SelectionSet); n < toolDepth {
					t.Errorf("levels of %s = %d, want at least %d", f.Alias, n, toolDepth)
				}
			default:
				visit(f.SelectionSet)
			}
		}
	}
	visit(parsed.Operations[0].SelectionSet)
	if found < 4 {
		t.Errorf("places with a type reference = %d, want at least 4:\n%s", found, text)
	}
}
