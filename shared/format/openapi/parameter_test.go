package openapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// exactly returns a schema that allows only one value, and that has the value's types.
func exactly(value string) string {
	var v any
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		panic(err)
	}
	return fmt.Sprintf(`{"allOf":[%s,{"const":%s}]}`, typed(v), value)
}

// typed returns a schema with the types of a value.
func typed(v any) string {
	switch v := v.(type) {
	case []any:
		if len(v) == 0 {
			return `{"type":"array"}`
		}
		return `{"type":"array","items":` + typed(v[0]) + `}`
	case map[string]any:
		var properties []string
		for name, member := range v {
			properties = append(properties, fmt.Sprintf("%q:%s", name, typed(member)))
		}
		return `{"type":"object","properties":{` + strings.Join(properties, ",") + `}}`
	case float64:
		return `{"type":"number"}`
	case bool:
		return `{"type":"boolean"}`
	case nil:
		return `{"type":"null"}`
	}
	return `{"type":"string"}`
}

// styleCase is a parameter with a value and its texts.
type styleCase struct {
	in, style string
	explode   bool
	value     string
	texts     []string
}

// styleCases returns the examples of the specification of OpenAPI (Style Examples), and further texts.
func styleCases() []styleCase {
	const list, object = `["blue","black","brown"]`, `{"R":100,"G":200,"B":150}`
	return []styleCase{
		{"path", "matrix", false, `"blue"`, []string{";color=blue"}},
		{"path", "matrix", true, `"blue"`, []string{";color=blue"}},
		{"path", "matrix", false, `""`, []string{";color", ";color="}},
		{"path", "matrix", false, list, []string{";color=blue,black,brown"}},
		{"path", "matrix", true, list, []string{";color=blue;color=black;color=brown"}},
		{"path", "matrix", false, object, []string{";color=R,100,G,200,B,150"}},
		{"path", "matrix", true, object, []string{";R=100;G=200;B=150"}},
		{"path", "label", false, `"blue"`, []string{".blue"}},
		{"path", "label", false, `""`, []string{"."}},
		{"path", "label", true, `12.5`, []string{".12.5"}},
		{"path", "label", false, list, []string{".blue,black,brown", ".blue.black.brown"}},
		{"path", "label", true, list, []string{".blue.black.brown"}},
		{"path", "label", false, object, []string{".R,100,G,200,B,150", ".R.100.G.200.B.150"}},
		{"path", "label", true, object, []string{".R=100.G=200.B=150"}},
		{"path", "simple", false, `"blue"`, []string{"blue", "bl%75e"}},
		{"path", "simple", false, `"a,b/c é"`, []string{"a%2Cb%2Fc%20%C3%A9"}},
		{"path", "simple", false, `"a+b c"`, []string{"a+b%20c"}},
		{"path", "simple", false, `["a,b","c"]`, []string{"a%2Cb,c"}},
		{"path", "simple", false, list, []string{"blue,black,brown"}},
		{"path", "simple", true, list, []string{"blue,black,brown"}},
		{"path", "simple", false, object, []string{"R,100,G,200,B,150"}},
		{"path", "simple", true, object, []string{"R=100,G=200,B=150"}},
		{"path", "simple", false, `true`, []string{"true"}},
		{"path", "simple", false, `-1.5e3`, []string{"-1.5e3", "-1500"}},
		{"query", "form", true, `"blue"`, []string{"color=blue", "x=1&color=blue", "c%6Flor=blue&&"}},
		{"query", "form", true, `""`, []string{"color=", "color"}},
		{"query", "form", true, `"a b+c"`, []string{"color=a+b%2Bc", "color=a%20b%2Bc"}},
		{"query", "form", true, `null`, []string{"color=null", "color="}},
		{"query", "form", false, list, []string{"color=blue,black,brown", "color=blue%2Cblack%2Cbrown"}},
		{"query", "form", false, `["a,b","c"]`, []string{"color=a%2Cb,c"}},
		{"query", "form", true, list, []string{"color=blue&color=black&color=brown"}},
		{"query", "form", true, `["blue,black"]`, []string{"color=blue,black"}},
		{"query", "form", false, object, []string{"color=R,100,G,200,B,150"}},
		{"query", "form", true, object, []string{"R=100&G=200&B=150", "B=150&y=1&G=200&R=100"}},
		{"query", "spaceDelimited", false, list, []string{"color=blue%20black%20brown", "color=blue+black+brown"}},
		{"query", "spaceDelimited", true, list, []string{"color=blue&color=black&color=brown"}},
		{"query", "spaceDelimited", false, object, []string{"color=R%20100%20G%20200%20B%20150"}},
		{"query", "pipeDelimited", false, list, []string{"color=blue%7Cblack%7Cbrown", "color=blue|black|brown"}},
		{"query", "pipeDelimited", false, object, []string{"color=R%7C100%7CG%7C200%7CB%7C150"}},
		{"query", "deepObject", true, object, []string{"color%5BR%5D=100&color%5BG%5D=200&color[B]=150"}},
		{"query", "deepObject", true, `{"a":["1","2"],"b":{"c":true}}`, []string{
			"color[a]=1&color[a]=2&color[b][c]=true", "color[a][]=1&color[a][]=2&color[b][c]=true",
		}},
		{"header", "simple", false, `"blue, black"`, []string{"blue, black"}},
		{"header", "simple", false, list, []string{"blue,black,brown", "blue, black ,brown"}},
		{"header", "simple", false, object, []string{"R,100,G,200,B,150"}},
		{"header", "simple", true, object, []string{"R=100,G=200, B=150"}},
		{"cookie", "form", true, `"blue"`, []string{"color=blue", `a=1; color="blue"`}},
		{"cookie", "form", true, `"a b"`, []string{"color=a%20b"}},
		{"cookie", "form", true, `"100%"`, []string{"color=100%", "color=100%25"}},
		{"cookie", "form", false, list, []string{"color=blue,black,brown"}},
		{"cookie", "form", true, list, []string{"color=blue; color=black; color=brown"}},
		{"cookie", "form", true, object, []string{"R=100; G=200; B=150"}},
		{"cookie", "cookie", true, `"a%20b"`, []string{"color=a%20b"}},
		{"cookie", "cookie", true, list, []string{"color=blue; color=black; color=brown"}},
	}
}

// checkText checks a parameter called color. text is a segment of the path, a query, a header field or the field Cookie.
func (q *Request) checkText(in, text string) *Report {
	r := &Report{}
	switch in {
	case "path":
		q.CheckPath(r, func(name string) (string, bool) { return text, name == "color" })
	case "query", "querystring":
		q.CheckQuery(r, text)
	case "header":
		q.CheckHeaders(r, http.Header{"Color": {text}})
	case "cookie":
		q.CheckCookies(r, http.Header{"Cookie": {text}})
	}
	return r
}

// TestStyles checks that each text of styleCases is read as its value, and not as another value.
func TestStyles(t *testing.T) {
	t.Parallel()
	for _, tt := range styleCases() {
		parameter := `{"parameters":[{"in":%q,"name":"color","required":true,"style":%q,"explode":%t,"schema":%s}]}`
		right := compile(t, "", fmt.Sprintf(parameter, tt.in, tt.style, tt.explode, exactly(tt.value)))
		wrong := compile(t, "", fmt.Sprintf(parameter, tt.in, tt.style, tt.explode,
			`{"allOf":[`+exactly(tt.value)+`,{"not":{}}]}`))
		for _, text := range tt.texts {
			if r := right.checkText(tt.in, text); !r.IsValid() {
				t.Errorf("%s %s explode=%t %q = %s, want %s", tt.in, tt.style, tt.explode, text, r.text(), tt.value)
			}
			if wrong.checkText(tt.in, text).IsValid() {
				t.Errorf("%s %s explode=%t %q is valid for a schema that allows nothing, want a violation", tt.in, tt.style,
					tt.explode, text)
			}
		}
	}
}

// parameterViolation is a parameter, a text that is sent for it, and the violations.
type parameterViolation struct{ parameter, in, text, want string }

// parameterViolations returns wrong parameters, and some that are right.
func parameterViolations() []parameterViolation {
	const integer = `"schema":{"type":"integer","minimum":1}`
	return append(structureViolations(), []parameterViolation{
		{integer + `,"style":"simple"`, "path", "x", "path /color: must be an integer, not a string"},
		{integer + `,"style":"simple"`, "path", "0", "path /color: must be 1 or more"},
		{integer + `,"style":"simple"`, "path", "1e3", "path /color: must be an integer, not a string"},
		{integer + `,"style":"simple"`, "path", "1.0", "path /color: must be an integer, not a string"},
		{integer + `,"style":"simple"`, "path", "1.5", "path /color: must be an integer, not a number with a fraction"},
		{integer + `,"style":"simple"`, "path", "%zz", "path /color: must have valid escapes of UTF-8, such as %C3%A9"},
		{integer + `,"style":"simple"`, "path", "%ff", "path /color: must have valid escapes of UTF-8, such as %C3%A9"},
		{integer + `,"style":"simple"`, "path", "", "path /color: must be sent"},
		{`"style":"simple"`, "path", "%zz", "path /color: must have valid escapes of UTF-8, such as %C3%A9"},
		{integer + `,"style":"label"`, "path", "5", `path /color: must begin with "." (style label)`},
		{integer + `,"style":"matrix"`, "path", ";other=5", `path /color: must begin with ";" and a name (style matrix)`},
		{integer + `,"style":"form","explode":true,"required":true`, "query", "", "query /color: must be sent"},
		{integer + `,"style":"form","explode":true`, "query", "", ""},
		{integer + `,"style":"form","explode":true`, "query", "color=1&color=2", "query /color: must be sent once only"},
		{integer + `,"style":"form","explode":true`, "query", "color", "query /color: must be an integer, not a string"},
		{integer + `,"style":"form","explode":true,"allowEmpty":true`, "query", "color", ""},
		{
			integer + `,"style":"form","explode":true,"allowEmpty":true`, "query", "color=&color=x",
			"query /color: must be sent once only",
		},
		{
			integer + `,"style":"form","explode":true`, "query", "color=%2",
			"query /color: must have valid escapes of UTF-8, such as %C3%A9",
		},
		{
			integer + `,"style":"form","explode":true`, "query", "%2=1&color=1",
			"query : must have names with valid escapes of UTF-8, such as %C3%A9",
		},
		{integer + `,"style":"simple","required":true`, "header", "x", "header /color: must be an integer, not a string"},
		{integer + `,"style":"form","explode":true`, "cookie", "color=x", "cookie /color: must be an integer, not a string"},
	}...)
}

// structureViolations returns the parameters of parameterViolations that are lists, objects or JSON.
func structureViolations() []parameterViolation {
	const list = `"schema":{"type":"array","items":{"type":"integer"}}`
	return []parameterViolation{
		{
			list + `,"style":"form","explode":true`, "query", "color=1&color=x",
			"query /color/1: must be an integer, not a string",
		},
		{list + `,"style":"form"`, "query", "color=1,x", "query /color/1: must be an integer, not a string"},
		{list + `,"style":"form"`, "query", "color=1&color=2", "query /color: must be sent once only"},
		{
			`"schema":{"type":"array","prefixItems":[{"type":"integer"},{"type":"boolean"}],"items":{"type":"string"}},` +
				`"style":"form"`, "query", "color=1,true,5", "",
		},
		{list + `,"style":"form"`, "query", "color=%2531", "query /color/0: must be an integer, not a string"},
		{
			`"schema":{"type":"object","properties":{"a":{"type":"integer"}},"additionalProperties":false},"style":"deepObject"`,
			"query", "color[a]=x&color[b]=1",
			"query /color/a: must be an integer, not a string\nquery /color/b: must not be sent: there is no such property",
		},
		{
			`"schema":{"type":"object","required":["a"]},"style":"deepObject"`, "query", "color=1",
			"query /color: must have names of properties in brackets, such as color[name]",
		},
		{`"schema":{"type":"object"},"style":"deepObject","required":true`, "query", "a=1", "query /color: must be sent"},
		{
			`"schema":{"type":"object","properties":{"a":{}}},"style":"form","explode":true,"required":true`, "query", "b=1",
			"query /color: must be sent",
		},
		{
			`"contentType":"application/json","schema":{"type":"object","required":["a"]}`, "path", "%7B%22a%22%3A1%7D", "",
		},
		{
			`"schema":{"type":"object"},"style":"deepObject"`, "query", "color[a][b][c][d][e][f][g][h][i]=1",
			"query /color/a/b/c/d/e/f/g/h/i: must have fewer brackets",
		},
		{
			`"contentType":"application/json","schema":{"type":"integer"}`, "query", "color=1&color=2",
			"query /color: must be sent once only",
		},
		{
			`"schema":{"type":"object"},"style":"form"`, "query", "color=a,1,b",
			"query /color: must have names and values in the style form",
		},
		{
			`"schema":{"type":"object"},"style":"form"`, "query", "color=a,1,a,2",
			"query /color: must have names and values in the style form",
		},
		{
			`"contentType":"application/json","schema":{"type":"object","required":["a"]}`, "query", "color=%7B%7D",
			`query /color: must have the property "a"`,
		},
		{
			`"contentType":"application/json","schema":{"type":"object"}`, "query", "color=%7B",
			"query /color: must be JSON, and ends too early",
		},
		{
			`"contentType":"application/json","schema":{"type":"object","required":["a"]}`, "querystring", "%7B%22a%22:1%7D", "",
		},
		{`"contentType":"application/json","schema":{"const":"a+b"}`, "querystring", "%22a+b%22", ""},
		{
			`"contentType":"application/x-www-form-urlencoded","schema":{"type":"object","properties":{"a":{"type":"integer"}}}`,
			"querystring", "a=x", "query /a: must be an integer, not a string",
		},
	}
}

// TestParameterViolations checks wrong parameters.
func TestParameterViolations(t *testing.T) {
	t.Parallel()
	for _, tt := range parameterViolations() {
		q := compile(t, "", `{"parameters":[{"in":"`+tt.in+`","name":"color",`+tt.parameter+`}]}`)
		if got := q.checkText(tt.in, tt.text).text(); got != tt.want {
			t.Errorf("%s %s: %q = %q, want %q", tt.in, tt.parameter, tt.text, got, tt.want)
		}
	}
}

// TestAmbiguousTexts checks texts that can be a number or a string.
func TestAmbiguousTexts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		schema, text string
		valid        bool
	}{
		{`{"type":["string","integer"]}`, "5", true},
		{`{"anyOf":[{"type":"integer","maximum":3},{"type":"string","minLength":2}]}`, "5", false},
		{`{"anyOf":[{"type":"integer","maximum":3},{"type":"string","minLength":2}]}`, "55", true},
		{`{"oneOf":[{"type":"integer"},{"type":"string","pattern":"^x"}]}`, "5", true},
		{`{"enum":["1","2"]}`, "1", true},
		{`{"enum":[1,2]}`, "1", true},
		{`{"enum":[1,2]}`, "3", false},
		{`{"const":"true"}`, "true", true},
		{`{"type":["array","string"],"items":{"type":"integer"}}`, "a", true},
		{`{"type":["null","boolean"]}`, "", true},
		{`{"type":["null","string"],"minLength":1}`, "", false},
		{`{"type":["string","number"]}`, "1e999999999", true}, // a number that is not safe stays a text
		{`{}`, "anything", true},
		{`{"$ref":"#/$defs/Size"}`, "7", true},
		{`{"$ref":"#/$defs/Size"}`, "x", false},
	} {
		q := compile(t, `{"Size":{"allOf":[{"type":"integer"},{"minimum":2}]}}`,
			`{"parameters":[{"in":"query","name":"color","style":"form","explode":true,"schema":`+tt.schema+`}]}`)
		if r := q.checkText("query", "color="+tt.text); r.IsValid() != tt.valid {
			t.Errorf("%s: color=%s = %q, want valid: %t", tt.schema, tt.text, r.text(), tt.valid)
		}
	}
}

// TestUnknownQueryParameters checks which parameters of a query are unknown.
func TestUnknownQueryParameters(t *testing.T) {
	t.Parallel()
	const known = `{"in":"query","name":"a","style":"form","explode":true,"schema":{"type":"string"}},` +
		`{"in":"query","name":"deep","style":"deepObject","explode":true,"schema":{"type":"object"}},` +
		`{"in":"query","name":"object","style":"form","explode":true,"schema":{"type":"object","properties":{"p":{}}%s}}`
	many := func(format string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, tt := range []struct{ more, query, want string }{
		{"", "a=1&deep[x]=2&p=3", ""},
		{"", "a=1&b=2&c=3&b=4&other[x]=1", "b c other[x]"},
		{`,"additionalProperties":true`, "a=1&b=2&c=3", ""},
		{`,"additionalProperties":false`, "a=1&b=2", "b"},
		{"", "a[x]=1&object[x]=2", "a[x] object[x]"},
		{"", many("n%d=1&", 30), strings.TrimSpace(many("n%d ", 20))}, // more names are not listed
		{"", "b" + strings.Repeat("b", 300) + "=1", "b" + strings.Repeat("b", 252) + "…"},
	} {
		q := compile(t, "", `{"parameters":[`+fmt.Sprintf(known, tt.more)+`]}`)
		var r Report
		q.CheckQuery(&r, tt.query)
		if got := strings.Join(r.UnknownQuery, " "); got != tt.want {
			t.Errorf("CheckQuery(%s).UnknownQuery = %q, want %q", tt.query, got, tt.want)
		}
		if !r.IsValid() && tt.more == "" {
			t.Errorf("CheckQuery(%s) = %s, want no violations", tt.query, r.text())
		}
	}
}

// TestRepeatedFields checks header fields and Cookie fields that are sent several times: each of them is checked. A
// parameter with the name of Accept, in any letters, is not checked.
func TestRepeatedFields(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"parameters":[
		{"in":"header","name":"X-Ids","style":"simple","schema":{"type":"array","items":{"type":"integer"}}},
		{"in":"header","name":"X-Id","style":"simple","schema":{"type":"integer"}},
		{"in":"header","name":"X-Size","style":"simple","explode":true,
			"schema":{"type":"object","properties":{"a":{"type":"integer"}}}},
		{"in":"header","name":"accept","style":"simple","required":true},
		{"in":"cookie","name":"id","style":"form","explode":true,"schema":{"type":"integer"}}]}`)
	for _, tt := range []struct {
		header http.Header
		want   string
	}{
		{http.Header{"X-Ids": {"1", "2"}, "X-Id": {"3"}, "Cookie": {"a=b", "id=4"}}, ""},
		{http.Header{"X-Size": {"a=1", "b=2"}}, ""},
		{http.Header{"X-Size": {"b=2", "a=x"}}, "header /X-Size/a: must be an integer, not a string"},
		{http.Header{"X-Ids": {"1", "x"}}, "header /X-Ids/1: must be an integer, not a string"},
		{http.Header{"X-Id": {"1", "2"}}, "header /X-Id: must be sent once only"},
		{http.Header{"Cookie": {"a=b", "id=x"}}, "cookie /id: must be an integer, not a string"},
		{http.Header{"Cookie": {"id=1", "id=2"}}, "cookie /id: must be sent once only"},
	} {
		var r Report
		q.CheckHeaders(&r, tt.header)
		q.CheckCookies(&r, tt.header)
		if got := r.text(); got != tt.want {
			t.Errorf("checks of %v = %q, want %q", tt.header, got, tt.want)
		}
	}
}
