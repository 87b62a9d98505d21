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
