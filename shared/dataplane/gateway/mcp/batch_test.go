package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/pipeline"
)

// recordingPolicy is a policy that records exchanges.
type recordingPolicy struct{ exchanges []pipeline.Exchange }

// Inbound implements pipeline.Inbound.
func (p *recordingPolicy) Inbound(x *pipeline.Exchange) *http.Response {
	p.exchanges = append(p.exchanges, *x)
	return nil
}

// newBatchServer returns a server that offers no operations, and its route with an inbound policy.
func newBatchServer(t *testing.T, policy pipeline.Inbound) (*Server, *pipeline.Route) {
	t.Helper()
	s, problems := New(json.RawMessage(`{"operations":[{"file":"a","id":"b"}]}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if problems = s.Configure(Setup{Find: func(Operation) (Offer, bool) { return Offer{}, false }}); len(problems) > 0 {
		t.Fatal(problems)
	}
	return s, &pipeline.Route{Handler: s, Inbound: []pipeline.Inbound{policy}}
}

// newBatch returns a request whose body is a batch of messages.
func newBatch(t *testing.T, route *pipeline.Route, messages ...string) *pipeline.Exchange {
	t.Helper()
	x := &pipeline.Exchange{
		Context: t.Context(), Method: http.MethodPost, Path: "/a%20b/mcp", RawPath: "/a%20b/./mcp", Scheme: "https",
		Host:   "shop.test",
		Header: http.Header{"X-Mine": {"yes"}}, Route: route,
	}
	x.SetQuery("tenant=7")
	setBody(x, "application/json", "["+strings.Join(messages, ",")+"]")
	return x
}

// TestBatchCallsHaveTheSameAddress checks that a policy of the server's route receives the origin, path, query and
// header of the whole request for each call of a batch.
func TestBatchCallsHaveTheSameAddress(t *testing.T) {
	t.Parallel()
	policy := &recordingPolicy{}
	_, route := newBatchServer(t, policy)
	x := newBatch(t, route, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":3,"method":"ping"}`)
	response := route.Run(x)
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK || len(policy.exchanges) != 3 {
		t.Fatalf("batch of 3: status = %d, requests = %d, want 200 and 3", response.StatusCode, len(policy.exchanges))
	}
	for i, got := range policy.exchanges {
		if got.Method != http.MethodPost || got.Path != x.Path || got.RawPath != x.RawPath || got.Query != "tenant=7" {
			t.Errorf("call %d = %s %s (%s) ?%s, want POST %s (%s) ?tenant=7",
				i+1, got.Method, got.Path, got.RawPath, got.Query, x.Path, x.RawPath)
		}
		if got.QueryValues().Get("tenant") != "7" || got.Host != x.Host || got.Scheme != x.Scheme {
			t.Errorf("call %d: query values = %v, %s://%s, want tenant 7 at %s://%s",
				i+1, got.QueryValues(), got.Scheme, got.Host, x.Scheme, x.Host)
		}
		if got.Header.Get("X-Mine") != "yes" || got.Route != route {
			t.Errorf("call %d: header = %v, same route = %t, want X-Mine: yes and true", i+1, got.Header, got.Route == route)
		}
	}
}
