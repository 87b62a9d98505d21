package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/bodies"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
)

// TestBodiesThatAreHeldHaveABudget: if the client or the account has no room, each route that holds bodies whole answers 503
// with Retry-After, and the upstream gets no request. A route that streams bodies accepts them.
func TestBodiesThatAreHeldHaveABudget(t *testing.T) {
	const share = 4 << 20
	one, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	graphQL, server := graphQLHouse(t, map[string]any{"graphql-complexity-limit-inbound": limits}, nil)
	counting, _ := graphQLHouse(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{}},
		func(c *gateway.Config, _ *upstream.Options) { c.Operations = &fakeOperations{} })
	servers := newMCPWorld(t)
	for name, c := range map[string]struct {
		house          *house
		target, body   string
		refusedIsMCP   bool
		unlimitedRoute bool
	}{
		"GraphQL policies":   {house: graphQL, target: "/graphql", body: queryOf("{ a }")},
		"GraphQL analytics":  {house: counting, target: "/graphql", body: queryOf("{ a }")},
		"an MCP server":      {house: servers.house, target: "/mcp", body: `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, refusedIsMCP: true},
		"a route that sends": {house: servers.house, target: "/list", body: `[1]`, unlimitedRoute: true},
	} {
		for who, holder := range map[string]struct {
			client  netip.Addr
			account string
		}{"the client": {one, ""}, "the account": {other, "a1"}} {
			t.Run(name+", "+who, func(t *testing.T) {
				b := bodies.New(4 * share)
				full, over := b.Begin(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil), holder.client, func() {})
				bodies.ChargeAPI(full.Context(), holder.account)
				if holder.account == "" {
					bodies.ChargeAPI(full.Context(), "another") // which may fill the client's whole quarter
				}
				if err := bodies.Take(full.Context(), share); err != nil {
					t.Fatal(err)
				}
				ask := func() *http.Response {
					r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://shop.test"+c.target, strings.NewReader(c.body))
					r.Header.Set("Content-Type", "application/json")
					counted, over := b.Begin(r, one, func() {})
					defer over()
					w := httptest.NewRecorder()
					c.house.gateway.ServeHTTP(w, counted)
					return w.Result()
				}
				before := server.count()
				got := ask()
				want := http.StatusServiceUnavailable
				if c.unlimitedRoute {
					want = http.StatusOK
				}
				if got.StatusCode != want {
					t.Fatalf("POST %s with a full budget status = %d, want %d: %s", c.target, got.StatusCode, want, body(t, got))
				}
				if after := got.Header.Get("Retry-After"); !c.unlimitedRoute && after != "1" {
					t.Errorf("POST %s with a full budget Retry-After = %q, want 1", c.target, after)
				}
				if text := body(t, got); c.refusedIsMCP && !strings.Contains(text, `"jsonrpc":"2.0"`) {
					t.Errorf("POST %s with a full budget = %s, want an error of JSON-RPC", c.target, text)
				}
				if n := server.count() - before; n != 0 {
					t.Errorf("POST %s with a full budget sends %d requests to the upstream, want 0", c.target, n)
				}
				over()
				if again := ask(); again.StatusCode != http.StatusOK {
					t.Errorf("POST %s with room status = %d, want 200: %s", c.target, again.StatusCode, body(t, again))
				}
				if held := b.Held(); held != 0 {
					t.Errorf("Held() after all requests = %d, want 0", held)
				}
			})
		}
	}
}
