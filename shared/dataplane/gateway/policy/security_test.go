package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// onCondition returns a policy that runs only for some requests.
func onCondition(p project.Policy) project.Policy {
	p.When = "request.method != 'GET'"
	return p
}

// declaredPolicy returns a policy with options in JSON.
func declaredPolicy(name, policyType, options string) project.Policy {
	return project.Policy{Name: name, Type: policyType, Handler: project.Component{Options: json.RawMessage(options)}}
}

// TestUnprotected checks which policies implement which security schemes.
func TestUnprotected(t *testing.T) {
	t.Parallel()
	chain := func(policies ...project.Policy) []project.Policy { return policies }
	keys := func(options string) project.Policy { return declaredPolicy("keys", "api-key-inbound", options) }
	moved := func(header, value string) project.Policy {
		return declaredPolicy("moved", "query-param-to-header-inbound",
			`{"queryParam":"key","headerName":"`+header+`","headerValue":"`+value+`"}`)
	}
	certificates := declaredPolicy("certificates", "mtls-auth-inbound", "")
	limit := declaredPolicy("limit", "request-size-limit-inbound", `{"maxBytes":1}`)

	header := project.SecurityScheme{Type: "apiKey", In: "header", Name: "X-Key"}
	authorization := project.SecurityScheme{Type: "apiKey", In: "header", Name: "authorization"}
	query := project.SecurityScheme{Type: "apiKey", In: "query", Name: "key"}
	cookie := project.SecurityScheme{Type: "apiKey", In: "cookie", Name: "X-Key"}
	bearer := project.SecurityScheme{Type: "http", HTTPScheme: "bearer"}
	jwt := project.SecurityScheme{Type: "http", HTTPScheme: "bearer", BearerFormat: "JWT"}
	basic := project.SecurityScheme{Type: "http", HTTPScheme: "basic"}
	mutualTLS := project.SecurityScheme{Type: "mutualTLS"}
	oauth := project.SecurityScheme{Type: "oauth2"}
	named := project.SecurityScheme{Type: "oauth2", Policy: "keys"}

	const plainKey = `{"authHeader":"x-key","authScheme":""}`
	const anonymousKey = `{"authHeader":"x-key","authScheme":"","allowUnauthenticatedRequests":true}`
	const anonymousText = `{"authHeader":"x-key","authScheme":"","allowUnauthenticatedRequests":"true"}`
	const unknownOption = `{"authHeader":"x-key","authScheme":"","more":1}`
	for name, test := range map[string]struct {
		scheme  project.SecurityScheme
		scopes  []string
		inbound []project.Policy
		want    bool // whether the policies implement the scheme
	}{
		"header":                          {header, nil, chain(keys(plainKey)), true},
		"header after a limit":            {header, nil, chain(limit, keys(plainKey)), true},
		"header without policies":         {header, nil, nil, false},
		"header with a limit":             {header, nil, chain(limit), false},
		"another header":                  {header, nil, chain(keys("")), false},
		"header with the scheme Bearer":   {header, nil, chain(keys(`{"authHeader":"X-Key"}`)), false},
		"header with anonymous requests":  {header, nil, chain(keys(anonymousKey)), false},
		"header, anonymous by a variable": {header, nil, chain(keys(anonymousText)), false},
		"certificate, anonymous by a variable": {
			mutualTLS, nil, chain(declaredPolicy("c", "mtls-auth-inbound", `{"allowUnauthenticatedRequests":"true"}`)), false,
		},
		"anonymous and strict":             {header, nil, chain(keys(anonymousKey), keys(plainKey)), true},
		"header with scopes":               {header, []string{"read"}, chain(keys(plainKey)), false},
		"header with unknown options":      {header, nil, chain(keys(unknownOption)), false},
		"header Authorization":             {authorization, nil, chain(keys("")), true},
		"query parameter":                  {query, nil, chain(moved("Authorization", "Bearer {value}"), keys("")), true},
		"query parameter, another header":  {query, nil, chain(moved("X-Key", "Bearer {value}"), keys("")), false},
		"query parameter, another scheme":  {query, nil, chain(moved("Authorization", "{value}"), keys("")), false},
		"query parameter, plain":           {query, nil, chain(moved("X-Key", "{value}"), keys(plainKey)), true},
		"query parameter moved afterwards": {query, nil, chain(keys(""), moved("Authorization", "Bearer {value}")), false},
		"another query parameter is moved": {
			project.SecurityScheme{Type: "apiKey", In: "query", Name: "token"},
			nil,
			chain(moved("Authorization", "Bearer {value}"), keys("")), false,
		},
		"query parameter that stays": {query, nil, chain(keys("")), false},
		"cookie":                     {cookie, nil, chain(keys(plainKey)), false},
		"bearer":                     {bearer, nil, chain(keys("")), true},
		"bearer in another header":   {bearer, nil, chain(keys(`{"authHeader":"X-Key"}`)), false},
		"bearer with another scheme": {bearer, nil, chain(keys(`{"authScheme":"Key"}`)), false},
		"JWT":                        {jwt, nil, chain(keys("")), false},
		"basic":                      {basic, nil, chain(keys("")), false},
		"certificate":                {mutualTLS, nil, chain(certificates), true},
		"certificate by a key":       {mutualTLS, nil, chain(keys("")), false},
		"key by a certificate":       {header, nil, chain(certificates), false},
		"OAuth":                      {oauth, nil, chain(keys("")), false},
		"OAuth by the named policy":  {named, nil, chain(keys("")), true},
		"OAuth by another policy":    {named, nil, chain(certificates), false},
		"named policy with scopes":   {named, []string{"read"}, chain(keys("")), false},
		"named policy, anonymous":    {named, nil, chain(keys(anonymousKey)), false},
		"certificate on a condition": {mutualTLS, nil, chain(onCondition(certificates)), false},
		"named limit": {
			project.SecurityScheme{Type: "oauth2", Policy: "limit"}, nil, chain(limit), false,
		},
	} {
		if got := policy.Unprotected(test.scheme, test.scopes, test.inbound); (got == "") != test.want {
			t.Errorf("%s: Unprotected() = %q, want none: %t", name, got, test.want)
		}
	}
}

// TestCredentialHeader checks that only policies with valid options that read a key from a header have such a header.
func TestCredentialHeader(t *testing.T) {
	for _, tt := range []struct{ policyType, options, want string }{
		{"api-key-inbound", `{}`, "Authorization"},
		{"api-key-inbound", `{"authHeader": "X-Key"}`, "X-Key"},
		{"api-key-inbound", `{"authHeader": 1}`, ""},
		{"rate-limit-inbound", `{}`, ""},
		{"unknown", `{}`, ""},
	} {
		p := project.Policy{Type: tt.policyType, Handler: project.Component{Options: json.RawMessage(tt.options)}}
		if got := policy.CredentialHeader(p); got != tt.want {
			t.Errorf("CredentialHeader(%s, %s) = %q, want %q", tt.policyType, tt.options, got, tt.want)
		}
	}
}
