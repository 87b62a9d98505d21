package openapi

import "testing"

// TestMalformedMediaTypesAreRefused checks that only a message without Content-Type has the type
// application/octet-stream: an upstream could read JSON, which was not checked, from a malformed value.
func TestMalformedMediaTypesAreRefused(t *testing.T) {
	t.Parallel()
	q := compile(t, pet, `{"body":{"content":[{"type":"application/json","schema":{"$ref":"#/$defs/Pet"}},
		{"type":"application/octet-stream"},{"type":"image/*"}]}}`)
	for contentType, want := range map[string]bool{
		"": true, " ": true, "application/octet-stream": true, "application/json;": true, "image": false,
		"application/json,text/plain": false, "application/json, application/json": false, "application/json; charset": false,
	} {
		if got := q.Accepts(contentType); got != want {
			t.Errorf("Accepts(%q) = %t, want %t", contentType, got, want)
		}
	}
}

// TestDeepObjectsAreNotSentTwice checks objects in the style deepObject that are also sent as one value: the upstream
// could read the value that the gateway did not check.
func TestDeepObjectsAreNotSentTwice(t *testing.T) {
	t.Parallel()
	const object = `{"type":"object","properties":{"a":{"type":"integer"}}}`
	q := compile(t, "", `{"parameters":[
		{"in":"query","name":"d","style":"deepObject","explode":true,"schema":`+object+`}],
		"body":{"content":[{"type":"application/x-www-form-urlencoded",
		"encoding":{"d":{"style":"deepObject","explode":true}},
		"schema":{"type":"object","properties":{"d":`+object+`}}}]}}`)
	const refused = " /d: must have names of properties in brackets, such as d[name]"
	for pairs, wants := range map[string]bool{
		"d[a]=1": false, "": false, "d[a]=x&d={%22a%22:1}": true, "d={%22a%22:x}&d[a]=1": true,
		"d={%22a%22:1}": true, "d=": true,
	} {
		var query, body Report
		q.CheckQuery(&query, pairs)
		q.CheckBody(&body, "application/x-www-form-urlencoded", []byte(pairs))
		for in, got := range map[string]string{InQuery: query.text(), InBody: body.text()} {
			want := ""
			if wants {
				want = in + refused
			}
			if got != want {
				t.Errorf("check of the %s %s = %q, want %q", in, pairs, got, want)
			}
		}
	}
}

// TestItemsOfFormsCanLookLikeJSON checks lists of texts in multipart forms. One part of JSON can be a whole list, but each
// of several parts is a text, even if it looks like JSON.
func TestItemsOfFormsCanLookLikeJSON(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"body":{"content":[{"type":"multipart/form-data","schema":{"type":"object","properties":{
		"texts":{"type":"array","items":{"type":"string","maxLength":9}},
		"numbers":{"type":"array","items":{"type":"array","items":{"type":"integer"}}}}}}]}}`)
	part := func(name, text string) string {
		return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
	}
	for _, tt := range []struct{ form, want string }{
		{part("texts", "[]"), ""},
		{part("texts", `["a","b"]`), ""},
		{part("texts", `[1]`), "body /texts/0: must be a string, not a number"},
		{part("texts", "[]") + part("texts", "{}"), ""},
		{part("texts", "[x") + part("texts", "[1]"), ""},
		{part("texts", "[x"), ""},
		{part("texts", `{"a":1}`), ""},
		{part("texts", `{"a":1234567}`), "body /texts/0: must have at most 9 characters"},
		{part("numbers", "[1]") + part("numbers", "[2]"), ""},
		{part("numbers", "[[1]]"), ""},
		{
			part("numbers", "[x"),
			"body /numbers: must be valid JSON: it must be JSON, and has a syntax error here (at /0)",
		},
	} {
		var r Report
		q.CheckBody(&r, "multipart/form-data; boundary=b", []byte(tt.form+"--b--\r\n"))
		if got := r.text(); got != tt.want {
			t.Errorf("CheckBody(%q) = %q, want %q", tt.form, got, tt.want)
		}
	}
}

// TestCommasOfFormsCanBeEscaped checks lists that a form has as one text. Most clients escape the commas between items.
func TestCommasOfFormsCanBeEscaped(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"body":{"content":[{"type":"application/x-www-form-urlencoded",
		"encoding":{"ids":{"style":"form"},"color":{"style":"form"}},
		"schema":{"type":"object","properties":{"ids":{"type":"array","items":{"type":"integer"},"maxItems":3},
		"color":{"type":"object","properties":{"R":{"type":"integer"}},"additionalProperties":false}}}}]}}`)
	for form, want := range map[string]string{
		"ids=1,2&color=R,1":     "",
		"ids=1%2C2&color=R%2C1": "",
		"ids=1%2C2%2C3%2C4":     "body /ids/0: must be an integer, not a string",
		"ids=1,2%2C3":           "",
		"ids=1%2Cx":             "body /ids/0: must be an integer, not a string",
		"ids=1%2C2&color=R%2Cx": "body /color/R: must be an integer, not a string\n" +
			"body /ids/0: must be an integer, not a string",
		"color=R%2C1%2CG%2C2&ids=": "body /color/G: must not be sent: there is no such property",
	} {
		var r Report
		q.CheckBody(&r, "application/x-www-form-urlencoded", []byte(form))
		if got := r.text(); got != want {
			t.Errorf("CheckBody(%s) = %q, want %q", form, got, want)
		}
	}
}
