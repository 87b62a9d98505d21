package policy_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/project"
)

func TestPolicyWithoutIdentifiedUserWarns(t *testing.T) {
	key := project.Policy{Type: "api-key-inbound"}
	header := project.Policy{Type: "query-param-to-header-inbound"}
	quota := project.Policy{Type: "quota-inbound"}
	limit := func(by string) project.Policy {
		return project.Policy{
			Type: "rate-limit-inbound",
			Handler: project.Component{
				Options: json.RawMessage(`{"rateLimitBy":"` + by + `","requestsAllowed":1,"timeWindowMinutes":1}`),
			},
		}
	}
	for name, test := range map[string]struct {
		chain []project.Policy
		want  []int // the positions of the policies that get a warning
	}{
		"a limit":                       {[]project.Policy{limit("user")}, []int{0}},
		"a limit after a key":           {[]project.Policy{key, limit("user")}, nil},
		"a limit before a key":          {[]project.Policy{header, limit("user"), key}, []int{1}},
		"limits before and after a key": {[]project.Policy{limit("user"), key, limit("user")}, []int{0}},
		"limits by address and for all": {[]project.Policy{limit("ip"), limit("all")}, nil},
		"a quota":                       {[]project.Policy{header, quota}, []int{1}},
		"a quota after a certificate":   {[]project.Policy{{Type: "mtls-auth-inbound"}, quota, limit("user")}, nil},
		"a quota before a key":          {[]project.Policy{quota, key}, []int{0}},
		"no policies":                   {nil, nil},
		"an unknown type":               {[]project.Policy{{Type: "mystery-inbound"}}, nil},
	} {
		if got := slices.Sorted(maps.Keys(policy.WarnInbound(test.chain))); !slices.Equal(got, test.want) {
			t.Errorf("WarnInbound(%s) = %v, want %v", name, got, test.want)
		}
	}
}

// TestPolicyWithoutDescriptionWarns checks which descriptions of a route let a validation policy have no effect.
func TestPolicyWithoutDescriptionWarns(t *testing.T) {
	request := func(options string) project.Policy {
		return project.Policy{
			Type: "request-validation-inbound", Handler: project.Component{Options: json.RawMessage(options)},
		}
	}
	header := &project.RequestDescription{Parameters: []project.Parameter{{In: project.HeaderParameter, Name: "X-A"}}}
	query := &project.RequestDescription{Parameters: []project.Parameter{{In: project.InQueryString, Name: "q"}}}
	body := &project.RequestDescription{Body: &project.BodyDescription{}}
	for name, test := range map[string]struct {
		policy    project.Policy
		request   *project.RequestDescription
		responses project.ResponseDescription
		want      bool
	}{
		"no input":              {request(`{}`), &project.RequestDescription{}, nil, true},
		"no description":        {request(`{}`), nil, nil, true},
		"a header":              {request(`{}`), header, nil, false},
		"a header as an option": {request(`{"headers": "none"}`), header, nil, true},
		"a logged header":       {request(`{"headers": "log"}`), header, nil, false},
		"a whole query":         {request(`{}`), query, nil, false},
		"a body":                {request(`{}`), body, nil, false},
		"a body as an option":   {request(`{"body": "none"}`), body, nil, true},
		"unknown parameters":    {request(`{"unknownQuery": "reject"}`), &project.RequestDescription{}, nil, false},
		"invalid options":       {request(`{"headers": 1}`), nil, nil, false},
		"no responses": {
			project.Policy{Type: "response-validation-outbound"}, nil, project.ResponseDescription{}, true,
		},
		"a response": {
			project.Policy{Type: "response-validation-outbound"}, nil, project.ResponseDescription{"200": {}}, false,
		},
		"another policy": {project.Policy{Type: "api-key-inbound"}, nil, nil, false},
	} {
		if got := policy.WarnDescribed(test.policy, test.request, test.responses); (got != "") != test.want {
			t.Errorf("WarnDescribed(%s) = %q, want a warning = %t", name, got, test.want)
		}
	}
}
