package schema

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

// text returns violations, one per line.
func text(violations []Violation) string {
	var lines []string
	for _, v := range violations {
		lines = append(lines, strings.TrimSpace(v.Pointer+" "+v.Detail))
	}
	return strings.Join(lines, "\n")
}

// check returns the violations of a value of a schema, both in JSON.
func check(t *testing.T, s *Schema, value string) string {
	t.Helper()
	decoded, violation := Decode([]byte(value))
	if violation != nil {
		t.Fatalf("Decode(%s) = %v, want a value", value, violation)
	}
	violations, _, err := s.Validate(decoded, NewWork(), 20)
	if err != nil {
		t.Fatalf("Validate(%s) error = %v, want none", value, err)
	}
	return text(violations)
}

// TestDetails checks the text of the violation of each keyword. It says what the schema requires, without the value.
func TestDetails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ schema, value, want string }{
		{`{"minimum":0}`, `-3`, "must be 0 or more"},
		{`{"maximum":0.25}`, `3`, "must be 0.25 or less"},
		{`{"exclusiveMinimum":1e300}`, `3`, "must be more than 1e+300"},
		{`{"exclusiveMaximum":-9007199254740993}`, `3`, "must be less than -9007199254740993"},
		{`{"multipleOf":0.01}`, `3.001`, "must be a multiple of 0.01"},
		{`{"type":"string"}`, `3`, "must be a string, not a number"},
		{`{"type":"integer"}`, `3.5`, "must be an integer, not a number with a fraction"},
		{`{"type":["object","null"]}`, `[]`, "must be null or an object, not an array"},
		{`{"enum":["a","b"]}`, `"SECRET"`, `must be one of "a", "b"`},
		{`{"enum":["a"]}`, `"SECRET"`, `must be "a"`},
		{
			`{"enum":[1,2,3,4,5,6,7,8,9,10,11,null,{}]}`, `"SECRET"`,
			"must be one of 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and 3 more",
		},
		{`{"const":{"a":1}}`, `"SECRET"`, "must be a fixed value"},
		{`{"minLength":2}`, `"é"`, "must have at least 2 characters"},
		{`{"maxLength":1}`, `"éé"`, "must have at most 1 character"},
		{`{"pattern":"^a+$"}`, `"SECRET"`, "must match the pattern ^a+$"},
		{`{"format":"date"}`, `"SECRET"`, "must have the format date, such as 2026-01-31"},
		{`{"contentEncoding":"base64"}`, `"SECRET"`, "must be encoded as base64"},
		{`{"minItems":1}`, `[]`, "must have at least 1 item"},
		{`{"maxItems":1}`, `[1,2]`, "must have at most 1 item"},
		{`{"uniqueItems":true}`, `["SECRET",1,"SECRET"]`, "must have no two equal items, such as the items 0 and 2"},
		{`{"contains":{"type":"integer"}}`, `["SECRET"]`, "must contain an item that matches the schema of contains"},
		{`{"minProperties":1}`, `{}`, "must have at least 1 property"},
		{`{"required":["a"]}`, `{}`, `must have the property "a"`},
		{`{"required":["a","b"]}`, `{}`, `must have the properties "a" and "b"`},
		{`{"dependentRequired":{"a":["b"]}}`, `{"a":"SECRET"}`, `must have the property "b", as it has "a"`},
		{`{"additionalProperties":false}`, `{"a/b~":"SECRET"}`, "/a~1b~0 must not be sent: there is no such property"},
		{`{"properties":{"a":false}}`, `{"a":"SECRET"}`, "/a must not be sent here"},
		{`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, "/ab must have a name that the schema allows"},
		{`{"not":{"type":"string"}}`, `"SECRET"`, "must not have the form that the schema excludes"},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, `"SECRET"`, "must be an integer or null, not a string"},
		{`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, `must have one of the properties "a" or "b"`},
		{
			`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `3`,
			"must have exactly one of the forms that the schema allows, not several",
		},
		{
			`{"items":{"type":"integer"}}`, `["SECRET",1,{}]`,
			"/0 must be an integer, not a string\n/2 must be an integer, not an object",
		},
	} {
		s, err := Compile(json.RawMessage(tt.schema))
		if err != nil {
			t.Errorf("Compile(%s) = %v, want no error", tt.schema, err)
			continue
		}
		if got := check(t, s, tt.value); got != tt.want {
			t.Errorf("Validate(%s) against %s = %q, want %q", tt.value, tt.schema, got, tt.want)
		}
	}
}

// TestFormats checks which formats are checked, with a valid and an invalid value for each.
func TestFormats(t *testing.T) {
	t.Parallel()
	for format, values := range map[string][2]string{
		"date": {`"2026-01-31"`, `"2026-02-30"`}, "date-time": {`"2026-01-31T12:00:00Z"`, `"2026-01-31 12:00"`},
		"time": {`"12:00:00Z"`, `"25:00:00Z"`}, "duration": {`"P1DT12H"`, `"1 day"`},
		"email": {`"a@example.com"`, `"a"`}, "hostname": {`"example.com"`, `"-a-"`},
		"ipv4": {`"10.0.0.1"`, `"10.0.0.256"`}, "ipv6": {`"::1"`, `"10.0.0.1"`},
		"uri": {`"https://example.com/a"`, `"/a"`}, "uri-reference": {`"/a"`, `"\\a"`},
		"uuid":         {`"6f1f7c3e-2d4b-4f4e-9c59-0f7d2b0a5c11"`, `"6f1f7c3e"`},
		"json-pointer": {`"/a/b"`, `"a"`}, "int32": {`2147483647`, `2147483648`},
		"int64": {`-9223372036854775808`, `9223372036854775808`}, "byte": {`"YQ=="`, `"YQ"`},
	} {
		s, err := Compile(json.RawMessage(`{"format":"` + format + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := check(t, s, values[0]); got != "" {
			t.Errorf("format %s: %s = %q, want no violations", format, values[0], got)
		}
		if got := check(t, s, values[1]); !strings.HasPrefix(got, "must have the format "+format) {
			t.Errorf("format %s: %s = %q, want a violation", format, values[1], got)
		}
	}
	for _, format := range []string{"regex", "password", "binary", "float", "iri", "uri-template", "semver", "unknown"} {
		s, err := Compile(json.RawMessage(`{"format":"` + format + `","properties":{"format":{"type":"string"}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := check(t, s, `"[ {{ %zz"`); got != "" {
			t.Errorf("format %s = %q, want no violations: it is not checked", format, got)
		}
	}
}

// TestDefinitions checks references between definitions, and that concurrent compilations share them.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	d := NewDefinitions(map[string]json.RawMessage{
		"List": json.RawMessage(
			`{"properties":{"next":{"$ref":"#/$defs/List"},"v":{"$ref":"#/$defs/a~1b%20c/properties/v"}}}`),
		"a/b c":    json.RawMessage(`{"properties":{"v":{"type":"integer"}}}`),
		"mistaken": json.RawMessage(`{"properties":{"x":{"type":"text"}}}`),
		"dangling": json.RawMessage(`{"items":{"$ref":"#/$defs/none"}}`),
		"remote":   json.RawMessage(`{"items":{"$ref":"https://example.com/schema"}}`),
		"huge":     json.RawMessage(`{"maximum":1e999999999}`),
	})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := d.Compile(json.RawMessage(`{"items":{"$ref":"#/$defs/List"},"const":0,"$defs":{"List":true}}`))
			if err != nil {
				t.Errorf("Compile(own definition) = %v, want no error", err)
			} else if got := check(t, s, `0`); got != "" {
				t.Errorf("Validate(0) = %q, want no violations", got)
			}
			s, err = d.Compile(json.RawMessage(`{"$ref":"#/$defs/List"}`))
			if err != nil {
				t.Errorf("Compile(List) = %v, want no error", err)
				return
			}
			const want = "/next/next/v must be an integer, not a string"
			if got := check(t, s, `{"next":{"next":{"v":"x"}}}`); got != want {
				t.Errorf("Validate() = %q, want %q", got, want)
			}
		})
	}
	wg.Wait()
	for name, want := range map[string]string{
		"mistaken": `definition "mistaken": /properties/x/type must be`,
		"dangling": `there is no definition "none"`,
		"remote":   "references to other documents are not supported",
		"huge":     "is not between -1e308 and 1e308",
	} {
		if _, err := d.Compile(json.RawMessage(`{"$ref":"#/$defs/` + name + `"}`)); err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), ":///") {
			t.Errorf("Compile(%s) = %v, want %q", name, err, want)
		}
	}
	if _, err := d.Compile(json.RawMessage(`{"$ref":"#/$defs/List"}`)); err != nil {
		t.Errorf("Compile(List) after errors = %v, want no error", err)
	}
}

// TestPointersAreBounded checks the pointers of long and hostile names.
func TestPointersAreBounded(t *testing.T) {
	t.Parallel()
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	s, err := Compile(json.RawMessage(`{"additionalProperties":false}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{strings.Repeat("é", 1_000_000), key, strings.Repeat("x", 240) + key} {
		violations, _, err := s.Validate(map[string]any{name: 1}, NewWork(), 20)
		if err != nil || len(violations) != 1 {
			t.Fatalf("Validate() = %d violations, %v, want 1", len(violations), err)
		}
		at := violations[0].Pointer
		if len(at) > maxPointerBytes || !utf8.ValidString(at) || strings.Contains(at, key[:20]) {
			t.Errorf("Pointer of %.20s… = %q, want at most %d bytes of UTF-8 without the key", name, at, maxPointerBytes)
		}
	}
}

// TestDecode checks the texts that Decode refuses, with the place and the detail of the violation.
func TestDecode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want string }{
		{`{"a":[1,{"b":1,"b":2}]}`, "/a/1/b must not be sent twice"},
		{`{"a":1e400}`, "/a must be a number of at most 64 characters between -1e308 and 1e308"},
		{`[1] 2`, "must be one JSON value, without anything after it"},
		{`[1] x`, "must be one JSON value, without anything after it"},
		{``, "must be JSON, and is empty"},
		{` `, "must be JSON, and is empty"},
		{`[1`, "must be JSON, and ends too early"},
		{"[\"\xff\"]", "/0 must be UTF-8 text"},
		{`{"a":"\ud800"}`, "/a must be JSON, and has a syntax error here"},
		{`{"a":01}`, "must be JSON, and has a syntax error here"},
		{strings.Repeat(`{"a":`, 200), strings.Repeat("/a", 128) + " must not be nested deeper than 128 levels"},
	} {
		_, violation := Decode([]byte(tt.text))
		if violation == nil {
			t.Errorf("Decode(%.50s) = no violation, want %q", tt.text, tt.want)
			continue
		}
		if got := strings.TrimSpace(violation.Pointer + " " + violation.Detail); got != tt.want {
			t.Errorf("Decode(%.50s) = %q, want %q", tt.text, got, tt.want)
		}
	}
	if _, violation := Decode([]byte(`[` + strings.Repeat("1,", MaxValues) + `1]`)); violation == nil {
		t.Errorf("Decode(%d values) = no violation, want one", MaxValues+2)
	}
}
