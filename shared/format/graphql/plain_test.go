package graphql

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// TestPlainFormIsValidIfBodyIs builds bodies from pieces of JSON with long texts. Decode must
// accept a body exactly if a decoder of the original body accepts it, with the same variables.
func TestPlainFormIsValidIfBodyIs(t *testing.T) {
	long, nonASCII := strings.Repeat("x", 70), strings.Repeat("é", 40)
	pieces := []string{
		`"`, `"`, `"`, `":`, `",`, `":"`, `","`, "a", "a", long, nonASCII, "日本", "😀", "é", `\n`, `\"`, `\\`, `\`,
		`\u0061`, `\u00`, `\u`, `\ud83d`, `\ude00`, "41", "\x01", "\x7f",
		"\xff", "\xc3", "\xa9", "\xed\xa0\xbd", "[", "]", "{", "{}", `{"b":2}`, ",", ":", " ", "1", "null", `"a":1`,
		`"\u0061":1`, `"é":1`, `"\u00e9":1`,
	}
	accepted, refusals := 0, 0
	check := func(t rapid.TB, text string) {
		t.Helper()
		for _, value := range []string{
			`{"v":` + text + `}`, `{"v":"` + text + `"}`, `{"` + text + `":1,"a":2}`,
			`{"v":["` + text + `","` + text + long + `",{"` + text + `":{"a":1}}]}`,
		} {
			raw := `{"extensions":{"x":"` + nonASCII + `"},"variables":` + value + `,"query":"{a}","operationName":"` +
				long + `"}`
			valid := jsontext.Value(raw).IsValid()
			body, refused := Decode([]byte(raw))
			if refused == nil {
				_, refused = body.Encode()
			}
			if valid != (refused == nil) {
				t.Fatalf("refusal of %q = %v, want one only for invalid JSON (valid: %t)", raw, refused, valid)
			}
			if refused != nil {
				refusals++
				continue
			}
			accepted++
			if string(body.Requests[0].Variables) != value {
				t.Fatalf("variables of %q = %q, want %q", raw, body.Requests[0].Variables, value)
			}
		}
	}
	check(t, "a") // duplicate names in an object, which few random texts have
	rapid.Check(t, func(rt *rapid.T) {
		check(rt, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(rt, "pieces"), ""))
	})
	if accepted < 20 || refusals < 20 {
		t.Errorf("accepted texts = %d, refused = %d, want at least 20 of each", accepted, refusals)
	}
}
