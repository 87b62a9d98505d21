package scaffold_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/client/folder"
	"github.com/gatewright/gatewright/client/scaffold"
	"github.com/gatewright/gatewright/client/validate"
)

// securedDescription returns a description with the security schemes key, token, login, session, OpenID and
// certificate. global has the
// security requirements of the description, and required those of its GET operations by path. "" leaves the member
// security out.
func securedDescription(global string, required map[string]string) string {
	paths := map[string]any{}
	for path, text := range required {
		operation := map[string]any{"responses": map[string]any{"200": map[string]any{"description": "OK"}}}
		if text != "" {
			operation["security"] = json.RawMessage(text)
		}
		paths[path] = map[string]any{"get": operation}
	}
	document := map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "Secured", "version": "1"}, "paths": paths,
		"servers": []any{map[string]any{"url": "https://upstream.example.com"}},
		"components": map[string]any{"securitySchemes": map[string]any{
			"key":     map[string]any{"type": "apiKey", "in": "header", "name": "X-Key"},
			"token":   map[string]any{"type": "http", "scheme": "Bearer"},
			"login":   map[string]any{"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
			"session": map[string]any{"type": "apiKey", "in": "cookie", "name": "session"},
			"OpenID": map[string]any{
				"type": "openIdConnect", "openIdConnectUrl": "https://login.example.com/.well-known/openid-configuration",
			},
			"certificate": map[string]any{"type": "mutualTLS"},
		}},
	}
	if global != "" {
		document["security"] = json.RawMessage(global)
	}
	text, _ := json.Marshal(document) // no error: the values are texts, maps and valid JSON
	return string(text)
}

// securityTest is a description with security requirements, and what AddRoutes and the build make of it.
type securityTest struct {
	global      string
	required    map[string]string
	policies    []string // by name
	setting     string
	unprotected []string // pointers of the build's warnings, also about variables without a value
	notes       []string
}

func securityTests() map[string]securityTest {
	return map[string]securityTest{
		"nothing required": {
			required: map[string]string{"/a": ""}, setting: "enforced",
			notes: []string{"the description requires no authentication: everybody may call each operation"},
		},
		"for all operations": {
			global: `[{"key":[]}]`, required: map[string]string{"/a": "", "/b": ""}, policies: []string{"key"},
			setting: "enforced",
		},
		"except one": {
			global: `[{"key":[]}]`, required: map[string]string{"/a": "", "/b": "[]"}, policies: []string{"key"},
			setting: "enforced",
			notes:   []string{"everybody may call GET /b: the description requires no authentication there"},
		},
		"optional": {
			global: `[{"key":[]},{}]`, required: map[string]string{"/a": "", "/b": `[{"key":[]}]`},
			policies: []string{"key"}, setting: "enforced",
			notes: []string{"everybody may call GET /a: the description requires no authentication there"},
		},
		"one of two": {
			global: `[{"session":[]},{"token":[]}]`, required: map[string]string{"/a": ""}, policies: []string{"token"},
			setting: "enforced",
		},
		"two together": {
			global: `[{"certificate":[],"key":[]}]`, required: map[string]string{"/a": ""},
			policies: []string{"certificate", "key"}, setting: "enforced",
		},
		"no policy for the scheme": {
			required: map[string]string{"/a": `[{"session":[]}]`, "/b": `[{"key":[]}]`}, policies: []string{"key"},
			setting: "reported", unprotected: []string{"/paths/~1a/get/security"},
			notes: []string{
				"no policy protects GET /a, although the description requires authentication: add a policy, and name it in " +
					"x-gateway-policy of the security scheme",
			},
		},
		"tokens": {
			global: `[{"login":[]}]`, required: map[string]string{"/a": ""}, policies: []string{"login"}, setting: "enforced",
			notes: []string{
				`the description does not name the issuer of the tokens for "login": set the variables LOGIN_ISSUER (the claim ` +
					`iss) and LOGIN_AUDIENCE (the claim aud) of each environment`,
			},
			unprotected: []string{"/policies/0/handler/options/audience", "/policies/0/handler/options/issuer"},
		},
		"OpenID Connect with scopes": {
			global: `[{"OpenID":["read","write"]}]`, setting: "enforced",
			required: map[string]string{
				"/a": "", "/b": `[{"OpenID":["write","read"]}]`, "/c": `[{"OpenID":["list"]}]`, "/d": `[{"OpenID":[]}]`,
			},
			unprotected: []string{
				"/paths/~1a/get", "/paths/~1b/get", "/paths/~1c/get", "/paths/~1d/get", "/policies/0/handler/options/audience",
			},
			policies: []string{"OpenID", "OpenID-scopes", "OpenID-scopes-2"},
			notes: []string{
				`the policy "OpenID" accepts tokens of https://login.example.com: set the variable OPEN_ID_AUDIENCE (the claim ` +
					`aud) of each environment, or tokens for other applications are accepted. If iss of the tokens ends with a ` +
					`slash, add it to the option issuer`,
			},
		},
		"scopes": {
			required: map[string]string{"/a": `[{"key":["read"]}]`}, setting: "reported",
			unprotected: []string{"/paths/~1a/get/security"},
			notes: []string{
				"no policy protects GET /a, although the description requires authentication: add a policy, and name it in " +
					"x-gateway-policy of the security scheme",
			},
		},
	}
}

// TestSecurityBecomesPolicies checks the policies and the setting for security requirements, and that the build then
// warns of exactly those operations that no policy protects.
func TestSecurityBecomesPolicies(t *testing.T) {
	t.Parallel()
	for name, test := range securityTests() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			routes, err := scaffold.AddRoutes([]byte(securedDescription(test.global, test.required)), scaffold.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(routes.SecurityNotes, test.notes) {
				t.Errorf("AddRoutes(): security notes = %q, want %q", routes.SecurityNotes, test.notes)
			}
			files := templateFiles(t, "")
			scaffold.UseDescription(files, routes)
			if want := `"security": "` + test.setting + `"`; !strings.Contains(string(files["gatewright.jsonc"]), want) {
				t.Errorf("gatewright.jsonc = %s, want %s in it", files["gatewright.jsonc"], want)
			}
			var declared struct{ Policies []struct{ Name string } }
			if text, ok := files[scaffold.PoliciesFile]; ok {
				if err := json.Unmarshal(text, &declared); err != nil {
					t.Fatal(err)
				}
			}
			var policies []string
			for _, p := range declared.Policies {
				policies = append(policies, p.Name)
			}
			if !slices.Equal(policies, test.policies) {
				t.Errorf("policies = %q, want %q", policies, test.policies)
			}
			dir := filepath.Join(t.TempDir(), "new")
			if err := scaffold.WriteFiles(dir, files); err != nil {
				t.Fatal(err)
			}
			p, err := folder.Open(t.Context(), dir)
			if err != nil {
				t.Fatal(err)
			}
			result, err := validate.New().Folder(t.Context(), p, validate.Options{})
			if err != nil || len(result.Errors) > 0 {
				t.Fatalf("Folder() = errors %v, %v, want none", result.Errors, err)
			}
			warned := map[string]bool{}
			for _, w := range result.Warnings {
				warned[w.Path] = true
			}
			if got := slices.Sorted(maps.Keys(warned)); !slices.Equal(got, test.unprotected) {
				t.Errorf("Folder() warns of %v (%v), want %v", got, result.Warnings, test.unprotected)
			}
		})
	}
}

// TestPoliciesHaveTheNamesOfTheirSchemes checks that each security scheme names a policy of its own, whichever policies
// the description names: two schemes must not share a policy, because one of them would not be enforced.
func TestPoliciesHaveTheNamesOfTheirSchemes(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(`"mutualTLS"`, `"mutualTLS","x-gateway-policy":"token"`,
		`"Bearer"`, `"Bearer","x-gateway-policy":"token"`, `"JWT"`, `"JWT","x-gateway-policy":"absent"`).Replace(
		securedDescription("", map[string]string{"/a": `[{"certificate":[]}]`, "/b": `[{"token":[]}]`}))
	routes, err := scaffold.AddRoutes([]byte(text), scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(routes.SecurityNotes) != 1 || !strings.HasSuffix(routes.SecurityNotes[0], "are: certificate, login") {
		t.Errorf("AddRoutes(): security notes = %q, want one about certificate and login", routes.SecurityNotes)
	}
	for _, want := range []string{`"x-gateway-policy": "certificate"`, `"x-gateway-policy": "token"`} {
		if strings.Count(string(routes.Text), want) != 1 {
			t.Errorf("AddRoutes() = %s, want %s once", routes.Text, want)
		}
	}
	if strings.Contains(string(routes.Text), "absent") {
		t.Errorf("AddRoutes() = %s, want no policy absent", routes.Text)
	}
	for _, want := range []string{`"name": "certificate"`, `"name": "token"`} {
		if strings.Count(string(routes.Policies), want) != 1 {
			t.Errorf("policies = %s, want %s once", routes.Policies, want)
		}
	}
}

// TestRoutesOfDescriptionAreNoted checks that routes that a description has already are noted, with operations that
// require no authentication, and that they cannot read variables of the environment.
func TestRoutesOfDescriptionAreNoted(t *testing.T) {
	t.Parallel()
	withRoute := func(address string) string {
		return strings.Replace(securedDescription("", map[string]string{"/a": `[{"key":[]}]`, "/kept": "[]"}),
			`"security":[]`, `"security":[],"x-gateway-route":{"handler":{"export":"urlForwardHandler",`+
				`"module":"$import(@gatewright/runtime)","options":{"baseUrl":"`+address+`"}}}`, 1)
	}
	routes, err := scaffold.AddRoutes([]byte(withRoute("https://other.example.com")), scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"the description's own x-gateway-route is kept, so check its address, handler and policies: GET /kept",
		"everybody may call GET /kept: the description requires no authentication there",
	}
	if !slices.Equal(routes.SecurityNotes, want) {
		t.Errorf("AddRoutes(): security notes = %q, want %q", routes.SecurityNotes, want)
	}
	for _, address := range []string{
		"https://other.example.com/$env(SECRET)", `https://other.example.com/\u0024env(SECRET)`,
		"https://other.example.com/${env.SECRET}", "https://other.example.com/${encodeURIComponent(env.SECRET)}",
	} {
		_, err := scaffold.AddRoutes([]byte(withRoute(address)), scaffold.Options{})
		if err == nil || !strings.Contains(err.Error(), "reads variables of the environment") {
			t.Errorf("AddRoutes() with a route to %s: error = %v, want one about variables of the environment", address, err)
		}
	}
}

// TestManyUnprotectedOperationsAreCounted checks that a note does not name a large number of operations.
func TestManyUnprotectedOperationsAreCounted(t *testing.T) {
	t.Parallel()
	required := map[string]string{}
	for _, letter := range "abcdefghijklmn" {
		required["/"+string(letter)] = `[{"session":[]}]`
	}
	routes, err := scaffold.AddRoutes([]byte(securedDescription("", required)), scaffold.Options{})
	if err != nil {
		t.Fatal(err)
	}
	const want = "GET /j and 4 more, although"
	if len(routes.SecurityNotes) != 1 || !strings.Contains(routes.SecurityNotes[0], want) {
		t.Errorf("AddRoutes(): security notes = %q, want one with %q", routes.SecurityNotes, want)
	}
}
