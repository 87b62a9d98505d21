package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// list is a property of so many equal values, as arguments.
func list(n int, value string) string {
	return `{"list":[` + strings.Repeat(value+",", n-1) + value + `]}`
}

// TestArgumentsThatTakeLongToBeCheckedAreRefused has megabytes of values that each are held against many
// schemas.
func TestArgumentsThatTakeLongToBeCheckedAreRefused(t *testing.T) {
	alternatives := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"type":"object","properties":{"k":{"const":%d}},"required":["k"]}`, i))
		}
		return strings.Join(all, ",")
	}
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
		{name: "plain values that differ", items: `{}`, rest: `,"uniqueItems":true`, arguments: `{"list":[1,2,3` + strings.Repeat(`,"x"`, 200_000) + `]}`},
		{name: "as many values as there can be", items: `{"type":"integer"}`, arguments: list(500_000, "1")},
	} {
		c, err := compileSchema(json.RawMessage(`{"type":"object","properties":{"list":{"type":"array","items":` + tt.items + tt.rest + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		arguments, err := jsonschema.UnmarshalJSON(strings.NewReader(tt.arguments))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.isTooMuch(arguments, len(tt.arguments)); got != tt.refused {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestWhatTakesLongIsNotChecked holds that it is refused before a validator sees it.
func TestWhatTakesLongIsNotChecked(t *testing.T) {
	c := &caller{schema: func() (*checker, error) {
		return compileSchema(json.RawMessage(`{"properties":{"list":{"items":{"enum":[` + strings.Repeat(`"a",`, 3000) + `"b"]}}}}`))
	}}
	if err := c.check(json.RawMessage(list(10_000, `"b"`))); err == nil || !strings.Contains(err.Error(), "too long to be checked") {
		t.Errorf("got %v", err)
	}
}
