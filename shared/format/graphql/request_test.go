package graphql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestNonASCIICharactersAreKept checks that Encode keeps characters that the plain form of the body does not have.
func TestNonASCIICharactersAreKept(t *testing.T) {
	for _, text := range []string{
		`{"query":"{é(a:\"日本\")}","operationName":"naïve","variables":{"é":"ü","è":["ä","ö\n",{"日":"本 и"}],` +
			`"x":"aaaaaaaé"},"extensions":{"ô":"😀"}}`,
		`[{"query":"#é\n{a}"},{"query":"{b}","variables":{"日" : "本"}}]`,
	} {
		body, refused := Decode([]byte(text))
		if refused != nil {
			t.Errorf("Decode(%s) refused = %v, want no refusal", text, refused)
			continue
		}
		written, refused := body.Encode()
		if got := string(written); refused != nil || got != text && got != strings.ReplaceAll(text, `"日" :`, `"日":`) {
			t.Errorf("encoding of the decoded %s = %s, %v, want the same text", text, got, refused)
		}
	}
	for _, text := range []string{
		"{\"query\":\"{a}\",\"variables\":{\"a\":\"\xff\"}}", "{\"query\":\"{a}\",\"variables\":{\"a\":\"\xc3\"}}",
		`{"query":"{a}","variables":{"a":"\é"}}`,
		`{"query":"{a}","variables":{"a":"\u00éé"}}`, `{"query":"{a}","variables":{"é":1,"é":2}}`,
		`{"query":"{a}","variables":{"a":é}}`, `{"query":"{a}"}é`, `{"query":"{a}","é`,
	} {
		body, refused := Decode([]byte(text))
		if refused == nil {
			_, refused = body.Encode()
		}
		if refused == nil || refused.Code != CodeParse {
			t.Errorf("refusal of %q = %v, want code %q", text, refused, CodeParse)
		}
	}
}

func TestBodyBounds(t *testing.T) {
	variables := func(value string) string { return `{"query":"{a}","variables":{"v":` + value + `}}` }
	names := func(n, size int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"%0*d":1`, size-1, i) // the first quotation mark counts as a byte of the name
		}
		return variables("{" + strings.Join(all, ",") + "}")
	}
	for _, test := range []struct {
		name  string
		body  string
		valid bool
	}{
		{"the maximum of escapes", variables(`"` + strings.Repeat(`\n`, MaxEscapes) + `"`), true},
		{"too many escapes", variables(`"` + strings.Repeat(`\"`, MaxEscapes+1) + `"`), false},
		{
			"too many escapes in several strings",
			variables(`["` + strings.Repeat(`\\`, MaxEscapes/2) + `","` + strings.Repeat(`\u0061`, MaxEscapes/2+1) + `"]`),
			false,
		},
		{"the maximum of bytes of names", names(1000, MaxNameBytes/1000), true},
		{"too many bytes of names", names(1000, MaxNameBytes/1000+1), false},
		{"a long operation name", `{"query":"{a}","operationName":"` + strings.Repeat("a", MaxDocumentBytes+1) + `"}`, false},
		{"large extensions", `{"query":"{a}","extensions":{"a":"` + strings.Repeat("a", maxQuotedBytes) + `"}}`, false},
		{"the longest document", `{"query":"{a}` + strings.Repeat(" ", MaxDocumentBytes-3) + `"}`, true},
		{"a document that is too long", `{"query":"{a}` + strings.Repeat(" ", MaxDocumentBytes-2) + `"}`, false},
		{"a document of escapes", `{"query":"{a}` + strings.Repeat(`\n`, MaxEscapes) + `"}`, true},
		{"the maximum of names", names(MaxNames-3, 8), true}, // including the names of the request's own members
		{"too many names", names(MaxNames-2, 8), false},
		{"the maximum of values", variables("[" + strings.Repeat("1,", MaxValues-2) + "1]"), true}, // including the query
		{"too many values", variables("[" + strings.Repeat("1,", MaxValues-1) + "1]"), false},
		{"the maximum of levels", variables(strings.Repeat("[", MaxNesting-2) + strings.Repeat("]", MaxNesting-2)), true},
		{"too many levels", variables(strings.Repeat("[", MaxNesting-1) + strings.Repeat("]", MaxNesting-1)), false},
		{
			"the longest extensions", `{"query":"{a}","extensions":{"a":"` + strings.Repeat("a", maxQuotedBytes-8) + `"}}`,
			true,
		},
		{"too long extensions", `{"query":"{a}","extensions":{"a":"` + strings.Repeat("a", maxQuotedBytes-7) + `"}}`, false},
		{"the largest batch", "[" + strings.Repeat(`{"query":"{a}"},`, MaxBatch-1) + `{"query":"{a}"}]`, true},
		{"a batch that is too large", "[" + strings.Repeat(`{"query":"{a}"},`, MaxBatch) + `{"query":"{a}"}]`, false},
		{"a large string", variables(`"` + strings.Repeat("é", 400_000) + `"`), true},
	} {
		if !json.Valid([]byte(test.body)) {
			t.Errorf("%s: the body is invalid JSON, want valid JSON", test.name)
		}
		switch _, refused := Decode([]byte(test.body)); {
		case test.valid && refused != nil:
			t.Errorf("%s: Decode() refused = %v, want no refusal", test.name, refused)
		case !test.valid && (refused == nil || refused.Code != CodeInput):
			t.Errorf("%s: Decode() refused = %v, want code %q", test.name, refused, CodeInput)
		}
	}
}
