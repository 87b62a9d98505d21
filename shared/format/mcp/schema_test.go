package mcp

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestViolationsAreBounded checks that only the first violations are
// listed, that each is short, and that no character is cut in half.
func TestViolationsAreBounded(t *testing.T) {
	t.Parallel()
	properties := make([]string, 20)
	arguments := make([]string, len(properties))
	for i := range properties {
		properties[i] = fmt.Sprintf(`"p%02d":{"enum":[%q,%q,%q]}`, i, strings.Repeat("é", 50), strings.Repeat("é", 500+i),
			"x")
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

// TestViolationsHaveNoValues checks violations of arguments: they have no value, and no credential that a client used
// as the name of an argument.
func TestViolationsHaveNoValues(t *testing.T) {
	t.Parallel()
	const key = "gwk_0123456789ABCDEFGHIJKLMNOPQRSTUV_c598f4cb"
	c, err := CompileSchema(json.RawMessage(
		`{"properties":{"name":{"pattern":"^[a-z]+$"}},"additionalProperties":{"type":"integer"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for arguments, want := range map[string]string{
		`{"name":"` + key + `"}`:                                  "/name must match the pattern ^[a-z]+$",
		`{"name":"` + strings.Repeat("A", 150) + " " + key + `"}`: "/name must match the pattern ^[a-z]+$",
		`{"` + key + `":"` + key + `"}`:                           "must be an integer, not a string",
	} {
		if err := c.Check(t.Context(), json.RawMessage(arguments)); err == nil ||
			strings.Contains(err.Error(), key[:20]) || !strings.Contains(err.Error(), want) {
			t.Errorf("Check() error = %v, want %q without the key", err, want)
		}
	}
}

// TestResultViolationsHaveNoValues checks that the violations of results have a place and a requirement, and no value. A
// result counts as valid if it is too expensive to check, or has a number for which exact arithmetic would take minutes.
func TestResultViolationsHaveNoValues(t *testing.T) {
	t.Parallel()
	c, err := CompileSchema(json.RawMessage(`{"type":"object","required":["id"],"properties":{` +
		`"id":{"pattern":"^[a-z]{1,200}$"},"mail":{"pattern":"[a-z0-9]{1,64}@[a-z0-9]{1,63}\\.[a-z]{2,10}"},` +
		`"n":{"type":"integer","maximum":5}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, result, want string }{
		{"valid", `{"id":"a","n":1}`, ""},
		{"a pattern", `{"id":"SECRET"}`, "/id must match the pattern ^[a-z]{1,200}$"},
		{
			"two violations", `{"id":"SECRET","n":77}`,
			"/id must match the pattern ^[a-z]{1,200}$; /n must be 5 or less",
		},
		{"a missing property", `{}`, `/ must have the property "id"`},
		{
			"a large result", `{"id":"` + strings.Repeat("SECRET", 4000) + `"}`,
			"/id must match the pattern ^[a-z]{1,200}$",
		},
		{"an expensive result", `{"id":"a","mail":"` + strings.Repeat("secret", 200_000) + `"}`, ""},
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

// TestBatchSharesWorkBudget checks that validating the calls of a batch cannot take longer than validating one call.
func TestBatchSharesWorkBudget(t *testing.T) {
	t.Parallel()
	c, err := CompileSchema(json.RawMessage(`{"properties":{"list":{"items":{"allOf":[{"$ref":"#/$defs/a"},` +
		`{"$ref":"#/$defs/a"}]}}},"$defs":{"a":{"allOf":[` + strings.Repeat(`{"minimum":1},`, 99) + `true]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	ctx := withSharedWork(t.Context()) // each value takes some 2,200 units
	for i, tt := range []struct {
		values  int
		refused bool
	}{{3000, false}, {3000, true}, {10, true}} {
		arguments := `{"list":[` + strings.Repeat("8,", tt.values) + `8]}`
		err := c.Check(ctx, json.RawMessage(arguments))
		if (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "too long to be checked") {
			t.Errorf("call %d with %d values: Check() = %v, want too much work: %t", i, tt.values, err, tt.refused)
		}
	}
}
