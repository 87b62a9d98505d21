package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/bodies"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
)

// TestBufferedBodiesHaveABudget checks that routes that buffer bodies respond with 503 and Retry-After if the budget of
// the client or the account is used up. GraphQL policies and MCP servers must not send a request to the upstream. A
// route that streams bodies must serve the request.
func TestBufferedBodiesHaveABudget(t *testing.T) {
	const share = 4 << 20 // the quarter of the budget that one client or one account can hold
	client, otherClient := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	graphQL, graphQLUpstream := newGraphQLFixture(t, map[string]any{"graphql-complexity-limit-inbound": limits}, nil)
	analytics, _ := newGraphQLFixture(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{}},
		func(c *gateway.Config, _ *upstream.Options) { c.Operations = &fakeOperations{} })
	mcp := newMCPFixture(t)
	for name, c := range map[string]struct {
		fixture          *fixture
		sent             func() int // the number of requests to the upstream
		target, body     string
		refusedAsJSONRPC bool
		streams          bool
	}{
		"GraphQL policies": {fixture: graphQL, sent: graphQLUpstream.count, target: "/graphql", body: queryBody("{ a }")},
		"GraphQL analytics": { // the upstream can get the head of a request whose body is refused
			fixture: analytics, sent: func() int { return 0 }, target: "/graphql", body: queryBody("{ a }"),
		},
		"an MCP server": {
			fixture: mcp.fixture, sent: mcp.count, target: "/mcp",
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, refusedAsJSONRPC: true,
		},
		"a route that streams bodies": {fixture: mcp.fixture, sent: mcp.count, target: "/list", body: `[1]`, streams: true},
	} {
		// A request of the holder reserves its whole share before the tested request is sent.
		for holderName, holder := range map[string]struct {
			client  netip.Addr
			account string
		}{"the client": {client, ""}, "the account": {otherClient, "a1"}} {
			t.Run(name+", "+holderName, func(t *testing.T) {
				b := bodies.New(4 * share)
				holderRequest, release := b.Begin(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil),
					holder.client, func() {})
				bodies.ChargeAPI(holderRequest.Context(), holder.account)
				if holder.account == "" {
					// Charge any account: without one, the last quarter of the client's share is reserved for the management API.
					bodies.ChargeAPI(holderRequest.Context(), "another")
				}
				if err := bodies.Reserve(holderRequest.Context(), share); err != nil {
					t.Fatal(err)
				}
				send := func() *http.Response {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop.test"+c.target,
						strings.NewReader(c.body))
					r.Header.Set("Content-Type", "application/json")
					budgeted, release := b.Begin(r, client, func() {})
					defer release()
					w := httptest.NewRecorder()
					c.fixture.gateway.ServeHTTP(w, budgeted)
					return w.Result()
				}
				want, wantSent := http.StatusServiceUnavailable, c.sent()
				if c.streams {
					want, wantSent = http.StatusOK, wantSent+1
				}
				got := send()
				if got.StatusCode != want {
					t.Fatalf("POST %s with a used-up budget: status = %d, want %d: %s", c.target, got.StatusCode, want, body(t, got))
				}
				if retryAfter := got.Header.Get("Retry-After"); !c.streams && retryAfter != "1" {
					t.Errorf("POST %s with a used-up budget: Retry-After = %q, want 1", c.target, retryAfter)
				}
				if text := body(t, got); c.refusedAsJSONRPC && !strings.Contains(text, `"jsonrpc":"2.0"`) {
					t.Errorf("POST %s with a used-up budget = %s, want a JSON-RPC error", c.target, text)
				}
				if n := c.sent(); n != wantSent {
					t.Errorf("POST %s with a used-up budget: %d requests to the upstream, want %d", c.target, n, wantSent)
				}
				release()
				if second := send(); second.StatusCode != http.StatusOK {
					t.Errorf("POST %s after the budget is released: status = %d, want 200: %s", c.target, second.StatusCode,
						body(t, second))
				}
				if inUse := b.InUse(); inUse != 0 {
					t.Errorf("InUse() after all requests = %d, want 0", inUse)
				}
			})
		}
	}
}
