package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/api"
)

func TestBodyIsJSONWhateverItsContentType(t *testing.T) {
	for _, ct := range []string{"", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/json"} {
		r, body := newFixture(t).do(t, "PATCH", thing+"x", goodKey, `{"description":null}`, "Content-Type", ct)
		if r.StatusCode != http.StatusOK || !strings.Contains(body, `{"set":true,"null":true}`) {
			t.Errorf("%q: %d %s", ct, r.StatusCode, body)
		}
	}
}

// TestErrorsOfTheBodyNameTheField holds for what is found before the fields are
// known, too. No text may be a decoder's own: those repeat values and Go's types.
func TestErrorsOfTheBodyNameTheField(t *testing.T) {
	for body, want := range map[string]string{
		`{"secret":1e999}`:                      "body.secret: has a number that is too large",
		`{"x":[0,{"a":-1E400}]}`:                "body.x[1].a: has a number that is too large",
		`{"a":{},"secret":"\u0000"}`:            "body.secret: holds the character NUL, which is no text",
		`{"x":{"a\u0000":1}}`:                   "body.x: holds the character NUL, which is no text",
		`{"x":[[],[{"a":1,"b":[1],"a":2}]]}`:    "body.x[1][0]: holds the same name twice in one object (at byte 25); parsers disagree on which counts",
		`{"description":"a","DESCRIPTION":[]}`:  "body.DESCRIPTION: is no field of this operation: names are exact, write it as description",
		`{"description":1,"x":[[],[[],{}]]}`:    "body.description: expected string",
		``:                                      "body: is required: send a JSON document",
		`{"x":[[],[[],{}]],"secret":"a","y":{}`: "body: is not valid JSON (at byte 37)",
	} {
		r, answer := newFixture(t).do(t, "PATCH", thing+"x", goodKey, body)
		var p api.Problem
		if err := json.Unmarshal([]byte(answer), &p); err != nil {
			t.Fatal(err)
		}
		if r.StatusCode != http.StatusBadRequest || p.Detail != want {
			t.Errorf("%s: %d %q, want %q", body, r.StatusCode, p.Detail, want)
		}
	}
}

// TestDecodingIsExactByItself: where no schema lists the names, a field is read
// from its own name alone, too.
func TestDecodingIsExactByItself(t *testing.T) {
	for body, want := range map[string]string{
		`{"own":{"name":"a"}}`: `"set":true`, `{"own":{"NAME":"a"}}`: `"set":false`, `{"own":{"NAME":"a","name":""}}`: `"set":false`,
	} {
		if _, answer := newFixture(t).do(t, "PATCH", thing+"x", goodKey, body); !strings.Contains(answer, want) {
			t.Errorf("%s is answered %s, want %s", body, answer, want)
		}
	}
}
