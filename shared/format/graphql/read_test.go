package graphql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"pgregory.net/rapid"
)

// linesOf formats an outline as one line for each selection, with the selection's depth.
func linesOf(o *outline) (lines []string) {
	for _, all := range [][]definition{o.operations, o.fragments} {
		for _, d := range all {
			lines = append(lines, fmt.Sprintf("%s %s %v", d.operation, d.name, d.at))
			var ends []int
			for i := d.first; i < d.end; i++ {
				for len(ends) > 0 && ends[len(ends)-1] == i {
					ends = ends[:len(ends)-1]
				}
				s := o.selections[i]
				lines = append(lines, fmt.Sprintf("%d %d %s %v", len(ends), s.kind, s.name, s.at()))
				if int(s.end) > i+1 {
					ends = append(ends, int(s.end))
				}
			}
		}
	}
	return lines
}

// linesOfTree formats gqlparser's tree in the same way.
func linesOfTree(parsed *ast.QueryDocument) (lines []string) {
	var set func(all ast.SelectionSet, depth int)
	set = func(all ast.SelectionSet, depth int) {
		for _, selection := range all {
			switch s := selection.(type) {
			case *ast.Field:
				lines = append(lines, fmt.Sprintf("%d %d %s %v", depth, field, s.Name, locate(s.Position)))
				set(s.SelectionSet, depth+1)
			case *ast.InlineFragment:
				lines = append(lines, fmt.Sprintf("%d %d %s %v", depth, inline, "", locate(s.Position)))
				set(s.SelectionSet, depth+1)
			case *ast.FragmentSpread:
				lines = append(lines, fmt.Sprintf("%d %d %s %v", depth, spread, s.Name, locate(s.Position)))
			}
		}
	}
	for _, o := range parsed.Operations {
		lines = append(lines, fmt.Sprintf("%s %s %v", o.Operation, o.Name, locate(o.Position)))
		set(o.SelectionSet, 0)
	}
	for _, f := range parsed.Fragments {
		lines = append(lines, fmt.Sprintf(" %s %v", f.Name, locate(f.Position)))
		set(f.SelectionSet, 0)
	}
	return lines
}

// numberAndName matches a name directly after a number, which gqlparser reads as two tokens.
var numberAndName = regexp.MustCompile(`[0-9][A-Z_a-z]`)

// compareWithParser fails if the results of read() and gqlparser differ. It lets read() refuse a name directly after a
// number, and "on" in quotation marks. It does not compare the places of errors.
func compareWithParser(t rapid.TB, text string) {
	o, refused := read(text)
	parsed, wantErr := parse(text)
	switch {
	case refused == nil && wantErr == nil:
		if got, want := linesOf(o), linesOfTree(parsed); !slices.Equal(got, want) {
			t.Fatalf("read(%q) =\n%s\nwant as gqlparser\n%s", text, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	case refused == nil || wantErr == nil:
		// After three dots, gqlparser alone accepts "on" in quotation marks.
		if wantErr == nil && strings.Contains(text, `"on"`) {
			return
		}
		if wantErr == nil && numberAndName.MatchString(text) {
			return
		}
		t.Fatalf("read(%q) refused = %v, want %v as gqlparser", text, refused, wantErr)
	case refused.Code != wantErr.Code && refused.Code != CodeValidation && wantErr.Code != CodeValidation:
		t.Fatalf("read(%q) refused = %v, want %v as gqlparser", text, refused, wantErr)
	}
}

// TestReadMatchesParser builds documents from pieces of the grammar. Most of them are invalid.
func TestReadMatchesParser(t *testing.T) {
	pieces := []string{
		"{", "}", "{a}", "{ a b: c }", "a", "b:", "on", "...", "...F", "...on T{f}", "...@d{g}", "(", ")", "(x:1)",
		"(x:$v y:[$v{}])", "($v:[T!]!=[1]@d(a:$v))", "($v:T=$w)",
		"@d", "@d(a:{b:null c:E})", "query", "query Q", "mutation", "subscription S", "fragment", "fragment F on T{h}",
		"fragment on on T{h}", "fragment G($v:T)on T", `"x"`, `"""x"""`,
		"1a", "0xF:", "1.0e", "1_:1", "(x:0b:1)", "[", "]", "!", "$", "$v", "=", "&", "|", "1", "-1.5e3", "01", "#c\n", ",",
		"\n", "&", "_", "é", "\\",
	}
	// Add documents that are drawn rarely.
	for _, document := range []string{
		"{ ... { a b } }", "{ a ... @d { g { h } } c }",
		"query Q { ... on T { f ... { k } } }",
	} {
		compareWithParser(t, document)
	}
	valid := 0
	rapid.Check(t, func(rt *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 9).Draw(rt, "pieces"), " ")
		for _, document := range []string{text, "{a " + text + "}", "query Q" + text + "{a}", "{a(b:" + text + ")}"} {
			compareWithParser(rt, document)
			if _, refused := read(document); refused == nil {
				valid++
			}
		}
	})
	if valid < 20 {
		t.Errorf("accepted documents = %d, want at least 20", valid)
	}
}

func TestTokensAreBounded(t *testing.T) {
	for _, test := range []struct {
		text string
		code string
	}{
		{"{" + strings.Repeat("a ", MaxTokens-2) + "}", ""},
		{"{" + strings.Repeat("a ", MaxTokens-1) + "}", CodeValidation},
		{strings.Repeat("#\n", MaxTokens-3) + "{a}", ""},
		{strings.Repeat("#\n", MaxTokens-2) + "{a}", CodeValidation},
	} {
		_, refused := read(test.text)
		if _, wantErr := parse(test.text); (refused == nil) != (wantErr == nil) {
			t.Errorf("read(%.10s) refused = %v, want %v as gqlparser", test.text, refused, wantErr)
		}
		if refused == nil && test.code != "" || refused != nil && refused.Code != test.code {
			t.Errorf("read(%.10s) refused = %v, want code %q", test.text, refused, test.code)
		}
	}
}

func TestNumbersEndBeforeNames(t *testing.T) {
	for _, text := range []string{"{a(x:1a:2)}", "{a(x:0xF:2)}", "{a(x:[1.5_])}", "query($v:T=1on:1){a}"} {
		if _, refused := read(text); refused == nil || refused.Code != CodeParse {
			t.Errorf("read(%s) refused = %v, want code %q", text, refused, CodeParse)
		}
	}
	if _, refused := read("{a(x:1 a:2,b:[1 a]c:1#\nd:-0.5e1,e:1)}"); refused != nil {
		t.Errorf("read() refused = %v, want no refusal", refused)
	}
}
