package graphql

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDocumentCosts checks edge cases. TestDocumentedExamples checks the ordinary examples of docs/graphql.md.
func TestDocumentCosts(t *testing.T) {
	for _, test := range []struct {
		name, text        string
		depth, complexity int
	}{
		{"only __typename", "{__typename}", 0, 0},
		{"__typename deep down", "{a{__typename}}", 1, 1},
		{"an alias of __typename", "{a:__typename}", 0, 0},
		{"an alias called __typename", "{__typename:a}", 0, 1},
		{"a selection of __typename", "{__typename{a}}", 1, 1},
		{"skipped fields", "{a @skip(if:true){b} c @include(if:false)}", 1, 3},
		{"a directive with a variable", "query($x:Boolean!){a @include(if:$x){b{c}}}", 2, 3},
		{"a skipped fragment", "{...F @skip(if:true)} fragment F on T{a{b}}", 1, 2},
		{"aliases and repeats", "{a a b:a c:a{d}}", 1, 5},
		{"inline fragments", "{...{...on T{...@include(if:true){a{b}}}}}", 1, 2},
		{"a fragment named like a meta field", "{...__schema} fragment __schema on T{a{b{c}}}", 2, 3},
		{"a fragment named __typename", "{...__typename} fragment __typename on T{a{b{c}}}", 2, 3},
		{"an operation named like the introspection's", "query IntrospectionQuery{a{b{c}}}", 2, 3},
		{"introspection of the schema", "{__schema{types{fields{name}}}}", 0, 4},
		{"introspection of a type", "{a{b} __type(name:\"T\"){fields{type{name}}}}", 1, 6},
		{"fields with names like introspection", "{__schemas{a{b}} _type{a}}", 2, 5},
		{"a fragment deeper in one place than in another", "{a{...F} ...F} fragment F on T{b{c}}", 2, 5},
		{
			"a fragment spread before and after its definition", "{...A ...B} fragment B on T{x{...A}} fragment A on T{a{b}}", 2,
			5,
		},
		{"one fragment spread three times", "{...A ...A ...A} fragment A on T{a}", 0, 3},
		{"arguments with objects", `{a(x:{b:{c:[{d:1}]}} y:"{e{f}}")}`, 0, 1},
		{"a string with an end of selection", `{a(x:"}}") {b(y:"""}"""){c}}}`, 2, 3},
	} {
		d, refused := Analyze(test.text, nil)
		if refused != nil {
			t.Errorf("%s: Analyze() refused = %v, want no refusal", test.name, refused)
			continue
		}
		if o := d.Operations[0]; o.Depth != test.depth || o.Complexity != test.complexity {
			t.Errorf("%s: Analyze() = depth %d, complexity %d, want %d, %d",
				test.name, o.Depth, o.Complexity, test.depth, test.complexity)
		}
	}
}

func TestDoublingFragmentsAreCountedExactly(t *testing.T) {
	doubling := func(n int) string {
		var b strings.Builder
		b.WriteString("{...F0}")
		for i := range n {
			fmt.Fprintf(&b, "fragment F%d on T{...F%d ...F%d}", i, i+1, i+1)
		}
		fmt.Fprintf(&b, "fragment F%d on T{a}", n)
		return b.String()
	}
	for n, want := range map[int]int{
		0: 1, 1: 2, 20: 1 << 20, 52: 1 << 52, 53: MaxComplexity, 63: MaxComplexity,
		64: MaxComplexity, 500: MaxComplexity,
	} {
		d, refused := Analyze(doubling(n), nil)
		if refused != nil {
			t.Fatalf("Analyze() refused = %v, want no refusal", refused)
		}
		if got := d.Operations[0].Complexity; got != want {
			t.Errorf("complexity with %d doublings = %d, want %d", n, got, want)
		}
	}
}

// TestUncountedSelectionsAreBounded checks that chains of fragments that each spread the next one twice are refused,
// even if complexity counts none of their fields. Some servers visit a fragment each time that it is spread.
func TestUncountedSelectionsAreBounded(t *testing.T) {
	doubling := func(n int, last string) string {
		text := "query Q{...F0}"
		for i := range n {
			text += fmt.Sprintf("fragment F%d on T{...F%d ...F%d}", i, i+1, i+1)
		}
		return text + fmt.Sprintf("fragment F%d on T{%s}", n, last)
	}
	for name, test := range map[string]struct {
		document string
		refused  bool
	}{
		"a thousand selections": {doubling(10, "__typename"), false},
		"a million selections":  {doubling(20, "__typename"), true},
		"2^500 selections":      {doubling(500, "__typename"), true},
		"a million aliases":     {doubling(20, "a:__typename"), true},
		"inline fragments":      {doubling(14, "...{...{...{__typename}}}"), true},
		"fields":                {"query Q{" + strings.Repeat("a ", 10_000) + "}", false},
	} {
		d, refused := Analyze(test.document, nil)
		if refused != nil {
			t.Fatalf("Analyze() refused = %v, want no refusal", refused)
		}
		limitErr := d.CheckLimits(1000, -1)
		if (limitErr != nil) != test.refused || limitErr != nil &&
			(limitErr.Code != CodeComplexity || !strings.Contains(limitErr.Message, "Q has more than 50000")) {
			t.Errorf("%s: CheckLimits() = %v, want refused = %t, with the code %s and the text %q",
				name, limitErr, test.refused, CodeComplexity, "Q has more than 50000")
		}
	}
}

func TestEachOperationIsCounted(t *testing.T) {
	d, refused := Analyze("query A{a} mutation B{a{b}} subscription C{...F} fragment F on T{a{b{c}}}", nil)
	if refused != nil {
		t.Fatalf("Analyze() refused = %v, want no refusal", refused)
	}
	var got []string
	for _, o := range d.Operations {
		got = append(got, fmt.Sprint(o.Type, o.Name, o.Depth, o.Complexity))
	}
	if want := []string{"queryA0 1", "mutationB1 2", "subscriptionC2 3"}; !slices.Equal(got, want) {
		t.Errorf("Analyze() operations = %q, want %q", got, want)
	}
	for name, want := range map[string]string{"A": "query", "B": "mutation", "": "", "D": ""} {
		got := ""
		if o := d.Operation(name); o != nil {
			got = o.Type
		}
		if got != want {
			t.Errorf("Operation(%q) type = %q, want %q", name, got, want)
		}
	}
}

func TestIgnoredNamesAddNoDepth(t *testing.T) {
	d, refused := Analyze("{a{edges{node{edges{node{b}}}}}}", []string{"edges", "node"})
	if refused != nil {
		t.Fatalf("Analyze() refused = %v, want no refusal", refused)
	}
	if o := d.Operations[0]; o.Depth != 1 || o.Complexity != 6 {
		t.Errorf("Analyze() = depth %d, complexity %d, want 1, 6", o.Depth, o.Complexity)
	}
}

// TestInvalidDocumentsAreRefused checks documents that are refused independent of a route's limits. It also checks
// unusual documents that must not be refused.
func TestInvalidDocumentsAreRefused(t *testing.T) {
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	for name, test := range map[string]struct {
		text, code, message string
		line, column        int
	}{
		"an empty document":   {"", CodeValidation, "no operation", 0, 0},
		"only fragments":      {"fragment F on T{a}", CodeValidation, "no operation", 0, 0},
		"truncated GraphQL":   {"{a\n  b c(", CodeParse, "line 2, column 7", 2, 7},
		"a schema":            {"type A{b:C}", CodeParse, "line 1", 1, 1},
		"an unknown fragment": {"{a}\n{ ...F }", CodeValidation, "no fragment", 2, 6},
		"an unknown fragment in an unused fragment": {"{a} fragment F on T{...G}", CodeValidation, "no fragment", 1, 24},
		"a fragment that spreads itself": {
			"{...F} fragment F on T{a{...F}}", CodeValidation, "spreads itself", 1, 29,
		},
		"two fragments that spread each other": {
			"{...F} fragment F on T{...G} fragment G on T{...F}", CodeValidation, "spreads itself", 1, 49,
		},
		"an unused fragment that spreads itself": {"{a} fragment F on T{...F}", CodeValidation, "spreads itself", 1, 24},
		"two fragments of one name": {
			"{...F} fragment F on T{a} fragment F on T{a{b}}", CodeValidation, "two fragments", 1, 27,
		},
		"too many tokens":   {"{" + strings.Repeat("a ", MaxTokens-1) + "}", CodeValidation, "15000 tokens", 0, 0},
		"too many comments": {strings.Repeat("#\n", MaxTokens) + "{a}", CodeValidation, "15000 tokens", 0, 0},
		"deep selections":   {deep("{a", "}", MaxNesting+1), CodeValidation, "nested deeper", 1, 2*MaxNesting + 1},
		"deep lists": {
			"{a(b:" + deep("[", "]", MaxNesting) + ")}", CodeValidation, "nested deeper", 1, 6 + MaxNesting - 2,
		},
		"deep objects": {"{a(b:" + strings.Repeat("{c:", MaxNesting) + "1" + strings.Repeat("}",
			MaxNesting) + ")}", CodeValidation, "nested deeper", 1, 6 + 3*(MaxNesting-2)},
		"a hundred thousand selections": {
			strings.Repeat("{a", 100_000), CodeValidation, "nested deeper", 1, 2*MaxNesting + 1,
		},
		"quotation marks after a block string": {
			`{a(b:["""c"""",") __schema{types{name}} #"])}`, CodeParse, "quotation mark right behind", 1, 14,
		},
		"a backslash before an escape":           {`{a(b:"""c\\""" """)}`, CodeParse, "block string", 1, 10},
		"a block string without end":             {"{a(b:\"\"\"c", CodeParse, "does not end", 1, 6},
		"an unusual line separator in a comment": {"{a #\u2028 __schema{types{name}}\n}", CodeParse, "line separator", 1, 5},
		"a byte order mark in the middle":        {"{a\ufeffb}", CodeParse, "byte order mark", 1, 3},
		"a name with non-ASCII letters":          {"{\u0430}", CodeParse, "line 1, column 2", 1, 2},
		"an escape in a name":                    {`{__sch\u0065ma{types{name}}}`, CodeParse, "line 1", 1, 7},
		"NUL":                                    {"{a\x00}", CodeParse, "line 1", 1, 3},
		"a string with a line end":               {"{a(b:\"c\nd\")}", CodeParse, "line 1", 1, 8},
		"an unknown fragment on the second line": {"{\n  a\n  ...F\n}", CodeValidation, "no fragment", 3, 6},
	} {
		t.Run(name, func(t *testing.T) {
			_, refused := Analyze(test.text, nil)
			if refused == nil {
				t.Fatalf("Analyze() = no refusal, want %s", test.code)
			}
			if refused.Code != test.code || !strings.Contains(refused.Message, test.message) ||
				refused.At != (Location{test.line, test.column}) {
				t.Errorf("Analyze() refused = %s %+v %q, want %s {%d %d} %q",
					refused.Code, refused.At, refused.Message, test.code, test.line, test.column, test.message)
			}
		})
	}
	for name, text := range map[string]string{
		"the maximum number of tokens": "{" + strings.Repeat("a ", MaxTokens-2) + "}",
		"the maximum depth":            strings.Repeat("{a", MaxNesting) + strings.Repeat("}", MaxNesting),
		"brackets in strings": `{a(b:"` + strings.Repeat("{", 500) + `" c:"""` + strings.Repeat("[", 500) + `""")} #` +
			strings.Repeat("(", 500),
		"an empty string":                    `{a(b:"" c:"""""" d:"\"" e:"""\"""""")}`,
		"a byte order mark at the beginning": "\ufeff{a}",
		"commas and spaces":                  "{" + strings.Repeat(", \n", 30_000) + "a}",
	} {
		if _, refused := Analyze(text, nil); refused != nil {
			t.Errorf("%s: Analyze() refused = %v, want no refusal", name, refused)
		}
	}
}

// TestIntrospectionIsFound checks documents with introspection, and documents that only seem to have it.
func TestIntrospectionIsFound(t *testing.T) {
	for text, want := range map[string]bool{
		"{__schema{types{name}}}":                        true,
		"{a:__schema{types{name}}}":                      true,
		`{__type(name:"T"){name}}`:                       true,
		"{a{b} ...F} fragment F on Query{__schema{a}}":   true,
		"{a} fragment F on Query{__schema{a}}":           true,
		"mutation{a{query{__schema{a}}}}":                true,
		"query A{a} query B{__type{a}}":                  true,
		"{...on Query @skip(if:true){__schema{a}}}":      true,
		"{a{__typename}}":                                false,
		"{__schema:a}":                                   false,
		`{a(b:"__schema{types{name}}")}`:                 false,
		`{a(b:"""__schema""")} # __schema{types{name}}`:  false,
		"query __schema{a}":                              false,
		"{...__schema} fragment __schema on Query{a}":    false,
		"query($__schema:__schema){a(__type:$__schema)}": false,
		"{a @__schema}":                                  false,
		"{__Schema _schema __schemas ___schema}":         false,
	} {
		d, refused := Analyze(text, nil)
		if refused != nil {
			t.Fatalf("Analyze(%s) refused = %v, want no refusal", text, refused)
		}
		if got := d.IntrospectionAt != (Location{}); got != want {
			t.Errorf("Analyze(%s) finds introspection = %v, want %v", text, got, want)
		}
	}
}

func TestNestedIntrospectionListsAreFound(t *testing.T) {
	for text, want := range map[string]bool{
		"{__schema{types{fields{type{name}}}}}":                                                        false,
		"{__schema{types{fields{type{fields{name}}}}}}":                                                false,
		"{__schema{types{fields{type{fields{type{fields{name}}}}}}}}":                                  true,
		"{__schema{types{...F}}} fragment F on __Type{possibleTypes{interfaces{a:inputFields{name}}}}": true,
		"{fields{fields{fields{a}}}}":                                                                  false,
	} {
		d, refused := Analyze(text, nil)
		if refused != nil {
			t.Fatalf("Analyze(%s) refused = %v, want no refusal", text, refused)
		}
		if got := d.DeepIntrospectionAt != (Location{}); got != want {
			t.Errorf("Analyze(%s) finds deep introspection = %v, want %v", text, got, want)
		}
	}
}
