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

	"github.com/gatewright/gatewright/shared/format/graphql/graphqltest"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// drawIntrospection draws a query for any part of the introspection.
func drawIntrospection(t *rapid.T, s *drawnSchema) string {
	meta := metaTypes()
	meta["__Directive"] = maps.Clone(meta["__Directive"])
	for _, unsupported := range []string{"onOperation", "onFragment", "onField", "isDeprecated", "deprecationReason"} {
		delete(meta["__Directive"], unsupported) // GraphQL.js does not have these fields, or not by default
	}
	meta["__Type"] = maps.Clone(meta["__Type"])
	delete(meta["__Type"], "specifiedByUrl")
	pick := func(choices ...string) string { return rapid.SampledFrom(choices).Draw(t, "pick") }
	var fragments []string
	aliases := 0
	var set func(typeName string, levels int) string
	set = func(typeName string, levels int) string {
		var out []string
		for range rapid.IntRange(1, 4).Draw(t, "fields") {
			name := pick(append(slices.Sorted(maps.Keys(meta[typeName])), "__typename")...)
			fieldType := meta[typeName][name]
			if fieldType != leaf && levels == 0 {
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
			if fieldType != leaf {
				text += set(fieldType, levels-1)
			}
			switch pick("", "", "", "inline", "plain", "named") {
			case "inline":
				text = "... on " + typeName + " { " + text + " }"
			case "plain":
				text = "... { " + text + " }"
			case "named":
				fragments = append(fragments, fmt.Sprintf("fragment F%d on %s { %s }", len(fragments), typeName, text))
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
		roots = append(roots, fmt.Sprintf("r%d: __type(name: %q)%s", i, rapid.SampledFrom(s.types).Draw(t, "type").name,
			set("__Type", 4)))
	}
	return "{ " + strings.Join(roots, " ") + " } " + strings.Join(fragments, " ")
}

// nameSet returns the set of names in a text.
func nameSet(text string) map[string]bool {
	out := map[string]bool{}
	for name := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		out[name] = true
	}
	return out
}

// objectDefault matches a default value that contains an input object, in a JSON string. The names of the
// object's fields begin with "put" (drawInputs). GraphQL.js prints a long object on several lines.
var objectDefault = regexp.MustCompile(`\{(\\n| )*put`)

// TestRandomIntrospectionsHaveNoHiddenNames sends drawn queries, and the whole introspection of tools, to
// drawn schemas. It checks that no response contains a hidden name, and that GraphQL.js can build a
// client schema from the filtered introspection. If nothing is hidden, the response must be the server's.
func TestRandomIntrospectionsHaveNoHiddenNames(t *testing.T) {
	simulations.SkipUnderRace(t)
	oracle := graphqltest.Start(t, "../../..")
	full, err := os.ReadFile("testdata/introspection.graphql")
	if err != nil {
		t.Fatal(err)
	}
	responses := 0
	rapid.Check(t, func(rt *rapid.T) {
		s := drawSchema(rt)
		types, fields := s.drawHidden(rt)
		for _, test := range []struct {
			document string
			full     bool
		}{{string(full), true}, {drawIntrospection(rt, s), false}} {
			plain := oracle.ExecuteOn(s.sdl, test.document)
			if strings.Contains(string(plain), `{"errors"`) {
				if test.full {
					rt.Fatalf("introspection of %s = %s, want no errors", s.sdl, plain)
				}
				continue // fields that cannot be merged, or too many nested lists
			}
			amended, introspection, refused := Amend(test.document)
			if refused != nil {
				rt.Fatalf("Amend(%s) refused = %v, want no refusal", test.document, refused)
			}
			response := oracle.ExecuteOn(s.sdl, amended)
			if strings.Contains(string(response), `"errors"`) {
				rt.Fatalf("response to %s, amended from %s, = %s, want no errors", amended, test.document, response)
			}
			unfiltered, _, err := NewHidden([]string{"Nobody"}, nil).Filter(response, []*Introspection{introspection}, nil)
			// A part of the introspection does not show the fields in a default value's input object.
			hasObjectDefault := !test.full && objectDefault.Match(plain)
			if err != nil || string(unfiltered) != string(plain) && !hasObjectDefault {
				rt.Fatalf("Filter(response to %s) = %s, %v, want %s and no error",
					test.document, unfiltered, err, plain)
			}
			secrets, noQuery := s.hiddenNames(types, fields, test.full)
			filtered, _, err := NewHidden(types, fields).Filter(response, []*Introspection{introspection}, nil)
			if errors.Is(err, ErrQueryTypeHidden) && (noQuery || !test.full) {
				continue
			}
			if err != nil {
				rt.Fatalf("Filter(response to %s) error = %v, want none", test.document, err)
			}
			responses++
			found := nameSet(string(filtered))
			for _, secret := range secrets {
				if found[secret] {
					rt.Fatalf("filtered response names %s, want it hidden by %q %q\n%s\n%s\n%s",
						secret, types, fields, s.sdl, test.document, filtered)
				}
			}
			if test.full {
				var result struct{ Data json.RawMessage }
				if err := json.Unmarshal(filtered, &result); err != nil {
					rt.Fatal(err)
				}
				built, refused := oracle.Build(result.Data)
				if refused != "" {
					rt.Fatalf("client schema refused = %s, want no refusal: %q %q %s\n%s", refused, types, fields, s.sdl, filtered)
				}
				for _, e := range built.Errors {
					if !strings.Contains(e, "Interface field") && !strings.Contains(e, "cannot be deprecated") {
						// The two excluded errors are possible: a field can be hidden in an interface or in a
						// type that implements it, and hiding can leave only required fields that are deprecated.
						rt.Fatalf("client schema error = %s, want none: %q %q %s\n%s", e, types, fields, s.sdl, filtered)
					}
				}
			}
		}
	})
	if responses < 30 {
		t.Errorf("introspections with a response = %d, want at least 30", responses)
	}
}

// TestNestedDefaultsAreHidden checks hidden names that occur only in the default value of a visible argument or field.
func TestNestedDefaultsAreHidden(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	const sdl = `type Query {
		find(a: Filter = {name: "x", level: HIGH}, b: Filter = {name: "x"}, c: [Any] = [{level: 1}], d: [Nested!] = [{of: {level: HIGH}}], e: [String] = ["{level}"]): Int
	}
	scalar Any
	enum Level { HIGH LOW }
	input Filter { name: String, level: Level }
	input Nested { of: Filter }`
	full, err := os.ReadFile("testdata/introspection.graphql")
	if err != nil {
		t.Fatal(err)
	}
	for document, want := range map[string][]string{
		string(full): {"", `{ name: "x" }`, "[{ level: 1 }]", "", `["{level}"]`},
		`{__schema{types{fields{args{defaultValue}}}}}`: {
			"", "",
			"[{ level: 1 }]", "", `["{level}"]`,
		},
		`{t:__type(name:"Filter"){f:inputFields{d:defaultValue}} __schema{types{fields{args{defaultValue}}}}}`: {
			"",
			`{ name: "x" }`, "[{ level: 1 }]", "", `["{level}"]`,
		},
	} {
		amended, introspection, refused := Amend(document)
		if refused != nil {
			t.Fatalf("Amend() refused = %v, want no refusal", refused)
		}
		filtered, _, err := NewHidden([]string{"Level"}, nil).Filter(oracle.ExecuteOn(sdl, amended),
			[]*Introspection{introspection}, nil)
		if err != nil {
			t.Fatalf("Filter(response to %.60s) error = %v, want none", document, err)
		}
		var response struct {
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
		if err := json.Unmarshal(filtered, &response); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, typ := range response.Data.Schema.Types {
			for _, f := range typ.Fields {
				for _, a := range f.Args[:min(len(f.Args), len(want)-len(got))] {
					got = append(got, a.DefaultValue)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("default values for %.60s = %q, want %q", document, got, want)
		}
	}
	// If a response does not show a type, the filter does not know the type's fields.
	amended, introspection, refused := Amend(`{__type(name:"Query"){fields{args{defaultValue}}}}`)
	if refused != nil {
		t.Fatalf("Amend() refused = %v, want no refusal", refused)
	}
	filtered, _, err := NewHidden([]string{"Level"}, nil).Filter(oracle.ExecuteOn(sdl, amended),
		[]*Introspection{introspection}, nil)
	const none = `{"defaultValue":null},`
	if want := `{"data":{"__type":{"fields":[{"args":[` +
		strings.Repeat(none, 4) + `{"defaultValue":"[\"{level}\"]"}]}]}}}`; err != nil || string(filtered) != want {
		t.Errorf("Filter(introspection of Query only) = %s, %v, want %s and no error", filtered, err, want)
	}
}
