package policy_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// tokenPolicy returns a policy of a type with options.
func tokenPolicy(policyType, options string) project.Policy {
	return project.Policy{Name: "p", Type: policyType, Handler: project.Component{Options: json.RawMessage(options)}}
}

// TestTokensImplementSchemes checks which security schemes a policy for tokens implements.
func TestTokensImplementSchemes(t *testing.T) {
	t.Parallel()
	jwt := func(options string) project.Policy { return tokenPolicy("open-id-jwt-auth-inbound", options) }
	const issuer = `"issuer":"https://login.example.com/"`
	strict := jwt(`{` + issuer + `}`)
	bearer := project.SecurityScheme{Type: "http", HTTPScheme: "bearer", BearerFormat: "jwt"}
	openID := project.SecurityScheme{
		Type: "openIdConnect", OpenIDConnectURL: "https://login.example.com/.well-known/openid-configuration",
	}
	oauth := project.SecurityScheme{
		Type: "oauth2", OAuthURLs: "https://other.example.com/token https://LOGIN.example.com/authorize",
	}
	http := func(scheme, format string) project.SecurityScheme {
		return project.SecurityScheme{Type: "http", HTTPScheme: scheme, BearerFormat: format}
	}
	for name, test := range map[string]struct {
		scheme  project.SecurityScheme
		inbound []project.Policy
		want    bool
	}{
		"bearer":               {bearer, []project.Policy{strict}, true},
		"bearer of any format": {http("bearer", ""), []project.Policy{strict}, true},
		"bearer of another":    {http("bearer", "opaque"), []project.Policy{strict}, false},
		"basic":                {http("basic", ""), []project.Policy{strict}, false},
		"optional": {
			bearer, []project.Policy{jwt(`{` + issuer + `,"optional":true}`)}, false,
		},
		"optional by a variable": {
			bearer, []project.Policy{jwt(`{` + issuer + `,"optional":"true"}`)}, false,
		},
		"unknown options": {bearer, []project.Policy{jwt(`{` + issuer + `,"x":1}`)}, false},
		"an API key": {
			project.SecurityScheme{Type: "apiKey", In: "header", Name: "Authorization"}, []project.Policy{strict}, false,
		},
		"OpenID Connect":         {openID, []project.Policy{strict}, true},
		"OpenID Connect, secret": {openID, []project.Policy{jwt(`{"secret":"s"}`)}, false},
		"another issuer": {
			openID, []project.Policy{jwt(`{"issuer":"https://login.example.org"}`)}, false,
		},
		"a longer issuer": {
			openID, []project.Policy{jwt(`{"issuer":"https://login.example.com/a"}`)}, false,
		},
		"OAuth": {oauth, []project.Policy{strict}, true},
		"OAuth of another": {
			oauth, []project.Policy{jwt(`{"issuer":"https://login.example.org"}`)}, false,
		},
		"OAuth without addresses": {
			project.SecurityScheme{Type: "oauth2"}, []project.Policy{strict}, false,
		},
		"OAuth, no issuer": {
			oauth, []project.Policy{jwt(`{"jwkUrl":"https://login.example.com/keys"}`)}, false,
		},
	} {
		if got := policy.Unprotected(test.scheme, nil, test.inbound); (got == "") != test.want {
			t.Errorf("%s: Unprotected() = %q, want none: %t", name, got, test.want)
		}
	}
	for scheme, want := range map[project.SecurityScheme]string{
		bearer: "open-id-jwt-auth-inbound", openID: "the issuer https://login.example.com ",
	} {
		if got := policy.Unprotected(scheme, nil, nil); !strings.Contains(got, want) {
			t.Errorf("Unprotected(%+v) = %q, want %q in it", scheme, got, want)
		}
	}
}

// TestIntrospectionImplementsSchemes checks which security schemes a policy that asks an authorization server implements.
func TestIntrospectionImplementsSchemes(t *testing.T) {
	t.Parallel()
	const server = `{"url":"https://login.example.com/introspect","clientId":"a","clientSecret":"b"`
	ask := func(more string) []project.Policy {
		return []project.Policy{tokenPolicy("oauth-introspection-inbound", server+more+`}`)}
	}
	bearer := project.SecurityScheme{Type: "http", HTTPScheme: "bearer"}
	oauth := project.SecurityScheme{Type: "oauth2", OAuthURLs: "https://login.example.com/token"}
	for name, test := range map[string]struct {
		scheme  project.SecurityScheme
		scopes  []string
		inbound []project.Policy
		want    bool
	}{
		"bearer":          {bearer, nil, ask(""), true},
		"optional":        {bearer, nil, ask(`,"optional":true`), false},
		"OAuth":           {oauth, nil, ask(""), true},
		"OAuth elsewhere": {project.SecurityScheme{Type: "oauth2", OAuthURLs: "https://x.example"}, nil, ask(""), false},
		"OpenID Connect":  {project.SecurityScheme{Type: "openIdConnect"}, nil, ask(""), false},
		"scopes":          {oauth, []string{"a"}, ask(`,"requiredScopes":["a"]`), true},
		"more scopes":     {oauth, []string{"a", "b"}, ask(`,"requiredScopes":["a"]`), false},
	} {
		if got := policy.Unprotected(test.scheme, test.scopes, test.inbound); (got == "") != test.want {
			t.Errorf("%s: Unprotected() = %q, want none: %t", name, got, test.want)
		}
	}
}

// TestTokensImplementScopes checks which policies check the scopes of an operation.
func TestTokensImplementScopes(t *testing.T) {
	t.Parallel()
	scopes := func(options string) project.Policy { return tokenPolicy("jwt-scopes-inbound", options) }
	strict := tokenPolicy("open-id-jwt-auth-inbound", `{"secret":"s"}`)
	bearer := project.SecurityScheme{Type: "http", HTTPScheme: "bearer", BearerFormat: "JWT"}
	for name, test := range map[string]struct {
		scopes  []string
		inbound []project.Policy
		want    bool
	}{
		"no policy": {[]string{"a"}, []project.Policy{strict}, false},
		"an option": {
			[]string{"a"},
			[]project.Policy{tokenPolicy("open-id-jwt-auth-inbound", `{"secret":"s","requiredScopes":["a"]}`)},
			true,
		},
		"two policies": {
			[]string{"a", "b"}, []project.Policy{strict, scopes(`{"scopes":["a"]}`), scopes(`{"scopes":["b"]}`)}, true,
		},
		"one of two":       {[]string{"a", "b"}, []project.Policy{strict, scopes(`{"scopes":["a"]}`)}, false},
		"before the token": {[]string{"a"}, []project.Policy{scopes(`{"scopes":["a"]}`), strict}, false},
		"with an error":    {[]string{"a"}, []project.Policy{strict, scopes(`{"scopes":["a"],"x":1}`)}, false},
	} {
		if got := policy.Unprotected(bearer, test.scopes, test.inbound); (got == "") != test.want {
			t.Errorf("%s: Unprotected(%q) = %q, want none: %t", name, test.scopes, got, test.want)
		}
	}
}

// TestTokenPoliciesWarn checks the warnings about policies for tokens.
func TestTokenPoliciesWarn(t *testing.T) {
	t.Parallel()
	jwt := func(options string) project.Policy { return tokenPolicy("open-id-jwt-auth-inbound", options) }
	good := jwt(`{"issuer":"https://login.example.com","audience":"a"}`)
	scopes := tokenPolicy("jwt-scopes-inbound", `{"scopes":["a"]}`)
	limit := tokenPolicy("rate-limit-inbound", `{"rateLimitBy":"user","requestsAllowed":1,"timeWindowMinutes":1}`)
	for name, test := range map[string]struct {
		chain []project.Policy
		want  []int
	}{
		"good":        {[]project.Policy{good, scopes, limit}, nil},
		"no audience": {[]project.Policy{jwt(`{"issuer":"https://login.example.com"}`)}, []int{0}},
		"keys of any issuer": {
			[]project.Policy{jwt(`{"jwkUrl":"https://login.example.com/keys","audience":"a"}`)}, []int{0},
		},
		"a secret, any issuer":   {[]project.Policy{jwt(`{"secret":"s","audience":"a"}`)}, nil},
		"scopes without a token": {[]project.Policy{scopes, good}, []int{0}},
		"scopes after a key":     {[]project.Policy{tokenPolicy("api-key-inbound", `{}`), scopes}, []int{1}},
	} {
		if got := slices.Sorted(maps.Keys(policy.WarnInbound(test.chain))); !slices.Equal(got, test.want) {
			t.Errorf("WarnInbound(%s) = %v, want %v", name, got, test.want)
		}
	}
}

// TestSecretIsInNoProblem checks that the problems of options do not contain the secret.
func TestSecretIsInNoProblem(t *testing.T) {
	t.Parallel()
	for _, options := range []string{
		`{"secret":"hidden"}`, `{"secret":"hidden","jwkUrl":"x"}`, `{"secret":{"hidden":1}}`,
		`{"secret":"hidden","algorithms":["RS256"]}`, `{"jwks":"hidden"}`, `{"jwks":{"keys":[{"kty":"oct","k":"hidden"}]}}`,
	} {
		problems := policy.Check(tokenPolicy("open-id-jwt-auth-inbound", options))
		if text, _ := json.Marshal(problems); len(problems) == 0 || strings.Contains(string(text), "hidden") {
			t.Errorf("Check(%s) = %s, want problems without the secret", options, text)
		}
	}
}
