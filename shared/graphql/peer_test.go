package graphql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/graphql/graphqltest"
)

// fieldsOf lists a document as graphqltest.Parsed does.
func fieldsOf(o *outline) []string {
	var names []string
	for _, s := range o.selections {
		switch s.kind {
		case field:
			names = append(names, s.name)
		case spread:
			names = append(names, "..."+s.name)
		case inline:
		}
	}
	return names
}

// TestGraphQLJSReadsWhatIsTakenInTheSameWay makes documents of the pieces that lexers disagree
// about: whatever is taken here, GraphQL.js finds the same fields in, or takes not at all.
func TestGraphQLJSReadsWhatIsTakenInTheSameWay(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	both := 0
	compare := func(t rapid.TB, document string) {
		o, refused := read(document)
		if refused != nil {
			return
		}
		theirs, reason := oracle.Parse(document)
		if reason != "" {
			return
		}
		both++
		if got := fieldsOf(o); !slices.Equal(got, theirs.Fields) || len(o.operations) != theirs.Operations {
			t.Fatalf("%q: here %q, there %q", document, got, theirs.Fields)
		}
	}
	// Where a parser ends a block string at the last of four quotation marks, the rest up to the
	// next one is text for it.
	bypass := `{a(b:["""c"""","]) __schema{types{name}} } #"])}`
	if theirs, reason := oracle.Parse(bypass); reason != "" || !slices.Contains(theirs.Fields, "__schema") {
		t.Fatalf("GraphQL.js finds %q in the bypass, %s", theirs.Fields, reason)
	}
	if _, refused := read(bypass); refused == nil {
		t.Fatal("the bypass is taken")
	}
	pieces := []string{
		`"`, `""`, `"""`, `""""`, `\`, `\\`, `\"`, `\"""`, `\u0041`, `\u{41}`, "\n", "\r", "\r\n", " ", ",", "#", "\ufeff", "\u2028", "\u0085",
		"a", "b:", "__schema{c}", "{d}", "}", "{", "[", "]", "(x:", ")", "...F", "...{e}", "...on T{f}", "@g", "1", "-1.5e3", "$v", "é", "\t",
	}
	shapes := []string{"{%s}", `{a(b:[%s])c}`, `{a(b:"%s")c}`, `{a(b:"""%s""")c}`, "{a #%s\nb}", "{a(b:{c:%s})d}", "query Q(%s){a}", "{a%s b}fragment F on T{g}"}
	rapid.Check(t, func(rt *rapid.T) {
		inner := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(rt, "pieces"), "")
		compare(rt, fmt.Sprintf(rapid.SampledFrom(shapes).Draw(rt, "shape"), inner))
	})
	if both < 5 {
		t.Errorf("only %d documents were taken by both", both)
	}
}

// TestIntrospectionIsFoundWhereGraphQLJSExecutesIt asks a server with documents of all kinds: where its
// answer has something of the introspection, it was found in the document.
func TestIntrospectionIsFoundWhereGraphQLJSExecutesIt(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	// executed reports whether GraphQL.js answers an introspection; we have to have found it then.
	executed := func(document, operation string) (bool, error) {
		answer := string(oracle.Execute(document, operation))
		if !strings.Contains(answer, `{"name":"Query"}`) && !strings.Contains(answer, `{"name":"User"}`) {
			return false, nil
		}
		if d, refused := Analyse(document, nil); refused == nil && d.Introspects == (Location{}) {
			return true, fmt.Errorf("%s was answered %s", document, answer)
		}
		return true, nil
	}
	for _, document := range []string{"{__schema{queryType{name}}}", "{...on Query{a:__schema{queryType{name}}}}", `query A{me{id}}query B{__type(name:"User"){name} @skip(if:false)}`, `query A{me{id}}query B{__type(name:"User") @skip(if:false){name}}`} {
		operation := ""
		if strings.Contains(document, "query B") {
			operation = "B"
		}
		if does, err := executed(document, operation); err != nil || does == strings.Contains(document, "} @skip") {
			t.Errorf("%s is executed: %t, %v", document, does, err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(rt, "piece") }
		field := pick(`__schema{queryType{name}}`, `a:__schema{queryType{name}}`, `__type(name:"User"){name}`, `me:note(text:"__schema")`, "__typename", "...__schema", "__\\u0073chema{queryType{name}}")
		field += pick("", " @skip(if:false)", " @include(if:true)", "\n", "#", ",")
		document := fmt.Sprintf(pick("{%s}", "query __schema{%s}", "query A{me{id}}query B{%s}", "{...on Query{%s}}", "{me{name}%s}", "{me{...{id}} ...{%s}}"), field)
		document += pick("", "\n}", " fragment __schema on Query{b:__schema{queryType{name}}}", " fragment __schema on Query{me{id}}")
		operation := ""
		if strings.Contains(document, "query B") {
			operation = "B"
		}
		if _, err := executed(document, operation); err != nil {
			rt.Fatal(err)
		}
	})
}
