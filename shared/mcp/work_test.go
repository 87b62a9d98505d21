package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// list is a property of so many equal values, as arguments.
func list(n int, value string) string {
	return `{"list":[` + strings.Repeat(value+",", n-1) + value + `]}`
}

// TestArgumentsThatTakeLongToBeCheckedAreRefused has megabytes of values that each are held against many
// schemas.
func TestArgumentsThatTakeLongToBeCheckedAreRefused(t *testing.T) {
	simulations.Sequential(t)
	alternatives := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"type":"object","properties":{"k":{"const":%d}},"required":["k"]}`, i))
		}
		return strings.Join(all, ",")
	}
	text := func(n int) string { return `"` + strings.Repeat("x", n) + `"` }
	address := `"[a-z0-9]{1,64}@[a-z0-9]{1,63}\\.[a-z]{2,10}"`
	numbers := strings.Trim(strings.Repeat("7,", 3000), ",")
	texts := strings.Trim(strings.Repeat(`"seven",`, 3000), ",")
	for _, tt := range []struct {
		name, items, rest, arguments string
		refused                      bool
	}{
		{name: "many alternatives", items: `{"anyOf":[` + alternatives(100) + `]}`, arguments: list(80_000, `{"k":99}`), refused: true},
		{name: "alternatives within others", items: `{"oneOf":[{"allOf":[{"anyOf":[` + alternatives(100) + `]}]}]}`, arguments: list(80_000, `{"k":99}`), refused: true},
		{name: "alternatives of what is not", items: `{"not":{"anyOf":[` + alternatives(100) + `]}}`, arguments: list(80_000, `{"k":999}`), refused: true},
		{name: "alternatives for some", items: `{"anyOf":[` + alternatives(100) + `]}`, arguments: list(500, `{"k":99}`)},
		{name: "few alternatives for many", items: `{"anyOf":[` + alternatives(4) + `]}`, arguments: list(20_000, `{"k":3}`)},
		{name: "an enumeration of numbers", items: `{"enum":[` + numbers + `]}`, arguments: list(70_000, `7`), refused: true},
		{name: "a short one of numbers", items: `{"enum":[` + numbers[:2*40-1] + `]}`, arguments: list(70_000, `7`), refused: true},
		{name: "a short one of texts", items: `{"enum":[` + texts[:8*40-1] + `]}`, arguments: list(70_000, `"seven"`)},
		{name: "an enumeration of texts", items: `{"enum":[` + texts + `]}`, arguments: list(70_000, `"seven"`), refused: true},
		{name: "one for some", items: `{"enum":[` + texts + `]}`, arguments: list(2000, `"seven"`)},
		{name: "lists that differ", items: `{}`, rest: `,"uniqueItems":true`, arguments: list(40_000, `[[],[]]`), refused: true},
		{name: "plain values that differ", items: `{}`, rest: `,"uniqueItems":true`, arguments: `{"list":[1,2,3` + strings.Repeat(`,"x"`, 40_000) + `]}`},
		{name: "as many values as there can be", items: `{"type":"integer"}`, arguments: list(50_000, "1")},
		{name: "schemas of three bytes", items: `{"allOf":[{}` + strings.Repeat(",{}", 50) + `]}`, arguments: list(14_000, "1"), refused: true},
		{name: "short lists that differ", items: `{}`, rest: `,"uniqueItems":true`, arguments: list(8000, `[]`), refused: true},
		{name: "a long text for many alternatives", items: `{"anyOf":[{"minLength":9}` + strings.Repeat(`,{"minLength":9}`, 300) + `]}`, arguments: list(1, text(1<<20)), refused: true},
		{name: "a long text for one", items: `{"type":"string","minLength":9}`, arguments: list(1, text(1<<20))},
		{name: "a long text for an address", items: `{"pattern":` + address + `}`, arguments: list(1, text(1<<20)), refused: true},
		{name: "for one among alternatives", items: `{"oneOf":[{"type":"null"},{"not":{"pattern":` + address + `}}]}`, arguments: list(1, text(1<<20)), refused: true},
		{name: "for an alternative of an alternative", items: `{"if":true,"then":{"anyOf":[{"allOf":[{"pattern":` + address + `}]}]}}`, arguments: list(1, text(1<<20)), refused: true},
		{name: "many texts for a pattern", items: `{"pattern":` + address + `}`, arguments: list(10_000, text(100)), refused: true},
		{name: "addresses for a pattern", items: `{"pattern":` + address + `}`, arguments: list(4000, text(20))},
		{name: "a long text for a short pattern", items: `{"pattern":"^[a-z]*$"}`, arguments: list(1, text(1<<20))},
		{name: "a long name for a pattern", items: `{"patternProperties":{` + address + `:true}}`, arguments: list(1, `{`+text(1<<20)+`:1}`), refused: true},
		{name: "a long name by its rule", items: `{"propertyNames":{"pattern":` + address + `}}`, arguments: list(1, `{`+text(1<<20)+`:1}`), refused: true},
		{name: "a short name for a pattern", items: `{"patternProperties":{` + address + `:true}}`, arguments: list(1, `{`+text(100)+`:1}`)},
		{name: "a long text for counts within counts", items: `{"pattern":"([a-z]{0,31}){0,30}@"}`, arguments: list(1, text(1<<20))},
	} {
		c, err := CompileSchema(json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","items":` + tt.items + tt.rest + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		arguments, err := jsonschema.UnmarshalJSON(strings.NewReader(tt.arguments))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.isTooMuch(t.Context(), arguments, len(tt.arguments)); got != tt.refused {
			t.Errorf("%s: %v", tt.name, got)
		}
		most := c.most.of(len(tt.arguments))
		w := &weigher{left: most, patterns: c.patterns}
		if most > 4*maxWork {
			continue // which are weighed, whatever they take
		}
		if w.weigh(c.tree, arguments); w.left < 0 {
			t.Errorf("%s: takes more than the %d at most", tt.name, most)
		}
	}
}

// TestWhatTakesLongIsNotChecked holds that it is refused before a validator sees it.
func TestWhatTakesLongIsNotChecked(t *testing.T) {
	c, schemaErr := CompileSchema(json.RawMessage(`{"properties":{"list":{"items":{"enum":[` + strings.Repeat(`"a",`, 3000) + `"b"]}}}}`))
	if schemaErr != nil {
		t.Fatal(schemaErr)
	}
	if err := c.Check(t.Context(), json.RawMessage(list(10_000, `"b"`))); err == nil || !strings.Contains(err.Error(), "too long to be checked") {
		t.Errorf("got %v", err)
	}
}

// TestCallsOfABatchAreCheckedWithinOneBudget, or ten would take ten times as long as one may.
func TestCallsOfABatchAreCheckedWithinOneBudget(t *testing.T) {
	simulations.Sequential(t)
	c, err := CompileSchema(json.RawMessage(`{"properties":{"list":{"items":{"enum":[` + strings.Repeat(`7,`, 99) + `8]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx := sharesWork(t.Context())
	for i, tt := range []struct {
		values  int
		refused bool
	}{{3000, false}, {3000, true}, {2000, false}, {2000, true}, {10, false}} {
		if err := c.Check(ctx, json.RawMessage(list(tt.values, "8"))); (err != nil) != tt.refused {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestPatternsThatCostMuchAreLeftToTheUpstream, by what RE2 makes of them: counts within counts look harmless.
func TestPatternsThatCostMuchAreLeftToTheUpstream(t *testing.T) {
	for _, tt := range []struct {
		pattern string
		left    bool
	}{
		{pattern: "^[a-z]+$"},
		{pattern: "^[a-z]{1,128}$"},
		{pattern: "^[a-zA-Z0-9.!#$%&'*+/=?^_`{|}~-]+@[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$"},
		{pattern: "^([a-z]{0,31}){0,30}@$", left: true},
		{pattern: "^(([a-z]{0,9}){0,9}){0,9}@$", left: true},
		{pattern: "^[a-z]{0,999}@$", left: true},
		{pattern: "^(?=a)b$", left: true},
		{pattern: "^" + strings.Repeat("(a|b)", 60) + "$", left: true},
	} {
		schema, err := json.Marshal(map[string]any{"properties": map[string]any{"text": map[string]any{"pattern": tt.pattern}}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := CompileSchema(schema)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(t.Context(), json.RawMessage(`{"text":"1 2"}`)); (err == nil) != tt.left {
			t.Errorf("%s: %v", tt.pattern, err)
		}
	}
}
