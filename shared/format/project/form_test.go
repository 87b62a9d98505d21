package project_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// formOffer returns the operation that a document offers for the path /a, and the problems. content describes the body.
func formOffer(t *testing.T, version, method, content string) (*project.OfferedOperation, []project.Problem) {
	t.Helper()
	offers, problems := project.OfferedOperations([]byte(`{"openapi": "` + version + `", "paths": {"/a": {
		"` + method + `": {"operationId": "a", "requestBody": {"content": {` + content + `}},
		"responses": {"200": {"description": "d"}}}}}}`))
	if len(offers) == 0 {
		return nil, problems
	}
	return &offers[0], problems
}

// formArguments returns the arguments of an operation as text: the location, the name, and the FormField of each one.
func formArguments(o *project.OfferedOperation) string {
	var out []string
	for _, a := range o.Arguments {
		text := string(a.Location) + " " + a.Name
		if a.Target != "" {
			text += " for " + a.Target
		}
		if a.Style != "" {
			text += fmt.Sprintf(" %s %t", a.Style, a.Explode)
		}
		if a.Form != nil {
			form, _ := json.Marshal(a.Form)
			text += " " + string(form)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// body returns a content object with a media type whose schema has properties, and with encodings.
func body(mediaType, properties, encoding string) string {
	return `"` + mediaType + `": {"schema": {"type": "object", "properties": {` + properties + `}},
		"encoding": {` + encoding + `}}`
}

const (
	urlEncoded = "application/x-www-form-urlencoded"
	multipart  = "multipart/form-data"
	binary     = `"f": {"type": "string", "format": "binary"}`
)

// TestArgumentsOfForms checks which arguments a form has, and how they are written.
func TestArgumentsOfForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, version, content, want string }{
		{"no encoding", "3.0.3", body(urlEncoded, `"p": {}`, ``), "property p"},
		{"a style", "3.0.3", body(urlEncoded, `"p": {}`, `"p": {"style": "deepObject"}`), "property p deepObject false"},
		{"explode alone", "3.1.1", body(urlEncoded, `"p": {}`, `"p": {"explode": true}`), "property p form true"},
		{
			"allowReserved alone", "3.1.1", body(urlEncoded, `"p": {}`, `"p": {"allowReserved": true}`),
			`property p form true {"allowReserved":true}`,
		},
		{
			"the first media type for objects", "3.1.1",
			body(urlEncoded, `"p": {"type": ["object", "string"]}`, `"p": {"contentType": "text/csv, application/a+json"}`),
			`property p {"contentType":"application/a+json"}`,
		},
		{
			"the first media type for texts", "3.1.1",
			body(urlEncoded, `"p": {"type": "array", "items": {"type": "string"}}`,
				`"p": {"contentType": "application/xml, application/json"}`), `property p {"contentType":"application/xml"}`,
		},
		{"a range of media types", "3.1.1", body(urlEncoded, `"p": {}`, `"p": {"contentType": "*/*"}`), "property p"},
		{"a charset", "3.0.3", body("Application/X-WWW-Form-URLEncoded; charset=utf-8", `"p": {}`, ``), "property p"},
		{
			"a file", "3.0.3", body(multipart, binary, ``),
			`property f {"contentType":"application/octet-stream","file":true}; ` +
				`filename filename_f for f; mediaType mediaType_f for f`,
		},
		{
			"a file with a media type", "3.0.3", body(multipart, binary, `"f": {"contentType": "image/png", "style": "form"}`),
			`property f {"contentType":"image/png","file":true}; filename filename_f for f`,
		},
		{
			"a file with a range", "3.0.3", body(multipart, binary, `"f": {"contentType": "image/*"}`),
			`property f {"file":true}; filename filename_f for f; mediaType mediaType_f for f`,
		},
		{
			"an empty schema of OpenAPI 3.1", "3.1.1", body(multipart, `"f": {"description": "d"}`, ``),
			`property f {"contentType":"application/octet-stream","file":true}; ` +
				`filename filename_f for f; mediaType mediaType_f for f`,
		},
		{"an empty schema of OpenAPI 3.0", "3.0.3", body(multipart, `"f": {}`, ``), "property f"},
		{
			"text of a media type", "3.1.1", body(multipart, `"f": {"type": "string", "contentMediaType": "text/html"}`, ``),
			"property f",
		},
		{
			"text in base64", "3.1.1", body(multipart, `"f": {"type": "string", "contentMediaType": "image/png",
				"contentEncoding": "base64"}`, ``), "property f",
		},
		{
			"allowReserved of false", "3.1.1", body(urlEncoded, `"p": {}`, `"p": {"allowReserved": false}`),
			"property p form true",
		},
		{
			"headers", "3.1.1", body(multipart, `"p": {"type": "string"}`, `"p": {"headers": {
				"X-A": {"schema": {"const": "a"}}, "X-B": {"required": true, "schema": {"enum": [1.50]}},
				"Content-Transfer-Encoding": {"schema": {"default": "binary"}}}}`),
			`property p {"headers":{"Content-Transfer-Encoding":"binary","X-A":"a","X-B":"1.50"}}`,
		},
		{
			"both forms without a file", "3.0.3", body(urlEncoded, `"p": {}`, ``) + "," + body(multipart, `"q": {}`, ``),
			"property p",
		},
		{
			"both forms with a file", "3.0.3", body(urlEncoded, `"p": {}`, ``) + "," +
				body(multipart, `"l": {"type": "array", "items": {"type": "string", "format": "binary"}}`,
					`"l": {"contentType": "a/b"}`),
			`property l {"contentType":"a/b","file":true}; filename filename_l for l`,
		},
	} {
		o, problems := formOffer(t, tt.version, "post", tt.content)
		if o == nil || len(problems) > 0 {
			t.Errorf("%s: OfferedOperations() problems = %+v, want none", tt.name, problems)
			continue
		}
		if got := formArguments(o); got != tt.want {
			t.Errorf("%s: arguments = %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestSchemasOfFiles checks the schemas of the arguments for files.
func TestSchemasOfFiles(t *testing.T) {
	t.Parallel()
	o, problems := formOffer(t, "3.1.1", "post", body(multipart, `"f": {"type": "string", "format": "binary",
		"description": "A picture.", "maxLength": 9}, "l": {"type": "array", "maxItems": 2, "items": {
		"contentMediaType": "application/pdf"}}`, `"f": {"contentType": "image/png, image/*+x"}`))
	if o == nil {
		t.Fatalf("OfferedOperations() problems = %+v, want none", problems)
	}
	const name = `"maxLength":255,"minLength":1,"type":"string"`
	const want = `{"filename_f":{"description":"The name of the file \"f\".",` + name + `},` +
		`"filename_l":{"description":"The names of the files \"l\", in the same order.","items":{` + name + `},` +
		`"type":"array"},` +
		`"l":{"items":{"contentEncoding":"base64","contentMediaType":"application/pdf",` +
		`"description":"The content of the file in Base64.","type":"string"},"maxItems":2,"type":"array"},` +
		`"mediaType_f":{"description":"The media type of the file \"f\".",` +
		`"pattern":"^(image/png|image/[^/;,\\s]+\\+x)$","type":"string"},` +
		`"f":{"contentEncoding":"base64","description":"A picture. The content of the file in Base64.","type":"string"}}`
	var got struct{ Properties any }
	var wanted any
	if err := json.Unmarshal(o.Input, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	gotText, _ := json.Marshal(got.Properties)
	wantText, _ := json.Marshal(wanted)
	if string(gotText) != string(wantText) {
		t.Errorf("properties = %s, want %s", gotText, wantText)
	}
}

// TestFormsThatCannotBeOffered checks the place and the message of the error for each form that a tool cannot send.
func TestFormsThatCannotBeOffered(t *testing.T) {
	t.Parallel()
	header := func(header string) string {
		return body(multipart, `"p": {"type": "string"}`, `"p": {"headers": {`+header+`}}`)
	}
	for _, tt := range []struct{ name, content, at, message string }{
		{
			"an object as XML", body(urlEncoded, `"p": {"type": "object"}`, `"p": {"contentType": "application/xml"}`),
			"/encoding/p/contentType", "writes JSON, and texts",
		},
		{"a list of numbers as XML", body(multipart, `"p": {"type": "array", "items": {"type": "integer"}}`,
			`"p": {"contentType": "application/xml"}`), "/encoding/p/contentType", "writes JSON, and texts"},
		{"text in another charset", body(urlEncoded, `"p": {"type": "string"}`,
			`"p": {"contentType": "text/csv; charset=utf-16"}`), "/encoding/p/contentType", "UTF-8"},
		{
			"no media type", body(urlEncoded, `"p": {}`, `"p": {"contentType": "text"}`), "/encoding/p/contentType",
			"not a list of media types",
		},
		{"another style", body(urlEncoded, `"p": {}`, `"p": {"style": "matrix"}`), "/encoding/p/style", "spaceDelimited"},
		{
			"a file within an object", body(multipart, `"p": {"type": "object", "properties": {`+binary+`}}`, ``), "/encoding/p",
			"has one elsewhere",
		},
		{
			"a form within a form", body(multipart, `"p": {"type": "object"}`, `"p": {"encoding": {}}`), "/encoding/p/encoding",
			"a form within a form",
		},
		{
			"parts by their positions", `"` + multipart + `": {"itemEncoding": {}, "schema": {"properties": {}}}`,
			"/itemEncoding", "by their positions",
		},
		{"no object", `"` + multipart + `": {"schema": {"type": "array"}}`, "/schema", "type object"},
		{"a name with a line break", body(multipart, `"a\nb": {"type": "string"}`, ``), "/schema", "control characters"},
		{
			"a required header without a value", header(`"X-A": {"required": true, "schema": {"type": "string"}}`),
			"/encoding/p/headers/X-A", "cannot know the value",
		},
		{"a header of two lines", header(`"X-A": {"schema": {"const": "a\r\nb"}}`), "/encoding/p/headers/X-A", "one line"},
		{
			"an invalid name of a header", header(`"X A": {"schema": {"const": "a"}}`),
			"/encoding/p/headers/X A", "not a valid header",
		},
		{
			"a transfer encoding", header(`"content-transfer-encoding": {"schema": {"const": "base64"}}`),
			"/encoding/p/headers/content-transfer-encoding", "RFC 7578",
		},
	} {
		o, problems := formOffer(t, "3.1.1", "post", tt.content)
		if o != nil || len(problems) != 1 {
			t.Errorf("%s: OfferedOperations() = %v, problems %+v, want one problem", tt.name, o, problems)
			continue
		}
		if got := problems[0]; !strings.HasSuffix(got.Path, tt.at) || !strings.Contains(got.Message, tt.message) {
			t.Errorf("%s: problem = %+v, want one at %s with %q", tt.name, got, tt.at, tt.message)
		}
	}
}

// TestEncodingsWithoutEffect checks the place of the warning about each part of an encoding that has no effect.
func TestEncodingsWithoutEffect(t *testing.T) {
	t.Parallel()
	const p = `"p": {"type": "string"}`
	for _, tt := range []struct{ name, content, at, message string }{
		{"no property", body(urlEncoded, p, `"q": {"style": "form"}`), "/encoding/q", "has no property"},
		{
			"headers of a URL-encoded form", body(urlEncoded, p, `"p": {"headers": {"X-A": {"schema": {"const": 1}}}}`),
			"/encoding/p/headers", "multipart",
		},
		{
			"a media type next to a style", body(urlEncoded, p, `"p": {"style": "form", "contentType": "text/plain"}`),
			"/encoding/p/contentType", "next to style",
		},
		{
			"the header Content-Type", body(multipart, p, `"p": {"headers": {"content-type": {"schema": {"const": "a/b"}}}}`),
			"/encoding/p/headers/content-type", "writes it, with the contentType",
		},
		{
			"the header Content-Type in capitals",
			body(multipart, p, `"p": {"headers": {"Content-Type": {"schema": {"const": "a/b"}}}}`),
			"/encoding/p/headers/Content-Type", "writes it, with the contentType",
		},
		{
			"a header without a value", body(multipart, p, `"p": {"headers": {"X-A": {"schema": {"type": "string"}}}}`),
			"/encoding/p/headers/X-A", "leaves the header out",
		},
		{"a style of a file", body(multipart, binary, `"f": {"style": "deepObject"}`), "/encoding/f", "part of its own"},
		{"a property of responses", body(urlEncoded, `"p": {"type": "string", "readOnly": true}, "q": {}`,
			`"p": {"style": "form"}`), "", ""},
	} {
		o, warnings := offered(t, "3.1.1", "post", `"requestBody": {"content": {`+tt.content+`}},
			"responses": {"200": {"description": "d"}}`, `"Unused": {}`)
		if o == nil {
			t.Errorf("%s: the operation is not offered, want a tool", tt.name)
		}
		var got []project.Problem
		for _, w := range warnings {
			if strings.Contains(w.Path, "/requestBody") {
				got = append(got, w)
			}
		}
		if tt.at == "" {
			if len(got) > 0 {
				t.Errorf("%s: warnings = %+v, want none", tt.name, got)
			}
			continue
		}
		if len(got) != 1 || !strings.HasSuffix(got[0].Path, tt.at) || !strings.Contains(got[0].Message, tt.message) {
			t.Errorf("%s: warnings = %+v, want one at %s with %q", tt.name, got, tt.at, tt.message)
		}
	}
}

// TestFormOfGetIsLeftOut checks that a form that a tool cannot send is only a warning for a GET operation.
func TestFormOfGetIsLeftOut(t *testing.T) {
	t.Parallel()
	o, warnings := offered(t, "3.1.1", "get", `"requestBody": {"content": {"multipart/form-data": {"schema": {}}}},
		"responses": {"200": {"description": "d"}}`, `"Unused": {}`)
	if o == nil || o.Body != "" || len(o.Arguments) > 0 {
		t.Errorf("operation = %+v, want one without a body", o)
	}
	if len(warnings) != 1 || !strings.HasSuffix(warnings[0].Path, "/schema") {
		t.Errorf("warnings = %+v, want one at the schema", warnings)
	}
}
