package openapi

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatewright/gatewright/shared/format/schema"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// everything describes a request with parameters in all locations and styles, and bodies of all media types.
const everything = `{"parameters":[
	{"in":"path","name":"p","style":"simple","required":true,"schema":{"type":"array","items":{"type":"integer"}}},
	{"in":"path","name":"l","style":"label","schema":{"type":"object"}},
	{"in":"path","name":"m","style":"matrix","explode":true,"schema":{"type":["array","string"]}},
	{"in":"query","name":"q","style":"form","explode":true,
		"schema":{"type":"array","items":{"type":["integer","string"]}}},
	{"in":"query","name":"s","style":"spaceDelimited","schema":{"type":"array","uniqueItems":true}},
	{"in":"query","name":"d","style":"deepObject","explode":true,"schema":{"$ref":"#/$defs/Tree"}},
	{"in":"query","name":"o","style":"form","explode":true,
		"schema":{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":{"type":"string"}}},
	{"in":"query","name":"j","contentType":"application/json","schema":{"$ref":"#/$defs/Tree"}},
	{"in":"header","name":"H","style":"simple","schema":{"type":"object"}},
	{"in":"cookie","name":"c","style":"form","explode":true,"schema":{"type":"integer","minimum":3}}],
	"body":{"required":true,"content":[
		{"type":"application/json","schema":{"$ref":"#/$defs/Tree"}},
		{"type":"application/x-www-form-urlencoded","schema":{"$ref":"#/$defs/Tree"},
			"encoding":{"children":{"style":"deepObject","explode":true}}},
		{"type":"multipart/form-data","schema":{"$ref":"#/$defs/Tree"}},
		{"type":"text/*","schema":{"type":"string","pattern":"^[a-z]+@[a-z]{1,60}$"}}]}}`

const tree = `{"Tree":{"type":"object","properties":{"value":{"type":"number","maximum":10},` +
	`"list":{"type":"array","uniqueItems":true,"items":{"$ref":"#/$defs/Tree"}},` +
	`"text":{"type":"string","format":"date"},` +
	`"children":{"type":"object","additionalProperties":{"anyOf":[{"$ref":"#/$defs/Tree"},{"type":"integer"}]}}},` +
	`"patternProperties":{"^x-":{"type":"boolean"}}}}`

// checkAll checks a text as each part of a request, and returns one report for each part.
func checkAll(q *Request, text string) []*Report {
	var all []*Report
	check := func(f func(r *Report)) {
		r := &Report{}
		f(r)
		all = append(all, r)
	}
	check(func(r *Report) { q.CheckPath(r, func(string) (string, bool) { return text, true }) })
	check(func(r *Report) { q.CheckQuery(r, text) })
	check(func(r *Report) { q.CheckHeaders(r, http.Header{"H": {text}}) })
	check(func(r *Report) { q.CheckCookies(r, http.Header{"Cookie": {text}}) })
	for _, contentType := range []string{
		"application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=B", "text/plain", text,
	} {
		check(func(r *Report) { q.CheckBody(r, contentType, []byte(text)) })
	}
	return all
}

// checkBounds fails if a report exceeds its bounds.
func checkBounds(t *testing.T, r *Report) {
	t.Helper()
	if len(r.Violations) > MaxViolations || len(r.UnknownQuery) > maxUnknownQuery {
		t.Errorf("report has %d violations and %d unknown names, want at most %d and %d", len(r.Violations),
			len(r.UnknownQuery), MaxViolations, maxUnknownQuery)
	}
	for _, v := range r.Violations {
		if len(v.Pointer) > 256 || len(v.Detail) > 2000 || !utf8.ValidString(v.Pointer) || !utf8.ValidString(v.Detail) {
			t.Errorf("violation = %d bytes of pointer, %d of detail, want at most 256 and 2000 of UTF-8", len(v.Pointer),
				len(v.Detail))
		}
	}
	if r.remainingWork().Remaining() < -1 {
		t.Errorf("remaining work = %d, want at least -1", r.remainingWork().Remaining())
	}
}

// hostileTexts are texts of a megabyte that are expensive to read for many parsers.
func hostileTexts() map[string]string {
	numbered := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	return map[string]string{
		"a million levels of lists":   strings.Repeat("[", 1_000_000),
		"200,000 levels of objects":   strings.Repeat(`{"a":`, 200_000) + "1" + strings.Repeat("}", 200_000),
		"levels of the schema":        strings.Repeat(`{"children":{"a":`, 60) + "1" + strings.Repeat("}}", 60),
		"100,000 query parameters":    numbered("q=%d&", 100_000),
		"100,000 unknown parameters":  numbered("n%d=1&", 100_000),
		"100,000 names in brackets":   numbered("d[list%d]=1&", 60_000) + numbered("d[children][c%d][value]=1&", 40_000),
		"many brackets":               "d" + strings.Repeat("[children][a]", 50_000) + "=1",
		"many names for patterns":     numbered("d[x-%d]=1&", 60_000),
		"many items in a text":        "q=" + strings.Repeat("1,", 500_000),
		"many escaped items":          "s=" + strings.Repeat("%20", 300_000),
		"a gigantic number":           "1" + strings.Repeat("0", 1_000_000),
		"a gigantic exponent":         `{"value":1e999999999}`,
		"a tiny number":               `{"value":1e-999999999}`,
		"a gigantic number in a form": "value=1e999999999&d[value]=1e999999999&c=1e999999999",
		"a long text for a pattern":   strings.Repeat("a", 1_000_000) + "@",
		"many equal items":            `{"list":[` + strings.Repeat(`{},`, 300_000) + `{}]}`,
		"many wrong values": `{"children":{` + numbered(`"a%d":{"value":99,"text":5},`, 30_000) +
			`"b":1}}`,
		"many parts": strings.Repeat("--B\r\nContent-Disposition: form-data; name=\"list\"\r\n\r\n{}\r\n", 10_000) + "--B--",
		"many header fields of a part": "--B\r\n" + numbered("X-%d: 1\r\n", 50_000) +
			"Content-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--B--",
		"many cookies": numbered("c%d=1; ", 50_000) + strings.Repeat("c=5; ", 20_000),
		"bytes":        strings.Repeat("\xff\x00%", 300_000),
	}
}

// TestHostileMessagesAreBounded checks that reports, counted work and allocated memory stay within their bounds for
// messages of a megabyte.
func TestHostileMessagesAreBounded(t *testing.T) {
	simulations.SkipUnderRace(t)
	q := compile(t, tree, everything)
	for name, text := range hostileTexts() {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			reports := checkAll(q, text)
			runtime.ReadMemStats(&after)
			for _, r := range reports {
				checkBounds(t, r)
			}
			const maxBytes = 1 << 30
			if bytes := after.TotalAlloc - before.TotalAlloc; bytes > maxBytes {
				t.Errorf("the nine checks allocated %d bytes, want at most %d", bytes, maxBytes)
			}
		})
	}
}

// TestDeepBodiesAreViolations checks that deep JSON is refused at the bound, and not below it.
func TestDeepBodiesAreViolations(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"body":{"content":[{"type":"application/json","schema":true}]}}`)
	for levels, valid := range map[int]bool{schema.MaxDepth: true, schema.MaxDepth + 1: false, 1_000_000: false} {
		var r Report
		q.CheckBody(&r, "application/json", []byte(strings.Repeat("[", levels)+strings.Repeat("]", levels)))
		if r.IsValid() != valid {
			t.Errorf("CheckBody(%d levels) = %s, want valid: %t", levels, r.text(), valid)
		}
	}
}

// FuzzChecks checks arbitrary texts as all parts of a request. No check may panic, and reports must stay within their
// bounds. Violations must not contain the secret that is a part of each message.
func FuzzChecks(f *testing.F) {
	for _, tt := range styleCases() {
		for _, text := range tt.texts {
			f.Add(text)
		}
	}
	for _, text := range []string{
		`{"value":11,"list":[{},{}],"text":"x"}`, `{"children":{"a":{"b":1}}}`, "d[a][b]=1&d[a]=2&d[][]=3&d[=1&d]=1",
		multipartBody([2]string{`name="list"`, "{}"}), "--B\r\n\r\n--B--", "a=1&a=2&%=1", "[", "1e5", "\xff",
	} {
		f.Add(text)
	}
	q := compile(f, tree, everything)
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range checkAll(q, text) {
			checkBounds(t, r)
		}
		const secret = "Zq7SECRETvalue9"
		var r Report
		q.CheckQuery(&r, "s="+secret+"&"+text+"&c="+secret+"&d[value]="+secret)
		q.CheckBody(&r, "application/json", []byte(`{"value":"`+secret+`","text":"`+secret+`"}`))
		q.CheckBody(&r, "text/plain", []byte(secret+text))
		if strings.Contains(r.text(), secret) && !strings.Contains(text, "[") {
			t.Errorf("violations = %s, want none with a value", r.text())
		}
	})
}
