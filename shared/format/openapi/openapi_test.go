package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

// compile returns the checker of a description in JSON.
func compile(t testing.TB, definitions, description string) *Request {
	t.Helper()
	var d project.RequestDescription
	if err := json.Unmarshal([]byte(description), &d); err != nil {
		t.Fatal(err)
	}
	var named map[string]json.RawMessage
	if definitions != "" {
		if err := json.Unmarshal([]byte(definitions), &named); err != nil {
			t.Fatal(err)
		}
	}
	q, err := CompileRequest(schema.NewDefinitions(named), &d)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// text returns the violations of a report, one per line.
func (r *Report) text() string {
	var out []string
	for _, v := range r.Violations {
		out = append(out, v.In+" "+v.Pointer+": "+v.Detail)
	}
	if r.More {
		out = append(out, "…")
	}
	return strings.Join(out, "\n")
}

const pet = `{"Pet":{"type":"object","required":["name","price"],` +
	`"properties":{"name":{"type":"string","minLength":1},` +
	`"price":{"type":"number","minimum":0},"parent":{"$ref":"#/$defs/Pet"},` +
	`"kind":{"enum":["cat","dog"]}},"additionalProperties":false}}`

// TestJSONBodies checks the violations of bodies of JSON.
func TestJSONBodies(t *testing.T) {
	t.Parallel()
	q := compile(t, pet, `{"body":{"required":true,
		"content":[{"type":"application/json","schema":{"$ref":"#/$defs/Pet"}}]}}`)
	for _, tt := range []struct{ name, body, want string }{
		{"valid", `{"name":"a","price":0.5,"parent":{"name":"b","price":1e2,"kind":"cat"}}`, ""},
		{"a low number", `{"name":"a","price":-3}`, "body /price: must be 0 or more"},
		{"a wrong type", `{"name":5,"price":3}`, "body /name: must be a string, not a number"},
		{"a missing property", `{"name":"a"}`, `body : must have the property "price"`},
		{"an unknown property", `{"name":"a","price":3,"x":1}`, "body /x: must not be sent: there is no such property"},
		{
			"a wrong value within", `{"name":"a","price":3,"parent":{"name":"a","price":3,"kind":"SECRET"}}`,
			`body /parent/kind: must be one of "cat", "dog"`,
		},
		{"a name twice", `{"name":"a","price":3,"\u006eame":"b"}`, "body /name: must not be sent twice"},
		{"two values", `{} {}`, "body : must be one JSON value, without anything after it"},
		{"no body", ``, "body : must be sent"},
	} {
		var r Report
		q.CheckBody(&r, "application/json; charset=utf-8", []byte(tt.body))
		if got := r.text(); got != tt.want {
			t.Errorf("%s: CheckBody(%s) = %q, want %q", tt.name, tt.body, got, tt.want)
		}
	}
}
