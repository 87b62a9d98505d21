package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/graphql"
	"github.com/gatewright/gatewright/shared/testing/deadline"
)

// TestMCPCallGoesThroughItsRoute checks the request that a call sends upstream. The request is for the user of the
// caller's key. It has header fields of the caller, but neither the key nor the fields that belong to the MCP message.
func TestMCPCallGoesThroughItsRoute(t *testing.T) {
	fx := newMCPFixture(t)
	fx.keys.known["partners another-key"] = policy.KeyOwner{Sub: "acme"}
	if response := fx.post(t, "/keyed/mcp", listTools); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST /keyed/mcp without a key: status = %d, want 401", response.StatusCode)
	}
	result, reply := fx.tool(t, "/keyed/mcp", "whoAmI", `{}`, header("Authorization", "Bearer another-key"),
		header("X-Mine", "yes"), header("X-Echo", "another-key"),
		header("Accept-Encoding", "br"), header("If-None-Match", `"x"`), header("Range", "bytes=0-1"),
		header("Mcp-Protocol-Version", "2025-06-18"),
		header("Content-Type", "application/json"), header("X-Forwarded-For", "8.8.8.8"))
	if reply.Error != nil || result.IsError {
		t.Fatalf("whoAmI: error = %+v, result = %+v, want no error", reply.Error, result)
	}
	got := fx.last(t)
	if got.Target != "/users/acme" {
		t.Errorf("target at the upstream = %s, want /users/acme, with the user of the server's route", got.Target)
	}
	for name, want := range map[string]string{
		"X-Mine": "yes", "Authorization": "", "X-Echo": "", "Accept-Encoding": "", "If-None-Match": "", "Range": "",
		"Mcp-Protocol-Version": "",
		"Content-Type":         "", "Content-Length": "", "Accept": "application/json, text/*;q=0.9, */*;q=0.5",
		"X-Forwarded-For": "127.0.0.1",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("whoAmI: %s at the upstream = %q, want %q", name, value, want)
		}
	}
	if got.Header.Get("X-Request-Id") == "" || got.Header.Get("Via") == "" {
		t.Errorf("whoAmI: header at the upstream = %v, want X-Request-Id and Via", got.Header)
	}
}

// TestIdentifyingRouteIgnoresTheServersUser checks that the user of the server's route is not
// used for a called route that identifies the user itself, even if that route finds no user.
func TestIdentifyingRouteIgnoresTheServersUser(t *testing.T) {
	fx := newMCPFixture(t)
	result, reply := fx.tool(t, "/keyed/mcp", "whoElse", `{}`, header("Authorization", "Bearer good"))
	if reply.Error != nil || !result.IsError || fx.count() != 0 {
		t.Errorf("whoElse: error = %+v, result = %+v, %d requests, want an error in the result and no request",
			reply.Error, result, fx.count())
	}
}

// TestCalledRoutePoliciesRunOncePerCall checks that the rate limit of the
// called route counts each call once, for the user of the server's route.
func TestCalledRoutePoliciesRunOncePerCall(t *testing.T) {
	fx := newMCPFixture(t)
	key := header("Authorization", "Bearer good")
	first, _ := fx.tool(t, "/keyed/mcp", "limited", `{}`, key)
	second, _ := fx.tool(t, "/keyed/mcp", "limited", `{}`, key)
	if first.IsError || !second.IsError || !strings.Contains(second.Content[0].Text, "Rate limit exceeded") {
		t.Errorf("limited, two calls: %+v and %+v, want success, then \"Rate limit exceeded\"", first, second)
	}
	if len(fx.allowances.taken) != 2 || !strings.Contains(fx.allowances.taken[0].Name, "acme") {
		t.Errorf("calls of Take = %+v, want 2, the first for acme", fx.allowances.taken)
	}
}

// mcpArgumentCases has calls with the request that the upstream must receive, or with the refusal.
var mcpArgumentCases = []struct {
	name, tool, arguments string
	method, target, body  string // of the request at the upstream, "" for a refusal
	wantMessage           string // a part of the error's message
}{
	{name: "a path parameter", tool: "readTodo", arguments: `{"id":"7"}`, method: "GET", target: "/todos/7"},
	{
		name: "a path parameter to escape", tool: "readTodo", arguments: `{"id":"a b?c#d%2e&=é"}`, method: "GET",
		target: "/todos/a%20b%3Fc%23d%252e%26%3D%C3%A9",
	},
	{
		name: "a list in the query", tool: "readTodo", arguments: `{"id":"7","expand":["a&b","c"]}`, method: "GET",
		target: "/todos/7?%24expand=a%26b&%24expand=c",
	},
	{
		name: "properties of a body", tool: "write_todo", arguments: `{"id":"7","title":"x","done":true,"tags":["home"]}`,
		method: "PUT", target: "/todos/7", body: `{"done":true,"tags":["home"],"title":"x"}`,
	},
	{
		name: "a number that float64 would round", tool: "putList", arguments: `{"body":[1,9007199254740993]}`,
		method: "POST", target: "/list", body: `[1,9007199254740993]`,
	},
	{name: "a missing optional body", tool: "putList", arguments: `{}`, method: "POST", target: "/list"},
	{name: "null as arguments", tool: "limited", arguments: `null`, method: "GET", target: "/limited"},
	{
		name: "two segments", tool: "readItem", arguments: `{"id":"a","item":"b"}`, method: "GET", target: "/todos/a/items/b",
	},

	{name: "a missing argument", tool: "readTodo", arguments: `{}`, wantMessage: "id"},
	{name: "an argument of another type", tool: "readTodo", arguments: `{"id":7}`, wantMessage: "/id"},
	{name: "an unknown argument", tool: "readTodo", arguments: `{"id":"7","all":true}`, wantMessage: "all"},
	{name: "an argument in other capitals", tool: "readTodo", arguments: `{"id":"7","ID":"8"}`, wantMessage: "ID"},
	{
		name: "an argument that violates its schema", tool: "write_todo", arguments: `{"id":"7","title":""}`,
		wantMessage: "/title",
	},
	{
		name: "a value outside an enumeration", tool: "write_todo", arguments: `{"id":"7","title":"x","tags":["moon"]}`,
		wantMessage: "/tags/0",
	},
	{name: "a list of arguments", tool: "readTodo", arguments: `[]`, wantMessage: ""},
	{
		name: "many invalid items", tool: "putList", arguments: `{"body":[` + strings.Repeat(`"x",`, 40_000) + `1]}`,
		wantMessage: "/body/4 must be an integer, not a string.",
	},
	{
		name: "one invalid item among many", tool: "putList", arguments: `{"body":[` + strings.Repeat(`1,`, 40_000) + `"x"]}`,
		wantMessage: "/body/40000 must be an integer, not a string.",
	},
	{
		name: "many valid items", tool: "putList", arguments: `{"body":[` + strings.Repeat(`1,`, 40_000) + `1]}`,
		method: "POST", target: "/list", body: `[` + strings.Repeat(`1,`, 40_000) + `1]`,
	},
	{name: "an empty segment", tool: "readTodo", arguments: `{"id":""}`, wantMessage: "segment"},
	{name: "a dot", tool: "readTodo", arguments: `{"id":"."}`, wantMessage: "path"},
	{name: "two dots", tool: "readTodo", arguments: `{"id":".."}`, wantMessage: "path"},
	{name: "dots between slashes", tool: "readTodo", arguments: `{"id":"x/../../mcp"}`, wantMessage: "path"},
	{name: "dots before a backslash", tool: "readTodo", arguments: `{"id":"..\\mcp"}`, wantMessage: "path"},
	{
		name: "a slash that leads to another route", tool: "readTodo", arguments: `{"id":"7/items/8"}`,
		wantMessage: "another route",
	},
	{name: "the name of another route", tool: "readTodo", arguments: `{"id":"all"}`, wantMessage: "another route"},
	{
		name: "the escaped name of another route", tool: "readTodo", arguments: `{"id":"%61ll"}`, method: "GET",
		target: "/todos/%2561ll",
	},
	{name: "a control character", tool: "readTodo", arguments: `{"id":"a\u0000b"}`, wantMessage: "path"},
	{
		name: "a line break in a header", tool: "readTodo", arguments: `{"id":"7","X-Locale":"a\r\nX-Admin: yes"}`,
		wantMessage: "header",
	},
	{
		name: "a header of the largest size", tool: "readTodo",
		arguments: `{"id":"7","X-Locale":"` + strings.Repeat("x", 8<<10) + `"}`, method: "GET", target: "/todos/7",
	},
	{
		name: "a header over the largest size", tool: "readTodo",
		arguments: `{"id":"7","X-Locale":"` + strings.Repeat("x", 8<<10+1) + `"}`, wantMessage: "header",
	},
	{
		name: "a long path", tool: "readTodo", arguments: `{"id":"` + strings.Repeat("x", 20_000) + `"}`,
		wantMessage: "shorter",
	},
	{name: "a disabled tool", tool: "dropTodo", arguments: `{"id":"7"}`, wantMessage: "unknown tool"},
	{name: "a route of another server", tool: "whoAmI", arguments: `{}`, wantMessage: "unknown tool"},
}

// TestMCPArguments checks the request at the upstream for each of mcpArgumentCases. If the arguments are refused, no
// request must be sent. An argument for a header must replace the client's field.
func TestMCPArguments(t *testing.T) {
	fx := newMCPFixture(t)
	for _, tt := range mcpArgumentCases {
		t.Run(tt.name, func(t *testing.T) {
			before := fx.count()
			result, reply := fx.tool(t, "/mcp", tt.tool, tt.arguments)
			if tt.method == "" {
				if reply.Error == nil || reply.Error.Code != -32602 || !strings.Contains(reply.Error.Message, tt.wantMessage) {
					t.Errorf("%s: result = %+v, error = %+v, want error -32602 with %q", tt.tool, result, reply.Error, tt.wantMessage)
				}
				if fx.count() != before {
					t.Errorf("%s: the upstream got %+v, want no request", tt.tool, fx.last(t))
				}
				return
			}
			if reply.Error != nil || result.IsError {
				t.Fatalf("%s: error = %+v, result = %+v, want no error", tt.tool, reply.Error, result)
			}
			if got := fx.last(t); got.Method != tt.method || got.Target != tt.target || got.Body != tt.body {
				t.Errorf("%s: the upstream got %s %s %s, want %s %s %s",
					tt.tool, got.Method, got.Target, got.Body, tt.method, tt.target, tt.body)
			}
		})
	}
	_, reply := fx.tool(t, "/mcp", "readTodo", `{"id":"7","X-Locale":"de"}`, header("X-Locale", "en"))
	if reply.Error != nil || fx.last(t).Header.Get("X-Locale") != "de" {
		t.Errorf("readTodo(X-Locale: de): error = %+v, header = %v, want no error and X-Locale de",
			reply.Error, fx.last(t).Header)
	}
}

// TestHeaderArgumentReplacesClientHeader checks that an argument replaces all spellings of its header. An upstream
// that reads X_Locale as X-Locale would otherwise use the caller's header, which was not checked with the schema.
func TestHeaderArgumentReplacesClientHeader(t *testing.T) {
	fx := newMCPFixture(t, func(c *gateway.Config, _ *upstream.Options) {
		c.HeaderFilter = upstream.Filter{Underscores: true}
	})
	withUnderscore := func(r *http.Request) { r.Header["X_Locale"] = []string{"en"} }
	if _, reply := fx.tool(t, "/mcp", "readTodo", `{"id":"7"}`, withUnderscore); reply.Error != nil ||
		fx.last(t).Header["X_locale"] == nil {
		t.Fatalf("readTodo with the client's X_Locale: error = %+v, header = %v, want no error and X_locale",
			reply.Error, fx.last(t).Header)
	}
	if _, reply := fx.tool(t, "/mcp", "readTodo", `{"id":"7","X-Locale":"de"}`, withUnderscore,
		header("X-Locale", "fr")); reply.Error != nil {
		t.Fatalf("readTodo with X-Locale as an argument and as the client's field: error = %+v, want none", reply.Error)
	}
	var got []string
	for name, values := range fx.last(t).Header {
		if upstream.SameField(name, "X-Locale") {
			got = append(got, values...)
		}
	}
	if len(got) != 1 || got[0] != "de" {
		t.Errorf("readTodo: X-Locale at the upstream = %q, want only de", got)
	}
}

// TestMCPGraphQL checks the requests that the two tools of a GraphQL route send, and the arguments that they refuse.
func TestMCPGraphQL(t *testing.T) {
	fx := newMCPFixture(t)
	for _, tt := range []struct{ tool, arguments, body, wantMessage string }{
		{tool: "shop_execute", arguments: `{"query":"{a}"}`, body: `{"query":"{a}"}`},
		{
			tool: "shop_execute", arguments: `{"query":"{a}","variables":{"b":1e2}}`,
			body: `{"query":"{a}","variables":{"b":1e2}}`,
		},
		{tool: "shop_introspect", arguments: `{}`, body: `{"query":"query IntrospectionQuery {`},
		{tool: "shop_execute", arguments: `{}`, wantMessage: "query"},
		{tool: "shop_execute", arguments: `{"query":"{a}","variables":"b"}`, wantMessage: "variables"},
		{tool: "shop_execute", arguments: `{"query":"{a}","operationName":"b"}`, wantMessage: "no other"},
		{tool: "shop_introspect", arguments: `{"query":"{a}"}`, wantMessage: "no arguments"},
	} {
		before := fx.count()
		result, reply := fx.tool(t, "/mcp", tt.tool, tt.arguments)
		if tt.wantMessage != "" {
			if reply.Error == nil || reply.Error.Code != -32602 || !strings.Contains(reply.Error.Message, tt.wantMessage) ||
				fx.count() != before {
				t.Errorf("%s %s: error = %+v, %d requests, want error -32602 with %q and no request",
					tt.tool, tt.arguments, reply.Error, fx.count()-before, tt.wantMessage)
			}
			continue
		}
		if reply.Error != nil || result.IsError {
			t.Errorf("%s %s: error = %+v, result = %+v, want no error", tt.tool, tt.arguments, reply.Error, result)
		}
		got := fx.last(t)
		if got.Target != "/graphql" || !strings.HasPrefix(got.Body, tt.body) ||
			got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: the upstream got %+v, want /graphql with JSON that starts with %s",
				tt.tool, tt.arguments, got, tt.body)
		}
	}
}

// TestIntrospectionToolCostMatchesDocs checks that the documentation has the complexity of the query of the
// introspection tool.
func TestIntrospectionToolCostMatchesDocs(t *testing.T) {
	fx := newMCPFixture(t)
	fx.tool(t, "/mcp", "shop_introspect", `{}`)
	var request struct{ Query string }
	if err := json.Unmarshal([]byte(fx.last(t).Body), &request); err != nil {
		t.Fatalf("shop_introspect: body at the upstream = %s: %v, want a GraphQL request", fx.last(t).Body, err)
	}
	document, refused := graphql.Analyze(request.Query, nil)
	if refused != nil {
		t.Fatalf("Analyze(query of shop_introspect) refusal = %v, want none", refused)
	}
	page, err := os.ReadFile("../../../docs/graphql.md")
	if err != nil {
		t.Fatal(err)
	}
	if sentence := fmt.Sprintf("[the MCP tool](mcp.md#graphql) one of %d.",
		document.Operations[0].Complexity); !strings.Contains(string(page), sentence) {
		t.Errorf("docs/graphql.md does not contain %q, want the tool's complexity", sentence)
	}
}

// TestMCPCallLogLineMatchesDocs checks that only a server in debug mode logs its calls, with the documented fields.
func TestMCPCallLogLineMatchesDocs(t *testing.T) {
	lines := &syncBuffer{}
	fx := newMCPFixture(t, func(c *gateway.Config, _ *upstream.Options) {
		c.Log = slog.New(slog.NewJSONHandler(lines, nil))
	})
	if fx.tool(t, "/keyed/mcp", "whoAmI", `{}`, header("Authorization", "Bearer good")); strings.Contains(lines.String(),
		"mcp call") {
		t.Errorf("log of a server without debugMode = %s, want no mcp call", lines)
	}
	fx.tool(t, "/mcp", "readTodo", `{"id":"hidden"}`)
	line := telemetrytest.Line(t, []byte(lines.String()), "mcp call")
	if line["operation"] != "readTodo" || line["status"] != 200.0 || strings.Contains(lines.String(), "hidden") {
		t.Errorf("log line of readTodo = %s, want operation readTodo, status 200 and no argument", lines)
	}
	checkDocumented(t, line, "## The line of an MCP call")
}

// panickingAllowances implements policy.Allowances and panics.
type panickingAllowances struct{}

func (panickingAllowances) Take(context.Context, policy.Allowance) (policy.Decision, error) {
	panic("the policy has a bug")
}

// TestPanicFailsOnlyItsCall checks that a panic in a call fails only that call. The
// SDK runs calls in its own goroutines, where a panic would end the process.
func TestPanicFailsOnlyItsCall(t *testing.T) {
	fx := newMCPFixture(t, func(c *gateway.Config, _ *upstream.Options) { c.Allowances = panickingAllowances{} })
	result, reply := fx.tool(t, "/mcp", "limited", `{}`)
	if reply.Error != nil || !result.IsError || !strings.Contains(result.Content[0].Text, "request id") ||
		strings.Contains(result.Content[0].Text, "bug") {
		t.Errorf("limited with a panic: reply = %+v, result = %+v, want an error with the request ID and without the cause",
			reply, result)
	}
	if log := fx.log.String(); !strings.Contains(log, "request panicked") ||
		!strings.Contains(log, "the policy has a bug") || !strings.Contains(log, "requestId") {
		t.Errorf("log after a panic in limited = %s, want the panic with its cause and the request ID", log)
	}
	// A batch uses goroutines of the SDK, which do not recover panics.
	text := body(t,
		fx.post(t, "/mcp",
			`[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"limited"}},{"jsonrpc":"2.0","id":2,`+
				`"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"}}}]`))
	if strings.Count(text, `"isError":true`) != 1 || !strings.Contains(text, `from GET`) {
		t.Errorf("batch with a panic: body = %s, want one error and one result", text)
	}
	if result, _ := fx.tool(t, "/mcp", "readTodo", `{"id":"1"}`); result.IsError {
		t.Errorf("readTodo after the panic: result = %+v, want no error", result)
	}
}

// TestCallEndsWhenClientDisconnects checks that the upstream's request ends
// when the client disconnects, for a response in one piece and for events.
func TestCallEndsWhenClientDisconnects(t *testing.T) {
	counted := &callRecorder{}
	fx := newMCPFixture(t, func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	received, disconnected, done := make(chan struct{}), make(chan struct{}, 2), make(chan struct{})
	t.Cleanup(func() { close(done) }) // so that the upstream does not wait forever
	fx.handler = func(_ http.ResponseWriter, r *http.Request) {
		received <- struct{}{}
		select {
		case <-r.Context().Done():
			disconnected <- struct{}{}
		case <-done:
		}
	}
	for _, name := range []string{"in one piece", "by events"} {
		meta := map[string]string{"by events": `,"_meta":{"progressToken":1}`}[name]
		ctx, cancel := context.WithCancel(t.Context())
		text := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"}` +
			meta + `}}`
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, fx.URL+"/mcp", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "shop.test"
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			if response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request); err == nil {
				<-ctx.Done()
				_ = response.Body.Close()
			}
		}()
		<-received
		cancel()
		select {
		case <-disconnected:
		case <-time.After(deadline.Timeout()):
			t.Fatalf("%s: the upstream request was not canceled within %s, want it canceled", name, deadline.Timeout())
		}
		<-finished
	}
	fx.Close()
	// The event stream has status 200, because it had begun. The response in one piece had not.
	if got, want := counted.lines(),
		"GET /todos/{id} 499\nGET /todos/{id} 499\nPOST /mcp 200\nPOST /mcp 499"; got != want {
		t.Errorf("counted calls =\n%s\nwant\n%s", got, want)
	}
}

// TestMCPToolInputSchemas checks the listed input schemas and hints. The schemas contain no references, and no property
// for a cookie. Hints of the project take precedence over the hints that follow from the method.
func TestMCPToolInputSchemas(t *testing.T) {
	fx := newMCPFixture(t)
	got := string(fx.call(t, "/mcp", "tools/list", `{}`).Result)
	for _, want := range []string{
		`{"annotations":{"destructiveHint":false,"idempotentHint":true,"openWorldHint":true,"readOnlyHint":true},` +
			`"description":"Reads a todo.","inputSchema":{"additionalProperties":false,` +
			`"properties":{"X-Locale":{"type":"string"},"expand":{"items":{"type":"string"},"type":"array"},` +
			`"id":{"type":"string"}},"required":["id"],"type":"object"},"name":"readTodo","outputSchema":{`,
		`{"_meta":{"team":"todos"},"annotations":{"destructiveHint":true,"idempotentHint":false,"openWorldHint":true,` +
			`"readOnlyHint":false,"title":"Write"},"description":"Writes a todo.",` +
			`"inputSchema":{"additionalProperties":false,"properties":{"done":{"type":"boolean"},"id":{"type":"string"},` +
			`"parent":`,
		`"description":"Executes tool: readItem"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("input schemas = %s\nwant them to contain %s", got, want)
		}
	}
	if strings.Contains(got, `"$ref"`) || strings.Contains(got, "session") {
		t.Errorf("input schemas = %s, want no $ref and no session", got)
	}
}

// TestIdentifyingServersAreNotCachedPublicly checks that the discovery of a server whose route identifies
// users is private for caches. It also checks that servers offer nothing that needs a session.
func TestIdentifyingServersAreNotCachedPublicly(t *testing.T) {
	fx := newMCPFixture(t)
	modifiers := []func(*http.Request){
		header("Mcp-Protocol-Version", version28), header("Mcp-Method", "server/discover"),
		header("Authorization", "Bearer good"),
	}
	for path, want := range map[string]string{"/mcp": `"cacheScope":"public"`, "/keyed/mcp": `"cacheScope":"private"`} {
		got := string(fx.call(t, path, "server/discover", `{`+meta28+`}`, modifiers...).Result)
		if !strings.Contains(got, want) || strings.Contains(got, "listChanged") || strings.Contains(got, "subscribe") ||
			strings.Contains(got, "logging") {
			t.Errorf("%s: server/discover = %s, want %s and no listChanged, subscribe or logging", path, got, want)
		}
	}
}
