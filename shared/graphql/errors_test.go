package graphql

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/graphql/graphqltest"
)

// betraying is a schema whose errors tell more than what was asked: of arguments that have to be there, and of
// what their types ask for.
const betraying = `
type Query { find(q: SecretFilter!): String  books: [Book!]!  any(of: Order): Book }
type Mutation { make(input: BookInput!): Book }
type Book { id: ID! title: String! price: Int }
input SecretFilter { whisper: String! loud: Boolean }
input BookInput { title: String! costPrice: Int! }
enum Order { TITLE PAID }
`

// TestErrorsTellNothingOfWhatIsHidden, with suggestions or without: each request has nothing but names that are
// shown. Who asks for a hidden field by its name is told what is wrong with that.
func TestErrorsTellNothingOfWhatIsHidden(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	h := Hide([]string{"SecretFilter"}, map[string][]string{"Book": {"price"}, "BookInput": {"costPrice"}, "Order": {"PAID"}})
	for _, test := range []struct{ document, want string }{
		{`{find}`, unfit},
		{`{find(q:{})}`, unfit},
		{`{find(q:{whispr:"a"})}`, unfit},
		{`query($q:String){find(q:$q)}`, unfit},
		{`query($q:SecretFilter!){find(q:$q)}`, unfit},
		{`{find(q:{whisper:1})}`, "String cannot represent"}, // a field whose name the client knows
		{`mutation{make(input:{title:"x"}){id}}`, unfit},
		{`mutation{make(input:{title:1,costPrice:1}){id}}`, "String cannot represent"},
		{`{books{titel}}`, `Cannot query field \"titel\" on type \"Book\".`},
		{`{books{price{a}}}`, `Field \"price\" must not have a selection`},
		{`{any(of:PAI){id}}`, `Value \"PAI\" does not exist in \"Order\" enum.`},
	} {
		answer := oracle.ExecuteOn(betraying, test.document)
		asked := slices.Collect(Words(test.document))
		filtered, _, err := h.Filter(answer, []*Introspection{nil}, func(name string) bool { return slices.Contains(asked, name) })
		if err != nil {
			t.Fatal(err)
		}
		text := string(filtered)
		for name := range h.names {
			if slices.Contains(slices.Collect(Words(text)), name) && !slices.Contains(asked, name) {
				t.Errorf("%s: %s is told: %s", test.document, name, text)
			}
		}
		if !strings.Contains(text, test.want) {
			t.Errorf("%s: %s, want %s\nof %s", test.document, text, test.want, answer)
		}
	}
	// What was executed is about data, and upstreams speak of it by the names that they like.
	const executed = `{"data":{"find":null},"errors":[{"message":"SecretFilter took too long","path":["find"]}]}`
	if got, changed, err := h.Filter([]byte(executed), []*Introspection{nil}, nil); err != nil || changed {
		t.Errorf("%v: %s", err, got)
	}
}

// TestErrorsAreReadAsClientsDo, who forgive what is no JSON in the strictest sense; what cannot be read at all betrays
// itself by its words, or is nobody's concern.
func TestErrorsAreReadAsClientsDo(t *testing.T) {
	h := Hide(nil, map[string][]string{"Book": {"price"}})
	const says = `No field pric. Did you mean price?`
	wide := func(text string) (out string) {
		for _, c := range text {
			out += string(c) + "\x00"
		}
		return out
	}
	for name, text := range map[string]string{
		"a mark before it": "\xef\xbb\xbf" + `{"errors":[{"message":"` + says + `"}]}`,
		"half a character": `{"errors":[{"message":"\ud800 ` + says + `"}]}`,
		"no text":          "{\"errors\":[{\"message\":\"\xff " + says + "\"}]}",
		"no text's name":   "{\"errors\":[{\"\xff\":\"" + says + "\"}]}",
		"a name twice":     `{"errors":[],"errors":[{"message":"` + says + `"}]}`,
	} {
		filtered, changed, err := h.Filter([]byte(text), []*Introspection{nil}, nil)
		if err != nil || !changed || strings.Contains(string(filtered), "price") {
			t.Errorf("%s: %v %v %s", name, err, changed, filtered)
		}
	}
	for text, want := range map[string]bool{
		`{"errors":[]}` + "\n" + `{"errors":[{"message":"` + says + `"}]}`: true,
		wide(`{"errors":[{"message":"` + says + `"}]}`):                    true,
		`{"errors":[{"message":"` + says:                                   true,
		`{"errors":[{"message":"price is`:                                  true,
		`{"errors":[{"message":"No.`:                                       false,
	} {
		if _, _, err := h.Filter([]byte(text), []*Introspection{nil}, nil); err == nil || h.Betrays([]byte(text)) != want {
			t.Errorf("%q: %v, and betrays %v", text, err, !want)
		}
	}
}

// TestEventsAreFilteredLineByLine, in the envelopes that there are, and pass byte for byte where nothing is to be cut.
func TestEventsAreFilteredLineByLine(t *testing.T) {
	h := Hide([]string{"Audit"}, nil)
	for line, want := range map[string]string{
		`data: {"errors":[{"message":"No pric. Did you mean \"price\"?"}]}` + "\n":         `data: {"errors":[{"message":"No pric."}]}` + "\n",
		`data:{"id":"1","payload":{"errors":[{"message":"Type Audit has it."}]}}` + "\r\n": `data: {"id":"1","payload":{"errors":[{"message":"` + unfit + `"}]}}` + "\r\n",
		`{"payload":{"errors":[{"message":"Did you mean a?"}]}}`:                           `{"payload":{"errors":[{"message":""}]}}`,
		`data:  {"data":{"a":"Did you mean Audit?"}}` + "\n":                               `data:  {"data":{"a":"Did you mean Audit?"}}` + "\n",
		`data: {"data":{"a":1},"errors":[{"message":"Audit failed"}]}` + "\n":              `data: {"data":{"a":1},"errors":[{"message":"Audit failed"}]}` + "\n",
		"event: next\n": "event: next\n", "\n": "\n", ": \"errors\" {\n": ": \"errors\" {\n", "--part\r\n": "--part\r\n",
	} {
		if got, err := h.FilterEvent([]byte(line), nil); err != nil || string(got) != want {
			t.Errorf("%q: %v %q, want %q", line, err, got, want)
		}
	}
	if got, err := h.FilterEvent([]byte(`data: "message": "Did you mean price?"`+"\n"), nil); err == nil {
		t.Errorf("a part of an event that was cut in lines passes: %q", got)
	}
}
