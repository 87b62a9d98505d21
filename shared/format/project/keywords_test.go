package project_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/testing/golden"
)

// objectDefinitions are the definitions of each object in the schemas of OpenAPI 3.0, and of OpenAPI 3.1 and 3.2. An
// object without definitions of a version is not described by the schema of that version.
var objectDefinitions = map[string][2][]string{
	"OpenAPI":                {{""}, {""}},
	"Info":                   {{"Info"}, {"info"}},
	"Contact":                {{"Contact"}, {"contact"}},
	"License":                {{"License"}, {"license"}},
	"Server":                 {{"Server"}, {"server"}},
	"Server Variable":        {{"ServerVariable"}, {"server-variable"}},
	"Components":             {{"Components"}, {"components"}},
	"Paths":                  {{"Paths"}, {"paths"}},
	"Path Item":              {{"PathItem"}, {"path-item"}},
	"Operation":              {{"Operation"}, {"operation"}},
	"External Documentation": {{"ExternalDocumentation"}, {"external-documentation"}},
	"Parameter":              {{"Parameter"}, {"parameter"}},
	"Request Body":           {{"RequestBody"}, {"request-body"}},
	"Media Type":             {{"MediaType"}, {"media-type"}},
	"Encoding":               {{"Encoding"}, {"encoding"}},
	"Responses":              {{"Responses"}, {"responses"}},
	"Response":               {{"Response"}, {"response"}},
	"Callback":               {{"Callback"}, {"callbacks"}},
	"Example":                {{"Example"}, {"example"}},
	"Link":                   {{"Link"}, {"link"}},
	"Header":                 {{"Header"}, {"header"}},
	"Tag":                    {{"Tag"}, {"tag"}},
	"Reference":              {{"Reference"}, {"reference"}},
	"Security Scheme":        {{"SecurityScheme"}, {"security-scheme"}},
	"OAuth Flows":            {{"OAuthFlows"}, {"oauth-flows"}},
	"Security Requirement":   {{"SecurityRequirement"}, {"security-requirement"}},
	"OAuth Flow": {
		{"ImplicitOAuthFlow", "PasswordOAuthFlow", "ClientCredentialsFlow", "AuthorizationCodeOAuthFlow"},
		{
			"oauth-flows/$defs/implicit", "oauth-flows/$defs/password", "oauth-flows/$defs/client-credentials",
			"oauth-flows/$defs/authorization-code", "oauth-flows/$defs/device-authorization",
		},
	},
	"Discriminator": {{"Discriminator"}, nil},
	"XML":           {{"XML"}, nil},
	"Schema":        {{"Schema"}, nil},
}

// openAPIVocabulary has the keywords of OpenAPI 3.1 and 3.2 that the schemas in this repository do not have: those of the
// vocabulary for schemas, which is a document of its own.
var openAPIVocabulary = map[string][2]string{
	"Schema":        {"discriminator example externalDocs xml", "discriminator example externalDocs xml"},
	"Discriminator": {"propertyName mapping", "propertyName mapping defaultMapping"},
	"XML":           {"name namespace prefix attribute wrapped", "name namespace prefix attribute wrapped nodeType"},
}

// TestEveryKeywordIsDeclared compares the keywords with the properties that the schemas of OpenAPI and JSON Schema
// declare for each object.
func TestEveryKeywordIsDeclared(t *testing.T) {
	for i, version := range []project.Versions{project.Version30, project.Version31, project.Version32} {
		declared := map[string][]string{}
		for _, g := range project.Keywords() {
			if g.Versions.Includes(version) {
				declared[g.Object] = append(declared[g.Object], g.Names...)
			}
		}
		s := newPropertySource(t, fmt.Sprintf("schemas/openapi-3.%d.json", i))
		for _, object := range slices.Sorted(maps.Keys(objectDefinitions)) {
			want := map[string]bool{}
			for _, definition := range objectDefinitions[object][min(i, 1)] {
				s.addDefinition(want, definition)
			}
			if i > 0 {
				for name := range strings.FieldsSeq(openAPIVocabulary[object][i-1]) {
					want[name] = true
				}
			}
			if object == "Schema" && i > 0 {
				addJSONSchemaKeywords(t, want)
			}
			if object == "Link" && i == 1 { // a mistake in this schema: OpenAPI 3.1 calls it server
				delete(want, "body")
				want["server"] = true
			}
			got := slices.DeleteFunc(slices.Clone(declared[object]), func(name string) bool {
				return strings.HasPrefix(name, "{")
			})
			slices.Sort(got)
			if want := slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
				t.Errorf("Keywords() of the object %s in OpenAPI 3.%d = %q, want %q", object, i, got, want)
			}
			delete(declared, object)
		}
		if len(declared) > 0 {
			t.Errorf("Keywords() without the objects of objectDefinitions = %q, want none", slices.Sorted(maps.Keys(declared)))
		}
	}
}

// addJSONSchemaKeywords adds the keywords of JSON Schema 2020-12.
func addJSONSchemaKeywords(t *testing.T, names map[string]bool) {
	t.Helper()
	const folder = "../../thirdparty/jsonschema/metaschemas/draft/2020-12/"
	files, err := filepath.Glob(folder + "meta/*")
	if err != nil || len(files) < 7 {
		t.Fatalf("Glob(%smeta/*) = %q, %v, want the vocabularies of JSON Schema", folder, files, err)
	}
	for _, file := range append(files, folder+"schema") {
		s := newPropertySource(t, file)
		properties, _ := s.root["properties"].(map[string]any)
		for name := range properties {
			names[name] = true
		}
	}
}

// propertySource reads the properties that the definitions of a schema declare.
type propertySource struct{ root map[string]any }

func newPropertySource(t *testing.T, file string) *propertySource {
	t.Helper()
	data, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		t.Fatal(err)
	}
	s := &propertySource{}
	if err := json.Unmarshal(data, &s.root); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}

// addDefinition adds the properties of a definition. "" is the document itself.
func (s *propertySource) addDefinition(names map[string]bool, definition string) {
	if definition == "" {
		s.add(names, s.root)
		return
	}
	s.addReference(names, "#/$defs/"+definition)
	s.addReference(names, "#/definitions/"+definition)
}

func (s *propertySource) addReference(names map[string]bool, reference string) {
	value := any(s.root)
	for token := range strings.SplitSeq(strings.TrimPrefix(reference, "#/"), "/") {
		object, _ := value.(map[string]any)
		value = object[token]
	}
	s.add(names, value)
}

// add adds the properties that a schema declares for the same value, with those of its parts.
func (s *propertySource) add(names map[string]bool, schema any) {
	object, _ := schema.(map[string]any)
	for keyword, value := range object {
		switch keyword {
		case "properties", "dependentSchemas":
			named, _ := value.(map[string]any)
			for name, part := range named {
				names[name] = true
				if keyword == "dependentSchemas" {
					s.add(names, part)
				}
			}
		case "patternProperties": // ^(get|put)$ lists names, other patterns do not
			patterns, _ := value.(map[string]any)
			for pattern := range patterns {
				pattern = strings.TrimSuffix(strings.TrimPrefix(pattern, "^"), "$")
				pattern = strings.NewReplacer(`\$`, "$", "?:", "").Replace(pattern)
				if !strings.ContainsAny(pattern, `\[+^-/`) {
					for name := range strings.SplitSeq(strings.Trim(pattern, "()"), "|") {
						names[name] = true
					}
				}
			}
		case "allOf", "anyOf", "oneOf":
			parts, _ := value.([]any)
			for _, part := range parts {
				s.add(names, part)
			}
		case "if", "then", "else":
			s.add(names, value)
		case "$ref":
			reference, _ := value.(string)
			s.addReference(names, reference)
		}
	}
}

// TestKeywordsAreDocumented compares the tables in docs/descriptions.md with project.Keywords. With -update it writes the
// tables.
func TestKeywordsAreDocumented(t *testing.T) {
	const path, begin, end = "../../../docs/descriptions.md", "<!-- table: keywords -->\n", "<!-- end of the table -->"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(page), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: begin of the tables of keywords found = %v, end = %v, want both", path, found, closed)
	}
	var text strings.Builder
	text.WriteString("\n| effect | meaning |\n|---|---|\n")
	for _, e := range project.KeywordEffects() {
		fmt.Fprintf(&text, "| %s | %s |\n", e[0], e[1])
	}
	text.WriteString("\nThe keywords of OpenAPI's objects:\n\n| object | keywords | effect |\n|---|---|---|\n")
	object := ""
	for _, g := range project.Keywords() {
		if g.Object == project.SchemaKeywords && object != g.Object {
			text.WriteString("\nThe keywords of schemas:\n\n| keywords | effect |\n|---|---|\n")
		}
		if g.Object != project.SchemaKeywords {
			name := ""
			if g.Object != object {
				name = g.Object
			}
			fmt.Fprintf(&text, "| %s ", name)
		}
		object = g.Object
		fmt.Fprintf(&text, "| `%s`%s | %s |\n", strings.Join(g.Names, "`, `"), inParentheses(g.Versions.String()), effects(g))
	}
	text.WriteString("\n")
	golden.Equal(t, path, before+begin+text.String()+end+after)
}

func inParentheses(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// effects returns the effects of keywords with their note.
func effects(g project.KeywordGroup) string {
	names := make([]string, len(g.Effects))
	for i, e := range g.Effects {
		names[i] = string(e)
	}
	text := strings.Join(names, ", ")
	if g.Note != "" {
		text += ": " + g.Note
	}
	return text
}
