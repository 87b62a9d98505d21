package schema

import (
	"encoding/json"
	"testing"
)

// TestUncheckedPatternsRefuseNothing checks that a pattern that is not checked makes no value invalid, wherever it is in
// a schema, and that the rest of the schema is checked.
func TestUncheckedPatternsRefuseNothing(t *testing.T) {
	t.Parallel()
	const pattern = `{"pattern": "(a)\\1"}`
	for _, tt := range []struct {
		schema         string
		valid, invalid []string
	}{
		{`{"type": "string", "not": ` + pattern + `}`, []string{`"b"`, `"aa"`}, []string{`1`}},
		{`{"not": {"properties": {"p": {"$ref": "#/$defs/p"}}}}`, []string{`{"p": "b"}`, `{}`}, nil},
		{`{"if": ` + pattern + `, "then": {"maxLength": 1}, "else": {"minLength": 3}}`, []string{`"bb"`, `"aa"`}, nil},
		{
			`{"oneOf": [` + pattern + `, {"type": "string", "minLength": 2}, {"type": "integer"}]}`,
			[]string{`"bb"`, `1`},
			nil,
		},
		{`{"oneOf": [{"type": "string"}, {"type": "number"}, {"type": "integer"}]}`, []string{`1.5`}, []string{`1`}},
		{
			`{"patternProperties": {"(a)\\1": {"type": "integer"}, "^b": {"type": "string"}}, "additionalProperties": false}`,
			[]string{`{"aa": "x"}`, `{"c": true}`, `{"b": "x"}`},
			[]string{`{"b": 1}`},
		},
		{`{"contains": ` + pattern + `, "maxContains": 1}`, []string{`["b", "b"]`}, []string{`[]`}},
		{`{"$ref": "#/$defs/tree"}`, []string{`{"not": {"p": "b"}}`}, []string{`{"n": 1}`}},
	} {
		d := NewDefinitions(map[string]json.RawMessage{
			"p": json.RawMessage(pattern),
			"tree": json.RawMessage(`{"properties": {"n": {"type": "string"}, "p": {"not": {"$ref": "#/$defs/p"}},
				"not": {"$ref": "#/$defs/tree"}}}`),
		})
		s, err := d.Compile(json.RawMessage(tt.schema))
		if err != nil {
			t.Fatalf("Compile(%s) = %v, want no error", tt.schema, err)
		}
		for text, want := range wanted(tt.valid, tt.invalid) {
			value, _ := Decode([]byte(text))
			if got, err := s.Matches(value, NewWork()); err != nil || got != want {
				t.Errorf("Matches(%s) against %s = %t, %v, want %t", text, tt.schema, got, err, want)
			}
		}
	}
}

// wanted returns true for valid texts, and false for invalid ones.
func wanted(valid, invalid []string) map[string]bool {
	out := map[string]bool{}
	for _, text := range valid {
		out[text] = true
	}
	for _, text := range invalid {
		out[text] = false
	}
	return out
}
