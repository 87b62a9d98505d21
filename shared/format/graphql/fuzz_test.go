package graphql

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzBodies checks that Decode and encoding/json read an encoded body with the same
// result. encoding/json ignores the case of names, and uses the last of duplicate names.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"query":"{a}"}`, `{"query":"{a}","operationName":"A","variables":{"x":[1,{"y":null}]},"extensions":{}}`,
		`[{"query":"{a}"},{"query":"{b}","id":1}]`,
		`{"qu\u0065ry":"\u007ba\u007d"}`, `{"Query":"{a}"}`, `{"query":"{a}","query":"{b}"}`, `{"query":"\ud83d\ude00"}`,
		`[]`, `{}`, `[[`, "\xff",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > MaxBodyBytes {
			return
		}
		var encoded []byte
		body, refused := Decode(raw)
		if refused == nil {
			encoded, refused = body.Encode()
		}
		if refused != nil {
			if !json.Valid(refused.Response()) || refused.Code == "" {
				t.Fatalf("refusal of %q = %s, want JSON with a code", raw, refused.Response())
			}
			return
		}
		if !jsontext.Value(raw).IsValid() {
			t.Fatalf("Decode(%q) = no refusal, want a refusal: the text is invalid JSON or has a duplicate name", raw)
		}
		decoded, refused := Decode(encoded)
		if refused != nil {
			t.Fatalf("Decode(%[2]s), encoded from %[1]q, refused = %[3]v, want no refusal", raw, encoded, refused)
		}
		if encodedAgain, refused := decoded.Encode(); refused != nil || string(encodedAgain) != string(encoded) ||
			len(decoded.Requests) != len(body.Requests) || decoded.Batch != body.Batch {
			t.Fatalf("Decode(%s), encoded again = %s, %v, with %d requests, batch = %t; want the same text, no refusal, "+
				"%d requests, batch = %t",
				encoded, encodedAgain, refused, len(decoded.Requests), decoded.Batch, len(body.Requests), body.Batch)
		}
		unmarshalRequests := func(text []byte) []struct{ Query, OperationName string } {
			var all []struct{ Query, OperationName string }
			if body.Batch {
				_ = json.Unmarshal(text, &all)
				return all
			}
			all = append(all, struct{ Query, OperationName string }{})
			_ = json.Unmarshal(text, &all[0])
			return all
		}
		for i, want := range unmarshalRequests(encoded) {
			if r := body.Requests[i]; want.Query != r.Query || want.OperationName != r.OperationName {
				t.Fatalf("%q: checked request = %+v, want %+v as encoding/json reads it", encoded, r, want)
			}
		}
	})
}

// FuzzDocuments compares the results of read() and gqlparser (compareWithParser). It also checks that Amend inserts
// only selections from marks(). In a document without introspection, Amend must not change the complexity and the
// depth.
func FuzzDocuments(f *testing.F) {
	for _, text := range []string{
		"{a}", "query A($x:[Int!]=[1] @d){a(b:$x c:{d:\"e\" f:E}) @include(if:$x){...F ...on T{g}}} fragment F on T{h}",
		"{...F} fragment F on T{...F}",
		`{a(b:["""c"""","]) __schema{types{name}} } #"])}`, `{a(b:"""\"""c""" d:"\u{41}")}`,
		"{__schema{types{...F}}} fragment F on __Type{name fields{type{ofType{name}}}}",
		"{a:__type(name:\"T\"){enumValues{name}}}", "subscription{a} mutation B{b}", "\ufeff#\n,{a}", `"x" query A{a}`,
		"{a(b:1.5e3 c:-0 d:null e:true f:[[]])}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		compareWithParser(t, text)
		d, refused := Analyze(text, nil)
		if refused != nil {
			if !json.Valid(refused.Response()) || refused.Code == "" {
				t.Fatalf("refusal of %q = %s, want JSON with a code", text, refused.Response())
			}
			return
		}
		for _, o := range d.Operations {
			if o.Depth < 0 || o.Complexity < 0 || o.Complexity > MaxComplexity || o.Type == "" {
				t.Fatalf("Analyze(%q) = %+v, want a type, a depth and a complexity of 0 to %d", text, o, MaxComplexity)
			}
		}
		if d.IntrospectionAt == (Location{}) && strings.Contains(text, "__schema{") &&
			!strings.ContainsAny(text, "\"#:.@$") && !strings.Contains(text, "fragment") && !strings.Contains(text, "query") &&
			!strings.Contains(text, "___schema") {
			t.Fatalf("Analyze(%q) finds no introspection, want __schema", text)
		}
		amended, introspection, refused := Amend(text)
		if refused != nil {
			return
		}
		without := amended
		for _, added := range marks() {
			without = strings.ReplaceAll(without, added, "")
		}
		if without != text {
			t.Fatalf("Amend(%q) = %q, want the same document with no changes except added marks", text, amended)
		}
		second, refused := Analyze(amended, nil)
		if refused != nil {
			if len(text) > 1000 {
				return // the additions made the document too large
			}
			t.Fatalf("Analyze(%[2]q), amended from %[1]q, refused = %[3]v, want no refusal", text, amended, refused)
		}
		if len(second.Operations) != len(d.Operations) {
			t.Fatalf("Amend(%q) = %q, with %d operations, want %d", text, amended, len(second.Operations), len(d.Operations))
		}
		introspects := d.IntrospectionAt != (Location{})
		if got := second.IntrospectionAt != (Location{}); got != introspects {
			t.Fatalf("Amend(%q) = %q, with introspection = %t, want %t", text, amended, got, introspects)
		}
		if got := len(introspection.roots) > 0; got != introspects {
			t.Fatalf("Amend(%q): introspection roots = %v, want any = %t", text, introspection.roots, introspects)
		}
		if d.IntrospectionAt == (Location{}) && !strings.Contains(text, "on __") {
			for i := range d.Operations {
				before, after := d.Operations[i], second.Operations[i]
				if after.Complexity != before.Complexity {
					t.Fatalf("Amend(%q) = %q, complexity of operation %d = %d, want %d",
						text, amended, i, after.Complexity, before.Complexity)
				}
				if after.Depth != before.Depth {
					t.Fatalf("Amend(%q) = %q, depth of operation %d = %d, want %d", text, amended, i, after.Depth, before.Depth)
				}
			}
		}
	})
}

// FuzzResponses checks that Filter returns valid JSON, that a response reported as unchanged has the same text, and
// that the introspection in a filtered response contains no marks.
func FuzzResponses(f *testing.F) {
	for _, response := range []string{
		`{"data":{"a":{"_gatewrightSchema":"__Schema","_gatewrightQuery":{"name":"Query"},` +
			`"types":[{"_gatewrightType":"Secret","name":"Secret"},{"_gatewrightType":"Open","name":"Open",` +
			`"_gatewrightKind":"OBJECT","fields":[{"_gatewrightField":"x","_gatewrightIn":{"name":null,` +
			`"ofType":{"name":"Secret"}},"name":"x"}]}]}}}`,
		`{"errors":[{"message":"No. Did you mean \"Secret\"?"}]}`, `{"data":{"a":{"types":[]}}}`, `{"data":null}`,
		`[{"data":{"a":1}}]`, `{"data":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(response))
	}
	h := NewHidden([]string{"Secret"}, map[string][]string{"Open": {"hidden"}})
	introspection := &Introspection{roots: map[string]bool{"a": true}, defaultKeys: map[string]bool{"d": true}}
	f.Fuzz(func(t *testing.T, response []byte) {
		filtered, changed, err := h.Filter(response, []*Introspection{introspection}, nil)
		if err != nil {
			return
		}
		if !changed && string(filtered) != string(response) {
			t.Fatalf("Filter(%q) = %q, unchanged, want the same text", response, filtered)
		}
		if !jsontext.Value(filtered).IsValid() {
			t.Fatalf("Filter(%q) = %q, want valid JSON", response, filtered)
		}
		root, err := parseTree(filtered, true)
		if err != nil {
			t.Fatal(err)
		}
		data := root.get("data")
		if data == nil || data.get("a") == nil {
			return
		}
		if text := string(data.get("a").append(nil)); strings.Contains(text, `"`+markPrefix) {
			t.Fatalf("Filter(%q) = %s, want no marks", response, text)
		}
	})
}
