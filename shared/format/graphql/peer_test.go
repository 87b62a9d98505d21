package graphql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/graphql/graphqltest"
)

// fieldsOf returns the fields and spreads of a document, in the format of graphqltest.Parsed.
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

// TestAcceptedDocumentsMatchGraphQLJS builds documents from texts that lexers read differently. In
// every document that read accepts, GraphQL.js must find the same fields, or refuse the document.
func TestAcceptedDocumentsMatchGraphQLJS(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	agreed := 0
	compare := func(t rapid.TB, document string) {
		o, refused := read(document)
		if refused != nil {
			return
		}
		want, reason := oracle.Parse(document)
		if reason != "" {
			return
		}
		agreed++
		if got := fieldsOf(o); !slices.Equal(got, want.Fields) || len(o.operations) != want.Operations {
			t.Fatalf("%q: %d operations with fields %q, want %d with %q as in GraphQL.js",
				document, len(o.operations), got, want.Operations, want.Fields)
		}
	}
	// A parser that ends a block string at the last of four quotation marks reads everything up to the next quotation mark
	// as text.
	bypass := `{a(b:["""c"""","]) __schema{types{name}} } #"])}`
	if want, reason := oracle.Parse(bypass); reason != "" || !slices.Contains(want.Fields, "__schema") {
		t.Fatalf("fields that GraphQL.js finds in the bypass = %q, %s, want __schema", want.Fields, reason)
	}
	if _, refused := read(bypass); refused == nil {
		t.Fatal("read(bypass) = no refusal, want one")
	}
	pieces := []string{
		`"`, `""`, `"""`, `""""`, `\`, `\\`, `\"`, `\"""`, `\u0041`, `\u{41}`, "\n", "\r", "\r\n", " ", ",", "#", "\ufeff",
		"\u2028", "\u0085",
		"a", "b:", "__schema{c}", "{d}", "}", "{", "[", "]", "(x:", ")", "...F", "...{e}", "...on T{f}", "@g", "1", "-1.5e3",
		"$v", "é", "\t",
	}
	shapes := []string{
		"{%s}", `{a(b:[%s])c}`, `{a(b:"%s")c}`, `{a(b:"""%s""")c}`, "{a #%s\nb}", "{a(b:{c:%s})d}",
		"query Q(%s){a}", "{a%s b}fragment F on T{g}",
	}
	rapid.Check(t, func(rt *rapid.T) {
		inner := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(rt, "pieces"), "")
		compare(rt, fmt.Sprintf(rapid.SampledFrom(shapes).Draw(rt, "shape"), inner))
	})
	if agreed < 5 {
		t.Errorf("documents that both accept = %d, want at least 5", agreed)
	}
}

// TestIntrospectionMatchesGraphQLJS sends all kinds of documents to a server:
// if its response contains introspection, Analyze must have found it in the document.
func TestIntrospectionMatchesGraphQLJS(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	// hasIntrospection reports whether the response of GraphQL.js contains introspection.
	// If so, it returns an error unless Analyze finds the introspection in the document.
	hasIntrospection := func(document, operation string) (bool, error) {
		response := string(oracle.Execute(document, operation))
		if !strings.Contains(response, `{"name":"Query"}`) && !strings.Contains(response, `{"name":"User"}`) {
			return false, nil
		}
		if d, refused := Analyze(document, nil); refused == nil && d.IntrospectionAt == (Location{}) {
			return true, fmt.Errorf("Analyze(%s) finds no introspection, want it found: the response is %s",
				document, response)
		}
		return true, nil
	}
	for _, document := range []string{
		"{__schema{queryType{name}}}", "{...on Query{a:__schema{queryType{name}}}}",
		`query A{me{id}}query B{__type(name:"User"){name} @skip(if:false)}`,
		`query A{me{id}}query B{__type(name:"User") @skip(if:false){name}}`,
	} {
		operation := ""
		if strings.Contains(document, "query B") {
			operation = "B"
		}
		if introspects, err := hasIntrospection(document, operation); err != nil ||
			introspects == strings.Contains(document, "} @skip") {
			t.Errorf("%s: GraphQL.js introspects = %t, %v, want %t and no error",
				document, introspects, err, !strings.Contains(document, "} @skip"))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(choices ...string) string { return rapid.SampledFrom(choices).Draw(rt, "piece") }
		field := pick(`__schema{queryType{name}}`, `a:__schema{queryType{name}}`, `__type(name:"User"){name}`,
			`me:note(text:"__schema")`, "__typename", "...__schema", "__\\u0073chema{queryType{name}}")
		field += pick("", " @skip(if:false)", " @include(if:true)", "\n", "#", ",")
		document := fmt.Sprintf(pick("{%s}", "query __schema{%s}", "query A{me{id}}query B{%s}", "{...on Query{%s}}",
			"{me{name}%s}", "{me{...{id}} ...{%s}}"), field)
		document += pick("", "\n}", " fragment __schema on Query{b:__schema{queryType{name}}}",
			" fragment __schema on Query{me{id}}")
		operation := ""
		if strings.Contains(document, "query B") {
			operation = "B"
		}
		if _, err := hasIntrospection(document, operation); err != nil {
			rt.Fatal(err)
		}
	})
}
