package api

import (
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/base/fault"
)

// TestNestedNamesAreExact checks that names must be exact at each place of a body, in each schema that lists the name.
func TestNestedNamesAreExact(t *testing.T) {
	object := func(fields map[string]*huma.Schema) *huma.Schema { return &huma.Schema{Properties: fields} }
	a, b := object(map[string]*huma.Schema{"fieldA": {}}), object(map[string]*huma.Schema{"fieldB": {}})
	wrapped := func(s *huma.Schema) *huma.Schema { return object(map[string]*huma.Schema{"in": s}) }
	for name, test := range map[string]struct {
		variants []*huma.Schema
		body     string // with fieldA and fieldB at places with known fields
	}{
		"a field of the body":          {[]*huma.Schema{a}, `{"fieldA":1}`},
		"a field after unknown fields": {[]*huma.Schema{a}, `{"x":1,"y":{"z":[2]},"fieldA":1}`},
		"a field of an object":         {[]*huma.Schema{wrapped(a)}, `{"in":{"fieldA":1}}`},
		"a field of an entry":          {[]*huma.Schema{{Items: a}}, `[{},{"fieldA":1}]`},
		"a field of nested entries": {
			[]*huma.Schema{wrapped(&huma.Schema{Items: &huma.Schema{Items: a}})},
			`{"in":[[],[{},{"fieldA":1}]]}`,
		},
		"a field of a map's value": {[]*huma.Schema{{AdditionalProperties: a}}, `{"x":{},"y":{"fieldA":1}}`},
		"a map with declared fields": {[]*huma.Schema{{
			Properties:           map[string]*huma.Schema{"in": b},
			AdditionalProperties: a,
		}}, `{"in":{"fieldB":1},"x":{"fieldA":1}}`},
		"oneOf": {[]*huma.Schema{{OneOf: []*huma.Schema{a, b}}}, `{"fieldA":1,"fieldB":1}`},
		"anyOf": {[]*huma.Schema{{AnyOf: []*huma.Schema{a, b}}}, `{"fieldA":1,"fieldB":1}`},
		"allOf": {[]*huma.Schema{{AllOf: []*huma.Schema{a, b}}}, `{"fieldA":1,"fieldB":1}`},
		"allOf in oneOf": {
			[]*huma.Schema{{OneOf: []*huma.Schema{{AllOf: []*huma.Schema{b}}, a}}},
			`{"fieldA":1,"fieldB":1}`,
		},
		"a field described by two schemas": {
			[]*huma.Schema{{OneOf: []*huma.Schema{wrapped(a), wrapped(b)}}},
			`{"in":{"fieldA":1,"fieldB":1}}`,
		},
		"entries described by two schemas": {[]*huma.Schema{{Items: a}, {Items: b}}, `[{"fieldA":1,"fieldB":1}]`},
		"a body described by two schemas":  {[]*huma.Schema{a, b}, `{"fieldA":1,"fieldB":1}`},
	} {
		shape := newBodyShape(nil, test.variants...)
		if err := checkJSON([]byte(test.body), shape); err != nil {
			t.Errorf("%s: checkJSON(%s) = %v, want nil", name, test.body, err)
		}
		for _, field := range []string{"fieldA", "fieldB"} {
			invalid := strings.Replace(test.body, field, strings.ToUpper(field), 1)
			if err := checkJSON([]byte(invalid), shape); invalid != test.body &&
				(!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), field)) {
				t.Errorf("%s: checkJSON(%s) = %v, want an error that names %s", name, invalid, err, field)
			}
		}
	}
}

func TestTrailingDataIsRefused(t *testing.T) {
	for _, after := range []string{"{}", "x", "]", "}", ",", `""`, "\x00"} {
		if err := checkJSON([]byte("{} "+after), nil); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), "nothing after it") {
			t.Errorf("checkJSON({} %q) = %v, want \"nothing after it\"", after, err)
		}
	}
	if err := checkJSON([]byte(" {}\r\n\t "), nil); err != nil {
		t.Errorf("checkJSON(object and white space) = %v, want nil", err)
	}
}
