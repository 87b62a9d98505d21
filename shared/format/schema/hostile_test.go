package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// compileWith compiles a schema with definitions, which are schemas in JSON by their names.
func compileWith(t *testing.T, definitions map[string]string, root string) *Schema {
	t.Helper()
	raw := map[string]json.RawMessage{}
	for name, text := range definitions {
		raw[name] = json.RawMessage(text)
	}
	s, err := NewDefinitions(raw).Compile(json.RawMessage(root))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nested returns JSON with n levels of lists or objects: nested(2, "[", "1", "]") is [[1]].
func nested(n int, opening, inner, closing string) string {
	return strings.Repeat(opening, n) + inner + strings.Repeat(closing, n)
}

// bombs are schemas whose references apply exponentially many schemas, and values for them.
func bombs() map[string]struct {
	definitions map[string]string
	value       string
} {
	doubling := func(keyword, end string) map[string]string {
		all := map[string]string{"d40": end}
		for i := range 40 {
			next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			all[fmt.Sprintf("d%d", i)] = fmt.Sprintf(`{%q:[%s,%s]}`, keyword, next, next)
		}
		return all
	}
	type bomb = struct {
		definitions map[string]string
		value       string
	}
	return map[string]bomb{
		"allOf that doubles 40 times": {doubling("allOf", `{"type":"integer"}`), `1`},
		"anyOf that doubles 40 times": {doubling("anyOf", `{"type":"string"}`), `1`},
		"oneOf that doubles 40 times": {doubling("oneOf", `{"type":"integer"}`), `1`},
		"alternatives that repeat themselves at each level": {map[string]string{
			"d0": `{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}}},` +
				`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"title":"other"}]}`,
		}, nested(100, `{"a":`, "1", "}")},
		"negations that repeat themselves at each level": {map[string]string{
			"d0": `{"type":"array","items":{"allOf":[{"not":{"not":{"$ref":"#/$defs/d0"}}},{"$ref":"#/$defs/d0"},` +
				`{"not":{"not":{"$ref":"#/$defs/d0"}}}]}}`,
		}, nested(100, "[", "", "]")},
		"conditions that repeat themselves at each level": {map[string]string{
			"d0": `{"if":{"items":{"$ref":"#/$defs/d0"}},"then":{"items":{"$ref":"#/$defs/d0"}}}`,
		}, nested(100, "[", "1", "]")},
	}
}

// TestSchemaBombsAreRefused checks that the validation of a small value stops when its work is spent, for schemas that
// would apply exponentially many schemas.
func TestSchemaBombsAreRefused(t *testing.T) {
	simulations.SkipUnderRace(t)
	for name, bomb := range bombs() {
		s := compileWith(t, bomb.definitions, `{"$ref":"#/$defs/d0"}`)
		value, violation := Decode([]byte(bomb.value))
		if violation != nil {
			t.Fatal(violation)
		}
		const units = 200_000
		work := &Work{}
		work.remaining.Store(units)
		if _, _, err := s.Validate(value, work, 20); !errors.Is(err, ErrTooMuchWork) || work.Remaining() < -1000 {
			t.Errorf("%s: Validate() error = %v after %d units, want ErrTooMuchWork after %d", name, err,
				units-work.Remaining(), units)
		}
		if shape := s.Shape(); len(shape.schemas) > 200 {
			t.Errorf("%s: Shape() has %d schemas, want each one once", name, len(shape.schemas))
		}
	}
}

// TestCyclesAreErrors checks that schemas that apply themselves to the same value are errors, and that recursion through
// properties is allowed.
func TestCyclesAreErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b  string
		cycle bool
	}{
		{`{"$ref":"#/$defs/a"}`, `true`, true},
		{`{"$ref":"#/$defs/b"}`, `{"$ref":"#/$defs/a"}`, true},
		{`{"allOf":[{"$ref":"#/$defs/b"}]}`, `{"not":{"$ref":"#/$defs/a"}}`, true},
		{`{"anyOf":[true,{"$ref":"#/$defs/b"}]}`, `{"oneOf":[{"$ref":"#/$defs/a"}]}`, true},
		{`{"if":{"$ref":"#/$defs/b"}}`, `{"dependentSchemas":{"x":{"$ref":"#/$defs/a"}}}`, true},
		{`{"properties":{"x":{"$ref":"#/$defs/b"}}}`, `{"then":true,"if":true,"else":{"$ref":"#/$defs/b"}}`, false},
		{`{"properties":{"x":{"$ref":"#/$defs/b"}}}`, `{"if":{"$ref":"#/$defs/b"}}`, true},
		{`{"properties":{"x":{"$ref":"#/$defs/b"}}}`, `{"items":{"$ref":"#/$defs/a"}}`, false},
		{`{"additionalProperties":{"$ref":"#/$defs/a"}}`, `true`, false},
	} {
		d := NewDefinitions(map[string]json.RawMessage{"a": json.RawMessage(tt.a), "b": json.RawMessage(tt.b)})
		for _, attempt := range []string{"first", "second"} {
			_, err := d.Compile(json.RawMessage(`{"$ref":"#/$defs/a"}`))
			if (err != nil) != tt.cycle || err != nil && !strings.Contains(err.Error(), `definition "`) {
				t.Errorf("%s Compile() of a: %s, b: %s = %v, want an error that names a definition: %t", attempt, tt.a, tt.b,
					err, tt.cycle)
			}
		}
	}
}

// TestViolationsOfHostileValuesAreBounded checks invalid values of a megabyte: the violations are complete up to the
// limit, and the search for them needs little memory.
func TestViolationsOfHostileValuesAreBounded(t *testing.T) {
	simulations.SkipUnderRace(t)
	alternatives := strings.Repeat(`{"type":"object","required":["x"]},`, 50)
	for _, tt := range []struct{ name, schema, value string }{
		{"many wrong items", `{"items":{"type":"integer"}}`, `[` + strings.Repeat(`"x",`, 250_000) + `1]`},
		{
			"many unknown names", `{"additionalProperties":false}`,
			`{` + repeatNumbered(`"name%d":1,`, 60_000) + `"x":1}`,
		},
		{"many alternatives", `{"items":{"anyOf":[` + alternatives + `false]}}`, `[` + strings.Repeat(`{},`, 100_000) + `1]`},
		{
			"alternatives for deep values", `{"$ref":"#/$defs/a"}`, nested(100, `[`, `1`, `]`),
		},
		{"duplicate items", `{"uniqueItems":true}`, `[` + strings.Repeat(`[[]],`, 200_000) + `1]`},
		{
			"many unevaluated names", `{"unevaluatedProperties":false}`,
			`{` + repeatNumbered(`"name%d":1,`, 60_000) + `"x":1}`,
		},
	} {
		s := compileWith(t, map[string]string{
			"a": `{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/a"}},{"type":"string"}]}`,
		}, tt.schema)
		value, violation := Decode([]byte(tt.value))
		if violation != nil {
			t.Fatal(violation)
		}
		var violations []Violation
		var more bool
		var err error
		bytes := allocated(func() { violations, more, err = s.Validate(value, NewWork(), 20) })
		if err != nil || len(violations) == 0 || len(violations) > 20 {
			t.Errorf("%s: Validate() = %d violations, %v, want 1 to 20", tt.name, len(violations), err)
		}
		if len(violations) == 20 && !more {
			t.Errorf("%s: Validate() = 20 violations and no more, want more", tt.name)
		}
		const maxBytes = 48 << 20
		if bytes > maxBytes {
			t.Errorf("%s: Validate() allocated %d bytes, want at most %d", tt.name, bytes, maxBytes)
		}
	}
}

// repeatNumbered returns a text n times. The format is filled with the numbers from 0.
func repeatNumbered(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// allocated returns the number of bytes that a function allocates, including those that it no longer needs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
