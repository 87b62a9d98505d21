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

	"github.com/gatewright/gatewright/internal/deadline"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/graphql"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

// TestMCPCallIsARequestThroughItsRoute: with the caller's headers, user and secrets, as far as they are its.
func TestMCPCallIsARequestThroughItsRoute(t *testing.T) {
	w := newMCPWorld(t)
	w.keys.known["partners"+" "+"another-key"] = policy.Identity{Sub: "acme"}
	if response := w.post(t, "/keyed/mcp", listTools); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a key: %d", response.StatusCode)
	}
	result, answer := w.tool(t, "/keyed/mcp", "whoAmI", `{}`, header("Authorization", "Bearer another-key"), header("X-Mine", "yes"), header("X-Echo", "another-key"),
		header("Accept-Encoding", "br"), header("If-None-Match", `"x"`), header("Range", "bytes=0-1"), header("Mcp-Protocol-Version", "2025-06-18"),
		header("Content-Type", "application/json"), header("X-Forwarded-For", "8.8.8.8"))
	if answer.Error != nil || result.IsError {
		t.Fatalf("%+v %+v", answer, result)
	}
	got := w.last(t)
	if got.Target != "/users/acme" {
		t.Errorf("the user that the server's route has found is not the called route's: %s", got.Target)
	}
	for name, want := range map[string]string{
		"X-Mine": "yes", "Authorization": "", "X-Echo": "", "Accept-Encoding": "", "If-None-Match": "", "Range": "", "Mcp-Protocol-Version": "",
		"Content-Type": "", "Content-Length": "", "Accept": "application/json, text/*;q=0.9, */*;q=0.5", "X-Forwarded-For": "127.0.0.1",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	if got.Header.Get("X-Request-Id") == "" || got.Header.Get("Via") == "" {
		t.Errorf("the gateway's own fields are missing: %v", got.Header)
	}
}

// TestARouteThatAsksForItselfHasNoUserOfTheServers: its policy has looked, and found nobody.
func TestARouteThatAsksForItselfHasNoUserOfTheServers(t *testing.T) {
	w := newMCPWorld(t)
	result, answer := w.tool(t, "/keyed/mcp", "whoElse", `{}`, header("Authorization", "Bearer good"))
	if answer.Error != nil || !result.IsError || w.count() != 0 {
		t.Errorf("%+v %+v", answer.Error, result)
	}
}

// TestPoliciesOfTheCalledRouteRunOnceACall: its limit counts each, for the user that the server's route has found.
func TestPoliciesOfTheCalledRouteRunOnceACall(t *testing.T) {
	w := newMCPWorld(t)
	key := header("Authorization", "Bearer good")
	first, _ := w.tool(t, "/keyed/mcp", "limited", `{}`, key)
	second, _ := w.tool(t, "/keyed/mcp", "limited", `{}`, key)
	if first.IsError || !second.IsError || !strings.Contains(second.Content[0].Text, "Rate limit exceeded") {
		t.Errorf("%+v, then %+v", first, second)
	}
	if len(w.allowances.asked) != 2 || !strings.Contains(w.allowances.asked[0].Name, "acme") {
		t.Errorf("asked %+v", w.allowances.asked)
	}
}

// TestMCPArguments: each goes where the operation has it, or is refused before anything is sent.
func TestMCPArguments(t *testing.T) {
	w := newMCPWorld(t)
	for _, tt := range []struct {
		name, tool, arguments string
		method, target, body  string // of the upstream's request, "" for a refusal
		says                  string
	}{
		{name: "a path's", tool: "readTodo", arguments: `{"id":"7"}`, method: "GET", target: "/todos/7"},
		{name: "one to escape", tool: "readTodo", arguments: `{"id":"a b?c#d%2e&=é"}`, method: "GET", target: "/todos/a%20b%3Fc%23d%252e%26%3D%C3%A9"},
		{name: "a list in the query", tool: "readTodo", arguments: `{"id":"7","expand":["a&b","c"]}`, method: "GET", target: "/todos/7?%24expand=a%26b&%24expand=c"},
		{name: "a body's properties", tool: "write_todo", arguments: `{"id":"7","title":"x","done":true,"tags":["home"]}`, method: "PUT", target: "/todos/7", body: `{"done":true,"tags":["home"],"title":"x"}`},
		{name: "numbers as they are written", tool: "putList", arguments: `{"body":[1,9007199254740993]}`, method: "POST", target: "/list", body: `[1,9007199254740993]`},
		{name: "a body that may be left out", tool: "putList", arguments: `{}`, method: "POST", target: "/list"},
		{name: "null for no arguments", tool: "limited", arguments: `null`, method: "GET", target: "/limited"},
		{name: "two segments", tool: "readItem", arguments: `{"id":"a","item":"b"}`, method: "GET", target: "/todos/a/items/b"},

		{name: "a missing one", tool: "readTodo", arguments: `{}`, says: "id"},
		{name: "one of another type", tool: "readTodo", arguments: `{"id":7}`, says: "/id"},
		{name: "one that there is not", tool: "readTodo", arguments: `{"id":"7","all":true}`, says: "all"},
		{name: "one by another spelling", tool: "readTodo", arguments: `{"id":"7","ID":"8"}`, says: "ID"},
		{name: "one that is no argument of the request", tool: "write_todo", arguments: `{"id":"7","title":""}`, says: "/title"},
		{name: "one of an enumeration", tool: "write_todo", arguments: `{"id":"7","title":"x","tags":["moon"]}`, says: "/tags/0"},
		{name: "a list", tool: "readTodo", arguments: `[]`, says: ""},
		{name: "many wrong ones", tool: "putList", arguments: `{"body":[` + strings.Repeat(`"x",`, 40_000) + `1]}`, says: "too large for what is wrong"},
		{name: "one wrong among many", tool: "putList", arguments: `{"body":[` + strings.Repeat(`1,`, 40_000) + `"x"]}`, says: "too large for what is wrong"},
		{name: "many right ones", tool: "putList", arguments: `{"body":[` + strings.Repeat(`1,`, 40_000) + `1]}`, method: "POST", target: "/list", body: `[` + strings.Repeat(`1,`, 40_000) + `1]`},
		{name: "an empty segment", tool: "readTodo", arguments: `{"id":""}`, says: "segment"},
		{name: "a dot", tool: "readTodo", arguments: `{"id":"."}`, says: "path"},
		{name: "two dots", tool: "readTodo", arguments: `{"id":".."}`, says: "path"},
		{name: "dots between slashes", tool: "readTodo", arguments: `{"id":"x/../../mcp"}`, says: "path"},
		{name: "dots behind a backslash", tool: "readTodo", arguments: `{"id":"..\\mcp"}`, says: "path"},
		{name: "a slash that leads to another route", tool: "readTodo", arguments: `{"id":"7/items/8"}`, says: "another route"},
		{name: "the name of another route", tool: "readTodo", arguments: `{"id":"all"}`, says: "another route"},
		{name: "that name, escaped", tool: "readTodo", arguments: `{"id":"%61ll"}`, method: "GET", target: "/todos/%2561ll"},
		{name: "a control character", tool: "readTodo", arguments: `{"id":"a\u0000b"}`, says: "path"},
		{name: "a line in a header", tool: "readTodo", arguments: `{"id":"7","X-Locale":"a\r\nX-Admin: yes"}`, says: "header"},
		{name: "a header of the largest size", tool: "readTodo", arguments: `{"id":"7","X-Locale":"` + strings.Repeat("x", 8<<10) + `"}`, method: "GET", target: "/todos/7"},
		{name: "a larger header", tool: "readTodo", arguments: `{"id":"7","X-Locale":"` + strings.Repeat("x", 8<<10+1) + `"}`, says: "header"},
		{name: "a long path", tool: "readTodo", arguments: `{"id":"` + strings.Repeat("x", 20_000) + `"}`, says: "shorter"},
		{name: "a tool that is not enabled", tool: "dropTodo", arguments: `{"id":"7"}`, says: "unknown tool"},
		{name: "a route that the server has not", tool: "whoAmI", arguments: `{}`, says: "unknown tool"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := w.count()
			result, answer := w.tool(t, "/mcp", tt.tool, tt.arguments)
			if tt.method == "" {
				if answer.Error == nil || answer.Error.Code != -32602 || !strings.Contains(answer.Error.Message, tt.says) {
					t.Errorf("%+v %+v, want a refusal that says %q", result, answer.Error, tt.says)
				}
				if w.count() != before {
					t.Errorf("it came to the upstream: %+v", w.last(t))
				}
				return
			}
			if answer.Error != nil || result.IsError {
				t.Fatalf("%+v %+v", answer.Error, result)
			}
			if got := w.last(t); got.Method != tt.method || got.Target != tt.target || got.Body != tt.body {
				t.Errorf("%s %s %s", got.Method, got.Target, got.Body)
			}
		})
	}
	if _, answer := w.tool(t, "/mcp", "readTodo", `{"id":"7","X-Locale":"de"}`, header("X-Locale", "en")); answer.Error != nil || w.last(t).Header.Get("X-Locale") != "de" {
		t.Errorf("%+v %v", answer.Error, w.last(t).Header)
	}
}

// TestAnArgumentIsTheOnlyHeaderOfItsName: upstreams that take X_Locale for X-Locale would read the caller's, which nobody
// has held against the schema.
func TestAnArgumentIsTheOnlyHeaderOfItsName(t *testing.T) {
	w := newMCPWorld(t, func(c *gateway.Config, _ *upstream.Options) { c.Fields = upstream.Filter{Underscores: true} })
	spelled := func(r *http.Request) { r.Header["X_Locale"] = []string{"en"} }
	if _, answer := w.tool(t, "/mcp", "readTodo", `{"id":"7"}`, spelled); answer.Error != nil || w.last(t).Header["X_locale"] == nil {
		t.Fatalf("the caller's own does not travel on: %+v %v", answer.Error, w.last(t).Header)
	}
	if _, answer := w.tool(t, "/mcp", "readTodo", `{"id":"7","X-Locale":"de"}`, spelled, header("X-Locale", "fr")); answer.Error != nil {
		t.Fatal(answer.Error)
	}
	var got []string
	for name, values := range w.last(t).Header {
		if upstream.SameField(name, "X-Locale") {
			got = append(got, values...)
		}
	}
	if len(got) != 1 || got[0] != "de" {
		t.Errorf("the upstream reads %q", got)
	}
}

// TestMCPGraphQL: the two tools of a GraphQL route post a query through it.
func TestMCPGraphQL(t *testing.T) {
	w := newMCPWorld(t)
	for _, tt := range []struct{ tool, arguments, body, says string }{
		{tool: "shop_execute", arguments: `{"query":"{a}"}`, body: `{"query":"{a}"}`},
		{tool: "shop_execute", arguments: `{"query":"{a}","variables":{"b":1e2}}`, body: `{"query":"{a}","variables":{"b":1e2}}`},
		{tool: "shop_introspect", arguments: `{}`, body: `{"query":"query IntrospectionQuery {`},
		{tool: "shop_execute", arguments: `{}`, says: "query"},
		{tool: "shop_execute", arguments: `{"query":"{a}","variables":"b"}`, says: "variables"},
		{tool: "shop_execute", arguments: `{"query":"{a}","operationName":"b"}`, says: "no other"},
		{tool: "shop_introspect", arguments: `{"query":"{a}"}`, says: "no arguments"},
	} {
		before := w.count()
		result, answer := w.tool(t, "/mcp", tt.tool, tt.arguments)
		if tt.says != "" {
			if answer.Error == nil || answer.Error.Code != -32602 || !strings.Contains(answer.Error.Message, tt.says) || w.count() != before {
				t.Errorf("%s %s: %+v", tt.tool, tt.arguments, answer.Error)
			}
			continue
		}
		if got := w.last(t); answer.Error != nil || result.IsError || got.Target != "/graphql" || !strings.HasPrefix(got.Body, tt.body) || got.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %s: %+v, the upstream got %+v", tt.tool, tt.arguments, answer.Error, got)
		}
	}
}

// TestTheIntrospectionOfTheToolCostsWhatIsDocumented: a limit below it refuses the tool.
func TestTheIntrospectionOfTheToolCostsWhatIsDocumented(t *testing.T) {
	w := newMCPWorld(t)
	w.tool(t, "/mcp", "shop_introspect", `{}`)
	var asked struct{ Query string }
	if err := json.Unmarshal([]byte(w.last(t).Body), &asked); err != nil {
		t.Fatal(err)
	}
	document, refused := graphql.Analyse(asked.Query, nil)
	if refused != nil {
		t.Fatal(refused)
	}
	page, err := os.ReadFile("../../docs/graphql.md")
	if err != nil {
		t.Fatal(err)
	}
	if says := fmt.Sprintf("[the MCP tool](mcp.md#graphql) one of %d.", document.Operations[0].Complexity); !strings.Contains(string(page), says) {
		t.Errorf("docs/graphql.md does not say %q", says)
	}
}

// TestTheLineOfAnMCPCallIsAsDocumented, of a server that is to tell.
func TestTheLineOfAnMCPCallIsAsDocumented(t *testing.T) {
	lines := &syncBuffer{}
	w := newMCPWorld(t, func(c *gateway.Config, _ *upstream.Options) { c.Log = slog.New(slog.NewJSONHandler(lines, nil)) })
	if w.tool(t, "/keyed/mcp", "whoAmI", `{}`, header("Authorization", "Bearer good")); strings.Contains(lines.String(), "mcp call") {
		t.Errorf("a server that is not to tell has told: %s", lines)
	}
	w.tool(t, "/mcp", "readTodo", `{"id":"hidden"}`)
	line := telemetrytest.Line(t, []byte(lines.String()), "mcp call")
	if line["operation"] != "readTodo" || line["status"] != 200.0 || strings.Contains(lines.String(), "hidden") {
		t.Errorf("the line is %s", lines)
	}
	documentedLine(t, line, "## The line of an MCP call")
}

// panicking panics where a policy asks it.
type panicking struct{}

func (panicking) Take(context.Context, policy.Allowance) (policy.Decision, error) {
	panic("the policy has a bug")
}

// TestAPanicEndsOneCall: the SDK runs calls in goroutines of its own, where a panic ends the process.
func TestAPanicEndsOneCall(t *testing.T) {
	w := newMCPWorld(t, func(c *gateway.Config, _ *upstream.Options) { c.Allowances = panicking{} })
	result, answer := w.tool(t, "/mcp", "limited", `{}`)
	if answer.Error != nil || !result.IsError || !strings.Contains(result.Content[0].Text, "request id") || strings.Contains(result.Content[0].Text, "bug") {
		t.Errorf("%+v %+v", answer, result)
	}
	if log := w.log.String(); !strings.Contains(log, "request panicked") || !strings.Contains(log, "the policy has a bug") || !strings.Contains(log, "requestId") {
		t.Errorf("log %s", log)
	}
	// By the SDK, whose goroutines nobody else recovers.
	text := body(t, w.post(t, "/mcp", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"limited"}},{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"}}}]`))
	if strings.Count(text, `"isError":true`) != 1 || !strings.Contains(text, `from GET`) {
		t.Errorf("%s", text)
	}
	if result, _ := w.tool(t, "/mcp", "readTodo", `{"id":"1"}`); result.IsError {
		t.Errorf("%+v", result)
	}
}

// TestACallEndsWhenItsClientGoes: the upstream sees it, in either form of answer.
func TestACallEndsWhenItsClientGoes(t *testing.T) {
	counted := &calls{}
	w := newMCPWorld(t, func(c *gateway.Config, _ *upstream.Options) { c.Calls = counted })
	asked, gone, over := make(chan struct{}), make(chan struct{}, 2), make(chan struct{})
	t.Cleanup(func() { close(over) }) // or the upstream would wait for what it waits for
	w.answer = func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-r.Context().Done():
			gone <- struct{}{}
		case <-over:
		}
	}
	for _, name := range []string{"whole", "by events"} {
		meta := map[string]string{"by events": `,"_meta":{"progressToken":1}`}[name]
		ctx, cancel := context.WithCancel(t.Context())
		text := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"}` + meta + `}}`
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/mcp", strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "shop.test"
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request); err == nil {
				<-ctx.Done()
				_ = response.Body.Close()
			}
		}()
		<-asked
		cancel()
		select {
		case <-gone:
		case <-time.After(deadline.Long()):
			t.Fatalf("%s: the upstream was not told", name)
		}
		<-ended
	}
	w.Close()
	// Events have begun with a status; an answer in one piece has gone to nobody.
	if got, want := counted.statuses(), "GET /todos/{id} 499\nGET /todos/{id} 499\nPOST /mcp 200\nPOST /mcp 499"; got != want {
		t.Errorf("counted are\n%s\nwant\n%s", got, want)
	}
}

// TestMCPToolsSayWhatTheyTake: root objects without references, hints by the method, what the project writes before both.
func TestMCPToolsSayWhatTheyTake(t *testing.T) {
	w := newMCPWorld(t)
	got := string(w.call(t, "/mcp", "tools/list", `{}`).Result)
	for _, want := range []string{
		`{"annotations":{"destructiveHint":false,"idempotentHint":true,"openWorldHint":true,"readOnlyHint":true},"description":"Reads a todo.","inputSchema":{"additionalProperties":false,"properties":{"X-Locale":{"type":"string"},"expand":{"items":{"type":"string"},"type":"array"},"id":{"type":"string"}},"required":["id"],"type":"object"},"name":"readTodo","outputSchema":{`,
		`{"_meta":{"team":"todos"},"annotations":{"destructiveHint":true,"idempotentHint":false,"openWorldHint":true,"readOnlyHint":false,"title":"Write"},"description":"Writes a todo.","inputSchema":{"additionalProperties":false,"properties":{"done":{"type":"boolean"},"id":{"type":"string"},"parent":`,
		`"description":"Executes tool: readItem"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nhas no %s", got, want)
		}
	}
	if strings.Contains(got, `"$ref"`) || strings.Contains(got, "session") {
		t.Errorf("%s", got)
	}
}

// TestServersThatKnowTheirCallersAreCachedByNobodyElse: and nothing is offered that needs a session.
func TestServersThatKnowTheirCallersAreCachedByNobodyElse(t *testing.T) {
	w := newMCPWorld(t)
	set := []func(*http.Request){header("Mcp-Protocol-Version", version28), header("Mcp-Method", "server/discover"), header("Authorization", "Bearer good")}
	for path, want := range map[string]string{"/mcp": `"cacheScope":"public"`, "/keyed/mcp": `"cacheScope":"private"`} {
		got := string(w.call(t, path, "server/discover", `{`+meta28+`}`, set...).Result)
		if !strings.Contains(got, want) || strings.Contains(got, "listChanged") || strings.Contains(got, "subscribe") || strings.Contains(got, "logging") {
			t.Errorf("%s: %s", path, got)
		}
	}
}
