package project_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/project"
)

// TestSecuritySchemesAddAtMost100Policies checks that the policies that security schemes name count for the bound of
// the inbound policies of a route, and that a message names only some of many schemes.
func TestSecuritySchemesAddAtMost100Policies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		schemes int
		want    string
	}{
		{100, ""},
		{101, "more than 100 inbound policies"},
	} {
		var policies, schemes, required []string
		for i := range tt.schemes {
			policies = append(policies, fmt.Sprintf(`{"name": "p%d", "policyType": "api-key-inbound", "handler": `+
				`{"export": "E", "module": "$import(@gatewright/runtime)"}}`, i))
			schemes = append(schemes, fmt.Sprintf(`"s%d": {"type": "http", "scheme": "basic", "x-gateway-policy": "p%[1]d"}`, i))
			required = append(required, fmt.Sprintf(`"s%d": []`, i))
		}
		files := documentFiles(`"paths": {"/a": ` + operation(`{"rewritePattern": "https://a"}`, "") + `}, "security": [{` +
			strings.Join(required, ",") + `}], "components": {"securitySchemes": {` + strings.Join(schemes, ",") + `}}`)
		files["config/policies.json"] = []byte(`{"policies": [` + strings.Join(policies, ",") + `]}`)
		_, in := load(t, "testdata/projects/good-all.txtar")
		artifact, result := compile(t, files, in)
		switch {
		case tt.want == "" && (artifact == nil || len(artifact.Routes[0].Inbound) != tt.schemes):
			t.Errorf("%d schemes: Compile() = %+v, want a route with as many inbound policies", tt.schemes, result)
		case tt.want != "" && (len(result.Errors) != 1 || !strings.Contains(result.Errors[0].Message, tt.want)):
			t.Errorf("%d schemes: errors = %v, want one with %q", tt.schemes, result.Errors, tt.want)
		}
	}
}

// TestMessageNamesSomeSchemes checks that a message about many schemes names some of them and counts the others.
func TestMessageNamesSomeSchemes(t *testing.T) {
	t.Parallel()
	var required []string
	for i := range 20 {
		required = append(required, fmt.Sprintf(`"s%d": []`, i))
	}
	_, in := load(t, "testdata/projects/good-all.txtar")
	_, result := compile(t, documentFiles(`"paths": {"/a": `+operation(`{"rewritePattern": "https://a"}`, "")+
		`}, "security": [{`+strings.Join(required, ",")+`}]`), in)
	const want = "and the same is true of 17 more schemes."
	if len(result.Warnings) != 1 || !strings.HasSuffix(result.Warnings[0].Message, want) {
		t.Errorf("warnings = %v, want one that ends with %q", result.Warnings, want)
	}
}

// TestMisspelledSchemeIsSuggested checks that a warning about a scheme that does not exist names a scheme with nearly the
// same name.
func TestMisspelledSchemeIsSuggested(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"apiKye": "did you mean apiKey?", "other": "components.securitySchemes."} {
		_, in := load(t, "testdata/projects/good-all.txtar")
		_, result := compile(t, documentFiles(`"paths": {"/a": `+operation(`{"rewritePattern": "https://a"}`, "")+
			`}, "security": [{"`+name+`": []}], "components": {"securitySchemes": {"apiKey": {"type": "mutualTLS"}}}`), in)
		if len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0].Message, want) {
			t.Errorf("warnings about the scheme %s = %v, want one with %q", name, result.Warnings, want)
		}
	}
}

// TestSchemePoliciesOfARoute checks which policies security requirements add before those of a route, and that none of them
// runs twice.
func TestSchemePoliciesOfARoute(t *testing.T) {
	t.Parallel()
	const own = "own"
	for security, want := range map[string]string{
		`[{"a": []}]`:                "p own",
		`[{"a": [], "b": []}]`:       "p own", // both name p
		`[{"c": [], "a": []}]`:       "p q own",
		`[{"a": [], "own": []}]`:     "p own",
		`[{"own": []}]`:              own,
		`[{"a": []}, {"c": []}]`:     own,
		`[{"a": []}, {}]`:            own,
		`[{}]`:                       own,
		`[]`:                         own,
		`[{"a": [], "missing": []}]`: "p own",
	} {
		var policies, schemes []string
		for _, name := range []string{"p", "q", own} {
			policies = append(policies, fmt.Sprintf(`{"name": %q, "policyType": "api-key-inbound", "handler": `+
				`{"export": "E", "module": "$import(@gatewright/runtime)"}}`, name))
		}
		for _, scheme := range [][2]string{{"a", "p"}, {"b", "p"}, {"c", "q"}, {own, own}} {
			schemes = append(schemes, fmt.Sprintf(`%q: {"type": "http", "scheme": "basic", "x-gateway-policy": %q}`, scheme[0],
				scheme[1]))
		}
		operation := strings.Replace(forwarded("a", `"security": `+security+`,`), `"handler"`,
			`"policies": {"inbound": ["own"]}, "handler"`, 1)
		files := documentFiles(`"paths": {"/a": {"get": ` + operation + `}}, "security": [{"c": []}], "components": {
			"securitySchemes": {` + strings.Join(schemes, ",") + `}}`)
		files["config/policies.json"] = []byte(`{"policies": [` + strings.Join(policies, ",") + `]}`)
		artifact, result := compile(t, files, project.Input{Catalog: lenient{}})
		if artifact == nil {
			t.Errorf("Compile(security %s) errors = %v, want none", security, result.Errors)
			continue
		}
		if got := strings.Join(artifact.Routes[0].Inbound, " "); got != want {
			t.Errorf("Compile(security %s) inbound policies = %s, want %s", security, got, want)
		}
	}
}
