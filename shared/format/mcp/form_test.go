package mcp_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/format/project"
)

// formOperation returns the operation of an OpenAPI description. mediaType, properties and encoding describe its body.
func formOperation(t testing.TB, version, mediaType, properties, encoding string) *project.MCPOperation {
	t.Helper()
	document := fmt.Sprintf(`{"openapi": %q, "info": {"title": "t", "version": "1"}, "paths": {"/a": {"post": {
		"operationId": "a", "requestBody": {"content": {%q: {"schema": {"type": "object", "properties": {%s},
			"additionalProperties": true}, "encoding": {%s}}}},
		"responses": {"200": {"description": "d"}}}}}}`, version, mediaType, properties, encoding)
	offers, problems := project.OfferedOperations([]byte(document))
	if len(problems) > 0 || len(offers) != 1 {
		t.Fatalf("OfferedOperations(%s) = %d operations, problems %+v, want 1 and no problems",
			document, len(offers), problems)
	}
	return &offers[0].MCPOperation
}

// encode encodes arguments, which are a JSON object.
func encode(t testing.TB, o *project.MCPOperation, arguments string) (mcp.RequestParts, error) {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(arguments), &members); err != nil {
		t.Fatal(err)
	}
	return mcp.EncodeArguments(o, "/a", members)
}

const (
	urlEncoded    = "application/x-www-form-urlencoded"
	multipartForm = "multipart/form-data"
)

// urlEncodedCases have the encoding of a property p, a value of p, and the form that a tool must send.
var urlEncodedCases = []struct{ name, encoding, value, want string }{
	{"a text", ``, `"a b&c=d+é"`, `p=a%20b%26c%3Dd%2B%C3%A9`},
	{"a number that float64 would round", ``, `9007199254740993`, `p=9007199254740993`},
	{"a boolean", ``, `true`, `p=true`},
	{"null", ``, `null`, `p=`},
	{"an object", ``, `{"order":"6735"}`, `p=%7B%22order%22%3A%226735%22%7D`},
	{"a list", ``, `["a","b&"]`, `p=a&p=b%26`},
	{"a list of objects", ``, `[{"a":1},{"b":2}]`, `p=%7B%22a%22%3A1%7D&p=%7B%22b%22%3A2%7D`},
	{"an empty list", ``, `[]`, ``},
	{"a text as JSON", `"contentType": "application/json"`, `"a"`, `p=%22a%22`},
	{"a list whose elements are JSON", `"contentType": "application/json"`, `["a",1]`, `p=%22a%22&p=1`},
	{
		"the first media type for all values", `"contentType": "text/csv, application/vnd.a+json"`, `{"a":1}`,
		`p=%7B%22a%22%3A1%7D`,
	},

	{"the object of a payment service", `"style": "deepObject", "explode": true`, `{"order":"6735"}`, `p%5Border%5D=6735`},
	{
		"lists and objects within an object", `"style": "deepObject", "explode": true`,
		`[{"price":"x","quantity":2,"tags":["a","b"]},{"price":"y"}]`,
		`p%5B0%5D%5Bprice%5D=x&p%5B0%5D%5Bquantity%5D=2&p%5B0%5D%5Btags%5D%5B0%5D=a&p%5B0%5D%5Btags%5D%5B1%5D=b` +
			`&p%5B1%5D%5Bprice%5D=y`,
	},
	{
		"null, a boolean and empty values within an object", `"style": "deepObject"`,
		`{"a":null,"b":false,"c":"","d":{},"e":[]}`, `p%5Ba%5D=&p%5Bb%5D=false&p%5Bc%5D=`,
	},
	{"a text as deepObject", `"style": "deepObject"`, `""`, `p=`},
	{"style form", `"style": "form"`, `{"r":100,"g":[1,2]}`, `g=%5B1%2C2%5D&r=100`},
	{"explode alone", `"explode": true`, `["a","b"]`, `p=a&p=b`},
	{"an object without explode", `"explode": false`, `{"r":100,"g":"a,b"}`, `p=g,a%2Cb,r,100`},
	{"a list without explode", `"style": "form", "explode": false`, `["a","b"]`, `p=a,b`},
	{"an empty list without explode", `"style": "form", "explode": false`, `[]`, ``},
	{"spaceDelimited", `"style": "spaceDelimited"`, `["a","b c"]`, `p=a%20b%20c`},
	{"pipeDelimited", `"style": "pipeDelimited"`, `["a","b"]`, `p=a%7Cb`},
	{"pipeDelimited with explode", `"style": "pipeDelimited", "explode": true`, `["a","b"]`, `p=a&p=b`},
	{"allowReserved", `"allowReserved": true`, `":/?#[]@!$&'()*+,;=%2F"`, `p=:/?%23%5B%5D@!$%26'()*%2B%2C%3B%3D%252F`},
}

// TestURLEncodedForms checks the bytes of URL-encoded forms for the encodings of a property, in each version of OpenAPI.
func TestURLEncodedForms(t *testing.T) {
	t.Parallel()
	for _, tt := range urlEncodedCases {
		for _, version := range []string{"3.0.4", "3.1.1", "3.2.0"} {
			o := formOperation(t, version, urlEncoded, `"p": {}`, `"p": {`+tt.encoding+`}`)
			got, err := encode(t, o, `{"p":`+tt.value+`}`)
			if err != nil || string(got.Body) != tt.want {
				t.Errorf("%s in %s: EncodeArguments(%s) = %s, %v, want %s", tt.name, version, tt.value, got.Body, err, tt.want)
			}
			if got.ContentType != urlEncoded {
				t.Errorf("%s in %s: ContentType = %q, want %q", tt.name, version, got.ContentType, urlEncoded)
			}
		}
	}
}

// receivedPart is a part that a server has received.
type receivedPart struct{ name, fileName, mediaType, trace, content string }

// readParts reads a multipart form.
func readParts(t testing.TB, parts mcp.RequestParts) []receivedPart {
	t.Helper()
	mediaType, parameters, err := mime.ParseMediaType(parts.ContentType)
	if err != nil || mediaType != multipartForm {
		t.Fatalf("ContentType = %q, %v, want multipart/form-data", parts.ContentType, err)
	}
	var out []receivedPart
	for r := multipart.NewReader(strings.NewReader(string(parts.Body)), parameters["boundary"]); ; {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("NextRawPart() error = %v, want none in %q", err, parts.Body)
		}
		content, err := io.ReadAll(p)
		if err != nil {
			t.Fatalf("ReadAll() error = %v, want none in %q", err, parts.Body)
		}
		_, disposition, err := mime.ParseMediaType(p.Header.Get("Content-Disposition"))
		if err != nil {
			t.Fatalf("Content-Disposition = %q, %v, want a valid header", p.Header.Get("Content-Disposition"), err)
		}
		out = append(out, receivedPart{
			disposition["name"], disposition["filename"], p.Header.Get("Content-Type"), p.Header.Get("X-Trace"), string(content),
		})
	}
}

// multipartCases have properties with their encodings, arguments, and the parts that a tool must send.
var multipartCases = []struct {
	name, version, properties, encoding, arguments string
	want                                           []receivedPart
}{
	{
		"scalars", "3.1.1", `"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": "boolean"}`, ``,
		`{"a":"é\r\n--x","b":9007199254740993,"c":true}`,
		[]receivedPart{
			{name: "a", content: "é\r\n--x"}, {name: "b", content: "9007199254740993"}, {name: "c", content: "true"},
		},
	},
	{
		"objects and lists", "3.0.3", `"o": {"type": "object"}, "l": {"type": "array", "items": {}}`, ``,
		`{"o":{"a":1},"l":["x",{"b":2},[3]]}`,
		[]receivedPart{
			{name: "l", content: "x"},
			{name: "l", mediaType: "application/json", content: `{"b":2}`},
			{name: "l", mediaType: "application/json", content: `[3]`},
			{name: "o", mediaType: "application/json", content: `{"a":1}`},
		},
	},
	{
		"media types and headers", "3.1.1", `"x": {"type": "string"}, "j": {"type": "string"}, "t": {"type": "integer"}`,
		`"x": {"contentType": "application/xml; charset=utf-8", "headers": {"X-Trace": {"schema": {"const": "7"}}}},
			"j": {"contentType": "application/json"},
			"t": {"contentType": "text/*", "headers": {"X-Trace": {"schema": {"type": "integer", "default": 8}}}}`,
		`{"x":"<a/>","j":"b","t":3}`,
		[]receivedPart{
			{name: "j", mediaType: "application/json", content: `"b"`},
			{name: "t", mediaType: "text/plain", trace: "8", content: "3"},
			{name: "x", mediaType: "application/xml; charset=utf-8", trace: "7", content: "<a/>"},
		},
	},
	{
		"styles", "3.0.3", `"d": {"type": "object"}, "c": {"type": "array", "items": {"type": "string"}}`,
		`"d": {"style": "deepObject", "explode": true}, "c": {"style": "form", "explode": false}`,
		`{"d":{"a b":{"c":["x&y"]}},"c":["1","2"]}`,
		[]receivedPart{{name: "c", content: "1,2"}, {name: "d[a b][c][0]", content: "x&y"}},
	},
	{
		"files", "3.0.3", `"f": {"type": "string", "format": "binary"},
			"l": {"type": "array", "items": {"type": "string", "format": "binary"}}`,
		`"f": {"contentType": "image/png, image/*"}`,
		`{"f":"AP8NCg==","filename_f":"a \"b\" é.png","mediaType_f":"image/webp","l":["YQ==","Yg=="],
			"filename_l":["1.txt"],"mediaType_l":["text/plain"]}`,
		[]receivedPart{
			{name: "f", fileName: `a "b" é.png`, mediaType: "image/webp", content: "\x00\xff\r\n"},
			{name: "l", fileName: "1.txt", mediaType: "text/plain", content: "a"},
			{name: "l", fileName: "l", mediaType: "application/octet-stream", content: "b"},
		},
	},
	{
		"files of OpenAPI 3.1", "3.1.1", `"a": {}, "b": {"type": ["string", "null"], "contentMediaType": "application/pdf"},
			"c": {"anyOf": [{"type": "string", "format": "binary"}, {"type": "null"}]}, "d[]": {"type": "string"},
			"e": {"type": "string", "contentEncoding": "base64"}`,
		`"d[]": {"contentType": "image/png"}, "e": {"contentType": "image/png"}`,
		`{"a":"YQ==","b":"Yg==","c":null,"d":"ZA==","e":"ZQ=="}`,
		[]receivedPart{
			{name: "a", fileName: "a", mediaType: "application/octet-stream", content: "a"},
			{name: "b", fileName: "b", mediaType: "application/pdf", content: "b"},
			{name: "d[]", fileName: "d[]", mediaType: "image/png", content: "d"},
			{name: "e", mediaType: "image/png", content: "ZQ=="},
		},
	},
	{
		"a property that is not declared", "3.1.1", ``, ``, `{"a\"; filename=\"\\":"1"}`,
		[]receivedPart{{name: `a"; filename="\`, content: "1"}},
	},
}

// TestMultipartForms checks the parts of the forms that arguments become. The same arguments must become the same form.
func TestMultipartForms(t *testing.T) {
	t.Parallel()
	for _, tt := range multipartCases {
		o := formOperation(t, tt.version, multipartForm, tt.properties, tt.encoding)
		parts, err := encode(t, o, tt.arguments)
		if err != nil {
			t.Errorf("%s: EncodeArguments(%s) error = %v, want none", tt.name, tt.arguments, err)
			continue
		}
		if got := readParts(t, parts); !slices.Equal(got, tt.want) {
			t.Errorf("%s: parts of %s = %+v, want %+v", tt.name, tt.arguments, got, tt.want)
		}
		again, err := encode(t, o, tt.arguments)
		if err != nil || string(again.Body) != string(parts.Body) || again.ContentType != parts.ContentType {
			t.Errorf("%s: the second body = %q, %v, want %q", tt.name, again.Body, err, parts.Body)
		}
	}
}

// TestRefusedForms checks that arguments which no form can represent are refused, although they match their schemas.
func TestRefusedForms(t *testing.T) {
	t.Parallel()
	const file = `"f": {"type": "string", "format": "binary"}`
	for _, tt := range []struct{ name, mediaType, properties, encoding, arguments, want string }{
		{
			"a member that looks nested", urlEncoded, `"p": {}`, `"p": {"style": "deepObject"}`, `{"p":{"a][b":1}}`,
			"without brackets",
		},
		{
			"an argument that looks like a member of another", urlEncoded, `"p": {}`, `"p": {"style": "deepObject"}`,
			`{"p[a]":1}`, `members of "p"`,
		},
		{
			"long names that repeat", urlEncoded, `"p": {}`, `"p": {"style": "deepObject"}`,
			`{"p":{"` + strings.Repeat("x", 1000) + `":[0` + strings.Repeat(",0", 10_000) + `]}}`, "form is over",
		},
		{
			"texts that escaping makes long", urlEncoded, `"p": {}`, ``, `{"p":"` + strings.Repeat("é", 2<<20) + `"}`,
			"form is over",
		},
		{
			"many parts", multipartForm, `"p": {"type": "array"}`, ``, `{"p":[0` + strings.Repeat(",0", 100_000) + `]}`,
			"form is over",
		},
		{
			"a separator in a value", multipartForm, `"p": {"type": "array"}`, `"p": {"explode": false}`, `{"p":["a,b","c"]}`,
			`without ","`,
		},
		{"an object as XML", urlEncoded, `"p": {}`, `"p": {"contentType": "application/xml"}`, `{"p":{}}`, "Send a string"},
		{"a name of two lines", multipartForm, ``, ``, `{"a\r\nX-Evil: 1":"1"}`, "control characters"},
		{"a file that is not in Base64", multipartForm, file, ``, `{"f":"é"}`, "Base64"},
		{"a file that is no text", multipartForm, file, ``, `{"f":{}}`, "Base64"},
		{"a name with a folder", multipartForm, file, ``, `{"f":"","filename_f":"../a"}`, "without slashes"},
		{"a file name of two lines", multipartForm, file, ``, `{"f":"","filename_f":"a\r\nb"}`, "control characters"},
		{"a long name", multipartForm, file, ``, `{"f":"","filename_f":"` + strings.Repeat("x", 256) + `"}`, "255"},
		{"a media type of two lines", multipartForm, file, ``, `{"f":"","mediaType_f":"a/b;\r\n c=d"}`, "media type"},
		{"no media type", multipartForm, file, `"f": {"contentType": "image/*"}`, `{"f":""}`, "Send the media type"},
		{"a name without a file", multipartForm, file, ``, `{"filename_f":"a"}`, "Send the file"},
		{
			"more names than files", multipartForm, `"f": {"type": "array", "items": {"type": "string", "format": "binary"}}`,
			``,
			`{"f":["YQ=="],"filename_f":["a","b"]}`, "at most as many",
		},
	} {
		o := formOperation(t, "3.0.3", tt.mediaType, tt.properties, tt.encoding)
		if got, err := encode(t, o, tt.arguments); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: EncodeArguments() = %.100q, %v, want an error with %q", tt.name, got.Body, err, tt.want)
		}
	}
}

// hostile generates texts with the characters that have a meaning in forms.
var hostile = rapid.OneOf(rapid.String(),
	rapid.StringOfN(rapid.RuneFrom([]rune("&=+%#;,| \r\n\x00\"\\-[]é2aF:")), 0, 12, -1))

// nestedValue generates an object with objects, lists and texts. Names have no brackets.
func nestedValue(depth int) *rapid.Generator[any] {
	text := rapid.Map(hostile, func(s string) any { return s })
	if depth == 0 {
		return text
	}
	name := hostile.Filter(func(s string) bool { return !strings.ContainsAny(s, "[]") })
	return rapid.OneOf(
		text,
		rapid.Map(rapid.MapOfN(name, nestedValue(depth-1), 1, 3), func(m map[string]any) any { return m }),
		rapid.Map(rapid.SliceOfN(nestedValue(depth-1), 1, 3), func(l []any) any { return l }),
	)
}

// flatten adds the texts of a value by their names with brackets.
func flatten(out map[string]string, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for member, child := range v {
			flatten(out, name+"["+member+"]", child)
		}
	case []any:
		for i, child := range v {
			flatten(out, fmt.Sprintf("%s[%d]", name, i), child)
		}
	default:
		out[name] = fmt.Sprint(v)
	}
}

// TestFormsArriveUnchanged checks that a server that parses the forms of generated arguments gets exactly their values.
func TestFormsArriveUnchanged(t *testing.T) {
	t.Parallel()
	const properties = `"text": {"type": "string"}, "list": {"type": "array", "items": {"type": "string"}}, "deep": {},
		"file": {"type": "string", "format": "binary"}`
	const encoding = `"deep": {"style": "deepObject", "explode": true}`
	form := formOperation(t, "3.0.3", urlEncoded, strings.ReplaceAll(properties, "binary", "x"), encoding)
	parts := formOperation(t, "3.0.3", multipartForm, properties, encoding)
	rapid.Check(t, func(rt *rapid.T) {
		text, list := hostile.Draw(rt, "text"), rapid.SliceOfN(hostile, 0, 3).Draw(rt, "list")
		deep, file := nestedValue(3).Draw(rt, "deep"), rapid.SliceOf(rapid.Byte()).Draw(rt, "file")
		encoded := base64.StdEncoding.EncodeToString(file)
		raw, err := json.Marshal(map[string]any{"text": text, "list": list, "deep": deep, "file": encoded})
		if err != nil {
			rt.Fatal(err)
		}
		want := map[string]string{"text": text}
		flatten(want, "deep", deep)

		got, err := encode(t, form, string(raw))
		if err != nil {
			rt.Fatalf("EncodeArguments(%s) error = %v, want none", raw, err)
		}
		values, err := url.ParseQuery(string(got.Body))
		if err != nil || !slices.Equal(values["list"], list) && len(list) > 0 || values.Get("file") != encoded {
			rt.Errorf("form of %s = %s, %v, want the list and the text of the file", raw, got.Body, err)
		}
		delete(values, "list")
		delete(values, "file")
		single := map[string]string{}
		for name := range values {
			single[name] = strings.Join(values[name], "\x1f")
		}
		if !maps.Equal(single, want) {
			rt.Errorf("form of %s = %q, want %q", raw, single, want)
		}

		got, err = encode(t, parts, string(raw))
		hasControl := false
		for name := range want {
			hasControl = hasControl || strings.ContainsFunc(name, unicode.IsControl)
		}
		if hasControl != (err != nil) {
			rt.Errorf("EncodeArguments(%s) error = %v, want an error for names with control characters: %t",
				raw, err, hasControl)
		}
		if err != nil {
			return
		}
		var gotList []string
		gotFile, single := "", map[string]string{}
		for _, p := range readParts(t, got) {
			switch p.name {
			case "list":
				gotList = append(gotList, p.content)
			case "file":
				gotFile = p.content
			default:
				single[p.name] = p.content
			}
		}
		if !slices.Equal(gotList, list) && len(list) > 0 || gotFile != string(file) || !maps.Equal(single, want) {
			rt.Errorf("parts of %s = %q, %q and %q, want %q, %q and %q", raw, single, gotList, gotFile, want, list, file)
		}
	})
}

// TestBoundaryIsNotInContent checks that content with the boundary of an earlier form arrives unchanged.
func TestBoundaryIsNotInContent(t *testing.T) {
	t.Parallel()
	o := formOperation(t, "3.1.1", multipartForm, `"a": {"type": "string"}`, ``)
	content := "x"
	for range 5 {
		raw, err := json.Marshal(map[string]string{"a": content})
		if err != nil {
			t.Fatal(err)
		}
		parts, err := encode(t, o, string(raw))
		if err != nil {
			t.Fatal(err)
		}
		if got := readParts(t, parts); len(got) != 1 || got[0].content != content {
			t.Errorf("parts of %q = %+v, want the content", content, got)
		}
		content = string(parts.Body)
	}
}
