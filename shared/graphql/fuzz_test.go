package graphql

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// FuzzBodies holds that what is read of a body is read again from what is written, by us and by
// encoding/json, which folds cases and lets the last of a name win.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{
		`{"query":"{a}"}`, `{"query":"{a}","operationName":"A","variables":{"x":[1,{"y":null}]},"extensions":{}}`, `[{"query":"{a}"},{"query":"{b}","id":1}]`,
		`{"qu\u0065ry":"\u007ba\u007d"}`, `{"Query":"{a}"}`, `{"query":"{a}","query":"{b}"}`, `{"query":"\ud83d\ude00"}`, `[]`, `{}`, `[[`, "\xff",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > MaxBodyBytes {
			return
		}
		var written []byte
		body, refused := Decode(raw)
		if refused == nil {
			written, refused = body.Encode()
		}
		if refused != nil {
			if !json.Valid(refused.Body()) || refused.Code == "" {
				t.Fatalf("%q is refused by %s", raw, refused.Body())
			}
			return
		}
		if !jsontext.Value(raw).IsValid() {
			t.Fatalf("%q is no JSON, or has a name twice", raw)
		}
		again, refused := Decode(written)
		if refused != nil {
			t.Fatalf("%q is written as %s: %v", raw, written, refused)
		}
		if anew, refused := again.Encode(); refused != nil || string(anew) != string(written) || len(again.Requests) != len(body.Requests) || again.Batch != body.Batch {
			t.Fatalf("%s is written anew as %s", written, anew)
		}
		lax := func(text []byte) []struct{ Query, OperationName string } {
			var all []struct{ Query, OperationName string }
			if body.Batch {
				_ = json.Unmarshal(text, &all)
				return all
			}
			all = append(all, struct{ Query, OperationName string }{})
			_ = json.Unmarshal(text, &all[0])
			return all
		}
		for i, theirs := range lax(written) {
			if r := body.Requests[i]; theirs.Query != r.Query || theirs.OperationName != r.OperationName {
				t.Fatalf("%q: encoding/json reads %+v, and %+v was checked", written, theirs, r)
			}
		}
	})
}

// FuzzDocuments holds the facts that do not depend on a document's meaning, and that an amended
// document says the same as before.
func FuzzDocuments(f *testing.F) {
	for _, text := range []string{
		"{a}", "query A($x:[Int!]=[1] @d){a(b:$x c:{d:\"e\" f:E}) @include(if:$x){...F ...on T{g}}} fragment F on T{h}", "{...F} fragment F on T{...F}",
		`{a(b:["""c"""","]) __schema{types{name}} } #"])}`, `{a(b:"""\"""c""" d:"\u{41}")}`, "{__schema{types{...F}}} fragment F on __Type{name fields{type{ofType{name}}}}",
		"{a:__type(name:\"T\"){enumValues{name}}}", "subscription{a} mutation B{b}", "\ufeff#\n,{a}", `"x" query A{a}`, "{a(b:1.5e3 c:-0 d:null e:true f:[[]])}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		compareWithParser(t, text)
		d, refused := Analyse(text, nil)
		if refused != nil {
			if !json.Valid(refused.Body()) || refused.Code == "" {
				t.Fatalf("%q is refused by %s", text, refused.Body())
			}
			return
		}
		for _, o := range d.Operations {
			if o.Depth < 0 || o.Complexity < 0 || o.Complexity > MaxComplexity || o.Type == "" {
				t.Fatalf("%q: %+v", text, o)
			}
		}
		if d.Introspects == (Location{}) && strings.Contains(text, "__schema{") && !strings.ContainsAny(text, "\"#:.@$") && !strings.Contains(text, "fragment") && !strings.Contains(text, "query") && !strings.Contains(text, "___schema") {
			t.Fatalf("%q introspects unnoticed", text)
		}
		amended, shown, refused := Amend(text)
		if refused != nil {
			return
		}
		without := amended
		for _, added := range marks() {
			without = strings.ReplaceAll(without, added, "")
		}
		if without != text {
			t.Fatalf("%q is amended to %q", text, amended)
		}
		again, refused := Analyse(amended, nil)
		if refused != nil {
			if len(text) > 1000 {
				return // too large by what was added
			}
			t.Fatalf("%q is amended to %q: %v", text, amended, refused)
		}
		if len(again.Operations) != len(d.Operations) || (again.Introspects == (Location{})) != (d.Introspects == (Location{})) || len(shown.roots) > 0 != (d.Introspects != (Location{})) {
			t.Fatalf("%q is amended to %q", text, amended)
		}
		if d.Introspects == (Location{}) && !strings.Contains(text, "on __") {
			for i := range d.Operations {
				if d.Operations[i].Complexity != again.Operations[i].Complexity || d.Operations[i].Depth != again.Operations[i].Depth {
					t.Fatalf("%q is amended to %q", text, amended)
				}
			}
		}
	})
}

// FuzzAnswers holds that nothing hidden is left of an introspection, that what is filtered is JSON, and
// that a second time changes nothing more.
func FuzzAnswers(f *testing.F) {
	for _, answer := range []string{
		`{"data":{"a":{"_gatewrightSchema":"__Schema","_gatewrightQuery":{"name":"Query"},"types":[{"_gatewrightType":"Secret","name":"Secret"},{"_gatewrightType":"Open","name":"Open","_gatewrightKind":"OBJECT","fields":[{"_gatewrightField":"x","_gatewrightIn":{"name":null,"ofType":{"name":"Secret"}},"name":"x"}]}]}}}`,
		`{"errors":[{"message":"No. Did you mean \"Secret\"?"}]}`, `{"data":{"a":{"types":[]}}}`, `{"data":null}`, `[{"data":{"a":1}}]`, `{"data":{"a":1,"a":2}}`,
	} {
		f.Add([]byte(answer))
	}
	h := Hide([]string{"Secret"}, map[string][]string{"Open": {"hidden"}})
	shown := &Introspection{roots: map[string]bool{"a": true}, defaults: map[string]bool{"d": true}}
	f.Fuzz(func(t *testing.T, answer []byte) {
		filtered, changed, err := h.Filter(answer, []*Introspection{shown}, nil)
		if err != nil {
			return
		}
		if !changed && string(filtered) != string(answer) {
			t.Fatalf("%q is %q, unchanged", answer, filtered)
		}
		if !jsontext.Value(filtered).IsValid() {
			t.Fatalf("%q is %q", answer, filtered)
		}
		root, err := parseTree(filtered, true)
		if err != nil {
			t.Fatal(err)
		}
		data := root.get("data")
		if data == nil || data.get("a") == nil {
			return
		}
		if text := string(data.get("a").append(nil)); strings.Contains(text, `"`+mark) {
			t.Fatalf("%q shows %s", answer, text)
		}
	})
}
