package project_test

import (
	"encoding/json"
	"testing"
)

// TestSchemasOfArguments checks how the schemas of a description become the schemas of a tool's arguments, where the two
// have different meanings.
func TestSchemasOfArguments(t *testing.T) {
	t.Parallel()
	const text = `"Text": {"type": "string", "maxLength": 3}`
	for _, tt := range []struct{ name, version, schema, components, want string }{
		{
			"keywords next to a reference in 3.0", "3.0.3", `{"$ref": "#/components/schemas/Text", "minLength": 2}`, text,
			`{"type":"string","maxLength":3}`,
		},
		{
			"keywords next to a reference since 3.1", "3.1.0", `{"$ref": "#/components/schemas/Text", "minLength": 2}`, text,
			`{"allOf":[{"type":"string","maxLength":3},{"minLength":2}]}`,
		},
		{
			"a description next to a reference since 3.1", "3.1.0",
			`{"$ref": "#/components/schemas/Text", "description": "d"}`, text,
			`{"type":"string","maxLength":3,"description":"d"}`,
		},
		{
			"bounds that are not exclusive", "3.0.3", `{"type": "integer", "minimum": 1, "exclusiveMinimum": false,
				"maximum": 3, "exclusiveMaximum": true}`, text, `{"type":"integer","minimum":1,"exclusiveMaximum":3}`,
		},
		{
			"an enumeration that can be null", "3.0.3", `{"type": "string", "nullable": true, "enum": ["a"]}`, text,
			`{"type":["string","null"],"enum":["a",null]}`,
		},
		{
			"nullable since 3.1", "3.1.0", `{"type": "string", "nullable": true}`, text, `{"type":"string"}`,
		},
		{
			"a property that is only in responses", "3.1.0", `{"type": "object", "required": ["a", "b"], "properties": {
				"a": {"type": "string", "readOnly": true}, "b": {"type": "string"}}}`, text,
			`{"type":"object","required":["b"],"properties":{"b":{"type":"string"}}}`,
		},
	} {
		o, _ := offered(t, tt.version, "get", `"parameters": [{"name": "p", "in": "query", "schema": `+tt.schema+`}],
			"responses": {"200": {"description": "d"}}`, tt.components)
		var input struct{ Properties map[string]any }
		if err := json.Unmarshal(o.Input, &input); err != nil {
			t.Fatal(err)
		}
		wantJSON(t, tt.name, input.Properties["p"], tt.want)
	}
}

// TestPropertiesOfAllParts checks a body whose property is declared by two parts of allOf: both schemas apply.
func TestPropertiesOfAllParts(t *testing.T) {
	t.Parallel()
	o, _ := offered(t, "3.1.0", "post", `"requestBody": {"content": {"application/json": {"schema": {"allOf": [
		{"type": "object", "properties": {"n": {"type": "integer"}}},
		{"type": "object", "properties": {"n": {"maximum": 3}}}]}}}}, "responses": {"200": {"description": "d"}}`,
		`"Unused": {}`)
	var input struct{ Properties map[string]any }
	if err := json.Unmarshal(o.Input, &input); err != nil {
		t.Fatal(err)
	}
	wantJSON(t, "a property of two parts", input.Properties["n"], `{"allOf":[{"type":"integer"},{"maximum":3}]}`)
}

// wantJSON checks that the JSON of a value is want. The order of members does not matter.
func wantJSON(t *testing.T, name string, value any, want string) {
	t.Helper()
	encoded, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	normal := func(text string) string {
		var decoded any
		if err := json.Unmarshal([]byte(text), &decoded); err != nil {
			t.Fatal(err)
		}
		out, _ := json.Marshal(decoded)
		return string(out)
	}
	if got, want := normal(string(encoded)), normal(want); got != want {
		t.Errorf("%s = %s, want %s", name, got, want)
	}
}
