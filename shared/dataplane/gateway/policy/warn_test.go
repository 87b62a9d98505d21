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
