package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gatewright/gatewright/internal/bench/fixture"
	"github.com/gatewright/gatewright/internal/bench/load"
)

// The limits of the additional CPU of a request, compared with another request, in µs.
const (
	maxCached   = 60  // a GraphQL query that was sent before, with all policies
	maxUncached = 150 // a new GraphQL query
	maxTool     = 200 // a tool call to an MCP server of the gateway
	// maxCall is the limit for a tool call to /mcp. The SDK uses most of this time, because it creates a session for
	// each message to a server whose tools can ask a person.
	maxCall = 600
)

// maxRefused is the limit of the CPU time of a refused GraphQL request.
const maxRefused = 5 * time.Millisecond

func surfaces() []scenario {
	return []scenario{
		{
			title: "GraphQL routes and MCP servers",
			text: "CPU of the product, as its users start it, for a request with a key. In alternating rounds, a GraphQL " +
				"route with all four policies is compared with the same route without them, and a tool\n" +
				"call with the plain request. The median of the differences counts. The other figures are for requests that are " +
				"made to be expensive, and that the product refuses.\n" +
				"Each of them is a new one, of up to 1 MB.",
			options: "rounds=9 requests=4000 refused-rounds=5 refused-requests=60",
			run:     gatewaySurfaces,
		},
		{
			title: "The platform's own MCP servers",
			text: "The product as its users start it, with the weights of the search. The first figures are for the MCP " +
				"server of the documentation: each question is new unless the row says otherwise,\n" +
				"and each client has its own address. The others are the CPU of the product for a call to `/mcp`, compared with " +
				"the same request to the REST API, in alternating rounds.",
			options: "rounds=9 requests=1000 searches=320 visitors=20000",
			run: func(ctx context.Context, m *measurement) error {
				product, err := m.Run(ctx, "product",
					"GATEWRIGHT_DOCS_WEIGHTS=shared/management/docsearch/minilm/minilm-l6-v2.weights")
				if err != nil {
					return err
				}
				if err := searches(ctx, m, product); err != nil {
					return err
				}
				// An account can send 1,000 requests a second, and a tool call counts as two.
				manage := func(method, path, body string) load.Load {
					l := product.Management(method, path, body)
					l.Interval = 40 * time.Millisecond
					return l
				}
				post := func(method, params string) load.Load { return manage(http.MethodPost, "/mcp", message(method, params)) }
				return differences(ctx, m, product, []kind{
					{name: "the list of projects from the REST API", load: manage(http.MethodGet, "/v1/projects?accountName=demo",
						"")},
					{
						name:          "the same as a tool of `/mcp`",
						load:          post("tools/call", `{"name":"ProjectsService_list","arguments":{"accountName":"demo"}}`),
						maxDifference: maxCall,
					},
					{
						name: "a new project, by a tool with `dryRun`",
						load: post("tools/call",
							`{"name":"ProjectsService_create","arguments":{"accountName":"demo","name":"tried","dryRun":true}}`),
					},
					{name: "the list of all tools", load: post("tools/list", `{}`)},
				})
			},
		},
	}
}

// message returns a JSON-RPC message.
func message(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// kind is a kind of request that is compared with another kind.
type kind struct {
	name          string
	load          load.Load
	baseline      int     // the index of the kind that it is compared with, or its own index for none
	maxDifference float64 // the limit of the difference in µs of CPU, or 0 for none
}

// differences measures kinds of requests in turns. For each kind it adds a row with its cost, and how much more it
// costs than its baseline.
func differences(ctx context.Context, m *measurement, process load.Process, kinds []kind) error {
	var subjects []load.Subject
	for _, k := range kinds {
		k.load.Length, k.load.Connections, k.load.Requests = load.AnyLength, 16, m.Number("requests")
		subjects = append(subjects, load.Subject{Name: k.name, Process: process, Load: k.load})
	}
	got, err := load.Compare(ctx, m.Number("rounds"), subjects...)
	if err != nil {
		return err
	}
	for i, k := range kinds {
		limit, figure, difference := "", fmt.Sprintf("%.0f µs CPU", got[i].Median(load.CPU)),
			got[i].Difference(got[k.baseline], load.CPU)
		if k.baseline != i {
			figure += fmt.Sprintf(", %.0f µs more", difference)
		}
		if k.maxDifference > 0 {
			limit = fmt.Sprintf("%.0f µs more", k.maxDifference)
		}
		m.Row(k.name, limit, figure, difference <= k.maxDifference)
	}
	return nil
}

// gatewaySurfaces measures requests that succeed, and expensive requests that are refused.
func gatewaySurfaces(ctx context.Context, m *measurement) error {
	upstream := m.Serve()
	product, err := m.Run(ctx, "product")
	if err != nil {
		return err
	}
	site, err := product.Site(ctx, surfaceProject(upstream.URL))
	if err != nil {
		return err
	}
	post := func(path, body string) load.Load { return site.Load(http.MethodPost, path, body) }
	uncached := post("/graphql", query(1))
	uncached.Change = load.Numbers(uncached.Request)
	if err := differences(ctx, m, product, []kind{
		{name: "a GraphQL route without policies of its own", load: post("/plain", query(1))},
		{
			name: "with all four, a query of 1 KB that was sent before", load: post("/graphql", query(1)),
			maxDifference: maxCached,
		},
		{name: "with all four, a new query of 1 KB each time", load: uncached, maxDifference: maxUncached},
		{name: "a route", load: site.Load(http.MethodGet, "/todos/7", ""), baseline: 3},
		{
			name: "the same route as a tool of an MCP server",
			load: post("/mcp", message("tools/call", `{"name":"readTodo","arguments":{"id":"7"}}`)), baseline: 3,
			maxDifference: maxTool,
		},
	}); err != nil {
		return err
	}
	for _, r := range expensiveBodies() {
		l := post(cmp.Or(r.path, "/graphql"), r.body)
		l.Status, l.Length, l.Requests, l.Change = http.StatusBadRequest, load.AnyLength, m.Number("refused-requests"),
			load.Numbers(l.Request)
		got, err := load.Compare(ctx, m.Number("refused-rounds"), load.Subject{Name: r.name, Process: product, Load: l})
		if err != nil {
			return err
		}
		cost := got[0].Median(load.CPU) / 1e3
		m.Row("refused, "+r.name, fmt.Sprintf("%v CPU", maxRefused), fmt.Sprintf("%.1f ms", cost),
			cost <= maxRefused.Seconds()*1e3)
	}
	return nil
}

// surfaceProject returns a project whose routes all check a key. The GraphQL route has all four policies.
func surfaceProject(upstream string) fixture.Project {
	key := []string{"key"}
	rewrite := fixture.Options{"rewritePattern": upstream + "/graphql"}
	todo := fixture.Parameters("id")
	todo["operationId"] = "readTodo"
	return fixture.Project{
		Routes: []fixture.Route{
			{Method: "post", Path: "/plain", Handler: "urlRewriteHandler", Options: rewrite, Inbound: key},
			{
				Method: "post", Path: "/graphql", Handler: "urlRewriteHandler", Options: rewrite,
				Inbound:  []string{"key", "limits", "closed"},
				Outbound: []string{"hidden", "operations"}, Operation: fixture.Options{"x-graphql": true},
			},
			{
				Method: "post", Path: "/filtered", Handler: "urlRewriteHandler", Options: rewrite, Inbound: key,
				Outbound: []string{"hidden"},
			},
			{
				Method: "get", Path: "/todos/{id}", Handler: "urlForwardHandler", Options: fixture.Options{"baseUrl": upstream},
				Inbound: key, Operation: todo,
			},
			{Method: "post", Path: "/mcp", Handler: "mcpServerHandler", Inbound: key, Options: fixture.Options{
				"name": "bench", "version": "1",
				"operations": []fixture.Options{{"file": "./config/routes.oas.json", "id": "readTodo"}},
			}},
		},
		Policies: []fixture.Policy{
			fixture.Key(),
			{
				Name: "limits", Type: "graphql-complexity-limit-inbound", Module: fixture.GraphQL,
				Options: fixture.Options{"maxDepth": 10, "maxComplexity": 500},
			},
			{Name: "closed", Type: "graphql-disable-introspection-inbound", Module: fixture.GraphQL},
			{
				Name: "hidden", Type: "graphql-introspection-filter-outbound", Module: fixture.GraphQL,
				Options: fixture.Options{"excludeTypes": []string{"Internal"}},
			},
			{Name: "operations", Type: "graphql-analytics-outbound", Module: fixture.GraphQL},
		},
	}
}

// query returns a GraphQL request with a document of the given size, like those of generated clients. The document
// contains load.Placeholder.
func query(kilobytes int) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		`{"operationName":"Page","variables":{"id":"7","first":10},"query":"query Page($id: ID!, $first: Int = 10) {\n  `+
			`node(id: $id, at: \"%s\") { __typename id ...User }\n}\nfragment User on User {\n  name`, load.Placeholder)
	for i := 0; b.Len() < kilobytes<<10; i++ {
		fmt.Fprintf(&b, `\n  field%d(first: $first) { edges { node { id } } }`, i)
	}
	return b.String() + `\n}"}`
}

// refusedRequest is a request that the product refuses. It is sent to the route with all policies, unless path names
// another route.
type refusedRequest struct{ name, body, path string }

// expensiveBodies returns bodies of up to 1 MB that are refused for different reasons, each as late as possible.
func expensiveBodies() []refusedRequest {
	const (
		megabyte = 1<<20 - 1<<10
		tokens   = 15_000 // the maximum for a document
	)
	queryBody := func(document string) string {
		text, err := json.Marshal(map[string]string{"query": document})
		if err != nil {
			panic(err) // a string always encodes
		}
		return string(text)
	}
	// withVariable returns a body with a variable and a document.
	withVariable := func(variable, document string) string {
		return `{"variables":{"a":"` + variable + `"},` + queryBody(document)[1:]
	}
	n := load.Placeholder
	deep := `{a(b:"` + n + `")` + strings.Repeat("{a", 20) + strings.Repeat("}", 21)
	fields := func(count int) string { return `{a(b:"` + n + `") ` + strings.Repeat("a ", count) + "}" }
	widest := fields(tokens - 8)
	fragments := `{...F0 a(b:"` + n + `")}`
	for i := range 900 {
		fragments += fmt.Sprintf("fragment F%d on T{...F%d ...F%d}", i, i+1, i+1)
	}
	var names strings.Builder
	for i := range 9_990 {
		fmt.Fprintf(&names, `"n%d":1,`, i)
	}
	batch := func(document string) string {
		return "[" + strings.Repeat(queryBody(document)+",", 9) + queryBody(document) + "]"
	}
	all := [][2]string{
		{"15,000 tokens", queryBody(widest)},
		{"more tokens than that", queryBody(fields(50_000))},
		{"fragments that spread the next one twice, 900 times", queryBody(fragments + "fragment F900 on T{a}")},
		{"128 KB of comments", queryBody(strings.Repeat("#\n", 60_000) + deep)},
		{"128 KB of é in a comment", queryBody("#" + strings.Repeat("é", 60_000) + "\n" + deep)},
		{"128 KB of \\u0061", `{"query":"#` + n + strings.Repeat(`\u0061`, 120_000) + `\n{a"}`},
		{"a document of 1 MB", queryBody("#" + n + strings.Repeat("x", megabyte))},
		{"a document of 1 MB of line ends", queryBody("#" + n + strings.Repeat("\n", megabyte/2))},
		{"a document of 1 MB of é", queryBody("#" + n + strings.Repeat("é", megabyte/2))},
		{"a text of 900 KB in variables, 20 levels of fields", withVariable(strings.Repeat("x", 900<<10), deep)},
		{"the same with a text of é", withVariable(strings.Repeat("é", 450<<10), deep)},
		{"the same with a text of line ends", withVariable(strings.Repeat(`\n`, 450<<10), deep)},
		{"the same with a text of \\u0061", withVariable(strings.Repeat(`\u0061`, 150<<10), deep)},
		{"a text of 900 KB of é in variables, 15,000 tokens", withVariable(strings.Repeat("é", 450<<10), widest)},
		{"10,000 names in variables", `{"variables":{` + names.String() + `"z":1},` + queryBody(deep)[1:]},
		{
			"49,000 values in variables",
			`{"variables":{"a":[` + strings.Repeat(`"é",`, 49_000) + `1]},` + queryBody(deep)[1:],
		},
		{"ten documents of as many tokens as one may have", batch(widest)},
	}
	out := make([]refusedRequest, 0, len(all)+2)
	for _, b := range all {
		out = append(out, refusedRequest{b[0], b[1], ""})
	}
	const invalidQuery = "__schema{bogus}"
	return append(out,
		refusedRequest{
			"an introspection among 3,900 fields, to a route that filters alone",
			queryBody(`{a(b:"` + n + `") ` + strings.Repeat("a ", 3_900) + invalidQuery + "}"), "/filtered",
		},
		refusedRequest{
			"one among 700 fields with arguments, beside a comment of 100 KB",
			queryBody("#" + strings.Repeat("x", 100<<10) + "\n" + `{a(b:"` + n + `") ` + strings.Repeat("a(b:1) ",
				700) + invalidQuery + "}"), "/filtered",
		},
		refusedRequest{
			"one among 14,900 fields, to the same",
			queryBody(`{a(b:"` + n + `") ` + strings.Repeat("a ", 14_900) + invalidQuery + "}"), "/filtered",
		},
	)
}
