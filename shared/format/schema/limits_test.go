package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// names are the names of properties and definitions in generated schemas and values.
var names = []string{"a", "b", "c", "d"}

// drawValue draws a JSON value.
func drawValue(t *rapid.T, depth int) any {
	kinds := 8
	if depth == 0 {
		kinds = 6
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
	case 0:
		return nil
	case 1:
		return rapid.Bool().Draw(t, "boolean")
	case 2, 3:
		return json.Number(rapid.SampledFrom([]string{
			"0", "-0", "1", "2", "3", "-1", "1.0", "1.5", "1e0", "10e-1", "2.5", "0.1", "100000000000000000000", "1e3",
		}).Draw(t, "number"))
	case 4, 5:
		return rapid.SampledFrom([]string{"", "a", "b", "ab", "é", "éé", "2026-01-31", "abcde", "YQ=="}).Draw(t, "string")
	case 6:
		list := []any{}
		for range rapid.IntRange(0, 4).Draw(t, "length") {
			list = append(list, drawValue(t, depth-1))
		}
		return list
	default:
		object := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "size") {
			object[rapid.SampledFrom(names).Draw(t, "name")] = drawValue(t, depth-1)
		}
		return object
	}
}

// drawSchema draws a schema with a few keywords.
func drawSchema(t *rapid.T, depth int) any {
	if depth == 0 || rapid.IntRange(0, 9).Draw(t, "boolean schema") == 0 {
		return rapid.SampledFrom([]any{true, true, false, map[string]any{}, map[string]any{"type": "string"}}).Draw(t, "leaf")
	}
	s := map[string]any{}
	for range rapid.IntRange(1, 3).Draw(t, "keywords") {
		addKeyword(t, s, depth)
	}
	return s
}

func drawNames(t *rapid.T) []any {
	list := rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 2, rapid.ID).Draw(t, "names")
	out := make([]any, len(list))
	for i, name := range list {
		out[i] = name
	}
	return out
}

func drawSchemas(t *rapid.T, depth int) []any {
	var list []any
	for range rapid.IntRange(1, 3).Draw(t, "schemas") {
		list = append(list, drawSchema(t, depth-1))
	}
	return list
}

func drawNamedSchemas(t *rapid.T, names []string, depth int) map[string]any {
	object := map[string]any{}
	for range rapid.IntRange(1, 3).Draw(t, "schemas") {
		object[rapid.SampledFrom(names).Draw(t, "name")] = drawSchema(t, depth-1)
	}
	return object
}

// addKeyword adds a keyword to a schema.
func addKeyword(t *rapid.T, s map[string]any, depth int) {
	small := func() any { return json.Number(fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "small"))) }
	switch keyword := rapid.SampledFrom([]string{
		"type", "type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems", "prefixItems", "items",
		"contains", "minContains", "maxContains", "unevaluatedItems", "minProperties", "maxProperties", "required",
		"properties", "properties", "patternProperties", "additionalProperties", "propertyNames", "dependentRequired",
		"dependentSchemas", "unevaluatedProperties", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "$ref",
		"$ref", "contentEncoding",
	}).Draw(t, "keyword"); keyword {
	case "type":
		s[keyword] = rapid.SampledFrom([]any{
			"null", "boolean", "number", "integer", "string", "array", "object", "object", "array",
			[]any{"object", "string"},
			[]any{"array", "integer"},
		}).Draw(t, "type")
	case "enum":
		s[keyword] = []any{drawValue(t, 1), drawValue(t, 2), drawValue(t, 0)}
	case "const":
		s[keyword] = drawValue(t, 1)
	case "multipleOf":
		s[keyword] = rapid.SampledFrom([]any{json.Number("0.5"), json.Number("2"), json.Number("0.1")}).Draw(t, "divisor")
	case "pattern":
		s[keyword] = rapid.SampledFrom([]any{"^a", "b$", "^.{2}$"}).Draw(t, "pattern")
	case "format":
		s[keyword] = rapid.SampledFrom([]any{"date", "regex", "unknown", "uuid"}).Draw(t, "format")
	case "contentEncoding":
		s[keyword] = "base64"
	case "uniqueItems":
		s[keyword] = true
	case "required":
		s[keyword] = drawNames(t)
	case "dependentRequired":
		s[keyword] = map[string]any{rapid.SampledFrom(names).Draw(t, "name"): drawNames(t)}
	case "properties", "dependentSchemas":
		s[keyword] = drawNamedSchemas(t, names, depth)
	case "patternProperties":
		s[keyword] = drawNamedSchemas(t, []string{"^a", "[bc]", "d$"}, depth)
	case "prefixItems", "allOf", "anyOf", "oneOf":
		s[keyword] = drawSchemas(t, depth)
	case "items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "not",
		"if", "then", "else":
		s[keyword] = drawSchema(t, depth-1)
	case "$ref":
		s[keyword] = "#/$defs/" + rapid.SampledFrom(names).Draw(t, "definition")
	default:
		s[keyword] = small()
	}
}

// TestLimitsDoNotChangeVerdicts checks generated schemas and values with this package, where definitions are separate
// documents and the work is bounded, and with the library alone. Both must agree. An invalid value must have a violation.
func TestLimitsDoNotChangeVerdicts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		definitions, raw := map[string]any{}, map[string]json.RawMessage{}
		for _, name := range names {
			definitions[name] = drawSchema(t, 2)
			raw[name] = encode(t, definitions[name])
		}
		root := drawSchema(t, 4)
		compiled, err := NewDefinitions(raw).Compile(encode(t, root))
		if err != nil {
			if strings.Contains(err.Error(), "applies itself to the same value") {
				return
			}
			t.Fatalf("Compile(%s) error = %v, want none or a cycle", encode(t, root), err)
		}
		library := libraryFor(t, root, definitions)
		for range 10 {
			value := drawValue(t, 3)
			violations, _, err := compiled.Validate(value, NewWork(), 20)
			if err != nil {
				t.Fatalf("Validate() error = %v, want none", err)
			}
			want := library.Validate(value)
			if (len(violations) == 0) != (want == nil) {
				t.Fatalf("Validate(%s)\nagainst %s\nwith %s\n= %v, want as the library: %v", encode(t, value),
					encode(t, root), encode(t, definitions), violations, want)
			}
		}
	})
}

// libraryFor compiles a schema and definitions with the library alone.
func libraryFor(t *rapid.T, root, definitions any) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	c.AssertContent()
	if err := c.AddResource("test:///root.json", map[string]any{"allOf": []any{root}, "$defs": definitions}); err != nil {
		t.Fatal(err)
	}
	library, err := c.Compile("test:///root.json")
	if err != nil {
		t.Fatal(err)
	}
	return library
}

func encode(t *rapid.T, value any) json.RawMessage {
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
