package openapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// twentyProperties returns the description of a body with twenty properties of several types, and a body of a kilobyte.
func twentyProperties() (description, body string) {
	kinds := []struct{ schema, value string }{
		{`{"type":"string","minLength":1,"maxLength":100}`, `"` + strings.Repeat("text ", 12) + `"`},
		{`{"type":"integer","minimum":0,"maximum":1000000}`, `41234`},
		{`{"type":"string","format":"date-time"}`, `"2026-01-31T12:00:00Z"`},
		{`{"enum":["red","green","blue"]}`, `"green"`},
		{`{"type":"string","pattern":"^[A-Z]{2}-[0-9]{4}$"}`, `"AB-1234"`},
		{`{"type":"array","items":{"type":"string"},"maxItems":10}`, `["one","two","three"]`},
		{`{"type":"number","minimum":0.5}`, `12.75`},
		{`{"type":"boolean"}`, `true`},
		{`{"type":["string","null"],"format":"uuid"}`, `"6f1f7c3e-2d4b-4f4e-9c59-0f7d2b0a5c11"`},
		{`{"$ref":"#/$defs/Address"}`, `{"street":"Main street 1","city":"Springfield","zip":"12345"}`},
	}
	var properties, values, names []string
	for i := range 20 {
		k := kinds[i%len(kinds)]
		properties = append(properties, fmt.Sprintf(`"property%d":%s`, i, k.schema))
		values = append(values, fmt.Sprintf(`"property%d":%s`, i, k.value))
		names = append(names, fmt.Sprintf(`"property%d"`, i))
	}
	return `{"body":{"required":true,"content":[{"type":"application/json","schema":{"type":"object","required":[` +
			strings.Join(names[:10], ",") + `],"properties":{` + strings.Join(properties, ",") +
			`},"additionalProperties":false}}]}}`,
		`{` + strings.Join(values, ",") + `}`
}

const address = `{"Address":{"type":"object","required":["street","city"],"properties":{"street":{"type":"string"},` +
	`"city":{"type":"string"},"zip":{"type":"string","pattern":"^[0-9]{5}$"}}}}`

// BenchmarkJSONBody checks a valid body of a kilobyte with twenty properties.
func BenchmarkJSONBody(b *testing.B) {
	description, body := twentyProperties()
	q := compile(b, address, description)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		var r Report
		q.CheckBody(&r, "application/json", []byte(body))
		if !r.IsValid() {
			b.Fatalf("CheckBody(valid body) = %s, want no violations", r.text())
		}
	}
}

// BenchmarkParameters checks a path, a query and header fields with six parameters.
func BenchmarkParameters(b *testing.B) {
	q := compile(b, "", `{"parameters":[
		{"in":"path","name":"id","style":"simple","required":true,"schema":{"type":"integer"}},
		{"in":"query","name":"limit","style":"form","explode":true,"schema":{"type":"integer","minimum":1,"maximum":100}},
		{"in":"query","name":"sort","style":"form","explode":true,"schema":{"enum":["asc","desc"]}},
		{"in":"query","name":"tags","style":"form","explode":true,"schema":{"type":"array","items":{"type":"string"}}},
		{"in":"query","name":"filter","style":"deepObject","explode":true,
			"schema":{"type":"object","properties":{"a":{"type":"integer"}}}},
		{"in":"header","name":"X-Request","style":"simple","schema":{"type":"string","format":"uuid"}}]}`)
	header := http.Header{"X-Request": {"6f1f7c3e-2d4b-4f4e-9c59-0f7d2b0a5c11"}}
	b.ReportAllocs()
	for b.Loop() {
		var r Report
		q.CheckPath(&r, func(string) (string, bool) { return "42", true })
		q.CheckQuery(&r, "limit=10&sort=asc&tags=a&tags=b&filter%5Ba%5D=5")
		q.CheckHeaders(&r, header)
		if !r.IsValid() {
			b.Fatalf("checks of valid parameters = %s, want no violations", r.text())
		}
	}
}
