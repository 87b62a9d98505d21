package scenario_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gatewright/gatewright/shared/format/graphql/graphqltest"
)

// needGraphQL skips a test if GraphQL.js is not installed. In continuous integration the test fails instead.
func needGraphQL(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../../../local/dev/node_modules/graphql-http"); errors.Is(err, fs.ErrNotExist) &&
		os.Getenv("CI") == "" {
		t.Skip("GraphQL.js is not there: npm ci --prefix local/dev installs it")
	}
}

// startLibrary starts the upstream of examples/library, a GraphQL server of GraphQL.js.
func startLibrary(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "../../../examples/library/upstream.mjs", "0")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// library is the deployment of examples/library: its URL, its name, and a consumer's key.
type library struct {
	*target
	url, name, key string
	oracle         *graphqltest.Oracle
}

// deployLibrary deploys the example with its upstream, and creates a consumer with a key.
func deployLibrary(t *testing.T, inst *target) *library {
	t.Helper()
	needGraphQL(t)
	upstream, project, f := startLibrary(t), unique(t, "library"), sample(t, "library")
	routes := f["config/routes.oas.json"]
	f["config/routes.oas.json"] = strings.ReplaceAll(routes, "http://127.0.0.1:9002", upstream)
	l := &library{target: inst, url: inst.deploy(t, project, "main", f), oracle: graphqltest.Start(t, repository)}
	l.name = inst.ask(t, http.StatusOK, http.MethodGet, inst.path("/projects/%s/deployments", project),
		"").data(t)[0].text("name")
	created := inst.ask(t, http.StatusOK, http.MethodPost,
		inst.path("/key-buckets/%s-production/consumers?with-api-key=true", project), `{"name":"ann"}`)
	keys, _ := created["apiKeys"].([]any)
	first, _ := keys[0].(map[string]any)
	l.key = object(first).text("key")
	return l
}

// client is a client of the library with a key, or without one if key is "". It counts the statuses of its responses, for a comparison
// with the counts of the gateway.
type client struct {
	inst *target
	key  string

	mu       sync.Mutex
	statuses map[string]float64
}

func (l *library) client(key string) *client {
	return &client{inst: l.target, key: key, statuses: map[string]float64{}}
}

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if err := c.inst.resolve(r); err != nil {
		return nil, err
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	// A GET to the MCP server is no operation, so no policy identifies the client, and the request does not count.
	if err == nil && resp.StatusCode != http.StatusMethodNotAllowed {
		c.mu.Lock()
		c.statuses[fmt.Sprint(resp.StatusCode)]++
		c.mu.Unlock()
	}
	return resp, err
}

// count adds n calls to routes that an MCP server makes for the client. status is the status of the routes' responses.
func (c *client) count(status string, n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[status] += n
}

// post sends JSON to one of the routes. It returns the status and the body of the response.
func (c *client) post(t *testing.T, address, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// query returns a GraphQL request with a document.
func query(document string) string {
	raw, err := json.Marshal(map[string]string{"query": document})
	if err != nil {
		panic(err) // a string always encodes
	}
	return string(raw)
}

// tooComplex returns a query over the library's complexity limit.
func tooComplex() string {
	var out strings.Builder
	out.WriteString("query Many {")
	for i := range 126 {
		fmt.Fprintf(&out, " b%d: books { title }", i)
	}
	return out.String() + " }"
}

// checkFilter checks that the response to an introspection is a client schema without the hidden parts.
func (l *library) checkFilter(t *testing.T, response string) {
	t.Helper()
	var in struct{ Data json.RawMessage }
	if err := json.Unmarshal([]byte(response), &in); err != nil {
		t.Fatalf("decode the introspection: %v: %s", err, response)
	}
	parsed, refused := l.oracle.Build(in.Data)
	if refused != "" || len(parsed.Errors) > 0 || !strings.Contains(parsed.SDL, "title: String!") {
		t.Errorf("Build() of the introspection: refused = %q, errors %v, want a client schema with \"title: String!\":\n%s",
			refused, parsed.Errors, parsed.SDL)
	}
	for _, hidden := range []string{"Loan", "loans", "price"} {
		if strings.Contains(parsed.SDL, hidden) || strings.Contains(response, `"`+hidden+`"`) {
			t.Errorf("the introspection shows %s, want it hidden:\n%s", hidden, parsed.SDL)
		}
	}
}

// TestLibraryIsServed deploys examples/library in front of a GraphQL server. The official MCP client and GraphQL
// clients send requests, and the test then compares their number with the counts of the gateway.
func TestLibraryIsServed(t *testing.T) {
	t.Parallel()
	l := deployLibrary(t, installation)
	ann, anonymous := l.client(l.key), l.client("")
	for _, path := range []string{"/mcp", "/graphql"} {
		if status, body := anonymous.post(t, l.url+path,
			`{"jsonrpc":"2.0","id":1,"method":"tools/list","query":"{books{title}}"}`); status != http.StatusUnauthorized {
			t.Errorf("POST %s without a key: status = %d, want 401: %s", path, status, body)
		}
	}
	if session, err := l.connect(t, anonymous, "", nil); err == nil {
		t.Errorf("connect() without a key = %+v, want an error", session.InitializeResult())
	}
	versions := []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}
	for _, version := range versions {
		t.Run("MCP "+version, func(t *testing.T) { l.useMCP(t, ann, version) })
	}
	t.Run("GraphQL", func(t *testing.T) { l.checkGraphQL(t, ann, anonymous) })
	t.Run("analytics", func(t *testing.T) { l.checkAnalytics(t, ann, float64(len(versions))) })
}

// connect starts an MCP session for a client. For the version "", the SDK chooses the version of the protocol.
func (l *library) connect(t *testing.T, c *client, version string, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	var session *mcp.ClientSessionOptions
	if version != "" {
		session = &mcp.ClientSessionOptions{ProtocolVersion: version}
	}
	return mcp.NewClient(&mcp.Implementation{Name: "scenario", Version: "1"}, o).Connect(t.Context(),
		&mcp.StreamableClientTransport{
			Endpoint: l.url + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: c},
		}, session)
}

// useMCP lists all tools, resources and prompts, reads and calls them with the official client and one version of the
// protocol.
func (l *library) useMCP(t *testing.T, c *client, version string) {
	session, err := l.connect(t, c, version, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	checkListings(t, session)
	checkResources(t, session)
	l.checkTools(t, session)
	c.count("200", 5) // the rules, the prompt, the book, the introspection, the query
	c.count("404", 2)
	c.count("400", 1)
	l.checkStreamEnds(t, c, version)
}

// checkListings checks which tools, resources and prompts are listed.
func checkListings(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := session.ListResources(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := session.ListPrompts(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, tool := range tools.Tools {
		listed = append(listed, tool.Name)
	}
	for _, r := range resources.Resources {
		listed = append(listed, r.URI)
	}
	for _, p := range prompts.Prompts {
		listed = append(listed, p.Name)
	}
	if want := []string{
		"library_execute", "library_introspect", "readBook", "mcp://resources/rules",
		"mcp://resources/the%20old%20rules", "recommend",
	}; !slices.Equal(listed, want) {
		t.Errorf("listed tools, resources and prompts = %q, want %q", listed, want)
	}
}

// checkResources checks what the resources and the prompt contain.
func checkResources(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	read, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "mcp://resources/rules"})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].MIMEType != "text/markdown" ||
		!strings.HasPrefix(read.Contents[0].Text, "# Rules") {
		t.Errorf("ReadResource(rules) = %+v, %v, want one Markdown text that begins with \"# Rules\"", read, err)
	}
	legacy, err := session.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "mcp://resources/the%20old%20rules"})
	if err != nil || len(legacy.Contents) != 1 || legacy.Contents[0].MIMEType != "application/json" ||
		legacy.Contents[0].Text != `{"error":"There is nothing here."}` {
		t.Errorf("ReadResource() of a route that responds with 404 = %+v, %v, want its JSON body", legacy, err)
	}
	prompt, err := session.GetPrompt(t.Context(), &mcp.GetPromptParams{
		Name: "recommend", Arguments: map[string]string{"likes": "whales"},
	})
	if err != nil || len(prompt.Messages) != 1 ||
		!strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "whales") {
		t.Errorf("GetPrompt(recommend) = %+v, %v, want one message with \"whales\"", prompt, err)
	}
}

// checkTools checks the results of the tools.
func (l *library) checkTools(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	call := func(name string, arguments any) (text string, failed bool) {
		t.Helper()
		result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil || len(result.Content) != 1 {
			t.Fatalf("call of %s = %+v, %v, want one content and no error", name, result, err)
		}
		return result.Content[0].(*mcp.TextContent).Text, result.IsError
	}
	if text, failed := call("readBook", map[string]any{"id": "3"}); failed || !strings.Contains(text, "Moby-Dick") {
		t.Errorf("readBook(3): failed = %v, text %s, want \"Moby-Dick\"", failed, text)
	}
	if text, failed := call("readBook", map[string]any{"id": "4"}); !failed ||
		!strings.Contains(text, "There is no such book.") {
		t.Errorf("readBook(4): failed = %v, text %s, want a failure with \"There is no such book.\"", failed, text)
	}
	text, failed := call("library_introspect", map[string]any{})
	if failed {
		t.Fatalf("library_introspect fails, want success: %s", text)
	}
	l.checkFilter(t, text)
	text, failed = call("library_execute", map[string]any{
		"query":     "query Titles($id: ID!) { book(id: $id) { title author { name } } }",
		"variables": map[string]any{"id": "1"},
	})
	if failed || text != `{"data":{"book":{"title":"Frankenstein","author":{"name":"Mary Shelley"}}}}` {
		t.Errorf("library_execute: failed = %v, text %s, want Frankenstein by Mary Shelley", failed, text)
	}
	if text, failed := call("library_execute", map[string]any{"query": tooComplex()}); !failed ||
		!strings.Contains(text, `"code":"COMPLEXITY_LIMIT_EXCEEDED"`) {
		t.Errorf("library_execute above the complexity limit: failed = %v, text %s, want COMPLEXITY_LIMIT_EXCEEDED",
			failed, text)
	}
	_, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "library_execute", Arguments: map[string]any{}})
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != -32602 {
		t.Errorf("library_execute without arguments: error %v, want code -32602", err)
	}
}

// checkStreamEnds calls a tool and requests progress notifications. It checks that they arrive as events, and that the
// stream ends after the response, so that no function keeps running.
func (l *library) checkStreamEnds(t *testing.T, c *client, version string) {
	t.Helper()
	progress := make(chan float64, 2)
	session, err := l.connect(t, c, version, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			progress <- r.Params.Progress
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	params := &mcp.CallToolParams{Name: "readBook", Arguments: map[string]any{"id": "1"}}
	params.SetProgressToken("the-token")
	result, err := session.CallTool(t.Context(), params)
	if err != nil || result.IsError {
		t.Fatalf("readBook(1) with a progress token = %+v, %v, want success", result, err)
	}
	c.count("200", 1)
	if first, second := <-progress, <-progress; first != 0 || second != 1 {
		t.Errorf("the progress is %v and %v, want 0 and 1", first, second)
	}
	if version != "2025-11-25" {
		return
	}
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call",` +
		`"params":{"name":"readBook","arguments":{"id":"1"},"_meta":{"progressToken":"p"}}}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.url+"/mcp", strings.NewReader(call))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {version},
	}
	resp, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body) // until the stream ends
	c.count("200", 1)
	if events := strings.Count(string(raw), "event: message"); err != nil || events != 3 ||
		resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("the stream has %d events as %s, error %v, want 3 as text/event-stream: %s",
			events, resp.Header.Get("Content-Type"), err, raw)
	}
}

// checkGraphQL sends requests to both GraphQL routes as a GraphQL client does.
func (l *library) checkGraphQL(t *testing.T, named, anonymous *client) {
	introspection, err := exec.CommandContext(t.Context(), "node", "-p",
		"require('../../../local/dev/node_modules/graphql').getIntrospectionQuery()").Output()
	if err != nil {
		t.Fatal(err)
	}
	status, body := named.post(t, l.url+"/graphql", query(string(introspection)))
	if status != http.StatusOK {
		t.Fatalf("POST /graphql with an introspection: status = %d, want 200: %s", status, body)
	}
	l.checkFilter(t, body)
	for _, tt := range []struct {
		description, path, document string
		client                      *client
		status                      int
		contains                    string
	}{
		{
			"a query", "/graphql", "query Books { books { title } }", named, 200,
			`{"data":{"books":[{"title":"Frankenstein"},{"title":"The Last Man"},{"title":"Moby-Dick"}]}}`,
		},
		{
			"a query that is too complex", "/graphql", tooComplex(), named, 400,
			`{"errors":[{"message":"The operation Many has a complexity of 252, and this route allows 250.`,
		},
		{
			"a query that is too deep", "/graphql",
			"query Deep { books { author { books { author { books { title } } } } } }", named, 400,
			`"extensions":{"code":"DEPTH_LIMIT_EXCEEDED"}`,
		},
		{"an incomplete query", "/graphql", "query {", named, 400, `"extensions":{"code":"GRAPHQL_PARSE_FAILED"}`},
		{
			"a mistyped field", "/graphql", "query Typo { books { pric } }", named, 200,
			`Cannot query field \"pric\" on type \"Book\".`,
		},
		{"a resolver's error", "/graphql", `query Missing { book(id: "9") { title } }`, named, 200, `NO_SUCH_BOOK`},
		{"a public query", "/public/graphql", "query Books { books { title } }", anonymous, 200, `"Moby-Dick"`},
		{
			"a public introspection", "/public/graphql", string(introspection), anonymous, 403,
			"Introspection queries are not allowed",
		},
		{"a public query that is too complex", "/public/graphql", tooComplex(), anonymous, 400, "COMPLEXITY_LIMIT_EXCEEDED"},
	} {
		if status, body := tt.client.post(t, l.url+tt.path, query(tt.document)); status != tt.status ||
			!strings.Contains(body, tt.contains) || strings.Contains(body, "Did you mean") {
			t.Errorf("%s: status = %d, body %s, want %d and %q", tt.description, status, body, tt.status, tt.contains)
		}
	}
}

// countTime bounds how long a request can be missing from the counts.
const countTime = 20 * time.Second

// checkAnalytics compares the counts of all requests with the expected counts, within countTime. A Lambda writes the
// last counts of a burst together with a later request. The test sends many later requests at once, so that each Lambda
// gets one.
func (l *library) checkAnalytics(t *testing.T, ann *client, sessions float64) {
	deploymentPath := "/v1/deployments/" + l.name
	flushCounts := func() {
		if !l.manyGateways {
			return
		}
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() { l.get(t, l.url+"/books/1", "") })
		}
		group.Wait()
	}
	created := l.ask(t, http.StatusCreated, http.MethodPost, l.path("/account-keys"),
		`{"label":"reader","scopes":["analytics:read"]}`)
	reader := l.as(created.text("key"), nil)
	read := func(path string) object {
		t.Helper()
		data, _ := reader.ask(t, http.StatusOK, http.MethodGet, deploymentPath+path, "")["data"].(map[string]any)
		return data
	}
	want := map[string][2]float64{ // the number of operations and of errors
		"Titles": {sessions, 0}, "IntrospectionQuery": {sessions + 2, 1}, "Many": {sessions + 2, sessions + 2},
		"Books": {2, 0}, "Deep": {1, 1}, "Typo": {1, 1}, "Missing": {1, 1},
		"(unnamed)": {2, 2}, // the request that does not parse, and the request without a key
	}
	var got map[string][2]float64
	var statuses map[string]float64
	defer func() {
		if t.Failed() {
			t.Logf("operations %v, want %v\nstatuses %v, want %v", got, want, statuses, ann.statuses)
		}
	}()
	eventually(t, "the operations are counted", countTime, func() bool {
		flushCounts()
		got = map[string][2]float64{}
		for _, o := range read("/graphql-operations?filter=last-hour").list("operations") {
			sum := got[o.text("operation")]
			got[o.text("operation")] = [2]float64{sum[0] + o.number("operations"), sum[1] + o.number("errors")}
		}
		return maps.Equal(got, want)
	})
	eventually(t, "the calls are counted by status", countTime, func() bool {
		flushCounts()
		statuses = map[string]float64{}
		for _, s := range read("/stats-by-status-code?filter=last-hour&consumers=ann").list("stats") {
			for _, c := range s.list("callsByStatusCode") {
				statuses[c.text("statusCode")] += c.number("totalCalls")
			}
		}
		return maps.Equal(statuses, ann.statuses)
	})
	seen := map[string]bool{}
	for _, call := range reader.ask(t, http.StatusOK, http.MethodGet,
		deploymentPath+"/recent-calls?limit=1000&consumers=ann", "").data(t) {
		seen[call.text("method")+" "+call.text("routePath")+" "+call.text("statusCode")] = true
	}
	for _, want := range []string{"POST /mcp 200", "POST /graphql 200", "POST /graphql 400", "GET /books/{id} 404"} {
		if !seen[want] {
			t.Errorf("recent calls = %v, want %s among them", seen, want)
		}
	}
}
