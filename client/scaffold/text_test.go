package scaffold_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/gatewright/gatewright/client/exit"
	"github.com/gatewright/gatewright/client/scaffold"
)

// TestMergedMembersAreWrittenOut checks merge keys of YAML: an object's own members replace merged ones, and earlier
// merged members replace later ones.
func TestMergedMembersAreWrittenOut(t *testing.T) {
	t.Parallel()
	const text = `
openapi: 3.1.0
info: {title: t, version: "1"}
servers: [{url: "https://a.example.com"}]
x-a: &a {one: a, two: a}
x-b: &b {two: b, three: b, <<: *a}
x-own: {<<: *a, two: own}
x-list: {<<: [*a, *b], four: own}
x-inline: {<<: {one: inline}}
x-text: {"<<": text}
x-responses: &responses {responses: {default: {description: d}}}
paths:
  /p:
    get: {<<: *responses, operationId: p}
`
	got, err := scaffold.AddRoutes([]byte(text), scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(got.Text, &members); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"x-b":      map[string]any{"one": "a", "two": "b", "three": "b"},
		"x-own":    map[string]any{"one": "a", "two": "own"},
		"x-list":   map[string]any{"one": "a", "two": "a", "three": "b", "four": "own"},
		"x-inline": map[string]any{"one": "inline"},
		"x-text":   map[string]any{"<<": "text"},
	} {
		if !reflect.DeepEqual(members[name], want) {
			t.Errorf("AddRoutes(): %s = %v, want %v", name, members[name], want)
		}
	}
	all := templateFiles(t, "")
	scaffold.UseDescription(all, got)
	checkValid(t, all)
}

// TestInvalidTextIsRefusedWithItsLine checks the errors for encodings other than UTF-8, for duplicate names and for a
// second document.
func TestInvalidTextIsRefusedWithItsLine(t *testing.T) {
	t.Parallel()
	const description = "openapi: 3.1.0\ninfo: {title: Café, version: '1'}\npaths: {}\n"
	encoded := func(mark bool, at int) string { // UTF-16; at is the place of the lower byte
		var b []byte
		for i, unit := range utf16.Encode([]rune("\ufeff" + description)) {
			if i == 0 && !mark {
				continue
			}
			var bytes [2]byte
			bytes[at], bytes[1-at] = byte(unit), byte(unit>>8)
			b = append(b, bytes[:]...)
		}
		return string(b)
	}
	for _, c := range []struct{ name, text, want string }{
		{"UTF-16, big endian", encoded(true, 1), "is in UTF-16: save it in UTF-8"},
		{"UTF-16, little endian", encoded(true, 0), "is in UTF-16: save it in UTF-8"},
		{"UTF-16 without mark", encoded(false, 0), "is in UTF-16: save it in UTF-8"},
		{"UTF-16 in JSON", "{\x00\"\x00a\x00", "is in UTF-16: save it in UTF-8"},
		{"UTF-32", "\xff\xfe\x00\x00o\x00\x00\x00", "is in UTF-32: save it in UTF-8"},
		{"zero byte", "openapi: 3.1.0\ninfo: \x00\n", "line 2: the file has a zero byte"},
		{
			"Latin-1", strings.ReplaceAll(description, "é", "\xe9"),
			"line 2: the file is not in UTF-8, but probably in Latin-1 (ISO 8859-1)",
		},
		{
			"duplicate in YAML", "openapi: 3.1.0\npaths:\n  /a:\n    get: {}\n    get: {}\n",
			`line 5: the object has the name "get" already, in line 4`,
		},
		{
			"number and text", "openapi: 3.1.0\nx-a:\n  200: a\n  '200': b\n",
			`line 4: the object has the name "200" already, in line 3`,
		},
		{"two merge keys", "x-a: &a {b: c}\nx-d:\n  <<: *a\n  <<: *a\n", `line 4: the object has the name "<<" already`},
		{"merge key with a text", "openapi: 3.1.0\nx-a: {<<: text}\n", "line 2: a merge key (<<) must have an object"},
		{"merge key with its own object", "openapi: 3.1.0\nx-a: &a {b: {<<: *a}}\n", "contains itself"},
		{
			"duplicate in JSON", "{\n\"openapi\": \"3.1.0\",\n\"paths\": {\"/a\": {\n\"get\": {},\n\"get\": {}}}}",
			"line 5 (/paths/~1a/get): the object has this name already",
		},
		{"invalid JSON", "{\n\"openapi\": \"3.1.0\",\n,}", "line 3: the description is no JSON"},
		{"second document in YAML", "openapi: 3.1.0\n---\nopenapi: 3.1.0\n", "line 2: a second document begins here"},
		{"second document in JSON", "{\"openapi\": \"3.1.0\"}\n{}", "line 2: more text follows the description"},
	} {
		got, err := scaffold.AddRoutes([]byte(c.text), scaffold.Options{})
		if exit.CodeOf(err) != exit.Invalid || !strings.Contains(fmt.Sprint(err), c.want) || got.Text != nil {
			t.Errorf("%s: AddRoutes() = %q, %v, want no text, code %d and %q", c.name, got.Text, err, exit.Invalid, c.want)
		}
	}
}

// TestLargeDescriptionIsWrittenWithoutIndentation checks the bound of a description's size, which is that of a file in
// a build. A description that only indentation makes too large is written without it.
func TestLargeDescriptionIsWrittenWithoutIndentation(t *testing.T) {
	t.Parallel()
	description := func(size int64) string {
		const head, tail = `{"openapi":"3.1.0","servers":[{"url":"https://a"}],"paths":{"/a":{"get":{}}},"x-a":[`, "0]}"
		return head + strings.Repeat("0,", int((size-int64(len(head+tail)))/2)) + tail
	}
	got, err := scaffold.AddRoutes([]byte(description(scaffold.MaxBytes()/2)), scaffold.Options{})
	if err != nil || int64(len(got.Text)) > scaffold.MaxBytes() || strings.Count(string(got.Text), "\n") != 1 {
		t.Errorf("AddRoutes() of half the bound = %d bytes in %d lines, %v, want at most %d in one line",
			len(got.Text), strings.Count(string(got.Text), "\n"), err, scaffold.MaxBytes())
	}
	for name, size := range map[string]int64{
		"over the bound": scaffold.MaxBytes() + 2, "over the bound with a route": scaffold.MaxBytes() - 2,
	} {
		got, err := scaffold.AddRoutes([]byte(description(size)), scaffold.Options{})
		if exit.CodeOf(err) != exit.Invalid || got.Text != nil {
			t.Errorf("%s: AddRoutes() = %d bytes, %v, want none and code %d", name, len(got.Text), err, exit.Invalid)
		}
	}
}

// TestDepthIsLimited checks the maximum depth of a description in JSON and YAML. An alias is no level of its own.
func TestDepthIsLimited(t *testing.T) {
	t.Parallel()
	const head = `{"openapi":"3.1.0","servers":[{"url":"https://a"}],"paths":{"/a":{"get":{}}},` + "\n"
	nested := func(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }
	for _, c := range []struct{ name, text, want string }{
		{"127 levels in JSON", head + `"x-a":` + nested(127) + "}", "<nil>"},
		{"128 levels in JSON", head + `"x-a":` + nested(128) + "}", "line 2: the description has more than 128 levels"},
		{"5,000 levels in JSON", head + `"x-a":` + nested(5_000) + "}", "line 2: the description has more than 128"},
		{"127 levels in YAML", "---\n" + head + `"x-a":` + nested(127) + "}", "<nil>"},
		{"128 levels in YAML", "---\n" + head + `"x-a":` + nested(128) + "}", "line 3: the description has more than 128"},
		{
			"127 levels with an alias", "---\n" + head + `"x-a":&a ` + nested(60) + `,"x-b":` + strings.Repeat("[", 67) + "*a" +
				strings.Repeat("]", 67) + "}", "<nil>",
		},
	} {
		_, err := scaffold.AddRoutes([]byte(c.text), scaffold.Options{})
		if !strings.Contains(fmt.Sprint(err), c.want) || err != nil && exit.CodeOf(err) != exit.Invalid {
			t.Errorf("%s: AddRoutes() error = %v, want %q", c.name, err, c.want)
		}
	}
}
