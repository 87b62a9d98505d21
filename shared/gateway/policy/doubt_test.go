package policy_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/project"
)

func TestWhatNeedsAUserWhomNobodyKnowsIsDoubted(t *testing.T) {
	key := project.Policy{Type: "api-key-inbound"}
	header := project.Policy{Type: "query-param-to-header-inbound"}
	quota := project.Policy{Type: "quota-inbound"}
	limit := func(by string) project.Policy {
		return project.Policy{Type: "rate-limit-inbound", Handler: project.Component{Options: json.RawMessage(`{"rateLimitBy":"` + by + `","requestsAllowed":1,"timeWindowMinutes":1}`)}}
	}
	for name, test := range map[string]struct {
		chain []project.Policy
		want  []int
	}{
		"alone":              {[]project.Policy{limit("user")}, []int{0}},
		"after the key":      {[]project.Policy{key, limit("user")}, nil},
		"before the key":     {[]project.Policy{header, limit("user"), key}, []int{1}},
		"before and after":   {[]project.Policy{limit("user"), key, limit("user")}, []int{0}},
		"by address":         {[]project.Policy{limit("ip"), limit("all")}, nil},
		"a quota alone":      {[]project.Policy{header, quota}, []int{1}},
		"a quota behind":     {[]project.Policy{{Type: "mtls-auth-inbound"}, quota, limit("user")}, nil},
		"a quota before":     {[]project.Policy{quota, key}, []int{0}},
		"without policies":   {nil, nil},
		"of an unknown type": {[]project.Policy{{Type: "mystery-inbound"}}, nil},
	} {
		if got := slices.Sorted(maps.Keys(policy.DoubtInbound(test.chain))); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
