package graphql

import (
	"runtime"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"
)

// TestAmendingReadsADocumentOnce: a long comment costs nothing for each field with arguments.
func TestAmendingReadsADocumentOnce(t *testing.T) {
	text := "#" + strings.Repeat("x", 100<<10) + "\n{__schema{types{name}} " + strings.Repeat("a(b:1) ", 700) + "}"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, refused := Amend(text); refused != nil {
		t.Fatal(refused)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16<<20 {
		t.Errorf("%d bytes are allocated for a document of %d", allocated, len(text))
	}
}

// TestAmendLooksThroughAllWrapping: of a type in lists and non-nulls as deep as tools ask for, the name is found below them.
func TestAmendLooksThroughAllWrapping(t *testing.T) {
	t.Parallel()
	const asDeepAsTools = 9
	text, _, refused := Amend(`{__type(name:"A"){ofType{name} fields{name args{name}}}}`)
	if refused != nil {
		t.Fatal(refused)
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
	var look func(set ast.SelectionSet)
	look = func(set ast.SelectionSet) {
		for _, s := range set {
			f, ok := s.(*ast.Field)
			switch {
			case !ok:
			case f.Alias == markIn, f.Alias == markOf:
				found++
				if n := levels(f.SelectionSet); n < asDeepAsTools {
					t.Errorf("%s looks through %d levels", f.Alias, n)
				}
			default:
				look(f.SelectionSet)
			}
		}
	}
	look(parsed.Operations[0].SelectionSet)
	if found < 4 {
		t.Errorf("types are asked for at %d places:\n%s", found, text)
	}
}
