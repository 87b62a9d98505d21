package openapi

import (
	"net/http"
	"strings"
	"testing"
)

// TestAmbiguousCharsetsAreRefused checks values of Content-Type from which servers read different charsets. In UTF-7,
// text of ASCII can have quotation marks that are not there in UTF-8.
func TestAmbiguousCharsetsAreRefused(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"body":{"content":[{"type":"application/json","schema":{"type":"object"}},
		{"type":"multipart/form-data","schema":{"type":"object"}},{"type":"text/*","schema":{"type":"string"}},
		{"type":"text/markdown"}]}}`)
	for contentType, want := range map[string]bool{
		`application/json; charset=utf8`:                              true,
		`application/json; charset=iso-8859-1`:                        false,
		`application/json; charset="UTF-8"; profile="https://x/*"`:    true,
		`application/json; charset=utf-7; charset*=utf-8''utf-8`:      false,
		`application/json; charset=utf-7; charset*0=utf-8`:            false,
		`application/json; charset=utf-8; x="; charset=utf-7"`:        false,
		`multipart/form-data; boundary=a; x=";boundary = b"`:          false,
		`multipart/form-data; boundary=a; boundary*=utf-8''b`:         false,
		`multipart/form-data; boundary="==boundary=="; charset=utf-8`: true,
		`multipart/form-data; boundary=a; charset=utf-7`:              false,
		`text/plain; charset=utf-7`:                                   false,
		`text/plain; charset=ISO-8859-1`:                              true,
		`text/markdown; charset=utf-7`:                                true, // it has no schema
	} {
		if got := q.Accepts(contentType); got != want {
			t.Errorf("Accepts(%s) = %t, want %t", contentType, got, want)
		}
	}
}

// TestTextsAreReadInTheirCharset checks a text whose length depends on the charset.
func TestTextsAreReadInTheirCharset(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"body":{"content":[{"type":"text/plain","schema":{"type":"string","pattern":"^é+$"}}]}}`)
	for contentType, want := range map[string]string{
		"text/plain": "body : must be UTF-8 text", "text/plain; charset=utf-8": "body : must be UTF-8 text",
		"text/plain; charset=iso-8859-1": "", "text/plain; charset=windows-1252": "",
	} {
		var r Report
		q.CheckBody(&r, contentType, []byte("\xe9\xe9"))
		if got := r.text(); got != want {
			t.Errorf("CheckBody(%s) = %q, want %q", contentType, got, want)
		}
	}
}

// TestFormsAreReadInOneWay checks multipart forms that servers divide into different parts, names or contents.
func TestFormsAreReadInOneWay(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"body":{"content":[{"type":"multipart/form-data","schema":{"type":"object","properties":{
		"role":{"enum":["user"]},"note":{"type":"string"}}}}]}}`)
	const (
		head      = `Content-Disposition: form-data; name="note"`
		admin     = "Content-Disposition: form-data; name=\"role\"\n\nadmin\n"
		misplaced = "body : must have its boundary only between its parts, on lines of its own that end with CR LF"
		encoded   = "body : must have parts without Content-Transfer-Encoding"
		names     = "body : must have one name for each part in Content-Disposition, without name*"
		notUTF8   = "body /note: must be UTF-8 text"
	)
	one := func(header, text string) string { return "--b\n" + header + "\n\n" + text + "\n--b--\n" }
	for _, tt := range []struct{ name, body, want string }{
		{"a part", one(head, "x"), ""},
		{"text before the first boundary", "preamble\n" + one(head, "x"), ""},
		{"text after the last boundary", one(head, "x") + "epilogue", ""},
		{"a part before the first boundary", "--b \v\n" + admin + one(head, "x"), misplaced},
		{"a part after the last boundary", one(head, "x") + "--b\n" + admin + "--b--\n", misplaced},
		{"a boundary after LF", one(head, "x\v--b\v"+strings.ReplaceAll(admin, "\n", "\v")), misplaced},
		{"a boundary between LF and CR LF", one(head, "x\v--b\n"+admin), misplaced},
		{"white space after a boundary", one(head, "x\n--b \n"+admin), misplaced},
		{
			"two dispositions", one(head+"\n"+strings.Replace(head, "note", "role", 1), "admin"),
			"body : must have one Content-Disposition for each part",
		},
		{"name*", one(head+"; name*=utf-8''role", "admin"), names},
		{"name*0", one(head+"; name*0=role", "admin"), names},
		{"name* alone", one("Content-Disposition: form-data; name*=utf-8''role", "admin"), names},
		{"LF before the first boundary", "\v" + one(head, "x"), misplaced},
		{"a name within the file name", one(head+`; filename="a\"; name=\"role"`, "admin"), names},
		{"a file name with a quotation mark", one(head+`; filename="a\"name=b"`, "x"), ""},
		{
			"quoted-printable",
			one(strings.Replace(head, "note", "role", 1)+"\nContent-Transfer-Encoding: quoted-printable", "=75ser"), encoded,
		},
		{"base64", one(head+"\nContent-Transfer-Encoding: base64", "eA=="), encoded},
		{"binary", one(head+"\nContent-Transfer-Encoding: Binary", "x"), ""},
		{"UTF-7", one(head+"\nContent-Type: text/plain; charset=utf-7", "+ADw-"), notUTF8},
		{"UTF-7 in JSON", one(head+"\nContent-Type: application/json; charset=utf-7", `"x"`), notUTF8},
		{"a file in UTF-7", one(head+"; filename=f\nContent-Type: text/plain; charset=utf-7", "x"), ""},
		{"Latin-1", one(head+"\nContent-Type: text/plain; charset=iso-8859-1", "\xe9"), ""},
	} {
		// In these bodies, a line feed stands for CR LF, and a vertical tab for LF.
		body := strings.NewReplacer("\n", "\r\n", "\v", "\n").Replace(tt.body)
		var r Report
		q.CheckBody(&r, "multipart/form-data; boundary=b", []byte(body))
		if got := r.text(); got != tt.want {
			t.Errorf("%s: CheckBody(%q) = %q, want %q", tt.name, body, got, tt.want)
		}
	}
	for boundary, want := range map[string]string{
		`"b "`: "body : must have a valid boundary in Content-Type, of at most 70 characters", `"b"`: "",
	} {
		var r Report
		q.CheckBody(&r, "multipart/form-data; boundary="+boundary, []byte(strings.ReplaceAll(one(head, "x"), "\n", "\r\n")))
		if got := r.text(); got != want {
			t.Errorf("CheckBody(boundary=%s) = %q, want %q", boundary, got, want)
		}
	}
}

// TestMalformedBracketsAreRefused checks names from which servers read a property of an object in the style deepObject,
// although their brackets are malformed.
func TestMalformedBracketsAreRefused(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"parameters":[{"in":"query","name":"d","style":"deepObject","explode":true,"schema":{
		"type":"object","properties":{"a":{"type":"integer"},"list":{"type":"array"}}}}]}`)
	for query, want := range map[string]bool{
		"d[a]=1": true, "d[list][]=1": true, "d[b][c]=1": true, "d[a]x=1": false, "d[a=1": false, "d[]=1": false,
		"d[b[a]]=1": false, "d[b]x[a]=1": false, "d[][a]=1": false, "d[a]%20=1": false, "d[a]]=1": false,
	} {
		var r Report
		q.CheckQuery(&r, query)
		if got := r.IsValid(); got != want {
			t.Errorf("CheckQuery(%s): IsValid() = %t (%s), want %t", query, got, r.text(), want)
		}
	}
}

// TestSpaceAroundCookiesHasNoMeaning checks that white space does not hide a cookie: servers remove it.
func TestSpaceAroundCookiesHasNoMeaning(t *testing.T) {
	t.Parallel()
	q := compile(t, "", `{"parameters":[{"in":"cookie","name":"id","style":"form","explode":true,
		"schema":{"type":"integer"}}]}`)
	for cookies, want := range map[string]string{
		"a=b; id\t = 5 ": "", `id = "5"`: "", "id =x": "cookie /id: must be an integer, not a string",
		"id=5; id =6": "cookie /id: must be sent once only",
	} {
		var r Report
		q.CheckCookies(&r, http.Header{"Cookie": {cookies}})
		if got := r.text(); got != want {
			t.Errorf("CheckCookies(%s) = %q, want %q", cookies, got, want)
		}
	}
}
