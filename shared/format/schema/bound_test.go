package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// repeated returns a JSON array of n equal items.
func repeated(n int, item string) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }

// TestWorkOfKeywordsIsCounted checks values and schemas for which one keyword takes long, although few schemas are
// applied. Each case has a smaller number of repetitions that is allowed.
func TestWorkOfKeywordsIsCounted(t *testing.T) {
	simulations.SkipUnderRace(t)
	object := `{` + repeatNumbered(`"name%d":1,`, 5000) + `"x":1}`
	numbers := repeated(2000, "1.5e-200")
	for _, tt := range []struct{ name, schema, value string }{
		{"equal lists", `{"const":` + numbers + `}`, numbers},
		{"enumerated lists", `{"enum":[` + numbers + `,1]}`, numbers},
		{"many properties", `{}`, object},
		{"long names", `{"properties":{"a":true}}`, `{"` + strings.Repeat("a", 300_000) + `":1}`},
		{"unevaluated properties", `{"anyOf":[{"unevaluatedProperties":true},false]}`, object},
		{"required names", `{"required":[` + repeatNumbered(`"name%d",`, 4999) + `"x"]}`, object},
		{"names for many patterns", `{"patternProperties":{"a[0-9]{9}z":true}}`, object},
		{"unique numbers", `{"uniqueItems":true}`, `[` + repeatNumbered("1e%d,", 300) + repeatNumbered("2e%d,", 300) + `3]`},
		{"unique short lists", `{"uniqueItems":true}`, `[` + repeatNumbered(numbers[:800]+`%d],`, 9) + `1]`},
		{"a multiple", `{"items":{"multipleOf":1e-300}}`, repeated(500, "1e300")},
		{"an integer", `{"items":{"type":"integer","format":"int64"}}`, repeated(500, "900000000000000e3")},
	} {
		for n, refused := range map[int]bool{1: false, 400: true} {
			s := compileWith(t, map[string]string{"a": tt.schema}, `{"allOf":`+repeated(n, `{"$ref":"#/$defs/a"}`)+`}`)
			value, violation := Decode([]byte(tt.value))
			if violation != nil {
				t.Fatalf("%s: Decode() = %v, want a value", tt.name, violation)
			}
			const units = 500_000
			work := &Work{}
			work.remaining.Store(units)
			if valid, err := s.Matches(value, work); errors.Is(err, ErrTooMuchWork) != refused || err == nil && !valid {
				t.Errorf("%s, %d times: Matches() = %t, %v after %d units, want too much work: %t", tt.name, n, valid, err,
					units-work.Remaining(), refused)
			}
		}
	}
}

// TestEqualPartsInOtherStructures checks uniqueItems for lists that consist of the same parts in different structures. The
// validation must not compare each of them with each other one.
func TestEqualPartsInOtherStructures(t *testing.T) {
	simulations.SkipUnderRace(t)
	s := compileWith(t, nil, `{"uniqueItems":true}`)
	var items []any
	for i := range 1 << 13 {
		items = append(items, lists(i, 14))
	}
	if violations, _, err := s.Validate(items, NewWork(), 20); err != nil || len(violations) > 0 {
		t.Errorf("Validate(different lists) = %v, %v, want none", violations, err)
	}
	items = append(items, items[5])
	if violations, _, err := s.Validate(items, NewWork(), 20); err != nil || len(violations) != 1 ||
		violations[0].Detail != "must have no two equal items, such as the items 5 and 8192" {
		t.Errorf("Validate(two equal lists) = %v, %v, want the items 5 and 8192", violations, err)
	}
}

// lists returns a list that has n lists, at all levels together. structure has one bit for each of them: the next list is
// within it, or after it.
func lists(structure, n int) []any {
	if n == 0 {
		return []any{}
	}
	rest := lists(structure/2, n-1)
	if structure%2 == 0 {
		return append([]any{[]any{}}, rest...)
	}
	return []any{rest}
}

// TestErrorsAreBounded checks invalid values whose errors would take much memory.
func TestErrorsAreBounded(t *testing.T) {
	simulations.SkipUnderRace(t)
	required := `{"required":[` + repeatNumbered(`"name%d",`, 20_000) + `"x"]}`
	for _, tt := range []struct{ name, schema, value string }{
		{"missing names", `{"items":` + required + `}`, repeated(400, "{}")},
		{"missing names in alternatives", `{"items":{"anyOf":[` + required + `,false]}}`, repeated(400, "{}")},
		{
			"missing dependent names", `{"items":{"dependentRequired":{"a":` + required[12:len(required)-1] + `}}}`,
			repeated(400, `{"a":1}`),
		},
		{"items of a list without a match", `{"contains":{"type":"string"}}`, repeated(150_000, "1")},
		{
			"names", `{"propertyNames":{"anyOf":[{"maxLength":1},{"maxLength":2}]}}`,
			`{` + repeatNumbered(`"name%d":1,`, 40_000) + `"xyz":1}`,
		},
	} {
		s := compileWith(t, nil, tt.schema)
		value, violation := Decode([]byte(tt.value))
		if violation != nil {
			t.Fatalf("%s: Decode() = %v, want a value", tt.name, violation)
		}
		var violations []Violation
		var err error
		const maxBytes = 64 << 20
		if bytes := allocated(func() { violations, _, err = s.Validate(value, NewWork(), 20) }); bytes > maxBytes {
			t.Errorf("%s: Validate() allocated %d bytes, want at most %d", tt.name, bytes, maxBytes)
		}
		if err != nil || len(violations) == 0 {
			t.Errorf("%s: Validate() = %v, %v, want violations", tt.name, violations, err)
		}
	}
}

// TestViolationsOfPartsAreTrue checks that valid parts of large invalid values have no violations, even if the search for
// violations ends early.
func TestViolationsOfPartsAreTrue(t *testing.T) {
	simulations.SkipUnderRace(t)
	never := strings.Repeat(`{"type":"object"},`, 19)
	for _, schema := range []string{
		`{"items":{"anyOf":[` + never + `{"type":"integer"}]}}`,
		`{"items":{"oneOf":[` + never + `{"type":"integer"}]}}`,
		`{"items":{"not":{"anyOf":[` + never + `{"type":"string"}]}}}`,
		`{"items":{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}]}}`,
		`{"items":{"if":{"anyOf":[` + never + `{"type":"integer"}]},"else":false}}`,
	} {
		s := compileWith(t, map[string]string{"a": `{"anyOf":[` + never + `{"type":"integer"}]}`}, schema)
		for _, count := range []int{100, 45_000} {
			var value []any
			for range count {
				value = append(value, json.Number("7"))
			}
			value = append(value, "text")
			violations, _, err := s.Validate(value, NewWork(), 20)
			if err != nil || len(violations) == 0 {
				t.Errorf("%.60s with %d items: Validate() = %v, %v, want violations", schema, count, violations, err)
			}
			for _, v := range violations {
				if want := fmt.Sprintf("/%d", count); v.Pointer != want && (count == 100 || v.Pointer != "") {
					t.Errorf("%.60s with %d items: Validate() = %v, want a violation at %s", schema, count, v, want)
				}
			}
		}
	}
}

// TestViolationsWithOnePlaceAreInOrder checks violations that the library finds in random order.
func TestViolationsWithOnePlaceAreInOrder(t *testing.T) {
	t.Parallel()
	s := compileWith(t, nil, `{"additionalProperties":false,"properties":{"list":{"items":{"type":"integer"}},"b":true},`+
		`"dependentRequired":{"list":["x"],"b":["y"],"c":["z"]}}`)
	value, violation := Decode([]byte(`{"list":[1,2,"x",4,5,6,7,8,9,10,"x"],"b":1,"c":1,"a":1,"z":1}`))
	if violation != nil {
		t.Fatal(violation)
	}
	for range 20 {
		violations, more, err := s.Validate(value, NewWork(), 5)
		var got []string
		for _, v := range violations {
			got = append(got, v.Pointer)
		}
		if want := "||/a|/c|/list/2"; strings.Join(got, "|") != want {
			t.Fatalf("Validate() = %v, want violations at %s", violations, want)
		}
		if err != nil || !more {
			t.Fatalf("Validate() = %t, %v, want more violations", more, err)
		}
	}
}
