package functions_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// invalidValues returns values with which a field with this schema is replaced. Most of them are invalid.
func invalidValues(s schema) (out []any) {
	out = []any{
		nil, true, false, json.Number("0"), json.Number("-1"), json.Number("1.5"), json.Number("1e400"),
		json.Number("12345678901234567890"),
		"", " ", "a", "\x00", "a\nb", "é", "😀", "A B", "../x", "nonesuch", "NONESUCH", "2026-02-30T00:00:00Z",
		"2026-01-01", "true", "1",
		strings.Repeat("a", 200), strings.Repeat("a", 70_000),
		[]any{},
		[]any{nil},
		[]any{"a"},
		[]any{map[string]any{}},
		map[string]any{},
		map[string]any{"a": nil},
		map[string]any{"a": 1},
		map[string]any{"": "a"},
		map[string]any{"a": map[string]any{"b": []any{1}}},
	}
	if s.MaxLength != nil {
		out = append(out, strings.Repeat("a", *s.MaxLength+1), strings.Repeat("é", *s.MaxLength+1))
	}
	if s.MaxItems != nil && *s.MaxItems < 2000 {
		out = append(out, slices.Repeat([]any{"a"}, *s.MaxItems+1), slices.Repeat([]any{map[string]any{}}, *s.MaxItems+1))
	}
	return out
}

// fields returns requests with invalid values in fields of the body, with missing fields, and with other bodies.
func (rg requestGenerator) fields() (out []changedRequest) {
	if !rg.d.TakesBody {
		return nil
	}
	bodySchema := rg.doc.schema("paths", rg.d.Path, strings.ToLower(rg.d.Method), "requestBody", "content",
		"application/json", "schema")
	add := func(label string, document any) {
		raw, err := json.Marshal(document)
		if err != nil {
			rg.t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err != nil {
			rg.t.Fatal(err)
		}
		b := changedRequest{label: label, method: rg.d.Method, path: rg.path, body: string(raw)}
		if err := bodySchema.Validate(value); err != nil {
			b.locations, b.statuses = errorLocations(err), []int{http.StatusBadRequest}
			if len(raw) > api.MaxBodyBytes {
				b.statuses = []int{http.StatusRequestEntityTooLarge}
			}
		}
		out = append(out, b)
	}
	newDocument := func() any { return decodeJSON(rg.t, rg.body) }
	for _, c := range rg.operation.RequestBody.Content {
		for _, value := range invalidValues(c.Schema.resolve(rg.schemas)) {
			add("the body", value)
		}
		visitFields(newDocument(), c.Schema, rg.schemas, func(path []any, name string, s schema) {
			label := fmt.Sprintf("body%v.%s", path, name)
			for _, value := range invalidValues(s) {
				document := newDocument()
				if object, ok := valueAt(document, path).(map[string]any); ok {
					object[name] = value
					add(label, document)
				}
			}
			document := newDocument()
			if object, ok := valueAt(document, path).(map[string]any); ok {
				delete(object, name)
				add(label+" left out", document)
			}
		})
	}
	return out
}

// visitFields calls f for each field that the schema of a body describes. path is the path of the object that has or
// could have the field.
func visitFields(body any, s schema, schemas map[string]schema, f func(path []any, name string, s schema)) {
	var walk func(path []any, value any, s schema)
	walk = func(path []any, value any, s schema) {
		s = s.resolve(schemas)
		for _, alternative := range slices.Concat(s.OneOf, s.AnyOf, s.AllOf) {
			walk(path, value, alternative)
		}
		switch value := value.(type) {
		case []any:
			for i, entry := range value {
				if s.Items != nil && i < 3 {
					walk(append(slices.Clone(path), i), entry, *s.Items)
				}
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
				property := s.Properties[name].resolve(schemas)
				f(path, name, property)
				if field, ok := value[name]; ok {
					walk(append(slices.Clone(path), name), field, property)
				}
			}
		}
	}
	walk(nil, body, s)
}
