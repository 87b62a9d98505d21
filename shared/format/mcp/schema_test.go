package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/format/regex"
)

// TestExpensivePatternsMatchEverything checks that expensive patterns, patterns that RE2 does not support, and texts
// that are no patterns are not checked. The upstream checks them.
func TestExpensivePatternsMatchEverything(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text    string
		checked bool
	}{
		{"^a{99}$", true},
		{"^a{1,200}$", true},
		{"^a{1,1024}$", true},
		{"^a{495}b$", true},
		{"^a{496}b$", false},
		{"^a{1,600}b$", false},
		{"^(a{31}){30}$", false},
		{"^" + strings.Repeat("a", regex.MaxBytes-2) + "$", true},
		{"^" + strings.Repeat("a", regex.MaxBytes-1) + "$", false},
		{"^(?=a)b$", true},
		{"^a(?=b)", false},
		{`^(a)\1$`, false},
		{"^[$", false},
	} {
		compiled, err := (&Schema{patterns: map[string]program{}}).compilePattern(test.text)
		if err != nil {
			t.Errorf("compilePattern(%.20s) error = %v, want none", test.text, err)
			continue
		}
		if _, unchecked := compiled.(matchAll); unchecked == test.checked || compiled.MatchString("zzz") == test.checked {
			t.Errorf("compiled %.20s of %d bytes: checked = %t, want %t", test.text, len(test.text), !unchecked, test.checked)
		}
	}
}

// TestViolationsAreBounded checks that only the first violations are
// listed, that each is short, and that no character is cut in half.
func TestViolationsAreBounded(t *testing.T) {
	t.Parallel()
	properties := make([]string, 20)
	arguments := make([]string, len(properties))
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%02d":{"enum":[%q]}`, i, strings.Repeat("é", 500+i))
		arguments[i] = fmt.Sprintf(`"p%02d":1`, i)
	}
	c, schemaErr := CompileSchema(json.RawMessage(`{"properties":{` + strings.Join(properties, ",") + `}}`))
	if schemaErr != nil {
		t.Fatal(schemaErr)
	}
	err := c.Check(t.Context(), json.RawMessage("{"+strings.Join(arguments, ",")+"}"))
	if err == nil {
		t.Fatal("Check(invalid arguments) = nil, want an error")
	}
	text := err.Error()
	if reported := strings.Count(text, "/p"); reported != maxViolations || !utf8.ValidString(text) ||
		len(text) > maxViolations*(maxViolationBytes+10)+100 {
		t.Errorf("Check() error = %d violations in %d bytes, want %d violations of valid UTF-8: %.500s",
			reported, len(text), maxViolations, text)
	}
}

// TestMissingArgumentsAreAnEmptyObject checks missing arguments: clients leave them out, or send null.
func TestMissingArgumentsAreAnEmptyObject(t *testing.T) {
	t.Parallel()
	c, err := CompileSchema(json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"", " ", "null", " null\n", "{}"} {
		var dst map[string]json.RawMessage
		if err := c.Read(t.Context(), json.RawMessage(raw), &dst); err != nil || dst == nil || len(dst) > 0 {
			t.Errorf("Read(%q) = %v, %v, want an empty object and no error", raw, dst, err)
		}
	}
	for _, raw := range []string{"[]", "5", `{"name":5}`} {
		if err := c.Read(t.Context(), json.RawMessage(raw), &struct{}{}); err == nil {
			t.Errorf("Read(%q) = nil, want an error", raw)
		}
	}
}

// TestViolationsRedactCredentials checks the violation of a pattern, whose message contains the invalid value.
func TestViolationsRedactCredentials(t *testing.T) {
	t.Parallel()
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	c, err := CompileSchema(json.RawMessage(`{"properties":{"name":{"pattern":"^[a-z]+$"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{key, strings.Repeat("A", 150) + " " + key} {
		if err := c.Check(t.Context(), json.RawMessage(`{"name":"`+name+`"}`)); err == nil ||
			strings.Contains(err.Error(), key[:20]) || !strings.Contains(err.Error(), "/name") {
			t.Errorf("Check() error = %v, want one at /name without the key", err)
		}
	}
}

// TestResultViolationsHaveNoValues checks the violations of results: their places and keywords, and no value.
// A result that is too expensive to be checked counts as valid, and so does one with a number that exact arithmetic would
// take minutes for. Results use no work of a batch.
func TestResultViolationsHaveNoValues(t *testing.T) {
	t.Parallel()
	c, err := CompileSchema(json.RawMessage(`{"type":"object","required":["id"],"properties":{` +
		`"id":{"pattern":"^[a-z]$"},"n":{"type":"integer","maximum":5},` +
		`"list":{"items":{"enum":[` + strings.Repeat(`7,`, 99) + `8]}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, result, want string }{
		{"valid", `{"id":"a","n":1}`, ""},
		{"a pattern", `{"id":"SECRET"}`, "/id does not match pattern"},
		{"two violations", `{"id":"SECRET","n":77}`, "/id does not match pattern; /n does not match maximum"},
		{"a missing property", `{}`, "/ does not match required"},
		{"a large result", `{"id":"` + strings.Repeat("SECRET", 4000) + `"}`, errTooLarge.Error()},
		{"an expensive result", `{"id":"SECRET",` + list(20_000, "8")[1:], ""},
		{"a number that is too large", `{"id":"a","n":1e1000001}`, ""},
		{"a number that is too precise, in a list", `{"id":"SECRET","list":[1e-999999]}`, ""},
		{"no JSON", `{`, "it is not JSON"},
	} {
		all := c.CheckResult(json.RawMessage(tt.result))
		slices.Sort(all)
		if got := strings.Join(all, "; "); got != tt.want {
			t.Errorf("%s: CheckResult() = %s, want %s", tt.name, got, tt.want)
		}
	}
}
