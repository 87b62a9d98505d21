package functions_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/internal/golden"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/apitools"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/thirdparty/jsonschema"
)

// The tools of the API's own MCP server are made of the OpenAPI document, and so written with it. The first file is
// what is served. The second has a digest of what tools/list shows of each tool, so that a review sees which tools change.
const (
	madeTools   = "../shared/apitools/made.json"
	listedTools = "../shared/apitools/testdata/tools.txt"
)

// toolsAreUpToDate compares the tools of a document with the files.
func toolsAreUpToDate(t *testing.T, document []byte) {
	t.Helper()
	tools, err := apitools.Make(document)
	if err != nil {
		t.Fatal(err)
	}
	var listed strings.Builder
	for _, tool := range tools {
		fmt.Fprintf(&listed, "%s %.8x\n", tool.Name, sha256.Sum256(encoded(t, tool.Listed())))
	}
	golden.Equal(t, madeTools, lines(t, tools))
	golden.Equal(t, listedTools, listed.String())
}

// lines is a list in JSON, with a line for each entry.
func lines[T any](t *testing.T, list []T) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, entry := range list {
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		out.Write(encoded(t, entry))
	}
	out.WriteString("\n]\n")
	return out.Bytes()
}

// toolsByOperation are the tools as they are made of the document of now.
func toolsByOperation(t *testing.T) map[string]*apitools.Tool {
	t.Helper()
	raw, err := api.Document(functions.Described(), api.Examples{})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := apitools.Make(raw)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*apitools.Tool{}
	for i := range tools {
		all[tools[i].Method+" "+tools[i].Path] = &tools[i]
	}
	return all
}

func isTool(d api.Declaration) bool { return !d.Hidden && !d.NoTool }

// opening are the fields that open something always: a variable's value is a secret where it is answered empty.
func opening() []string {
	return slices.DeleteFunc(secretFields(), func(name string) bool { return name == "value" })
}

// unmarked calls seen for every text of a value that is at no place of s.
func unmarked(v any, s *apitools.Secrets, name string, seen func(name, text string)) {
	if s == nil {
		s = &apitools.Secrets{}
	}
	switch v := v.(type) {
	case string:
		if !s.Secret {
			seen(name, v)
		}
	case []any:
		for _, entry := range v {
			unmarked(entry, s.Entries, name, seen)
		}
	case map[string]any:
		for name, member := range v {
			of := s.Members[name]
			if of == nil {
				of = s.Values
			}
			unmarked(member, of, name, seen)
		}
	}
}

// TestSecretsAreAnsweredInMarkedFieldsAlone asks every good request there is: what opens something, which is what was sent to do so
// and what looks like a credential of ours, is where the declaration has marked it, and is masked there.
func TestSecretsAreAnsweredInMarkedFieldsAlone(t *testing.T) {
	p, tools := newPopulated(t), toolsByOperation(t)
	met := map[string]bool{}
	keyed := func(d api.Declaration) bool { return isTool(d) && private(d) } // what is public holds examples at most
	each(t, keyed, func(t *testing.T, d api.Declaration) {
		tool := tools[d.Method+" "+d.Path]
		for _, r := range variants(p.book, d) {
			_, a, n := p.good(t, d, r)
			_, body := target(t, d, r, n)
			secrets := []string{p.key}
			for _, text := range []string{body, a.Body} {
				visit(decoded(t, text), func(name, text string) {
					if slices.Contains(opening(), name) && text != "" && !strings.HasPrefix(text, "****") {
						secrets = append(secrets, text)
					}
				})
			}
			secret := func(text string) bool {
				return credential.Within(text) || slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
			}
			unmarked(decoded(t, a.Body), tool.Secrets, "", func(name, text string) {
				if secret(text) {
					t.Errorf(`the field %s of its answer holds a secret: mark it with format:"password"`, name)
				}
			})
			masked, hidden := tool.Mask([]byte(a.Body))
			visit(decoded(t, string(masked)), func(name, text string) {
				if secret(text) {
					t.Errorf("the field %s shows a secret in the masked answer %s", name, masked)
				}
			})
			if hidden != (string(masked) != a.Body) {
				t.Errorf("it is said that something was hidden, %t, in %s", hidden, masked)
			}
			if hidden {
				met[d.ID] = true
			}
		}
	})
	if only(t) == "" && len(met) < 8 {
		t.Errorf("secrets are answered by %d operations alone: the samples have shown more", len(met))
	}
}

// TestToolsTakeAndAnswerWhatTheirSchemasSay: every good request as the arguments of its tool, and every answer, masked or not.
func TestToolsTakeAndAnswerWhatTheirSchemasSay(t *testing.T) {
	p, tools := newPopulated(t), toolsByOperation(t)
	each(t, isTool, func(t *testing.T, d api.Declaration) {
		tool := tools[d.Method+" "+d.Path]
		input := compiled(t, tool.Input)
		for _, r := range variants(p.book, d) {
			_, a, n := p.good(t, d, r)
			path, body := target(t, d, r, n)
			arguments := argumentsOf(t, tool, path, body)
			if err := input.Validate(arguments); err != nil {
				t.Errorf("%s %s: %v", path, body, err)
			}
			if masked, hidden := tool.MaskArguments(encoded(t, arguments)); hidden != (tool.Given != nil && strings.Contains(string(masked), "****")) {
				t.Errorf("%s becomes %s", encoded(t, arguments), masked)
			}
			if tool.Output == nil {
				continue
			}
			masked, _ := tool.Mask([]byte(a.Body))
			for _, answer := range []string{a.Body, string(masked)} {
				if err := compiled(t, tool.Output).Validate(decoded(t, answer)); err != nil {
					t.Errorf("%s: %v", answer, err)
				}
			}
		}
	})
}

// argumentsOf makes arguments of a request, of those in its path with what the tool requires.
func argumentsOf(t *testing.T, tool *apitools.Tool, path, body string) map[string]any {
	t.Helper()
	out := map[string]any{}
	target, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	fields, _ := decoded(t, body).(map[string]any)
	for _, a := range tool.Arguments {
		switch value, has := fields[a.Aim()]; {
		case a.Place == project.InPath:
			out[a.Name] = "a"
		case a.Place == project.InProperty && has:
			out[a.Name] = value
		case a.Place == project.InBody:
			out[a.Name] = decoded(t, body)
		case a.Place == project.InQuery && a.Type == "string" && target.Query().Has(a.Aim()):
			out[a.Name] = target.Query().Get(a.Aim())
		case a.Place == project.InQuery && a.Required:
			out[a.Name] = []any{target.Query().Get(a.Aim())}
		}
	}
	return out
}

func compiled(t *testing.T, raw json.RawMessage) *jsonschema.Schema {
	t.Helper()
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", tree); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func encoded(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
