package graphql

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestCharactersBeyondASCIIStayAsTheyAre has bodies in which a decoder is not shown every character.
func TestCharactersBeyondASCIIStayAsTheyAre(t *testing.T) {
	for _, text := range []string{
		`{"query":"{é(a:\"日本\")}","operationName":"naïve","variables":{"é":"ü","è":["ä","ö\n",{"日":"本 и"}],"x":"aaaaaaaé"},"extensions":{"ô":"😀"}}`,
		`[{"query":"#é\n{a}"},{"query":"{b}","variables":{"日" : "本"}}]`,
	} {
		body, refused := Decode([]byte(text))
		if refused != nil {
			t.Errorf("%s: %v", text, refused)
			continue
		}
		written, refused := body.Encode()
		if got := string(written); refused != nil || got != text && got != strings.ReplaceAll(text, `"日" :`, `"日":`) {
			t.Errorf("%s is written anew as %s", text, got)
		}
	}
	for _, text := range []string{
		"{\"query\":\"{a}\",\"variables\":{\"a\":\"\xff\"}}", "{\"query\":\"{a}\",\"variables\":{\"a\":\"\xc3\"}}", `{"query":"{a}","variables":{"a":"\é"}}`,
		`{"query":"{a}","variables":{"a":"\u00éé"}}`, `{"query":"{a}","variables":{"é":1,"é":2}}`, `{"query":"{a}","variables":{"a":é}}`, `{"query":"{a}"}é`, `{"query":"{a}","é`,
	} {
		body, refused := Decode([]byte(text))
		if refused == nil {
			_, refused = body.Encode()
		}
		if refused == nil || refused.Code != CodeParse {
			t.Errorf("%q is answered %v", text, refused)
		}
	}
}

func TestBodiesAreTakenUpToTheirBounds(t *testing.T) {
	variables := func(value string) string { return `{"query":"{a}","variables":{"v":` + value + `}}` }
	names := func(n, size int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"%0*d":1`, size-1, i) // its first quotation mark is counted
		}
		return variables("{" + strings.Join(all, ",") + "}")
	}
	for _, test := range []struct {
		name string
		body string
		good bool
	}{
		{"escapes", variables(`"` + strings.Repeat(`\n`, MaxEscapes) + `"`), true},
		{"more escapes", variables(`"` + strings.Repeat(`\"`, MaxEscapes+1) + `"`), false},
		{"escapes of several texts", variables(`["` + strings.Repeat(`\\`, MaxEscapes/2) + `","` + strings.Repeat(`\u0061`, MaxEscapes/2+1) + `"]`), false},
		{"bytes of names", names(1000, MaxNameBytes/1000), true},
		{"more bytes of names", names(1000, MaxNameBytes/1000+1), false},
		{"a long operation name", `{"query":"{a}","operationName":"` + strings.Repeat("a", MaxDocumentBytes+1) + `"}`, false},
		{"large extensions", `{"query":"{a}","extensions":{"a":"` + strings.Repeat("a", mostWritten) + `"}}`, false},
		{"a document", `{"query":"{a}` + strings.Repeat(" ", MaxDocumentBytes-3) + `"}`, true},
		{"a longer document", `{"query":"{a}` + strings.Repeat(" ", MaxDocumentBytes-2) + `"}`, false},
		{"a document of escapes", `{"query":"{a}` + strings.Repeat(`\n`, MaxEscapes) + `"}`, true},
		{"names", names(MaxNames-3, 8), true}, // with those of the request
		{"more names", names(MaxNames-2, 8), false},
		{"values", variables("[" + strings.Repeat("1,", MaxValues-2) + "1]"), true}, // with the query
		{"more values", variables("[" + strings.Repeat("1,", MaxValues-1) + "1]"), false},
		{"levels", variables(strings.Repeat("[", MaxNesting-2) + strings.Repeat("]", MaxNesting-2)), true},
		{"more levels", variables(strings.Repeat("[", MaxNesting-1) + strings.Repeat("]", MaxNesting-1)), false},
		{"extensions", `{"query":"{a}","extensions":{"a":"` + strings.Repeat("a", mostWritten-8) + `"}}`, true},
		{"larger extensions", `{"query":"{a}","extensions":{"a":"` + strings.Repeat("a", mostWritten-7) + `"}}`, false},
		{"a batch", "[" + strings.Repeat(`{"query":"{a}"},`, MaxBatch-1) + `{"query":"{a}"}]`, true},
		{"a larger batch", "[" + strings.Repeat(`{"query":"{a}"},`, MaxBatch) + `{"query":"{a}"}]`, false},
		{"a large text", variables(`"` + strings.Repeat("é", 400_000) + `"`), true},
	} {
		if !json.Valid([]byte(test.body)) {
			t.Errorf("%s: no JSON", test.name)
		}
		switch _, refused := Decode([]byte(test.body)); {
		case test.good && refused != nil:
			t.Errorf("%s: %v", test.name, refused)
		case !test.good && (refused == nil || refused.Code != CodeInput):
			t.Errorf("%s is answered %v", test.name, refused)
		}
	}
}
