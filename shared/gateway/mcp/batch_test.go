package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway/pipeline"
)

// noticing is a policy that notes what passes.
type noticing struct{ passed []pipeline.Exchange }

// Inbound implements pipeline.Inbound.
func (n *noticing) Inbound(x *pipeline.Exchange) *http.Response {
	n.passed = append(n.passed, *x)
	return nil
}

// batching is a server without offers, with its route.
func batching(t *testing.T, policy pipeline.Inbound) (*Server, *pipeline.Route) {
	t.Helper()
	s, problems := New(json.RawMessage(`{"operations":[{"file":"a","id":"b"}]}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if problems = s.Serve(Setup{Find: func(Operation) (Offer, bool) { return Offer{}, false }}); len(problems) > 0 {
		t.Fatal(problems)
	}
	return s, &pipeline.Route{Handler: s, Inbound: []pipeline.Inbound{policy}}
}

// batchOf is a request with several messages.
func batchOf(t *testing.T, route *pipeline.Route, messages ...string) *pipeline.Exchange {
	t.Helper()
	x := &pipeline.Exchange{
		Context: t.Context(), Method: http.MethodPost, Path: "/a%20b/mcp", Written: "/a%20b/./mcp", Scheme: "https", Host: "shop.test",
		Header: http.Header{"X-Mine": {"yes"}}, Route: route,
	}
	x.SetQuery("tenant=7")
	setBody(x, "application/json", "["+strings.Join(messages, ",")+"]")
	return x
}

// TestCallsOfABatchAreRequestsToTheSameAddress: a policy of the server's route that decides by path, query or header
// decides of each of them by the same.
func TestCallsOfABatchAreRequestsToTheSameAddress(t *testing.T) {
	t.Parallel()
	policy := &noticing{}
	_, route := batching(t, policy)
	x := batchOf(t, route, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	response := route.Run(x)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || len(policy.passed) != 3 {
		t.Fatalf("%d, and %d requests", response.StatusCode, len(policy.passed))
	}
	for i, got := range policy.passed {
		if got.Method != http.MethodPost || got.Path != x.Path || got.Written != x.Written || got.Query != "tenant=7" || got.QueryValues().Get("tenant") != "7" ||
			got.Host != x.Host || got.Scheme != x.Scheme || got.Header.Get("X-Mine") != "yes" || got.Route != route {
			t.Errorf("call %d is %s %s (%s) ?%s with %v", i+1, got.Method, got.Path, got.Written, got.Query, got.Header)
		}
	}
}
