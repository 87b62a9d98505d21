package graphql

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/graphql/graphqltest"
)

// hidden returns the names that these tests hide in the schema of graphqltest.
func hidden() *Hidden {
	return NewHidden([]string{"Audit", "Secret", "SecretFilter"}, map[string][]string{
		"User": {"salary"}, "Filter": {"salary"}, "Order": {"PAID"}, "Query": {"note"},
	})
}

// secrets are texts that no filtered introspection contains: hidden names, the
// names of fields and arguments of hidden types, and the keys that Amend adds.
var secrets = []string{
	`"Audit"`, "Secret", "salary", "PAID", `"audit"`, `"audits"`, `"secret"`, "secretReport", "secrets", "note", "why",
	`"only"`, "_gatewright",
}

// query sends a document through Amend, GraphQL.js and Filter.
func query(t *testing.T, oracle *graphqltest.Oracle, h *Hidden, document string) (json.RawMessage, error) {
	t.Helper()
	amended, introspection, refused := Amend(document)
	if refused != nil {
		return nil, refused
	}
	response := oracle.Execute(amended, "")
	filtered, _, err := h.Filter(response, []*Introspection{introspection}, nil)
	if err == nil && strings.Contains(string(response), `"errors"`) {
		t.Logf("response to %s = %s", document, response)
	}
	return filtered, err
}

// hiddenNameQueries are queries by their descriptions.
var hiddenNameQueries = map[string]struct {
	document string
	// shown are texts that the filtered response must contain. absent are texts that it must not contain, in addition
	// to secrets.
	shown, absent []string
}{
	"all types": {`{__schema{types{name}}}`, []string{`"User"`, `"Filter"`, `"Result"`}, nil},
	"aliases of everything": {
		`{a:__schema{b:types{c:name d:fields{e:name f:type{g:name}}}}}`, []string{`"c":"User"`, `"friends"`}, nil,
	},
	"fields without their types": {`{__schema{types{fields{name}}}}`, []string{`"friends"`}, nil},
	"kinds of types":             {`{__schema{types{kind}}}`, []string{`"OBJECT"`}, nil},
	"only the types of fields": {
		`{__schema{types{fields{type{name ofType{name ofType{name ofType{name}}}}}}}}`, []string{`"User"`}, nil,
	},
	"arguments":             {`{__schema{types{fields{args{name type{name}}}}}}`, []string{`"where"`, `"first"`}, nil},
	"defaults of arguments": {`{__schema{types{fields{args{name d:defaultValue}}}}}`, []string{`"NEWEST"`}, nil},
	"input fields":          {`{__type(name:"Filter"){inputFields{name type{name}}}}`, []string{`"order"`, `"name"`}, nil},
	"a hidden type":         {`{__type(name:"Audit"){name kind fields{name}}}`, []string{`null`}, []string{"OBJECT"}},
	"a hidden type with an alias": {
		`{x:__type(name:"Secret"){enumValues{name}}}`, []string{`{"x":null}`}, []string{"LOW"},
	},
	"a hidden type named by a variable": {
		`query($n:String="Audit"){__type(name:$n){k:kind}}`, []string{`null`}, []string{"OBJECT"},
	},
	"possible types": {
		`{__type(name:"Node"){possibleTypes{name}} b:__type(name:"Result"){possibleTypes{name}}}`, []string{`"User"`}, nil,
	},
	"interfaces":  {`{__type(name:"User"){interfaces{name}}}`, []string{`"Node"`}, nil},
	"enum values": {`{__type(name:"Order"){enumValues{name}}}`, []string{`"NEWEST"`}, nil},
	"enum values without their names": {
		`{__type(name:"Order"){enumValues{isDeprecated}}}`, []string{`[{"isDeprecated":false},{"isDeprecated":false}]`}, nil,
	},
	"a directive's arguments": {
		`{__schema{directives{name args{name type{name}}}}}`, []string{`"limit"`, `"rows"`}, []string{`"of"`},
	},
	"named fragments": {
		`{__schema{...S}} fragment S on __Schema{types{...T}} fragment T on __Type{n:name fields{...F}} fragment F on __Field{name}`,
		[]string{`"n":"User"`},
		nil,
	},
	"inline fragments": {
		`{__schema{...{types{...on __Type{name ...{fields{...on __Field{name}}}}}}}}`, []string{`"User"`}, nil,
	},
	"skipped fields": {
		`{__schema{types{name @skip(if:true) kind fields{name @include(if:true)}}}}`, []string{`"friends"`}, nil,
	},
	"introspection and data":      {`{me{id name} __schema{types{name}}}`, []string{`"me":{"id":"1","name":"Ann"}`}, nil},
	"a mutation of __typename":    {`mutation{__typename} `, []string{`Mutation`}, nil},
	"introspection in a mutation": {`mutation{change{query{__schema{types{name}}}}}`, []string{`"User"`}, nil},
	"a hidden type in a mutation, with an alias": {
		`mutation{c:change{q:query{x:__type(name:"Secret"){enumValues{name}}}}}`, []string{`"x":null`}, []string{"LOW"},
	},
	"the same response key at two levels of a mutation": {
		`mutation{x:change{query{x:__type(name:"User"){fields{name}}}} y:change{x:query{__typename}}}`,
		[]string{`"friends"`, `{"x":{"__typename":"Query"}}`},
		nil,
	},
	"two fields with the same response key": {
		`{__schema{types{name}} __schema{types{fields{name}}}}`, []string{`"User"`}, nil,
	},
	"a data field with the alias types": {
		`{types:me{name} __schema{types{name}}}`, []string{`"types":{"name":"Ann"}`}, nil,
	},
}

// TestFilterHidesNamesInAnyQuery checks introspections that reach types and fields on different paths.
func TestFilterHidesNamesInAnyQuery(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	for name, test := range hiddenNameQueries {
		t.Run(name, func(t *testing.T) {
			got, err := query(t, oracle, hidden(), test.document)
			if err != nil {
				t.Fatalf("filtered response error = %v, want none", err)
			}
			text := string(got)
			for _, want := range test.shown {
				if !strings.Contains(text, want) {
					t.Errorf("filtered response = %s, want %s in it", text, want)
				}
			}
			for _, secret := range append(slices.Clone(test.absent), secrets...) {
				if strings.Contains(text, secret) {
					t.Errorf("filtered response = %s, want no %s", text, secret)
				}
			}
		})
	}
}

// TestFilteredIntrospectionBuildsClientSchema sends the introspection that tools send, and checks that GraphQL.js
// can build a client schema from the response. The client schema must not contain hidden names.
func TestFilteredIntrospectionBuildsClientSchema(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	document, err := os.ReadFile("testdata/introspection.graphql")
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*Hidden{
		"many names":            hidden(),
		"one type":              NewHidden([]string{"Audit"}, nil),
		"an interface":          NewHidden([]string{"Node"}, nil),
		"an enum":               NewHidden([]string{"Order"}, nil),
		"an input":              NewHidden([]string{"Forget"}, nil),
		"the mutations":         NewHidden([]string{"Mutation"}, nil),
		"a scalar":              NewHidden([]string{"Int"}, nil),
		"a union":               NewHidden([]string{"Result"}, nil),
		"a field of a type":     NewHidden(nil, map[string][]string{"Mutation": {"forget"}}),
		"all fields of a type":  NewHidden(nil, map[string][]string{"Mutation": {"forget", "change"}}),
		"all values of an enum": NewHidden(nil, map[string][]string{"Secret": {"LOW", "HIGH"}}),
		"unknown names":         NewHidden([]string{"Nobody"}, map[string][]string{"Nothing": {"no"}}),
	} {
		t.Run(name, func(t *testing.T) {
			response, err := query(t, oracle, h, string(document))
			if err != nil {
				t.Fatalf("filtered introspection error = %v, want none", err)
			}
			var complete struct{ Data json.RawMessage }
			if err := json.Unmarshal(response, &complete); err != nil {
				t.Fatal(err)
			}
			built, refused := oracle.Build(complete.Data)
			if refused != "" || len(built.Errors) > 0 {
				t.Fatalf("client schema: refused %q, errors %q, want none: %s", refused, built.Errors, complete.Data)
			}
			if h.mentions(built.SDL) {
				t.Errorf("client schema = %s, want none of the hidden types %v and fields %v", built.SDL, h.types, h.fields)
			}
		})
	}
}

func TestHiddenQueryTypeIsAnError(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	for _, h := range []*Hidden{
		NewHidden([]string{"Query"}, nil),
		NewHidden(nil, map[string][]string{"Query": {"me", "node", "search", "secretReport", "secrets", "note"}}),
	} {
		if got, err := query(t, oracle, h, "{__schema{types{name fields{name}}}}"); !errors.Is(err, ErrQueryTypeHidden) {
			t.Errorf("filtered introspection = %s, %v, want %v", got, err, ErrQueryTypeHidden)
		}
	}
	for _, document := range []string{
		`{__type(name:"User"){name}}`, `{me{name} a:__type(name:"User"){fields{name}}}`,
		`mutation{change{query{__type(name:"User"){name}}}}`,
		`{...F} fragment F on Query{...{__type(name:"User"){name}}}`,
	} {
		if got, err := query(t, oracle, NewHidden([]string{"Query"}, nil), document); !errors.Is(err, ErrQueryTypeHidden) {
			t.Errorf("%s: filtered response = %s, %v, want %v", document, got, err, ErrQueryTypeHidden)
		}
	}
}

// TestInputsWithOnlyDeprecatedFieldsStay checks that an input type stays visible if all of its visible fields are
// deprecated. Tools do not request deprecated input fields, so such a type looks empty. Without the type, clients could
// not call fields that require an argument of it.
func TestInputsWithOnlyDeprecatedFieldsStay(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	const sdl = `type Query { search(f: F!, n: Int): String } input F { words: String legacy: String @deprecated }`
	for _, visible := range []bool{true, false} {
		amended, introspection, refused := Amend(`{__schema{types{name inputFields` +
			map[bool]string{true: "", false: "(includeDeprecated:true)"}[visible] + `{name} fields{args{name}}}}}`)
		if refused != nil {
			t.Fatalf("Amend() refused = %v, want no refusal", refused)
		}
		hidden := map[string][]string{"F": {"words"}}
		if !visible {
			hidden["F"] = append(hidden["F"], "legacy")
		}
		filtered, _, err := NewHidden(nil, hidden).Filter(oracle.ExecuteOn(sdl, amended), []*Introspection{introspection},
			nil)
		if text := string(filtered); err != nil || strings.Contains(text, `{"name":"f"}`) != visible ||
			strings.Contains(text, `"F"`) != visible {
			t.Errorf("Filter() = %s, %v, want no error, and type F and argument f visible = %v", filtered, err, visible)
		}
	}
}

// TestSuggestionsAreRemoved checks the errors of a server that suggests names.
func TestSuggestionsAreRemoved(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	for document, want := range map[string]string{
		`{secretRepor}`:                                   `Cannot query field \"secretRepor\" on type \"Query\".`,
		`{me{salar}}`:                                     `Cannot query field \"salar\" on type \"User\".`,
		`{search(text:"a" by:PAI){__typename}}`:           `Value \"PAI\" does not exist in \"Order\" enum.`,
		`{...F} fragment F on Audi{id}`:                   `Unknown type \"Audi\".`,
		`{search(text:"",where:{salry:1}){x:__typename}}`: `unknown field \"salry\".`,
	} {
		filtered, changed, err := NewHidden([]string{"Audit"}, map[string][]string{
			"User": {"salary"}, "Order": {"PAID"},
			"Query": {"secretReport", "secrets"},
		}).
			Filter(oracle.Execute(document, ""), []*Introspection{nil}, nil)
		if err != nil {
			t.Fatalf("%s: Filter() error = %v, want none", document, err)
		}
		if text := string(filtered); !strings.Contains(text, want) || !changed || strings.Contains(text, "Did you") {
			t.Errorf("%s: Filter() = %s, changed %v, want %q without suggestions", document, text, changed, want)
		}
	}
	// NewHidden does not know the names of a hidden type's fields.
	if filtered, _, err := NewHidden([]string{"Audit"}, nil).Filter(oracle.Execute("{secretRepor}", ""),
		[]*Introspection{nil}, nil); err != nil || strings.Contains(string(filtered), "secretReport") {
		t.Errorf("Filter() with a hidden type = %s, %v, want no suggestion and no error", filtered, err)
	}
	response := oracle.Execute("{me{nam}}", "")
	if filtered, changed, err := NewHidden(nil, map[string][]string{"User": {"salary"}}).Filter(response,
		[]*Introspection{nil}, nil); err != nil || !changed || strings.Contains(string(filtered), `Did you mean`) {
		t.Errorf("Filter() with a hidden field = %s, changed %v, %v, want a change without suggestions and no error",
			filtered, changed, err)
	}
	for text, want := range map[string]string{
		`{"errors":[{"message":"No x. Did you mean 'Audit'?","extensions":{"stacktrace":["E: No x. Did you mean 'Audit'?","at y"]}}]}`: `{"errors":[{"message":"No x.","extensions":{"stacktrace":["E: No x.","at y"]}}]}`,
		`{"errors":[{"message":"No x (Did you mean ` +
			"`Audit`" + `?)"}]}`: `{"errors":[{"message":"No x"}]}`,
		`[{"data":1},{"errors":[{"message":"did you mean Audit"}]}]`: `[{"data":1},{"errors":[{"message":""}]}]`,
		`{ "errors":[{"message":"No Audits here."}]}`:                `{ "errors":[{"message":"No Audits here."}]}`,
		`{ "data":{"a":"Did you mean Audit?"}}`:                      `{ "data":{"a":"Did you mean Audit?"}}`,
	} {
		if got, _, err := NewHidden([]string{"Audit"}, nil).Filter([]byte(text),
			[]*Introspection{nil, nil}[:1+strings.Count(text[:1], "[")], nil); err != nil || string(got) != want {
			t.Errorf("Filter(%s) = %s, %v, want %s and no error", text, got, err, want)
		}
	}
}

// TestUnfilterableIntrospectionIsRefused checks responses that Filter cannot filter: without the fields that Amend has
// added, invalid, or with a wrong number of responses. It also checks documents that Amend refuses.
func TestUnfilterableIntrospectionIsRefused(t *testing.T) {
	_, introspection, refused := Amend("{a:__schema{types{name}}}")
	if refused != nil {
		t.Fatalf("Amend() refused = %v, want no refusal", refused)
	}
	for _, response := range []string{
		`{"data":{"a":{"types":[{"name":"Audit"}]}}}`,
		`{"data":{"a":{"_gatewrightSchema":"__Schema","_gatewrightQuery":{"name":"Query"},"types":[{"name":"Audit"}]}}}`,
		`{"data":{"a":1,"a":{"types":[]}}}`,
		`{"data":{"b":[{"_gatewrightType":"Audit","name":"Audit"}]}}`,
		`[{"data":{"a":{}}},{"data":{"a":{}}}]`,
		`{"data":`, `<html>`, ``,
	} {
		if got, _, err := NewHidden([]string{"Audit"}, nil).Filter([]byte(response), []*Introspection{introspection},
			nil); err == nil {
			t.Errorf("Filter(%s) = %s, want an error", response, got)
		}
	}
	// If the number of responses differs from the number of requests, the responses cannot be assigned to requests.
	for _, response := range []string{
		`[{"data":{"a":{"types":[{"name":"Audit"}]}}}]`,
		`[{"data":{}},{"data":{}},{"data":{"a":{"types":[{"name":"Audit"}]}}}]`, `[]`,
		`{"data":{"a":{"types":[{"name":"Audit"}]}}}`, `{"errors":[],"data":{}}`, `"Audit"`,
	} {
		for _, both := range [][]*Introspection{{nil, introspection}, {introspection, nil}} {
			if got, _, err := NewHidden([]string{"Audit"}, nil).Filter([]byte(response), both, nil); err == nil {
				t.Errorf("Filter(%s) = %s, want an error", response, got)
			}
		}
	}
	if got, _, err := NewHidden([]string{"Audit"},
		nil).Filter([]byte(`{"errors":[{"message":"No batches. Did you mean Audit?"}]}`),
		[]*Introspection{nil, introspection}, nil); err != nil || strings.Contains(string(got), "Audit") {
		t.Errorf("Filter(refusal of the whole batch) = %s, %v, want no hidden name and no error", got, err)
	}
	for _, response := range []string{`{"errors":[{"message":"no"}]}`, `{"data":null}`, `{"data":{"a":null}}`} {
		if _, _, err := NewHidden([]string{"Audit"}, nil).Filter([]byte(response), []*Introspection{introspection},
			nil); err != nil {
			t.Errorf("Filter(%s) error = %v, want none", response, err)
		}
	}
	for _, document := range []string{
		"{__schema{types{appliedDirectives{name}}}}", "{__schema{sdl}}", "{__schema{types{name{a}}}}", "{__schema{types}}",
		"{__schema{types{_gatewrightType:description}}}", "{_gatewrightA:__schema{types{name}}}",
	} {
		if amended, _, refused := Amend(document); refused == nil {
			t.Errorf("Amend(%s) = %s, want a refusal", document, amended)
		}
	}
}

// TestFieldsOfUnnamedTypesAreHidden checks types that are wrapped in more lists than Amend unwraps. The response does
// not contain the names of these types, so the types could be hidden. Filter must remove them and their fields.
func TestFieldsOfUnnamedTypesAreHidden(t *testing.T) {
	_, introspection, refused := Amend("{a:__schema{types{name fields{name}}}}")
	if refused != nil {
		t.Fatalf("Amend() refused = %v, want no refusal", refused)
	}
	const response = `{"data":{"a":{"_gatewrightSchema":"__Schema","_gatewrightQuery":{"name":"Query"},"types":[` +
		`{"_gatewrightType":null,"_gatewrightKind":"LIST","_gatewrightOf":{"name":null,"ofType":null},"name":"deep",` +
		`"fields":null},` +
		`{"_gatewrightType":"User","_gatewrightKind":"OBJECT","_gatewrightOf":null,"name":"User","fields":[` +
		`{"_gatewrightField":"id","_gatewrightIn":{"name":"ID"},"name":"id"},` +
		`{"_gatewrightField":"audits","_gatewrightIn":{"name":null,"ofType":{"name":null,"ofType":null}},` +
		`"name":"audits"}]}]}}}`
	const want = `{"data":{"a":{"types":[{"name":"User","fields":[{"name":"id"}]}]}}}`
	if got, changed, err := NewHidden([]string{"Audit"}, nil).Filter([]byte(response), []*Introspection{introspection},
		nil); err != nil || !changed || string(got) != want {
		t.Errorf("Filter() = %s, changed %v, %v, want %s, true and no error", got, changed, err, want)
	}
}
