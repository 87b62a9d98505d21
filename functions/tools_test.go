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
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/format/project"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/apitools"
	"github.com/gatewright/gatewright/shared/testing/golden"
	"github.com/gatewright/gatewright/shared/thirdparty/jsonschema"
)

// The tools of the API's own MCP server are derived from the OpenAPI document, and are written together with it. The
// first file has the served tools. The second file has a digest of each tool in tools/list, so that reviewers see which
// tools change.
const (
	toolsFile       = "../shared/management/apitools/made.json"
	toolDigestsFile = "../shared/management/apitools/testdata/tools.txt"
)

// checkTools compares the tools that are derived from a document with the files.
func checkTools(t *testing.T, document []byte) {
	t.Helper()
	tools, err := apitools.Make(document)
	if err != nil {
		t.Fatal(err)
	}
	var digests strings.Builder
	for _, tool := range tools {
		fmt.Fprintf(&digests, "%s %.8x\n", tool.Name, sha256.Sum256(encodeJSON(t, tool.MCPTool())))
	}
	golden.Equal(t, toolsFile, jsonLines(t, tools))
	golden.Equal(t, toolDigestsFile, digests.String())
}

// jsonLines returns a list as JSON with one line for each entry.
func jsonLines[T any](t *testing.T, list []T) []byte {
	t.Helper()
	var out bytes.Buffer
	for i, entry := range list {
		out.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		out.Write(encodeJSON(t, entry))
	}
	out.WriteString("\n]\n")
	return out.Bytes()
}

// toolsByOperation returns the tools of the current document.
func toolsByOperation(t *testing.T) map[string]*apitools.Tool {
	t.Helper()
	raw, err := api.Document(functions.APIGroups(), api.Examples{})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := apitools.Make(raw)
	if err != nil {
		t.Fatal(err)
	}
	byOperation := map[string]*apitools.Tool{}
	for i := range tools {
		byOperation[tools[i].Method+" "+tools[i].Path] = &tools[i]
	}
	return byOperation
}

func isTool(d api.Declaration) bool { return !d.Hidden && !d.NoTool }

// alwaysSecretFields returns the names of fields that always contain a secret. It omits value, because the values of
// secret variables are empty in responses, and other values are not secret.
func alwaysSecretFields() []string {
	return slices.DeleteFunc(secretFields(), func(name string) bool { return name == "value" })
}

// visitUnmarkedTexts calls f with every string in a value that s does not mark as a secret, and with the name of its
// field.
func visitUnmarkedTexts(v any, s *apitools.Secrets, name string, f func(name, text string)) {
	if s == nil {
		s = &apitools.Secrets{}
	}
	switch v := v.(type) {
	case string:
		if !s.Secret {
			f(name, v)
		}
	case []any:
		for _, entry := range v {
			visitUnmarkedTexts(entry, s.Entries, name, f)
		}
	case map[string]any:
		for name, member := range v {
			memberSecrets := s.Members[name]
			if memberSecrets == nil {
				memberSecrets = s.Values
			}
			visitUnmarkedTexts(member, memberSecrets, name, f)
		}
	}
}

// TestSecretsAppearOnlyInMarkedFields sends every valid request. Secrets must only be in fields that the declaration
// marks, and must be masked there. Secrets are those in the request, and texts that look like credentials of the
// product.
func TestSecretsAppearOnlyInMarkedFields(t *testing.T) {
	p, tools := newPopulatedFixture(t), toolsByOperation(t)
	withSecrets := map[string]bool{}
	// responses of public operations can only contain examples of secrets
	isPrivateTool := func(d api.Declaration) bool { return isTool(d) && needsKey(d) }
	forEachOperation(t, isPrivateTool, func(t *testing.T, d api.Declaration) {
		tool := tools[d.Method+" "+d.Path]
		for _, r := range variants(p.sampleSet, d) {
			_, resp, n := p.sendValid(t, d, r)
			_, body := requestTarget(t, d, r, n)
			secrets := []string{p.key}
			for _, text := range []string{body, resp.Body} {
				visitTexts(decodeJSON(t, text), func(name, text string) {
					if slices.Contains(alwaysSecretFields(), name) && text != "" && !strings.HasPrefix(text, "****") {
						secrets = append(secrets, text)
					}
				})
			}
			isSecret := func(text string) bool {
				return credential.Contains(text) || slices.ContainsFunc(secrets, func(s string) bool {
					return strings.Contains(text, s)
				})
			}
			visitUnmarkedTexts(decodeJSON(t, resp.Body), tool.Secrets, "", func(name, text string) {
				if isSecret(text) {
					t.Errorf(`field %s of the response holds a secret, want it marked with format:"password"`, name)
				}
			})
			masked, hidden := tool.Mask([]byte(resp.Body))
			visitTexts(decodeJSON(t, string(masked)), func(name, text string) {
				if isSecret(text) {
					t.Errorf("field %s of the masked response holds a secret, want none: %s", name, masked)
				}
			})
			if hidden != (string(masked) != resp.Body) {
				t.Errorf("Mask(%s) = %s, %t, want %t", resp.Body, masked, hidden, !hidden)
			}
			if hidden {
				withSecrets[d.ID] = true
			}
		}
	})
	if onlyGroup(t) == "" && len(withSecrets) < 8 {
		t.Errorf("operations that return secrets = %d, want 8 or more", len(withSecrets))
	}
}

// TestToolCallsMatchSchemas checks the arguments for every valid request, and every response with and without masks,
// against the schemas of the tool.
func TestToolCallsMatchSchemas(t *testing.T) {
	p, tools := newPopulatedFixture(t), toolsByOperation(t)
	forEachOperation(t, isTool, func(t *testing.T, d api.Declaration) {
		tool := tools[d.Method+" "+d.Path]
		input := compileSchema(t, tool.Input)
		for _, r := range variants(p.sampleSet, d) {
			_, resp, n := p.sendValid(t, d, r)
			path, body := requestTarget(t, d, r, n)
			arguments := toolArguments(t, tool, path, body)
			if err := input.Validate(arguments); err != nil {
				t.Errorf("arguments for %s %s = %v, want some that match the tool's schema: %v", path, body, arguments, err)
			}
			if masked, hidden := tool.MaskArguments(encodeJSON(t, arguments)); hidden != (tool.ArgumentSecrets != nil &&
				strings.Contains(string(masked), "****")) {
				t.Errorf("MaskArguments(%s) = %s, %t, want true exactly if secrets are masked",
					encodeJSON(t, arguments), masked, hidden)
			}
			if tool.Output == nil {
				continue
			}
			masked, _ := tool.Mask([]byte(resp.Body))
			for _, text := range []string{resp.Body, string(masked)} {
				if err := compileSchema(t, tool.Output).Validate(decodeJSON(t, text)); err != nil {
					t.Errorf("response = %s, want one that matches the tool's schema: %v", text, err)
				}
			}
		}
	})
}

// toolArguments returns the arguments for a request. Path arguments have the value a. Query arguments are only set if
// the query has them or if they are required.
func toolArguments(t *testing.T, tool *apitools.Tool, path, body string) map[string]any {
	t.Helper()
	out := map[string]any{}
	target, err := url.Parse(path)
	if err != nil {
		t.Fatal(err)
	}
	fields, _ := decodeJSON(t, body).(map[string]any)
	for _, a := range tool.Arguments {
		switch value, ok := fields[a.TargetName()]; {
		case a.Location == project.InPath:
			out[a.Name] = "a"
		case a.Location == project.InProperty && ok:
			out[a.Name] = value
		case a.Location == project.InBody:
			out[a.Name] = decodeJSON(t, body)
		case a.Location == project.InQuery && a.Type == "string" && target.Query().Has(a.TargetName()):
			out[a.Name] = target.Query().Get(a.TargetName())
		case a.Location == project.InQuery && a.Required:
			out[a.Name] = []any{target.Query().Get(a.TargetName())}
		}
	}
	return out
}

func compileSchema(t *testing.T, raw json.RawMessage) *jsonschema.Schema {
	t.Helper()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", document); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func encodeJSON(t *testing.T, value any) []byte {
	t.Helper()
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
