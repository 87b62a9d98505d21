package api

import (
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gatewright/gatewright/shared/fault"
)

// TestNamesAreExactWhereverTheyStand in a body, and whichever of the schemas of a
// value lists them.
func TestNamesAreExactWhereverTheyStand(t *testing.T) {
	object := func(fields map[string]*huma.Schema) *huma.Schema { return &huma.Schema{Properties: fields} }
	a, b := object(map[string]*huma.Schema{"fieldA": {}}), object(map[string]*huma.Schema{"fieldB": {}})
	in := func(s *huma.Schema) *huma.Schema { return object(map[string]*huma.Schema{"in": s}) }
	for name, test := range map[string]struct {
		of   []*huma.Schema
		body string // with fieldA and fieldB where those are known
	}{
		"the body's own":                {[]*huma.Schema{a}, `{"fieldA":1}`},
		"behind others":                 {[]*huma.Schema{a}, `{"x":1,"y":{"z":[2]},"fieldA":1}`},
		"a field's":                     {[]*huma.Schema{in(a)}, `{"in":{"fieldA":1}}`},
		"an entry's":                    {[]*huma.Schema{{Items: a}}, `[{},{"fieldA":1}]`},
		"of entries of entries":         {[]*huma.Schema{in(&huma.Schema{Items: &huma.Schema{Items: a}})}, `{"in":[[],[{},{"fieldA":1}]]}`},
		"a map's value's":               {[]*huma.Schema{{AdditionalProperties: a}}, `{"x":{},"y":{"fieldA":1}}`},
		"a map's beside fields":         {[]*huma.Schema{{Properties: map[string]*huma.Schema{"in": b}, AdditionalProperties: a}}, `{"in":{"fieldB":1},"x":{"fieldA":1}}`},
		"of one of":                     {[]*huma.Schema{{OneOf: []*huma.Schema{a, b}}}, `{"fieldA":1,"fieldB":1}`},
		"of any of":                     {[]*huma.Schema{{AnyOf: []*huma.Schema{a, b}}}, `{"fieldA":1,"fieldB":1}`},
		"of all of":                     {[]*huma.Schema{{AllOf: []*huma.Schema{a, b}}}, `{"fieldA":1,"fieldB":1}`},
		"of one of one":                 {[]*huma.Schema{{OneOf: []*huma.Schema{{AllOf: []*huma.Schema{b}}, a}}}, `{"fieldA":1,"fieldB":1}`},
		"of a field that two list":      {[]*huma.Schema{{OneOf: []*huma.Schema{in(a), in(b)}}}, `{"in":{"fieldA":1,"fieldB":1}}`},
		"of entries that two describe":  {[]*huma.Schema{{Items: a}, {Items: b}}, `[{"fieldA":1,"fieldB":1}]`},
		"of one body of two that it is": {[]*huma.Schema{a, b}, `{"fieldA":1,"fieldB":1}`},
	} {
		f := formOf(nil, test.of...)
		if err := checkJSON([]byte(test.body), f); err != nil {
			t.Errorf("%s: %s: %v", name, test.body, err)
		}
		for _, field := range []string{"fieldA", "fieldB"} {
			wrong := strings.Replace(test.body, field, strings.ToUpper(field), 1)
			if err := checkJSON([]byte(wrong), f); wrong != test.body && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), field)) {
				t.Errorf("%s: %s: %v", name, wrong, err)
			}
		}
	}
}

func TestNothingFollowsABody(t *testing.T) {
	for _, after := range []string{"{}", "x", "]", "}", ",", `""`, "\x00"} {
		if err := checkJSON([]byte("{} "+after), nil); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "nothing after it") {
			t.Errorf("%q: %v", after, err)
		}
	}
	if err := checkJSON([]byte(" {}\r\n\t "), nil); err != nil {
		t.Errorf("space: %v", err)
	}
}
