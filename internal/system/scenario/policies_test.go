package scenario_test

import (
	"net/http"
	"testing"
)

// TestPoliciesTransformRequests deploys policies that have their options without a handler, and calls their route. The
// value of a header comes from the query, and replaces what the client sends.
func TestPoliciesTransformRequests(t *testing.T) {
	t.Parallel()
	inst, upstream := installation, newUpstream(t)
	deployed := inst.deploy(t, unique(t, "policies"), "main", project(t, []route{{
		path: "/x", method: "get", handler: "urlForwardHandler", options: map[string]any{"baseUrl": upstream},
		inbound: []string{"size", "tenant", "query"},
	}}, `{"name": "size", "policyType": "request-size-limit-inbound", "options": {"maxBytes": 1000}},
		{"name": "tenant", "policyType": "set-headers-inbound", "options": {"headers": [
			{"name": "X-Tenant", "value": "${query.tenant}"}, {"name": "Authorization", "value": "Bearer upstream"}]}},
		{"name": "query", "policyType": "rename-query-params-inbound", "options": {"params": [
			{"from": "tenant", "to": "customer"}]}}`))
	for query, want := range map[string][2]string{"?tenant=acme": {"acme", "customer=acme"}, "": {"", ""}} {
		status, body := inst.get(t, deployed+"/x"+query, "of-the-client")
		e := echoOf(t, body)
		if status != http.StatusOK || e.Header.Get("X-Tenant") != want[0] || e.Query != want[1] ||
			e.Header.Get("Authorization") != "Bearer upstream" {
			t.Errorf("GET /x%s: status = %d, upstream received %+v, want 200, X-Tenant %q, the query %q and Authorization of "+
				"the policy", query, status, e, want[0], want[1])
		}
	}
}
