package schema

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/simulations"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// list returns arguments with one property: a list of n equal values.
func list(n int, value string) string {
	return `{"list":[` + strings.Repeat(value+",", n-1) + value + `]}`
}

// workCase has arguments with a list, the schema of the list's items, and further keywords of the list's schema.
// refused is set if the work is too much.
type workCase struct {
	name, items, keywords, arguments string
	refused                          bool
}

// workCases returns cheap and expensive schemas and arguments of up to a megabyte.
func workCases() []workCase { return append(manyValueCases(), longTextCases()...) }

// manyValueCases returns the cases of workCases that compare many values with schemas.
func manyValueCases() []workCase {
	// anyOf returns a schema of n alternatives.
	anyOf := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"type":"object","properties":{"k":{"const":%d}},"required":["k"]}`, i))
		}
		return `{"anyOf":[` + strings.Join(all, ",") + `]}`
	}
	numbers := strings.Trim(strings.Repeat("7,", 3000), ",")
	texts := strings.Trim(strings.Repeat(`"seven",`, 3000), ",")
	return []workCase{
		{name: "many alternatives for many items", items: anyOf(100), arguments: list(80_000, `{"k":99}`), refused: true},
		{
			name: "nested alternatives", items: `{"oneOf":[{"allOf":[` + anyOf(100) + `]}]}`,
			arguments: list(80_000, `{"k":99}`), refused: true,
		},
		{
			name: "negated alternatives", items: `{"not":` + anyOf(100) + `}`,
			arguments: list(80_000, `{"k":999}`), refused: true,
		},
		{name: "many alternatives for few items", items: anyOf(100), arguments: list(500, `{"k":99}`)},
		{name: "few alternatives for many items", items: anyOf(4), arguments: list(20_000, `{"k":3}`)},
		{name: "an enumeration of numbers", items: `{"enum":[` + numbers + `]}`, arguments: list(70_000, `7`), refused: true},
		{
			name: "a short enumeration of numbers", items: `{"enum":[` + numbers[:2*40-1] + `]}`, arguments: list(70_000, `7`),
		},
		{
			name: "a short enumeration of texts", items: `{"enum":[` + texts[:8*40-1] + `]}`, arguments: list(70_000, `"seven"`),
		},
		{
			name: "an enumeration of texts", items: `{"enum":[` + texts + `]}`, arguments: list(70_000, `"seven"`),
			refused: true,
		},
		{name: "an enumeration of texts for few items", items: `{"enum":[` + texts + `]}`, arguments: list(2000, `"seven"`)},
		{
			name: "unique lists", items: `{}`, keywords: `,"uniqueItems":true`, arguments: list(40_000, `[[],[]]`),
		},
		{
			name: "unique plain values", items: `{}`, keywords: `,"uniqueItems":true`,
			arguments: `{"list":[1,2,3` + strings.Repeat(`,"x"`, 40_000) + `]}`,
		},
		{name: "the largest number of values", items: `{"type":"integer"}`, arguments: list(50_000, "1")},
		{
			name: "schemas of three bytes", items: `{"allOf":[{}` + strings.Repeat(",{}", 50) + `]}`,
			arguments: list(14_000, "1"),
		},
		{
			name: "unique empty lists", items: `{}`, keywords: `,"uniqueItems":true`, arguments: list(8000, `[]`),
		},
	}
}

// longTextCases returns the cases of workCases with long texts and names.
func longTextCases() []workCase {
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	address := `"[a-z0-9]{1,64}@[a-z0-9]{1,63}\\.[a-z]{2,10}"`
	pattern := `{"pattern":` + address + `}`
	longText, longName := list(1, text(1<<20)), list(1, `{`+text(1<<20)+`:1}`)
	return []workCase{
		{name: "a long text for many alternatives", items: `{"anyOf":[{"minLength":9}` + strings.Repeat(`,{"minLength":9}`,
			300) + `]}`, arguments: longText},
		{name: "a long text for one length", items: `{"type":"string","minLength":9}`, arguments: longText},
		{name: "a long text for the pattern of an address", items: pattern, arguments: longText, refused: true},
		{
			name:  "a long text for a pattern in an alternative",
			items: `{"oneOf":[{"type":"null"},{"not":` + pattern + `}]}`, arguments: longText, refused: true,
		},
		{
			name:  "a long text for a pattern in nested alternatives",
			items: `{"if":true,"then":{"anyOf":[{"allOf":[` + pattern + `]}]}}`, arguments: longText, refused: true,
		},
		{name: "many texts for a pattern", items: pattern, arguments: list(10_000, text(100))},
		{name: "addresses for a pattern", items: pattern, arguments: list(4000, text(20))},
		{name: "a long text for a short pattern", items: `{"pattern":"^[a-z]*$"}`, arguments: longText},
		{
			name: "a long name for a pattern", items: `{"patternProperties":{` + address + `:true}}`,
			arguments: longName, refused: true,
		},
		{
			name: "a long name for propertyNames", items: `{"propertyNames":` + pattern + `}`,
			arguments: longName, refused: true,
		},
		{
			name: "a short name for a pattern", items: `{"patternProperties":{` + address + `:true}}`,
			arguments: list(1, `{`+text(100)+`:1}`),
		},
		{name: "a long text for nested repetitions", items: `{"pattern":"([a-z]{0,31}){0,30}@"}`, arguments: longText},
	}
}

// TestExpensiveValuesAreRefused checks megabytes of values with schemas that compare each value with many schemas.
func TestExpensiveValuesAreRefused(t *testing.T) {
	simulations.SkipUnderRace(t)
	for _, tt := range workCases() {
		s, err := Compile(json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","items":` +
			tt.items + tt.keywords + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(tt.arguments))
		if err != nil {
			t.Fatal(err)
		}
		work := NewWork()
		if _, err := s.Matches(value, work); (err != nil) != tt.refused {
			t.Errorf("%s: Matches() error = %v after %d units, want one: %t", tt.name, err, MaxWork-work.Remaining(),
				tt.refused)
		}
	}
}

// TestExpensivePatternsAreUnchecked checks that patterns with too many RE2
// instructions are not checked, even if nested repetitions make them short.
func TestExpensivePatternsAreUnchecked(t *testing.T) {
	for _, tt := range []struct {
		pattern   string
		unchecked bool
	}{
		{pattern: "^[a-z]+$"},
		{pattern: "^[a-z]{1,128}$"},
		{
			pattern: "^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?" +
				"(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$",
		},
		{pattern: "^([a-z]{0,31}){0,30}@$", unchecked: true},
		{pattern: "^(([a-z]{0,9}){0,9}){0,9}@$", unchecked: true},
		{pattern: "^[a-z]{0,999}@$", unchecked: true},
		{pattern: `^(a)\1$`, unchecked: true},
		{pattern: "^" + strings.Repeat("(a|b)", 60) + "$", unchecked: true},
	} {
		schema, err := json.Marshal(
			map[string]any{"properties": map[string]any{"text": map[string]any{"pattern": tt.pattern}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := Compile(schema)
		if err != nil {
			t.Fatal(err)
		}
		valid, err := c.Matches(map[string]any{"text": "1 2"}, NewWork())
		if err != nil || valid != tt.unchecked {
			t.Errorf("Matches() with pattern %s = %t, %v, want %t", tt.pattern, valid, err, tt.unchecked)
		}
	}
}
