package policy_test

import (
	"encoding/json"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

// declared returns a policy with options.
func declared(policyType, options string) project.Policy {
	return project.Policy{Name: "p", Type: policyType, Handler: project.Component{Options: json.RawMessage(options)}}
}

// TestPasswordsImplementBasic checks which schemes basic-auth-inbound implements, and from which header it reads.
func TestPasswordsImplementBasic(t *testing.T) {
	t.Parallel()
	basic := project.SecurityScheme{Type: "http", HTTPScheme: "basic"}
	bearer := project.SecurityScheme{Type: "http", HTTPScheme: "bearer"}
	for _, test := range []struct {
		scheme  project.SecurityScheme
		options string
		want    bool
	}{
		{basic, `{"users":[]}`, true},
		{basic, `{"users":[],"allowUnauthenticatedRequests":"true"}`, false},
		{basic, `{"user":[]}`, false},
		{bearer, `{"users":[]}`, false},
	} {
		p := declared("basic-auth-inbound", test.options)
		if got := policy.Unprotected(test.scheme, nil, []project.Policy{p}); (got == "") != test.want {
			t.Errorf("Unprotected(%s, %s) = %q, want none: %t", test.scheme.HTTPScheme, test.options, got, test.want)
		}
		if got := policy.CredentialHeader(p); got != "Authorization" {
			t.Errorf("CredentialHeader(%s) = %q, want Authorization", test.options, got)
		}
	}
}

// TestCallerPoliciesWarn checks which orders of policies are warned about.
func TestCallerPoliciesWarn(t *testing.T) {
	t.Parallel()
	byUser := declared("abuse-inbound", `{"by":"user","statuses":[403],"limit":5}`)
	byIP := declared("abuse-inbound", `{"by":"ip","statuses":[401],"limit":5}`)
	forbidden := declared("abuse-inbound", `{"by":"ip","statuses":[403],"limit":5}`)
	key := declared("api-key-inbound", `{}`)
	optional := declared("api-key-inbound", `{"allowUnauthenticatedRequests":true}`)
	webhook := declared("webhook-signature-inbound", `{"scheme":"standard"}`)
	validation := declared("request-validation-inbound", `{}`)
	for name, test := range map[string]struct {
		chain []project.Policy
		want  bool // whether the last policy gets a warning
	}{
		"by user":                         {[]project.Policy{byUser}, true},
		"by user after a key":             {[]project.Policy{key, byUser}, false},
		"by ip":                           {[]project.Policy{byIP}, false},
		"401 by ip after a key":           {[]project.Policy{key, byIP}, true},
		"401 by ip after an optional key": {[]project.Policy{optional, byIP}, false},
		"403 by ip after a key":           {[]project.Policy{key, forbidden}, false},
		"a webhook":                       {[]project.Policy{key, webhook}, false},
		"a webhook after a validation":    {[]project.Policy{validation, webhook}, true},
	} {
		if got := policy.WarnInbound(test.chain)[len(test.chain)-1]; (got != "") != test.want {
			t.Errorf("WarnInbound(%s) = %q, want a warning: %t", name, got, test.want)
		}
	}
}
