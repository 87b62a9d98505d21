package graphql

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/graphql/graphqltest"
)

// hidden is what these tests leave out of the schema of graphqltest.
func hidden() *Hidden {
	return Hide([]string{"Audit", "Secret", "SecretFilter"}, map[string][]string{
		"User": {"salary"}, "Filter": {"salary"}, "Order": {"PAID"}, "Query": {"note"},
	})
}

// secrets are what nothing of an introspection may have then: the names, those of fields and
// arguments of hidden types, and what is added to ask.
var secrets = []string{
	`"Audit"`, "Secret", "salary", "PAID", `"audit"`, `"audits"`, `"secret"`, "secretReport", "secrets", "note", "why", `"only"`, "_gatewright",
}

// ask sends a document through Amend, GraphQL.js and Filter.
func ask(t *testing.T, oracle *graphqltest.Oracle, h *Hidden, document string) (json.RawMessage, error) {
	t.Helper()
	amended, shown, refused := Amend(document)
	if refused != nil {
		return nil, refused
	}
	answer := oracle.Execute(amended, "")
	filtered, _, err := h.Filter(answer, []*Introspection{shown}, nil)
	if err == nil && strings.Contains(string(answer), `"errors"`) {
		t.Logf("%s was answered %s", document, answer)
	}
	return filtered, err
}

// TestTheFilterHidesThroughEveryWay asks in all the ways that there are to a type or a field.
func TestTheFilterHidesThroughEveryWay(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	for name, test := range map[string]struct {
		document string
		// shown and hides are texts that have to be in the answer, and not.
		shown, hides []string
	}{
		"the list of types":              {`{__schema{types{name}}}`, []string{`"User"`, `"Filter"`, `"Result"`}, nil},
		"aliases of everything":          {`{a:__schema{b:types{c:name d:fields{e:name f:type{g:name}}}}}`, []string{`"c":"User"`, `"friends"`}, nil},
		"fields without their type":      {`{__schema{types{fields{name}}}}`, []string{`"friends"`}, nil},
		"types without anything":         {`{__schema{types{kind}}}`, []string{`"OBJECT"`}, nil},
		"a field's type alone":           {`{__schema{types{fields{type{name ofType{name ofType{name ofType{name}}}}}}}}`, []string{`"User"`}, nil},
		"arguments":                      {`{__schema{types{fields{args{name type{name}}}}}}`, []string{`"where"`, `"first"`}, nil},
		"defaults of arguments":          {`{__schema{types{fields{args{name d:defaultValue}}}}}`, []string{`"NEWEST"`}, nil},
		"input fields":                   {`{__type(name:"Filter"){inputFields{name type{name}}}}`, []string{`"order"`, `"name"`}, nil},
		"the type by its name":           {`{__type(name:"Audit"){name kind fields{name}}}`, []string{`null`}, []string{"OBJECT"}},
		"by an alias":                    {`{x:__type(name:"Secret"){enumValues{name}}}`, []string{`{"x":null}`}, []string{"LOW"}},
		"by a variable":                  {`query($n:String="Audit"){__type(name:$n){k:kind}}`, []string{`null`}, []string{"OBJECT"}},
		"possible types":                 {`{__type(name:"Node"){possibleTypes{name}} b:__type(name:"Result"){possibleTypes{name}}}`, []string{`"User"`}, nil},
		"interfaces":                     {`{__type(name:"User"){interfaces{name}}}`, []string{`"Node"`}, nil},
		"enum values":                    {`{__type(name:"Order"){enumValues{name}}}`, []string{`"NEWEST"`}, nil},
		"enum values unselected":         {`{__type(name:"Order"){enumValues{isDeprecated}}}`, []string{`[{"isDeprecated":false},{"isDeprecated":false}]`}, nil},
		"a directive's arguments":        {`{__schema{directives{name args{name type{name}}}}}`, []string{`"limit"`, `"rows"`}, []string{`"of"`}},
		"named fragments":                {`{__schema{...S}} fragment S on __Schema{types{...T}} fragment T on __Type{n:name fields{...F}} fragment F on __Field{name}`, []string{`"n":"User"`}, nil},
		"inline fragments":               {`{__schema{...{types{...on __Type{name ...{fields{...on __Field{name}}}}}}}}`, []string{`"User"`}, nil},
		"skipped names":                  {`{__schema{types{name @skip(if:true) kind fields{name @include(if:true)}}}}`, []string{`"friends"`}, nil},
		"beside data":                    {`{me{id name} __schema{types{name}}}`, []string{`"me":{"id":"1","name":"Ann"}`}, nil},
		"within a mutation's operation":  {`mutation{__typename} `, []string{`Mutation`}, nil},
		"within what a mutation changed": {`mutation{change{query{__schema{types{name}}}}}`, []string{`"User"`}, nil},
		"a type within it, by an alias":  {`mutation{c:change{q:query{x:__type(name:"Secret"){enumValues{name}}}}}`, []string{`"x":null`}, []string{"LOW"}},
		"a key of data in two places":    {`mutation{x:change{query{x:__type(name:"User"){fields{name}}}} y:change{x:query{__typename}}}`, []string{`"friends"`, `{"x":{"__typename":"Query"}}`}, nil},
		"a key that two fields share":    {`{__schema{types{name}} __schema{types{fields{name}}}}`, []string{`"User"`}, nil},
		"a data key like one of ours":    {`{types:me{name} __schema{types{name}}}`, []string{`"types":{"name":"Ann"}`}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ask(t, oracle, hidden(), test.document)
			if err != nil {
				t.Fatal(err)
			}
			text := string(got)
			for _, want := range test.shown {
				if !strings.Contains(text, want) {
					t.Errorf("%s is not in %s", want, text)
				}
			}
			for _, bad := range append(slices.Clone(test.hides), secrets...) {
				if strings.Contains(text, bad) {
					t.Errorf("%s is in %s", bad, text)
				}
			}
		})
	}
}

// TestWhatTheFilterLeavesBuildsAsAClientSchema asks as tools do, and builds what they build.
func TestWhatTheFilterLeavesBuildsAsAClientSchema(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	document, err := os.ReadFile("testdata/introspection.graphql")
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*Hidden{
		"much":             hidden(),
		"one type":         Hide([]string{"Audit"}, nil),
		"an interface":     Hide([]string{"Node"}, nil),
		"an enum":          Hide([]string{"Order"}, nil),
		"an input":         Hide([]string{"Forget"}, nil),
		"the mutations":    Hide([]string{"Mutation"}, nil),
		"a scalar":         Hide([]string{"Int"}, nil),
		"a union":          Hide([]string{"Result"}, nil),
		"all of a type":    Hide(nil, map[string][]string{"Mutation": {"forget"}}),
		"all of an enum":   Hide(nil, map[string][]string{"Secret": {"LOW", "HIGH"}}),
		"what is not here": Hide([]string{"Nobody"}, map[string][]string{"Nothing": {"no"}}),
	} {
		t.Run(name, func(t *testing.T) {
			answer, err := ask(t, oracle, h, string(document))
			if err != nil {
				t.Fatal(err)
			}
			var whole struct{ Data json.RawMessage }
			if err := json.Unmarshal(answer, &whole); err != nil {
				t.Fatal(err)
			}
			built, refused := oracle.Build(whole.Data)
			if refused != "" || len(built.Errors) > 0 {
				t.Fatalf("%s %q: %s", refused, built.Errors, whole.Data)
			}
			for name := range h.types {
				if h.mentions(built.SDL) {
					t.Errorf("%s: %s", name, built.SDL)
				}
			}
		})
	}
}

func TestWithoutItsQueryTypeThereIsNoSchema(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	for _, h := range []*Hidden{
		Hide([]string{"Query"}, nil),
		Hide(nil, map[string][]string{"Query": {"me", "node", "search", "secretReport", "secrets", "note"}}),
	} {
		if got, err := ask(t, oracle, h, "{__schema{types{name fields{name}}}}"); !errors.Is(err, ErrNothingLeft) {
			t.Errorf("%v %s", err, got)
		}
	}
	for _, document := range []string{
		`{__type(name:"User"){name}}`, `{me{name} a:__type(name:"User"){fields{name}}}`, `mutation{change{query{__type(name:"User"){name}}}}`,
		`{...F} fragment F on Query{...{__type(name:"User"){name}}}`,
	} {
		if got, err := ask(t, oracle, Hide([]string{"Query"}, nil), document); !errors.Is(err, ErrNothingLeft) {
			t.Errorf("%s: %v %s", document, err, got)
		}
	}
}

// TestInputsOfWhichTheRestIsDeprecatedStay: tools ask for input fields without the deprecated ones, and a client that
// saw no argument of theirs could not call what needs it.
func TestInputsOfWhichTheRestIsDeprecatedStay(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	const sdl = `type Query { search(f: F!, n: Int): String } input F { words: String legacy: String @deprecated }`
	for _, test := range []struct {
		legacy string
		stays  bool
	}{{" legacy", true}, {"", false}} {
		amended, shown, refused := Amend(`{__schema{types{name inputFields` + map[bool]string{true: "", false: "(includeDeprecated:true)"}[test.stays] + `{name} fields{args{name}}}}}`)
		if refused != nil {
			t.Fatal(refused)
		}
		hidden := map[string][]string{"F": {"words"}}
		if !test.stays {
			hidden["F"] = append(hidden["F"], "legacy")
		}
		filtered, _, err := Hide(nil, hidden).Filter(oracle.ExecuteOn(sdl, amended), []*Introspection{shown}, nil)
		if text := string(filtered); err != nil || strings.Contains(text, `{"name":"f"}`) != test.stays || strings.Contains(text, `"F"`) != test.stays {
			t.Errorf("stays %v: %v %s", test.stays, err, filtered)
		}
	}
}

// TestSuggestionsThatNameWhatIsHiddenAreCut has the errors of a server that helps too much.
func TestSuggestionsThatNameWhatIsHiddenAreCut(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	for document, want := range map[string]string{
		`{secretRepor}`:                                   `Cannot query field \"secretRepor\" on type \"Query\".`,
		`{me{salar}}`:                                     `Cannot query field \"salar\" on type \"User\".`,
		`{search(text:"a" by:PAI){__typename}}`:           `Value \"PAI\" does not exist in \"Order\" enum.`,
		`{...F} fragment F on Audi{id}`:                   `Unknown type \"Audi\".`,
		`{search(text:"",where:{salry:1}){x:__typename}}`: `unknown field \"salry\".`,
	} {
		filtered, changed, err := Hide([]string{"Audit"}, map[string][]string{"User": {"salary"}, "Order": {"PAID"}, "Query": {"secretReport", "secrets"}}).
			Filter(oracle.Execute(document, ""), []*Introspection{nil}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(filtered); !strings.Contains(text, want) || !changed || strings.Contains(text, "Did you") {
			t.Errorf("%s: %v %s", document, changed, text)
		}
	}
	// What goes with a hidden type is not known by its name.
	if filtered, _, err := Hide([]string{"Audit"}, nil).Filter(oracle.Execute("{secretRepor}", ""), []*Introspection{nil}, nil); err != nil || strings.Contains(string(filtered), "secretReport") {
		t.Errorf("%v %s", err, filtered)
	}
	answer := oracle.Execute("{me{nam}}", "")
	if filtered, changed, err := Hide(nil, map[string][]string{"User": {"salary"}}).Filter(answer, []*Introspection{nil}, nil); err != nil || !changed || strings.Contains(string(filtered), `Did you mean`) {
		t.Errorf("%v %v %s", err, changed, filtered)
	}
	for text, want := range map[string]string{
		`{"errors":[{"message":"No x. Did you mean 'Audit'?","extensions":{"stacktrace":["E: No x. Did you mean 'Audit'?","at y"]}}]}`: `{"errors":[{"message":"No x.","extensions":{"stacktrace":["E: No x.","at y"]}}]}`,
		`{"errors":[{"message":"No x (Did you mean ` + "`Audit`" + `?)"}]}`:                                                            `{"errors":[{"message":"No x"}]}`,
		`[{"data":1},{"errors":[{"message":"did you mean Audit"}]}]`:                                                                   `[{"data":1},{"errors":[{"message":""}]}]`,
		`{ "errors":[{"message":"No Audits here."}]}`:                                                                                  `{ "errors":[{"message":"No Audits here."}]}`,
		`{ "data":{"a":"Did you mean Audit?"}}`:                                                                                        `{ "data":{"a":"Did you mean Audit?"}}`,
	} {
		if got, _, err := Hide([]string{"Audit"}, nil).Filter([]byte(text), []*Introspection{nil, nil}[:1+strings.Count(text[:1], "[")], nil); err != nil || string(got) != want {
			t.Errorf("%s: %v %s", text, err, got)
		}
	}
}

// TestAnIntrospectionThatCanNotBeFilteredIsNotShown has answers of servers that do not do what they
// are asked.
func TestAnIntrospectionThatCanNotBeFilteredIsNotShown(t *testing.T) {
	_, shown, refused := Amend("{a:__schema{types{name}}}")
	if refused != nil {
		t.Fatal(refused)
	}
	for _, answer := range []string{
		`{"data":{"a":{"types":[{"name":"Audit"}]}}}`,
		`{"data":{"a":{"_gatewrightSchema":"__Schema","_gatewrightQuery":{"name":"Query"},"types":[{"name":"Audit"}]}}}`,
		`{"data":{"a":1,"a":{"types":[]}}}`,
		`{"data":{"b":[{"_gatewrightType":"Audit","name":"Audit"}]}}`,
		`[{"data":{"a":{}}},{"data":{"a":{}}}]`,
		`{"data":`, `<html>`, ``,
	} {
		if got, _, err := Hide([]string{"Audit"}, nil).Filter([]byte(answer), []*Introspection{shown}, nil); err == nil {
			t.Errorf("%s is shown as %s", answer, got)
		}
	}
	// Of several requests nobody knows to which of them an answer is, where it is not as many as they are.
	for _, answer := range []string{
		`[{"data":{"a":{"types":[{"name":"Audit"}]}}}]`, `[{"data":{}},{"data":{}},{"data":{"a":{"types":[{"name":"Audit"}]}}}]`, `[]`,
		`{"data":{"a":{"types":[{"name":"Audit"}]}}}`, `{"errors":[],"data":{}}`, `"Audit"`,
	} {
		for _, asked := range [][]*Introspection{{nil, shown}, {shown, nil}} {
			if got, _, err := Hide([]string{"Audit"}, nil).Filter([]byte(answer), asked, nil); err == nil {
				t.Errorf("%s is shown as %s", answer, got)
			}
		}
	}
	if got, _, err := Hide([]string{"Audit"}, nil).Filter([]byte(`{"errors":[{"message":"No batches. Did you mean Audit?"}]}`), []*Introspection{nil, shown}, nil); err != nil || strings.Contains(string(got), "Audit") {
		t.Errorf("a refusal of all is shown as %s: %v", got, err)
	}
	for _, answer := range []string{`{"errors":[{"message":"no"}]}`, `{"data":null}`, `{"data":{"a":null}}`} {
		if _, _, err := Hide([]string{"Audit"}, nil).Filter([]byte(answer), []*Introspection{shown}, nil); err != nil {
			t.Errorf("%s: %v", answer, err)
		}
	}
	for _, document := range []string{
		"{__schema{types{appliedDirectives{name}}}}", "{__schema{sdl}}", "{__schema{types{name{a}}}}", "{__schema{types}}",
		"{__schema{types{_gatewrightType:description}}}", "{_gatewrightA:__schema{types{name}}}",
	} {
		if amended, _, refused := Amend(document); refused == nil {
			t.Errorf("%s is taken: %s", document, amended)
		}
	}
}

// TestWhatIsOfATypeWithoutANameIsHidden: it may be one that is, within more lists than are looked through.
func TestWhatIsOfATypeWithoutANameIsHidden(t *testing.T) {
	_, shown, refused := Amend("{a:__schema{types{name fields{name}}}}")
	if refused != nil {
		t.Fatal(refused)
	}
	const answer = `{"data":{"a":{"_gatewrightSchema":"__Schema","_gatewrightQuery":{"name":"Query"},"types":[` +
		`{"_gatewrightType":null,"_gatewrightKind":"LIST","_gatewrightOf":{"name":null,"ofType":null},"name":"deep","fields":null},` +
		`{"_gatewrightType":"User","_gatewrightKind":"OBJECT","_gatewrightOf":null,"name":"User","fields":[` +
		`{"_gatewrightField":"id","_gatewrightIn":{"name":"ID"},"name":"id"},` +
		`{"_gatewrightField":"audits","_gatewrightIn":{"name":null,"ofType":{"name":null,"ofType":null}},"name":"audits"}]}]}}}`
	const want = `{"data":{"a":{"types":[{"name":"User","fields":[{"name":"id"}]}]}}}`
	if got, changed, err := Hide([]string{"Audit"}, nil).Filter([]byte(answer), []*Introspection{shown}, nil); err != nil || !changed || string(got) != want {
		t.Errorf("%v %s", err, got)
	}
}
