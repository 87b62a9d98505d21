package graphql

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/graphql/graphqltest"
)

// leaky is a schema whose errors reveal more than the request contains: required arguments,
// and the required fields of their types.
const leaky = `
type Query { find(q: SecretFilter!): String  books: [Book!]!  any(of: Order): Book }
type Mutation { make(input: BookInput!): Book }
type Book { id: ID! title: String! price: Int }
input SecretFilter { whisper: String! loud: Boolean }
input BookInput { title: String! costPrice: Int! }
enum Order { TITLE PAID }
`

// TestErrorsDoNotRevealHiddenNames checks errors with and without suggestions. Most requests contain only
// visible names. A client that requests a hidden field by its name is allowed to see the error about the field.
func TestErrorsDoNotRevealHiddenNames(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	h := NewHidden([]string{"SecretFilter"}, map[string][]string{
		"Book": {"price"}, "BookInput": {"costPrice"},
		"Order": {"PAID"},
	})
	for _, test := range []struct{ document, want string }{
		{`{find}`, genericMessage},
		{`{find(q:{})}`, genericMessage},
		{`{find(q:{whispr:"a"})}`, genericMessage},
		{`query($q:String){find(q:$q)}`, genericMessage},
		{`query($q:SecretFilter!){find(q:$q)}`, genericMessage},
		{`{find(q:{whisper:1})}`, "String cannot represent"}, // the client knows the name of this field
		{`mutation{make(input:{title:"x"}){id}}`, genericMessage},
		{`mutation{make(input:{title:1,costPrice:1}){id}}`, "String cannot represent"},
		{`{books{titel}}`, `Cannot query field \"titel\" on type \"Book\".`},
		{`{books{price{a}}}`, `Field \"price\" must not have a selection`},
		{`{any(of:PAI){id}}`, `Value \"PAI\" does not exist in \"Order\" enum.`},
	} {
		response := oracle.ExecuteOn(leaky, test.document)
		requested := slices.Collect(Names(test.document))
		filtered, _, err := h.Filter(response, []*Introspection{nil}, func(name string) bool {
			return slices.Contains(requested, name)
		})
		if err != nil {
			t.Fatalf("%s: Filter() error = %v, want none", test.document, err)
		}
		text := string(filtered)
		for name := range h.names {
			if slices.Contains(slices.Collect(Names(text)), name) && !slices.Contains(requested, name) {
				t.Errorf("%s: filtered errors = %s, want no hidden name %s", test.document, text, name)
			}
		}
		if !strings.Contains(text, test.want) {
			t.Errorf("%s: filtered errors = %s, want %s; unfiltered errors = %s", test.document, text, test.want, response)
		}
	}
	// Errors of executed requests are about data, and upstreams can use any names in them.
	const executed = `{"data":{"find":null},"errors":[{"message":"SecretFilter took too long","path":["find"]}]}`
	if got, changed, err := h.Filter([]byte(executed), []*Introspection{nil}, nil); err != nil || changed {
		t.Errorf("Filter(executed request) = %s, changed %v, %v, want no change and no error", got, changed, err)
	}
}

// TestErrorsAreReadLikeClients checks that Filter reads errors as leniently as clients
// read JSON, and that MayReveal finds hidden words in a text that is not JSON.
func TestErrorsAreReadLikeClients(t *testing.T) {
	h := NewHidden(nil, map[string][]string{"Book": {"price"}})
	const message = `No field pric. Did you mean price?`
	utf16Text := func(text string) (out string) {
		for _, c := range text {
			out += string(c) + "\x00"
		}
		return out
	}
	for name, text := range map[string]string{
		"a byte order mark":        "\xef\xbb\xbf" + `{"errors":[{"message":"` + message + `"}]}`,
		"half of a surrogate pair": `{"errors":[{"message":"\ud800 ` + message + `"}]}`,
		"invalid UTF-8":            "{\"errors\":[{\"message\":\"\xff " + message + "\"}]}",
		"invalid UTF-8 in a name":  "{\"errors\":[{\"\xff\":\"" + message + "\"}]}",
		"a duplicate name":         `{"errors":[],"errors":[{"message":"` + message + `"}]}`,
	} {
		filtered, changed, err := h.Filter([]byte(text), []*Introspection{nil}, nil)
		if err != nil || !changed || strings.Contains(string(filtered), "price") {
			t.Errorf("%s: Filter() = %s, changed %v, %v, want a change without \"price\" and no error",
				name, filtered, changed, err)
		}
	}
	for text, want := range map[string]bool{
		`{"errors":[]}` + "\n" + `{"errors":[{"message":"` + message + `"}]}`: true,
		utf16Text(`{"errors":[{"message":"` + message + `"}]}`):               true,
		`{"errors":[{"message":"` + message:                                   true,
		`{"errors":[{"message":"price is`:                                     true,
		`{"errors":[{"message":"No.`:                                          false,
	} {
		if _, _, err := h.Filter([]byte(text), []*Introspection{nil}, nil); err == nil || h.MayReveal([]byte(text)) != want {
			t.Errorf("%q: Filter() error = %v, MayReveal() = %v, want an error, %v", text, err, h.MayReveal([]byte(text)), want)
		}
	}
}

// TestFilterEvent checks the known formats of streams, and that
// lines without anything to remove are returned unchanged.
func TestFilterEvent(t *testing.T) {
	h := NewHidden([]string{"Audit"}, nil)
	for line, want := range map[string]string{
		`data: {"errors":[{"message":"No pric. Did you mean \"price\"?"}]}` +
			"\n": `data: {"errors":[{"message":"No pric."}]}` + "\n",
		`data:{"id":"1","payload":{"errors":[{"message":"Type Audit has it."}]}}` +
			"\r\n": `data: {"id":"1","payload":{"errors":[{"message":"` + genericMessage + `"}]}}` + "\r\n",
		`{"payload":{"errors":[{"message":"Did you mean a?"}]}}`: `{"payload":{"errors":[{"message":""}]}}`,
		`data:  {"data":{"a":"Did you mean Audit?"}}` +
			"\n": `data:  {"data":{"a":"Did you mean Audit?"}}` + "\n",
		`data: {"data":{"a":1},"errors":[{"message":"Audit failed"}]}` +
			"\n": `data: {"data":{"a":1},"errors":[{"message":"Audit failed"}]}` + "\n",
		"event: next\n": "event: next\n", "\n": "\n", ": \"errors\" {\n": ": \"errors\" {\n", "--part\r\n": "--part\r\n",
	} {
		if got, err := h.FilterEvent([]byte(line), nil); err != nil || string(got) != want {
			t.Errorf("FilterEvent(%q) = %q, %v, want %q and no error", line, got, err, want)
		}
	}
	if got, err := h.FilterEvent([]byte(`data: "message": "Did you mean price?"`+"\n"), nil); err == nil {
		t.Errorf("FilterEvent(one line of an event that has several) = %q, want an error", got)
	}
}
