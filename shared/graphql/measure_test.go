package graphql

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/graphql/graphqltest"
)

// documents draws documents that GraphQL.js takes, but for what bends them in the end.
type documents struct {
	t         *rapid.T
	fragments []string
}

func (d *documents) of(choices ...string) string {
	return rapid.SampledFrom(choices).Draw(d.t, "piece")
}

func (d *documents) chance(of int) bool { return rapid.IntRange(0, of-1).Draw(d.t, "chance") == 0 }

func (d *documents) name() string {
	return d.of("a", "me", "__typename", "__schema", "__type", "fields", "type", "on", "query", "fragment", "edges", "node", "true", "null", "_", "__x", "subscription", "input")
}

func (d *documents) space() string {
	return d.of(" ", " ", " ", "\n", "\r\n", ",", "\t", " , ,", "#{__schema}\n", "# \"\"\" é\r", "\r")
}

func (d *documents) value(levels int, constant bool) string {
	choices := []string{
		"1", "-0", "1.5e3", "true", "null", "ENUM", `""`, `"{a{b}}"`, `"\"}"`, `"\\"`, `"\u005f\u005fschema"`, `"\u{1F600}"`, `"😀é"`, `"\uD83D\uDE00"`,
		`"""{a}"""`, "\"\"\"\n  a\r\n  b\n\"\"\"", `"""\"""}"""`, `""""quoted" """`, `"""a\b"""`, `""""""`, `"#"`, `""" # """`, "\"\t\"",
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
	return d.of(choices...)
}

func (d *documents) arguments(constant bool) string {
	if !d.chance(4) {
		return ""
	}
	var out strings.Builder
	for range rapid.IntRange(1, 2).Draw(d.t, "arguments") {
		out.WriteString(d.name() + ":" + d.value(2, constant) + d.space())
	}
	return "(" + out.String() + ")"
}

func (d *documents) directives(constant bool) string {
	if !d.chance(5) {
		return ""
	}
	return " @" + d.of("skip", "include", "on", "defer", "a") + d.arguments(constant) + d.space()
}

func (d *documents) selections(levels int) string {
	var out strings.Builder
	out.WriteString("{" + d.of("", " ", "\n"))
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
				out.WriteString(d.name() + d.of(":", " : ", ":#\n"))
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

func (d *documents) variables() string {
	if !d.chance(4) {
		return ""
	}
	out := "(" + d.of("", `"what it is" `, `"""what""" `)
	for _, v := range []string{"$v", "$on"} {
		out += v + ":" + d.of("Int", "[Int!]!", "on", " [ [ A ] ! ]")
		if d.chance(2) {
			out += "=" + d.value(1, true)
		}
		out += d.directives(true) + d.space()
	}
	return out + ")"
}

func (d *documents) document() string {
	for range rapid.IntRange(0, 4).Draw(d.t, "fragments") {
		d.fragments = append(d.fragments, d.of("F", "G", "H", "I", "J", "K", "__schema", "query", "fragment"))
	}
	var definitions []string
	for range rapid.IntRange(1, 3).Draw(d.t, "operations") {
		head := ""
		if !d.chance(3) {
			head = d.of("", "", "", `"described" `, "\"\"\"described\"\"\"\n") + d.of("query", "mutation", "subscription") + " " + d.of("", "A", "B", "on", "query", "fragment") + d.variables() + d.directives(false)
		}
		definitions = append(definitions, head+d.selections(3))
	}
	declared := d.fragments
	if d.chance(10) {
		d.fragments = append(d.fragments, "Nowhere")
	}
	for i, name := range declared {
		cyclic := d.fragments
		if !d.chance(10) { // as a rule they spread later ones alone
			d.fragments = declared[i+1:]
		}
		definitions = append(definitions, d.of("", "", "", `"described"`)+"fragment "+name+d.of(" ", "\n")+"on "+d.name()+d.directives(false)+d.selections(2))
		d.fragments = cyclic
	}
	return d.of("", "", "\ufeff", "#c\n") + strings.Join(rapid.Permutation(definitions).Draw(d.t, "order"), d.space())
}

// bent has something of a document left out, repeated or put in.
func (d *documents) bent(document string) string {
	if !d.chance(3) {
		return document
	}
	runes := []rune(document)
	at := rapid.IntRange(0, len(runes)).Draw(d.t, "at")
	rest := min(at+rapid.IntRange(0, 2).Draw(d.t, "left out"), len(runes))
	return string(runes[:at]) + d.of("", "{", "}", "a", "...", "$", "!", `"`, `"""`, "\\", "@", "(", ")", "[", ":", "=", "&", "|", "1", ".", "-", "0", "e", "\u2028", "é", "\x7f", "_", "%") + string(runes[rest:])
}

// TestCostsAreWhatTheRulesSay counts drawn documents by a second hand, on the parser of the reference
// implementation: whatever is taken here costs the same there, and is taken there.
func TestCostsAreWhatTheRulesSay(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	both := 0
	rapid.Check(t, func(rt *rapid.T) {
		d := &documents{t: rt}
		document := d.bent(d.document())
		ignored := rapid.SampledFrom([][]string{{}, {"edges", "node"}}).Draw(rt, "ignored")
		theirs, syntax := oracle.Measure(document, ignored)
		ours, refused := Analyse(document, ignored)
		if refused != nil {
			why := ""
			if syntax == "" && theirs.Invalid == "" {
				why = refused.Message
			}
			if why != "" && !strings.Contains(why, "which servers read in different ways") {
				rt.Fatalf("%q is refused: %s", document, why)
			}
			if theirs.Invalid != "" && refused.Code != CodeValidation && !strings.Contains(refused.Message, "different ways") && theirs.Invalid != "not executable" {
				rt.Fatalf("%q is refused as %s, there as %s", document, refused.Code, theirs.Invalid)
			}
			return
		}
		if strings.Contains(syntax, "Invalid Unicode escape sequence") {
			return // half a pair is a character until the draft of 2025
		}
		if syntax != "" || theirs.Invalid != "" {
			rt.Fatalf("%q is taken, there refused: %s%s", document, syntax, theirs.Invalid)
		}
		both++
		var got []graphqltest.MeasuredOperation
		for _, o := range ours.Operations {
			got = append(got, graphqltest.MeasuredOperation{Name: o.Name, Type: o.Type, Depth: o.Depth, Complexity: o.Complexity})
		}
		if fmt.Sprint(got) != fmt.Sprint(theirs.Operations) || theirs.Introspects != (ours.Introspects != Location{}) {
			rt.Fatalf("%q: %v %v, there %v %v", document, got, ours.Introspects, theirs.Operations, theirs.Introspects)
		}
	})

	if both < 20 {
		t.Errorf("only %d documents were taken by both", both)
	}
}
