package graphql

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// TestPlainFormsAreAsValidAsTheirBodies makes bodies of the pieces of JSON, with long texts: each is taken if a decoder that
// is shown all of it takes it, and the variables are what stands in it.
func TestPlainFormsAreAsValidAsTheirBodies(t *testing.T) {
	long, wide := strings.Repeat("x", 70), strings.Repeat("é", 40)
	pieces := []string{
		`"`, `"`, `"`, `":`, `",`, `":"`, `","`, "a", "a", long, wide, "日本", "😀", "é", `\n`, `\"`, `\\`, `\`, `\u0061`, `\u00`, `\u`, `\ud83d`, `\ude00`, "41", "\x01", "\x7f",
		"\xff", "\xc3", "\xa9", "\xed\xa0\xbd", "[", "]", "{", "{}", `{"b":2}`, ",", ":", " ", "1", "null", `"a":1`, `"\u0061":1`, `"é":1`, `"\u00e9":1`,
	}
	taken, refusals := 0, 0
	check := func(t rapid.TB, text string) {
		t.Helper()
		for _, value := range []string{`{"v":` + text + `}`, `{"v":"` + text + `"}`, `{"` + text + `":1,"a":2}`, `{"v":["` + text + `","` + text + long + `",{"` + text + `":{"a":1}}]}`} {
			raw := `{"extensions":{"x":"` + wide + `"},"variables":` + value + `,"query":"{a}","operationName":"` + long + `"}`
			whole := jsontext.Value(raw).IsValid()
			body, refused := Decode([]byte(raw))
			if refused == nil {
				_, refused = body.Encode()
			}
			if whole != (refused == nil) {
				t.Fatalf("%q is refused by %v, and it is %t that it is JSON", raw, refused, whole)
			}
			if refused != nil {
				refusals++
				continue
			}
			taken++
			if string(body.Requests[0].Variables) != value {
				t.Fatalf("%q has the variables %q", raw, body.Requests[0].Variables)
			}
		}
	}
	check(t, "a") // a name twice in one object, which few random texts have
	rapid.Check(t, func(rt *rapid.T) {
		check(rt, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(rt, "pieces"), ""))
	})
	if taken < 20 || refusals < 20 {
		t.Errorf("%d were taken, and %d refused", taken, refusals)
	}
}
