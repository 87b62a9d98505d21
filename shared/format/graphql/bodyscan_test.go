package graphql

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/graphql/graphqltest"
)

// documentGenerator draws documents with a valid syntax, unless mutate changes them at the end. Some documents spread
// unknown fragments, or have fragments that spread themselves.
type documentGenerator struct {
	t         *rapid.T
	fragments []string
}

func (d *documentGenerator) choose(choices ...string) string {
	return rapid.SampledFrom(choices).Draw(d.t, "piece")
}

// chance returns true in one of n cases.
func (d *documentGenerator) chance(n int) bool {
	return rapid.IntRange(0, n-1).Draw(d.t, "chance") == 0
}

func (d *documentGenerator) name() string {
	return d.choose("a", "me", "__typename", "__schema", "__type", "fields", "type", "on", "query", "fragment", "edges",
		"node", "true", "null", "_", "__x", "subscription", "input")
}

func (d *documentGenerator) space() string {
	return d.choose(" ", " ", " ", "\n", "\r\n", ",", "\t", " , ,", "#{__schema}\n", "# \"\"\" é\r", "\r")
}

func (d *documentGenerator) value(levels int, constant bool) string {
	choices := []string{
		"1", "-0", "1.5e3", "true", "null", "ENUM", `""`, `"{a{b}}"`, `"\"}"`, `"\\"`, `"\u005f\u005fschema"`, `"\u{1F600}"`,
		`"😀é"`, `"\uD83D\uDE00"`,
		`"""{a}"""`, "\"\"\"\n  a\r\n  b\n\"\"\"", `"""\"""}"""`, `""""quoted" """`, `"""a\b"""`, `""""""`, `"#"`,
		`""" # """`, "\"\t\"",
	}
	if !constant {
		choices = append(choices, "$v", "$on")
	}
	if levels > 0 && d.chance(3) {
		var inner []string
		for range rapid.IntRange(0, 2).Draw(d.t, "values") {
			inner = append(inner, d.value(levels-1, constant))
		}
		if d.chance(2) {
			return "[" + strings.Join(inner, d.space()) + "]"
		}
		for i := range inner {
			inner[i] = d.name() + ":" + inner[i]
		}
		return "{" + strings.Join(inner, d.space()) + "}"
	}
	return d.choose(choices...)
}

func (d *documentGenerator) arguments(constant bool) string {
	if !d.chance(4) {
		return ""
	}
	var out strings.Builder
	for range rapid.IntRange(1, 2).Draw(d.t, "arguments") {
		out.WriteString(d.name() + ":" + d.value(2, constant) + d.space())
	}
	return "(" + out.String() + ")"
}

func (d *documentGenerator) directives(constant bool) string {
	if !d.chance(5) {
		return ""
	}
	return " @" + d.choose("skip", "include", "on", "defer", "a") + d.arguments(constant) + d.space()
}

func (d *documentGenerator) selections(levels int) string {
	var out strings.Builder
	out.WriteString("{" + d.choose("", " ", "\n"))
	for range rapid.IntRange(1, 3).Draw(d.t, "selections") {
		switch {
		case len(d.fragments) > 0 && d.chance(4):
			out.WriteString("..." + d.space() + rapid.SampledFrom(d.fragments).Draw(d.t, "spread") + d.directives(false))
		case levels > 0 && d.chance(5):
			condition := ""
			if d.chance(2) {
				condition = " on " + d.name()
			}
			out.WriteString("..." + condition + d.directives(false) + d.selections(levels-1))
		default:
			if d.chance(4) {
				out.WriteString(d.name() + d.choose(":", " : ", ":#\n"))
			}
			out.WriteString(d.name() + d.arguments(false) + d.directives(false))
			if levels > 0 && d.chance(2) {
				out.WriteString(d.selections(levels - 1))
			}
		}
		out.WriteString(d.space())
	}
	return out.String() + "}"
}

func (d *documentGenerator) variables() string {
	if !d.chance(4) {
		return ""
	}
	out := "(" + d.choose("", `"what it is" `, `"""what""" `)
	for _, v := range []string{"$v", "$on"} {
		out += v + ":" + d.choose("Int", "[Int!]!", "on", " [ [ A ] ! ]")
		if d.chance(2) {
			out += "=" + d.value(1, true)
		}
		out += d.directives(true) + d.space()
	}
	return out + ")"
}

func (d *documentGenerator) document() string {
	for range rapid.IntRange(0, 4).Draw(d.t, "fragments") {
		d.fragments = append(d.fragments, d.choose("F", "G", "H", "I", "J", "K", "__schema", "query", "fragment"))
	}
	var definitions []string
	for range rapid.IntRange(1, 3).Draw(d.t, "operations") {
		head := ""
		if !d.chance(3) {
			head = d.choose("", "", "", `"described" `, "\"\"\"described\"\"\"\n") + d.choose("query", "mutation",
				"subscription") + " " + d.choose("", "A", "B", "on", "query", "fragment") + d.variables() + d.directives(false)
		}
		definitions = append(definitions, head+d.selections(3))
	}
	declared := d.fragments
	if d.chance(10) {
		d.fragments = append(d.fragments, "Nowhere")
	}
	for i, name := range declared {
		all := d.fragments
		if !d.chance(10) { // usually, fragments spread only later fragments
			d.fragments = declared[i+1:]
		}
		definitions = append(definitions, d.choose("", "", "", `"described"`)+"fragment "+name+d.choose(" ", "\n")+"on "+
			d.name()+d.directives(false)+d.selections(2))
		d.fragments = all
	}
	return d.choose("", "", "\ufeff", "#c\n") + strings.Join(rapid.Permutation(definitions).Draw(d.t, "order"), d.space())
}

// mutate sometimes removes, repeats or inserts a part of a document.
func (d *documentGenerator) mutate(document string) string {
	if !d.chance(3) {
		return document
	}
	runes := []rune(document)
	at := rapid.IntRange(0, len(runes)).Draw(d.t, "at")
	tail := min(at+rapid.IntRange(0, 2).Draw(d.t, "left out"), len(runes))
	return string(runes[:at]) + d.choose("", "{", "}", "a", "...", "$", "!", `"`, `"""`, "\\", "@", "(", ")", "[", ":",
		"=", "&", "|", "1", ".", "-", "0", "e", "\u2028", "é", "\x7f", "_", "%") + string(runes[tail:])
}

// TestCostsMatchReferenceImplementation compares the costs of drawn documents with those of measure.mjs, which
// uses the parser of GraphQL.js. Every document that Analyze accepts must be valid there and have the same cost.
func TestCostsMatchReferenceImplementation(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	agreed := 0
	rapid.Check(t, func(rt *rapid.T) {
		d := &documentGenerator{t: rt}
		document := d.mutate(d.document())
		ignored := rapid.SampledFrom([][]string{{}, {"edges", "node"}}).Draw(rt, "ignored")
		reference, syntax := oracle.Measure(document, ignored)
		result, refused := Analyze(document, ignored)
		if refused != nil {
			reason := ""
			if syntax == "" && reference.Invalid == "" {
				reason = refused.Message
			}
			if reason != "" && !strings.Contains(reason, "which servers read in different ways") {
				rt.Fatalf("Analyze(%q) refused = %s, want no refusal as in the reference implementation", document, reason)
			}
			if reference.Invalid != "" && refused.Code != CodeValidation &&
				!strings.Contains(refused.Message, "different ways") && reference.Invalid != "not executable" {
				rt.Fatalf("Analyze(%q) refused = %s, want %s for the %q of the reference implementation",
					document, refused.Code, CodeValidation, reference.Invalid)
			}
			return
		}
		if strings.Contains(syntax, "Invalid Unicode escape sequence") {
			return // GraphQL.js implements a draft of 2025, which no longer allows half of a surrogate pair
		}
		if syntax != "" || reference.Invalid != "" {
			rt.Fatalf("Analyze(%q) = no refusal, want one as in the reference implementation: %s%s",
				document, syntax, reference.Invalid)
		}
		agreed++
		var got []graphqltest.MeasuredOperation
		for _, o := range result.Operations {
			got = append(got, graphqltest.MeasuredOperation{
				Name: o.Name, Type: o.Type, Depth: o.Depth,
				Complexity: o.Complexity,
			})
		}
		if fmt.Sprint(got) != fmt.Sprint(reference.Operations) ||
			reference.Introspects != (result.IntrospectionAt != Location{}) {
			rt.Fatalf("Analyze(%q) = %v, introspection at %v, want %v, introspection %v",
				document, got, result.IntrospectionAt, reference.Operations, reference.Introspects)
		}
	})

	if agreed < 20 {
		t.Errorf("documents that both accept = %d, want at least 20", agreed)
	}
}
