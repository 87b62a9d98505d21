package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/management/api"
)

func TestBodyIsJSONForAnyContentType(t *testing.T) {
	for _, ct := range []string{"", "text/plain;charset=UTF-8", "application/x-www-form-urlencoded", "application/json"} {
		r, body := newFixture(t).do(t, "PATCH", thing+"x", goodKey, `{"description":null}`, "Content-Type", ct)
		if r.StatusCode != http.StatusOK || !strings.Contains(body, `{"set":true,"null":true}`) {
			t.Errorf("PATCH with content type %q = %d %s, want 200 with description null", ct, r.StatusCode, body)
		}
	}
}

// TestBodyErrorsNameField checks that errors name the invalid field, or the byte at which a body is not valid JSON.
// Texts of decoders must not be returned, because they contain values and the names of Go types.
func TestBodyErrorsNameField(t *testing.T) {
	for body, want := range map[string]string{
		`{"secret":1e999}`:           "body.secret: has a number that is too large",
		`{"x":[0,{"a":-1E400}]}`:     "body.x[1].a: has a number that is too large",
		`{"a":{},"secret":"\u0000"}`: "body.secret: holds the character NUL, which is no text",
		`{"x":{"a\u0000":1}}`:        "body.x: holds the character NUL, which is no text",
		`{"x":[[],[{"a":1,"b":[1],"a":2}]]}`: "body.x[1][0]: holds the same name twice in one object (at byte 25); " +
			"parsers disagree on which counts",
		`{"description":"a","DESCRIPTION":[]}`: "body.DESCRIPTION: is no field of this operation: names are exact, write " +
			"it as description",
		`{"description":1,"x":[[],[[],{}]]}`:    "body.description: expected string",
		``:                                      "body: is required: send a JSON document",
		`{"x":[[],[[],{}]],"secret":"a","y":{}`: "body: is not valid JSON (at byte 37)",
	} {
		r, response := newFixture(t).do(t, "PATCH", thing+"x", goodKey, body)
		var p api.Problem
		if err := json.Unmarshal([]byte(response), &p); err != nil {
			t.Fatalf("PATCH %s = %s, %v, want a problem document", body, response, err)
		}
		if r.StatusCode != http.StatusBadRequest || p.Detail != want {
			t.Errorf("PATCH %s = %d %q, want 400 %q", body, r.StatusCode, p.Detail, want)
		}
	}
}

// TestDecodeNamesAreExact checks that a field is read only from its exact name, even if no schema lists the names.
func TestDecodeNamesAreExact(t *testing.T) {
	for body, want := range map[string]string{
		`{"own":{"name":"a"}}`: `"set":true`, `{"own":{"NAME":"a"}}`: `"set":false`,
		`{"own":{"NAME":"a","name":""}}`: `"set":false`,
	} {
		if _, response := newFixture(t).do(t, "PATCH", thing+"x", goodKey, body); !strings.Contains(response, want) {
			t.Errorf("PATCH %s = %s, want %s", body, response, want)
		}
	}
}
