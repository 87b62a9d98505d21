package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestPatternsThatCostMuchRefuseNothing: RE2 makes a thousand instructions of x{1000}, and those that look ahead it does
// not know. The upstream checks them.
func TestPatternsThatCostMuchRefuseNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		text    string
		checked bool
	}{
		{"^a{99}$", true},
		{"^a{1,200}$", true},
		{"^a{496}$", true},
		{"^a{497}$", false},
		{"^a{1,600}$", false},
		{"^(a{31}){30}$", false},
		{"^" + strings.Repeat("a", maxPatternBytes-2) + "$", true},
		{"^" + strings.Repeat("a", maxPatternBytes-1) + "$", false},
		{"^(?=a)b$", false},
		{"^[$", false},
	} {
		compiled, err := (&Schema{patterns: map[string]program{}}).pattern(test.text)
		if err != nil {
			t.Errorf("%.20s: %v", test.text, err)
			continue
		}
		if _, unchecked := compiled.(anything); unchecked == test.checked || compiled.MatchString("zzz") == test.checked {
			t.Errorf("%.20s of %d bytes: checked is %t", test.text, len(test.text), !unchecked)
		}
	}
}

// TestWhatIsToldOfArgumentsIsBounded: the first violations, each short, with no half of a character.
func TestWhatIsToldOfArgumentsIsBounded(t *testing.T) {
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
		t.Fatal("arguments that do not fit are taken")
	}
	text := err.Error()
	if told := strings.Count(text, "/p"); told != maxViolations || !utf8.ValidString(text) || len(text) > maxViolations*(maxViolationBytes+10)+100 {
		t.Errorf("%d violations in %d bytes are told: %.500s", told, len(text), text)
	}
}

// TestNoArgumentsAreNoneOfThem: clients leave them out, or send null.
func TestNoArgumentsAreNoneOfThem(t *testing.T) {
	t.Parallel()
	c, err := CompileSchema(json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range []string{"", " ", "null", " null\n", "{}"} {
		var to map[string]json.RawMessage
		if err := c.Read(t.Context(), json.RawMessage(raw), &to); err != nil || to == nil || len(to) > 0 {
			t.Errorf("%q is read as %v, %v", raw, to, err)
		}
	}
	for _, raw := range []string{"[]", "5", `{"name":5}`} {
		if err := c.Read(t.Context(), json.RawMessage(raw), &struct{}{}); err == nil {
			t.Errorf("%q is taken", raw)
		}
	}
}

// TestAKeyInAWrongPlaceIsNotRepeated, where a pattern's violation repeats what does not fit.
func TestAKeyInAWrongPlaceIsNotRepeated(t *testing.T) {
	t.Parallel()
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	c, err := CompileSchema(json.RawMessage(`{"properties":{"name":{"pattern":"^[a-z]+$"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{key, strings.Repeat("A", 150) + " " + key} {
		if err := c.Check(t.Context(), json.RawMessage(`{"name":"`+name+`"}`)); err == nil || strings.Contains(err.Error(), key[:20]) || !strings.Contains(err.Error(), "/name") {
			t.Errorf("it says %v", err)
		}
	}
}
