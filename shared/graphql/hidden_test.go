package graphql

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/graphql/graphqltest"
	"github.com/gatewright/gatewright/shared/operation/simulations"
)

// drawIntrospection draws a query of the introspection, of any part of it.
func drawIntrospection(t *rapid.T, s *drawnSchema) string {
	meta := metaTypes()
	meta["__Directive"] = maps.Clone(meta["__Directive"])
	for _, not := range []string{"onOperation", "onFragment", "onField", "isDeprecated", "deprecationReason"} {
		delete(meta["__Directive"], not) // GraphQL.js has them no more, or not by default
	}
	meta["__Type"] = maps.Clone(meta["__Type"])
	delete(meta["__Type"], "specifiedByUrl")
	pick := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "pick") }
	var fragments []string
	aliases := 0
	var set func(of string, levels int) string
	set = func(of string, levels int) string {
		var out []string
		for range rapid.IntRange(1, 4).Draw(t, "fields") {
			name := pick(append(slices.Sorted(maps.Keys(meta[of])), "__typename")...)
			is := meta[of][name]
			if is != leaf && levels == 0 {
				continue
			}
			text := ""
			if aliases++; pick("y", "n", "n") == "y" {
				text = fmt.Sprintf("k%d: ", aliases)
			}
			text += name
			switch name {
			case "fields", "enumValues", "args", "inputFields":
				if pick("y", "n") == "y" {
					text += "(includeDeprecated: true)"
				}
			}
			text += pick("", "", "", " @skip(if: false)")
			if is != leaf {
				text += set(is, levels-1)
			}
			switch pick("", "", "", "inline", "plain", "named") {
			case "inline":
				text = "... on " + of + " { " + text + " }"
			case "plain":
				text = "... { " + text + " }"
			case "named":
				fragments = append(fragments, fmt.Sprintf("fragment F%d on %s { %s }", len(fragments), of, text))
				text = fmt.Sprintf("...F%d", len(fragments)-1)
			}
			out = append(out, text)
		}
		if len(out) == 0 {
			out = []string{"__typename"}
		}
		return " { " + strings.Join(out, " ") + " }"
	}
	var roots []string
	for i := range rapid.IntRange(1, 3).Draw(t, "roots") {
		if pick("schema", "type") == "schema" {
			roots = append(roots, fmt.Sprintf("r%d: __schema%s", i, set("__Schema", 5)))
			continue
		}
		roots = append(roots, fmt.Sprintf("r%d: __type(name: %q)%s", i, rapid.SampledFrom(s.types).Draw(t, "type").name, set("__Type", 4)))
	}
	return "{ " + strings.Join(roots, " ") + " } " + strings.Join(fragments, " ")
}

// words are those of a text.
func words(text string) map[string]bool {
	out := map[string]bool{}
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		out[word] = true
	}
	return out
}

// objectDefault is a default value, in the text of JSON, with an input object in it: on one line, or on several where it is long.
var objectDefault = regexp.MustCompile(`\{(\\n| )*put`)

// TestNothingOfWhatIsHiddenIsInAnyIntrospection asks drawn schemas drawn questions, and the whole one that
// tools ask: no word of what is hidden is in an answer, what is left builds, and where nothing is hidden the
// answer is the server's.
func TestNothingOfWhatIsHiddenIsInAnyIntrospection(t *testing.T) {
	simulations.Sequential(t)
	oracle := graphqltest.Start(t, "../..")
	whole, err := os.ReadFile("testdata/introspection.graphql")
	if err != nil {
		t.Fatal(err)
	}
	answered := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSchema(rt)
		types, fields := s.drawHidden(rt)
		for _, test := range []struct {
			document string
			whole    bool
		}{{string(whole), true}, {drawIntrospection(rt, s), false}} {
			plain := oracle.ExecuteOn(s.sdl, test.document)
			if strings.Contains(string(plain), `{"errors"`) {
				if test.whole {
					rt.Fatalf("%s: %s", s.sdl, plain)
				}
				continue // fields that cannot be merged, or lists in lists in lists
			}
			amended, shown, refused := Amend(test.document)
			if refused != nil {
				rt.Fatalf("%s: %v", test.document, refused)
			}
			answer := oracle.ExecuteOn(s.sdl, amended)
			if strings.Contains(string(answer), `"errors"`) {
				rt.Fatalf("%s was %s: %s", amended, test.document, answer)
			}
			same, _, err := Hide([]string{"Nobody"}, nil).Filter(answer, []*Introspection{shown}, nil)
			// Of an input object's default value a part of the introspection does not say what is in it.
			objects := !test.whole && objectDefault.Match(plain)
			if err != nil || string(same) != string(plain) && !objects {
				rt.Fatalf("%v\n%s\n%s\nwant %s", err, test.document, same, plain)
			}
			secrets, noQuery := s.without(types, fields, test.whole)
			filtered, _, err := Hide(types, fields).Filter(answer, []*Introspection{shown}, nil)
			if errors.Is(err, ErrNothingLeft) && (noQuery || !test.whole) {
				continue
			}
			if err != nil {
				rt.Fatalf("%s: %v", test.document, err)
			}
			answered++
			found := words(string(filtered))
			for _, secret := range secrets {
				if found[secret] {
					rt.Fatalf("%s is hidden by %q %q\n%s\n%s\n%s", secret, types, fields, s.sdl, test.document, filtered)
				}
			}
			if test.whole {
				var of struct{ Data json.RawMessage }
				if err := json.Unmarshal(filtered, &of); err != nil {
					rt.Fatal(err)
				}
				built, refused := oracle.Build(of.Data)
				if refused != "" {
					rt.Fatalf("%s: %q %q %s\n%s", refused, types, fields, s.sdl, filtered)
				}
				for _, e := range built.Errors {
					if !strings.Contains(e, "Interface field") && !strings.Contains(e, "cannot be deprecated") {
						// Those can be where a field is hidden in one of two types, or what made one optional.
						rt.Fatalf("%s: %q %q %s\n%s", e, types, fields, s.sdl, filtered)
					}
				}
			}
		}
	})
	if answered < 30 {
		t.Errorf("only %d introspections were answered", answered)
	}
}

// TestDefaultsWithinDefaultsAreHidden has what only the default value of something else names.
func TestDefaultsWithinDefaultsAreHidden(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	const sdl = `type Query {
		find(a: Filter = {name: "x", level: HIGH}, b: Filter = {name: "x"}, c: [Any] = [{level: 1}], d: [Nested!] = [{of: {level: HIGH}}], e: [String] = ["{level}"]): Int
	}
	scalar Any
	enum Level { HIGH LOW }
	input Filter { name: String, level: Level }
	input Nested { of: Filter }`
	whole, err := os.ReadFile("testdata/introspection.graphql")
	if err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string][]string{
		string(whole): {"", `{ name: "x" }`, "[{ level: 1 }]", "", `["{level}"]`},
		`{__schema{types{fields{args{defaultValue}}}}}`:                                                        {"", "", "[{ level: 1 }]", "", `["{level}"]`},
		`{t:__type(name:"Filter"){f:inputFields{d:defaultValue}} __schema{types{fields{args{defaultValue}}}}}`: {"", `{ name: "x" }`, "[{ level: 1 }]", "", `["{level}"]`},
	} {
		amended, shown, refused := Amend(document)
		if refused != nil {
			t.Fatal(refused)
		}
		filtered, _, err := Hide([]string{"Level"}, nil).Filter(oracle.ExecuteOn(sdl, amended), []*Introspection{shown}, nil)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Data struct {
				Schema struct {
					Types []struct {
						Fields []struct {
							Args []struct{ DefaultValue string }
						}
					}
				} `json:"__schema"`
			}
		}
		if err := json.Unmarshal(filtered, &answer); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, each := range answer.Data.Schema.Types {
			for _, f := range each.Fields {
				for _, a := range f.Args[:min(len(f.Args), len(want)-len(got))] {
					got = append(got, a.DefaultValue)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%.60s: %q, want %q", document, got, want)
		}
	}
	// Of types that an answer does not show, nobody knows which of their fields are hidden.
	amended, shown, refused := Amend(`{__type(name:"Query"){fields{args{defaultValue}}}}`)
	if refused != nil {
		t.Fatal(refused)
	}
	filtered, _, err := Hide([]string{"Level"}, nil).Filter(oracle.ExecuteOn(sdl, amended), []*Introspection{shown}, nil)
	const none = `{"defaultValue":null},`
	if want := `{"data":{"__type":{"fields":[{"args":[` + strings.Repeat(none, 4) + `{"defaultValue":"[\"{level}\"]"}]}]}}}`; err != nil || string(filtered) != want {
		t.Errorf("got %s, want %s: %v", filtered, want, err)
	}
}
