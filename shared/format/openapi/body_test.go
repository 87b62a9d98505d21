package openapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/format/schema"
)

const form = `{"type":"object","required":["a"],"additionalProperties":false,"properties":{"a":{"type":"integer"},` +
	`"list":{"type":"array","items":{"type":"integer"}},"text":{"type":"string","maxLength":5},` +
	`"object":{"type":"object","properties":{"x":{"type":"integer"}}},"flag":{"type":"boolean"}}}`

// TestForms checks forms in URL encoding.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, encoding, body, want string }{
		{"all types", ``, "a=1&list=1&list=2&text=a%20b&object=%7B%22x%22%3A1%7D&flag=true", ""},
		{"one item", ``, "a=1&list=1", ""},
		{"a missing property", ``, "text=a", `body : must have the property "a"`},
		{"a wrong type", ``, "a=x", "body /a: must be an integer, not a string"},
		{"a wrong item", ``, "a=1&list=1&list=x", "body /list/1: must be an integer, not a string"},
		{"an unknown property", ``, "a=1&b=1", "body /b: must not be sent: there is no such property"},
		{"a property twice", ``, "a=1&a=2", "body /a: must be sent once only"},
		{"a malformed escape", ``, "a=%", "body /a: must have valid escapes of UTF-8, such as %C3%A9"},
		{
			"invalid JSON", ``, "a=1&object=%7B", "body /object: must be valid JSON: it must be JSON, and ends too early",
		},
		{"commas", `"list":{"style":"form"}`, "a=1&list=1,2", ""},
		{"pipes", `"list":{"style":"pipeDelimited"}`, "a=1&list=1%7Cx", "body /list/1: must be an integer, not a string"},
		{"brackets", `"object":{"style":"deepObject","explode":true}`, "a=1&object%5Bx%5D=5", ""},
		{
			"a wrong value in brackets", `"object":{"style":"deepObject","explode":true}`, "a=1&object[x]=y",
			"body /object/x: must be an integer, not a string",
		},
		{"empty brackets", `"list":{"style":"deepObject","explode":true}`, "a=1&list[]=1&list%5B%5D=2", ""},
		{
			"a wrong item in empty brackets", `"list":{"style":"deepObject","explode":true}`, "a=1&list[]=x",
			"body /list/0: must be an integer, not a string",
		},
		{"properties as fields", `"object":{"style":"form","explode":true}`, "a=1&x=5", ""},
		{
			"a wrong property as a field", `"object":{"style":"form","explode":true}`, "a=1&x=y",
			"body /object/x: must be an integer, not a string",
		},
		{"JSON", `"list":{"contentType":"application/json"}`, "a=1&list=%5B1%2C2%5D", ""},
		{"one item in JSON", `"list":{"contentType":"application/json"}`, "a=1&list=1", ""},
	} {
		q := compile(t, "", `{"body":{"required":true,"content":[{"type":"application/x-www-form-urlencoded","schema":`+
			form+`,"encoding":{`+tt.encoding+`}}]}}`)
		var r Report
		q.CheckBody(&r, "application/x-www-form-urlencoded", []byte(tt.body))
		if got := r.text(); got != tt.want {
			t.Errorf("%s: CheckBody(%s) = %q, want %q", tt.name, tt.body, got, tt.want)
		}
	}
}

// multipartBody returns a form with parts. Each part has its head and its content.
func multipartBody(parts ...[2]string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--B\r\nContent-Disposition: form-data; " + p[0] + "\r\n\r\n" + p[1] + "\r\n")
	}
	return b.String() + "--B--\r\n"
}

// TestMultipartForms checks forms with parts.
func TestMultipartForms(t *testing.T) {
	t.Parallel()
	const jsonHead = "\r\nContent-Type: application/json"
	a := [2]string{`name="a"`, "1"}
	for _, tt := range []struct{ name, encoding, body, want string }{
		{"text", ``, multipartBody(a, [2]string{`name="text"`, "hello"}), ""},
		{
			"a long text", ``, multipartBody(a, [2]string{`name="text"`, "hello!"}),
			"body /text: must have at most 5 characters",
		},
		{
			"a file", ``,
			multipartBody(a, [2]string{`name="text"; filename="f"` + "\r\nContent-Type: image/png", "\xff\x00"}), "",
		},
		{
			"a list", ``, multipartBody(a, [2]string{`name="list"`, "1"}, [2]string{`name="list"`, "x"}),
			"body /list/1: must be an integer, not a string",
		},
		{"one item", ``, multipartBody(a, [2]string{`name="list"`, "1"}), ""},
		{"JSON", ``, multipartBody(a, [2]string{`name="object"` + jsonHead, `{"x":1}`}), ""},
		{
			"JSON without a type", ``, multipartBody(a, [2]string{`name="object"`, `{"x":"y"}`}),
			"body /object/x: must be an integer, not a string",
		},
		{"a list in JSON", ``, multipartBody(a, [2]string{`name="list"` + jsonHead, `[1,2]`}), ""},
		{"a part twice", ``, multipartBody(a, a), "body /a: must be sent once only"},
		{
			"an unknown part", ``, multipartBody(a, [2]string{`name="b"`, "1"}),
			"body /b: must not be sent: there is no such property",
		},
		{
			"no name", ``, multipartBody([2]string{`x="a"`, "1"}),
			"body : must have a name for each part in Content-Disposition",
		},
		{
			"too many parts", ``, multipartBody(slices.Repeat([][2]string{{`name="list"`, "1"}}, 1001)...),
			"body : must have at most 1000 parts",
		},
		{"no form", ``, "x", "body : must be a complete form: its last boundary is missing"},
		{
			"another type", `"text":{"contentType":"image/png, image/jpeg"}`, multipartBody(a, [2]string{`name="text"`, "1"}),
			"body /text: must have one of these media types: image/png, image/jpeg",
		},
		{
			"a range of types", `"text":{"contentType":"image/*"}`,
			multipartBody(a, [2]string{`name="text"` + "\r\nContent-Type: image/png", "1"}), "",
		},
		{
			"a header of a part", `"text":{"headers":[{"in":"header","name":"X-Size","style":"simple","required":true,` +
				`"schema":{"type":"integer"}}]}`, multipartBody(a, [2]string{`name="text"`, "1"}),
			"body /text/X-Size: must be sent",
		},
	} {
		q := compile(t, "", `{"body":{"content":[{"type":"multipart/form-data","schema":`+form+`,"encoding":{`+
			tt.encoding+`}}]}}`)
		var r Report
		q.CheckBody(&r, "multipart/form-data; boundary=B", []byte(tt.body))
		if got := r.text(); got != tt.want {
			t.Errorf("%s: CheckBody() = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestMediaTypes checks which media types a description accepts, and which schema applies to them.
func TestMediaTypes(t *testing.T) {
	const unsupported = "body : must have one of these media types: application/json, application/problem+json, text/*, " +
		"image/png"
	t.Parallel()
	q := compile(t, "", `{"body":{"content":[{"type":"application/json","schema":{"type":"object"}},`+
		`{"type":"application/problem+json","schema":{"type":"array"}},{"type":"text/*","schema":{"maxLength":3}},`+
		`{"type":"image/png"}]}}`)
	for _, tt := range []struct {
		contentType, body string
		accepted, read    bool
		want              string
	}{
		{"application/json", `[]`, true, true, "body : must be an object, not an array"},
		{"Application/JSON; charset=UTF-8; x=y", `{}`, true, true, ""},
		{"application/json; charset=latin1", `{}`, false, false, unsupported},
		{"application/problem+json", `[]`, true, true, ""},
		{"application/vnd.api+json", `[]`, false, false, unsupported},
		{"text/plain", `abc`, true, true, ""},
		{"text/csv", `abcd`, true, true, "body : must have at most 3 characters"},
		{"text/plain", "\xff", true, true, "body : must be UTF-8 text"},
		{"image/png", "\xff\xff", true, false, ""},
		{"", `{}`, false, false, unsupported},
		{"no type", `{}`, false, false, unsupported},
		{"", "", false, false, ""},
	} {
		var r Report
		q.CheckBody(&r, tt.contentType, []byte(tt.body))
		if got := r.text(); got != tt.want {
			t.Errorf("CheckBody(%q, %s) = %q, want %q", tt.contentType, tt.body, got, tt.want)
		}
		if got := q.Accepts(tt.contentType); got != tt.accepted {
			t.Errorf("Accepts(%q) = %t, want %t", tt.contentType, got, tt.accepted)
		}
		if got := q.ReadsBody(tt.contentType); got != tt.read {
			t.Errorf("ReadsBody(%q) = %t, want %t", tt.contentType, got, tt.read)
		}
	}
	all := compile(t, "", `{"body":{"content":[{"type":"*/*","schema":{"type":"object"}},`+
		`{"type":"text/*","schema":{"maxLength":1}},{"type":"text/json","schema":{"type":"string"}}]}}`)
	for contentType, want := range map[string]string{
		"application/json": "body : must be an object, not an array", "application/octet-stream": "", "": "",
		"text/json": "body : must be a string, not an array", "text/plain": "body : must have at most 1 character",
	} {
		var r Report
		all.CheckBody(&r, contentType, []byte(`[]`))
		if got := r.text(); got != want {
			t.Errorf("*/*: CheckBody(%q) = %q, want %q", contentType, got, want)
		}
	}
}

// TestResponses checks responses by their statuses.
func TestResponses(t *testing.T) {
	t.Parallel()
	var description project.ResponseDescription
	if err := json.Unmarshal([]byte(`{"200":{"headers":[{"in":"header","name":"X-Rate","required":true,"style":"simple",`+
		`"schema":{"type":"integer"}}],"content":[{"type":"application/json","schema":{"type":"object"}}]},"4XX":{},`+
		`"404":{"content":[{"type":"text/plain"}]},`+
		`"5XX":{"content":[{"type":"text/plain"}]},"500":{}}`), &description); err != nil {
		t.Fatal(err)
	}
	const withDefault = 1000 // added to a status: the description has a default too
	byDefault := maps.Clone(description)
	byDefault["default"] = project.StatusDescription{Content: []project.MediaType{{Type: "image/png"}}}
	for _, tt := range []struct {
		status                          int
		header, contentType, body, want string
	}{
		{withDefault + 200, "5", "application/json", `{}`, ""},
		{withDefault + 404, "", "text/plain", `x`, ""},
		{withDefault + 422, "", "text/html", `x`, ""},
		{withDefault + 302, "", "image/png", `x`, ""},
		{withDefault + 302, "", "text/html", `x`, "body : must have one of these media types: image/png"},
		{200, "5", "application/json", `{}`, ""},
		{
			200, "x", "application/json", `[]`,
			"header /X-Rate: must be an integer, not a string\nbody : must be an object, not an array",
		},
		{200, "", "application/json", `{}`, "header /X-Rate: must be sent"},
		{200, "5", "text/html", `{}`, "body : must have one of these media types: application/json"},
		{404, "", "text/plain", `x`, ""},
		{404, "", "text/html", `x`, "body : must have one of these media types: text/plain"},
		{422, "", "text/html", `x`, ""},
		{500, "", "text/html", `x`, ""},
		{503, "", "text/html", `x`, "body : must have one of these media types: text/plain"},
		{302, "", "text/html", `x`, "status : must be a status that the description has"},
	} {
		header := http.Header{}
		if tt.header != "" {
			header.Set("X-Rate", tt.header)
		}
		described, status := description, tt.status
		if status > withDefault {
			described, status = byDefault, status-withDefault
		}
		p, err := CompileResponse(schema.NewDefinitions(nil), described)
		if err != nil {
			t.Fatal(err)
		}
		var r Report
		p.CheckHead(&r, status, header)
		p.CheckBody(&r, status, tt.contentType, []byte(tt.body))
		if got := r.text(); got != tt.want {
			t.Errorf("response %d %s %s = %q, want %q", tt.status, tt.contentType, tt.body, got, tt.want)
		}
	}
}

// TestAlternatives checks that the violations are those of the alternative that the client meant.
func TestAlternatives(t *testing.T) {
	t.Parallel()
	q := compile(t, `{"Cat":{"type":"object","required":["kind","lives"],"properties":{"kind":{"const":"cat"},`+
		`"lives":{"type":"integer"}}},"Dog":{"type":"object","required":["kind","breed"],"properties":{`+
		`"kind":{"const":"dog"},"breed":{"type":"object","required":["name"]}}}}`,
		`{"body":{"content":[{"type":"application/json","schema":{"oneOf":[{"$ref":"#/$defs/Cat"},`+
			`{"$ref":"#/$defs/Dog"},{"type":"null"}]}}]}}`)
	for body, want := range map[string]string{
		`{"kind":"cat"}`:                              `body : must have the property "lives"`,
		`{"kind":"cat","lives":"x","breed":{}}`:       `body /lives: must be an integer, not a string`,
		`{"kind":"dog","breed":{}}`:                   `body /breed: must have the property "name"`,
		`{"kind":"SECRET","breed":{},"lives":1}`:      `body /kind: must be one of "cat", "dog"`,
		`{"breed":{"name":1}}`:                        `body : must have the property "kind"`,
		`5`:                                           `body : must be an object or null, not a number`,
		`{"kind":"dog","breed":{"name":1},"lives":1}`: ``,
	} {
		var r Report
		q.CheckBody(&r, "application/json", []byte(body))
		if got := r.text(); got != want {
			t.Errorf("CheckBody(%s) = %q, want %q", body, got, want)
		}
	}
}
