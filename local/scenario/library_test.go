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

	"github.com/gatewright/gatewright/shared/graphql/graphqltest"
)

// needGraphQL skips a test where GraphQL.js is not installed, but in continuous integration.
func needGraphQL(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("../node_modules/graphql-http"); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("GraphQL.js is not there: npm ci --prefix local installs it")
	}
}

// newLibrary starts the upstream of examples/library, a GraphQL server of GraphQL.js.
func newLibrary(t *testing.T) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "../../examples/library/upstream.mjs", "0")
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

// library is examples/library as it is deployed.
type library struct {
	*target
	url, name, key string
	oracle         *graphqltest.Oracle
}

func newLibraryOf(t *testing.T, in *target) *library {
	t.Helper()
	needGraphQL(t)
	upstream, project, f := newLibrary(t), unique(t, "library"), sample(t, "library")
	routes := f["config/routes.oas.json"]
	f["config/routes.oas.json"] = strings.ReplaceAll(routes, "http://127.0.0.1:9002", upstream)
	l := &library{target: in, url: in.deploy(t, project, "main", f), oracle: graphqltest.Start(t, repository)}
	l.name = in.ask(t, http.StatusOK, http.MethodGet, in.path("/projects/%s/deployments", project), "").data(t)[0].text("name")
	made := in.ask(t, http.StatusOK, http.MethodPost, in.path("/key-buckets/%s-production/consumers?with-api-key=true", project), `{"name":"ann"}`)
	keys, _ := made["apiKeys"].([]any)
	first, _ := keys[0].(map[string]any)
	l.key = object(first).text("key")
	return l
}

// client is a client of the library with a key, "" for none, which counts what it is answered as the one whose key it is.
type client struct {
	in  *target
	key string

	mu       sync.Mutex
	statuses map[string]float64
}

func (l *library) client(key string) *client {
	return &client{in: l.target, key: key, statuses: map[string]float64{}}
}

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	if err := c.in.aim(r); err != nil {
		return nil, err
	}
	out, err := http.DefaultTransport.RoundTrip(r)
	// Of a GET to the MCP server no policy is asked who it is: there is no such operation.
	if err == nil && out.StatusCode != http.StatusMethodNotAllowed {
		c.mu.Lock()
		c.statuses[fmt.Sprint(out.StatusCode)]++
		c.mu.Unlock()
	}
	return out, err
}

// called counts calls of routes that an MCP server makes for the client, by the status that the routes answer.
func (c *client) called(status string, n float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.statuses[status] += n
}

// post posts JSON to one of the routes, and gives the answer.
func (c *client) post(t *testing.T, address, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	out, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Body.Close() }()
	raw, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return out.StatusCode, string(raw)
}

// query is a GraphQL request of a document.
func query(document string) string {
	raw, err := json.Marshal(map[string]string{"query": document})
	if err != nil {
		panic(err) // a text always encodes
	}
	return string(raw)
}

// tooComplex is over the library's limit.
func tooComplex() string {
	var out strings.Builder
	out.WriteString("query Many {")
	for i := range 126 {
		fmt.Fprintf(&out, " b%d: books { title }", i)
	}
	return out.String() + " }"
}

// isFiltered checks an introspection of the library: a client schema, without what is hidden.
func (l *library) isFiltered(t *testing.T, answer string) {
	t.Helper()
	var in struct{ Data json.RawMessage }
	if err := json.Unmarshal([]byte(answer), &in); err != nil {
		t.Fatalf("%v in %s", err, answer)
	}
	built, refused := l.oracle.Build(in.Data)
	if refused != "" || len(built.Errors) > 0 || !strings.Contains(built.SDL, "title: String!") {
		t.Errorf("no client schema: %s %v\n%s", refused, built.Errors, built.SDL)
	}
	for _, hidden := range []string{"Loan", "loans", "price"} {
		if strings.Contains(built.SDL, hidden) || strings.Contains(answer, `"`+hidden+`"`) {
			t.Errorf("the introspection shows %s:\n%s", hidden, built.SDL)
		}
	}
}

// TestLibraryIsServed deploys examples/library before a GraphQL server, has the official client of
// MCP and clients of GraphQL use it, and reads what was counted of them.
func TestLibraryIsServed(t *testing.T) {
	t.Parallel()
	l := newLibraryOf(t, installation)
	ann, nobody := l.client(l.key), l.client("")
	for _, path := range []string{"/mcp", "/graphql"} {
		if status, body := nobody.post(t, l.url+path, `{"jsonrpc":"2.0","id":1,"method":"tools/list","query":"{books{title}}"}`); status != http.StatusUnauthorized {
			t.Errorf("%s without a key: %d %s", path, status, body)
		}
	}
	if session, err := l.connect(t, nobody, "", nil); err == nil {
		t.Errorf("a client without a key is connected: %+v", session.InitializeResult())
	}
	versions := []string{"", "2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26"}
	for _, version := range versions {
		t.Run("MCP "+version, func(t *testing.T) { l.isUsed(t, ann, version) })
	}
	t.Run("GraphQL", func(t *testing.T) { l.isAsked(t, ann, nobody) })
	t.Run("analytics", func(t *testing.T) { l.isCounted(t, ann, float64(len(versions))) })
}

func (l *library) connect(t *testing.T, c *client, version string, o *mcp.ClientOptions) (*mcp.ClientSession, error) {
	t.Helper()
	var session *mcp.ClientSessionOptions
	if version != "" {
		session = &mcp.ClientSessionOptions{ProtocolVersion: version}
	}
	return mcp.NewClient(&mcp.Implementation{Name: "scenario", Version: "1"}, o).Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: l.url + "/mcp", MaxRetries: -1, HTTPClient: &http.Client{Transport: c},
	}, session)
}

// isUsed has the official client list, read and call everything, in a version of the protocol.
func (l *library) isUsed(t *testing.T, c *client, version string) {
	session, err := l.connect(t, c, version, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	ctx := t.Context()
	tools, err := session.ListTools(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	resources, err := session.ListResources(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	prompts, err := session.ListPrompts(ctx, nil)
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
	if want := []string{"library_execute", "library_introspect", "readBook", "mcp://resources/rules", "mcp://resources/the%20old%20rules", "recommend"}; !slices.Equal(listed, want) {
		t.Errorf("listed are %q, want %q", listed, want)
	}
	read, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcp://resources/rules"})
	if err != nil || len(read.Contents) != 1 || read.Contents[0].MIMEType != "text/markdown" || !strings.HasPrefix(read.Contents[0].Text, "# Rules") {
		t.Errorf("the rules: %+v, %v", read, err)
	}
	old, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: "mcp://resources/the%20old%20rules"})
	if err != nil || len(old.Contents) != 1 || old.Contents[0].MIMEType != "application/json" || old.Contents[0].Text != `{"error":"There is nothing here."}` {
		t.Errorf("what is answered with 404: %+v, %v", old, err)
	}
	prompt, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "recommend", Arguments: map[string]string{"likes": "whales"}})
	if err != nil || len(prompt.Messages) != 1 || !strings.Contains(prompt.Messages[0].Content.(*mcp.TextContent).Text, "whales") {
		t.Errorf("the prompt: %+v, %v", prompt, err)
	}
	call := func(name string, arguments any) (text string, failed bool) {
		t.Helper()
		result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: arguments})
		if err != nil || len(result.Content) != 1 {
			t.Fatalf("%s: %+v, %v", name, result, err)
		}
		return result.Content[0].(*mcp.TextContent).Text, result.IsError
	}
	if text, failed := call("readBook", map[string]any{"id": "3"}); failed || !strings.Contains(text, "Moby-Dick") {
		t.Errorf("the book: %v %s", failed, text)
	}
	if text, failed := call("readBook", map[string]any{"id": "4"}); !failed || !strings.Contains(text, "There is no such book.") {
		t.Errorf("a book that there is not: %v %s", failed, text)
	}
	text, failed := call("library_introspect", map[string]any{})
	if failed {
		t.Fatalf("the introspection: %s", text)
	}
	l.isFiltered(t, text)
	if text, failed := call("library_execute", map[string]any{
		"query": "query Titles($id: ID!) { book(id: $id) { title author { name } } }", "variables": map[string]any{"id": "1"},
	}); failed || text != `{"data":{"book":{"title":"Frankenstein","author":{"name":"Mary Shelley"}}}}` {
		t.Errorf("a query: %v %s", failed, text)
	}
	if text, failed := call("library_execute", map[string]any{"query": tooComplex()}); !failed || !strings.Contains(text, `"code":"COMPLEXITY_LIMIT_EXCEEDED"`) {
		t.Errorf("a query over the limit: %v %s", failed, text)
	}
	_, err = session.CallTool(ctx, &mcp.CallToolParams{Name: "library_execute", Arguments: map[string]any{}})
	if wire, ok := errors.AsType[*jsonrpc.Error](err); !ok || wire.Code != -32602 {
		t.Errorf("a call without its arguments: %v", err)
	}
	c.called("200", 5) // the rules, the prompt, the book, the introspection, the query
	c.called("404", 2)
	c.called("400", 1)
	l.endsItsStream(t, c, version)
}

// endsItsStream calls a tool and wants to be told how it goes on: by events, which end with the answer, so that no
// function is held open by them.
func (l *library) endsItsStream(t *testing.T, c *client, version string) {
	t.Helper()
	told := make(chan float64, 2)
	session, err := l.connect(t, c, version, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { told <- r.Params.Progress },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	params := &mcp.CallToolParams{Name: "readBook", Arguments: map[string]any{"id": "1"}}
	params.SetProgressToken("the-token")
	result, err := session.CallTool(t.Context(), params)
	if err != nil || result.IsError {
		t.Fatalf("a call with progress: %+v, %v", result, err)
	}
	c.called("200", 1)
	if begun, ended := <-told, <-told; begun != 0 || ended != 1 {
		t.Errorf("told are %v and %v", begun, ended)
	}
	if version != "2025-11-25" {
		return
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.url+"/mcp",
		strings.NewReader(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"readBook","arguments":{"id":"1"},"_meta":{"progressToken":"p"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}, "Mcp-Protocol-Version": {version}}
	out, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Body.Close() }()
	raw, err := io.ReadAll(out.Body) // to its end, which has to come
	c.called("200", 1)
	if events := strings.Count(string(raw), "event: message"); err != nil || events != 3 || out.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d events as %s, %v: %s", events, out.Header.Get("Content-Type"), err, raw)
	}
}

// isAsked asks both GraphQL routes as a client of GraphQL's does.
func (l *library) isAsked(t *testing.T, ann, nobody *client) {
	introspection, err := exec.CommandContext(t.Context(), "node", "-p", "require('../node_modules/graphql').getIntrospectionQuery()").Output()
	if err != nil {
		t.Fatal(err)
	}
	status, body := ann.post(t, l.url+"/graphql", query(string(introspection)))
	if status != http.StatusOK {
		t.Fatalf("the introspection: %d %s", status, body)
	}
	l.isFiltered(t, body)
	for _, tt := range []struct {
		what, path, document string
		by                   *client
		status               int
		says                 string
	}{
		{"a query", "/graphql", "query Books { books { title } }", ann, 200, `{"data":{"books":[{"title":"Frankenstein"},{"title":"The Last Man"},{"title":"Moby-Dick"}]}}`},
		{"too complex", "/graphql", tooComplex(), ann, 400, `{"errors":[{"message":"The operation Many has a complexity of 252, and this route allows 250.`},
		{"too deep", "/graphql", "query Deep { books { author { books { author { books { title } } } } } }", ann, 400, `"extensions":{"code":"DEPTH_LIMIT_EXCEEDED"}`},
		{"no document", "/graphql", "query {", ann, 400, `"extensions":{"code":"GRAPHQL_PARSE_FAILED"}`},
		{"a mistyped field", "/graphql", "query Typo { books { pric } }", ann, 200, `Cannot query field \"pric\" on type \"Book\".`},
		{"a resolver's error", "/graphql", `query Missing { book(id: "9") { title } }`, ann, 200, `NO_SUCH_BOOK`},
		{"a query by anyone", "/public/graphql", "query Books { books { title } }", nobody, 200, `"Moby-Dick"`},
		{"the introspection by anyone", "/public/graphql", string(introspection), nobody, 403, "Introspection queries are not allowed"},
		{"too complex by anyone", "/public/graphql", tooComplex(), nobody, 400, "COMPLEXITY_LIMIT_EXCEEDED"},
	} {
		if status, body := tt.by.post(t, l.url+tt.path, query(tt.document)); status != tt.status || !strings.Contains(body, tt.says) || strings.Contains(body, "Did you mean") {
			t.Errorf("%s: %d %s, want %d %s", tt.what, status, body, tt.status, tt.says)
		}
	}
}

// countTime bounds how long a request may go unseen.
const countTime = 20 * time.Second

// isCounted reads what was counted of all that, as soon as a user may expect it. A Lambda writes what is left of
// a burst with a request that comes later: so many come at once that each of them gets one.
func (l *library) isCounted(t *testing.T, ann *client, sessions float64) {
	at := "/v1/deployments/" + l.name
	later := func() {
		if !l.manyGateways {
			return
		}
		var group sync.WaitGroup
		for range 16 {
			group.Go(func() { l.get(t, l.url+"/books/1", "") })
		}
		group.Wait()
	}
	made := l.ask(t, http.StatusCreated, http.MethodPost, l.path("/account-keys"), `{"label":"reader","scopes":["analytics:read"]}`)
	reader := l.by(made.text("key"), nil)
	read := func(path string) object {
		t.Helper()
		data, _ := reader.ask(t, http.StatusOK, http.MethodGet, at+path, "")["data"].(map[string]any)
		return data
	}
	want := map[string][2]float64{
		"Titles": {sessions, 0}, "IntrospectionQuery": {sessions + 2, 1}, "Many": {sessions + 2, sessions + 2},
		"Books": {2, 0}, "Deep": {1, 1}, "Typo": {1, 1}, "Missing": {1, 1},
		"(unnamed)": {2, 2}, // what does not parse, and the one without a key
	}
	var got map[string][2]float64
	var statuses map[string]float64
	defer func() {
		if t.Failed() {
			t.Logf("operations %v, want %v\nstatuses %v, want %v", got, want, statuses, ann.statuses)
		}
	}()
	eventually(t, "the operations are counted", countTime, func() bool {
		later()
		got = map[string][2]float64{}
		for _, o := range read("/graphql-operations?filter=last-hour").list("operations") {
			sum := got[o.text("operation")]
			got[o.text("operation")] = [2]float64{sum[0] + o.number("operations"), sum[1] + o.number("errors")}
		}
		return maps.Equal(got, want)
	})
	eventually(t, "the calls are counted by status", countTime, func() bool {
		later()
		statuses = map[string]float64{}
		for _, s := range read("/stats-by-status-code?filter=last-hour&consumers=ann").list("stats") {
			for _, c := range s.list("callsByStatusCode") {
				statuses[c.text("statusCode")] += c.number("totalCalls")
			}
		}
		return maps.Equal(statuses, ann.statuses)
	})
	seen := map[string]bool{}
	for _, call := range reader.ask(t, http.StatusOK, http.MethodGet, at+"/recent-calls?limit=1000&consumers=ann", "").data(t) {
		seen[call.text("method")+" "+call.text("routePath")+" "+call.text("statusCode")] = true
	}
	for _, want := range []string{"POST /mcp 200", "POST /graphql 200", "POST /graphql 400", "GET /books/{id} 404"} {
		if !seen[want] {
			t.Errorf("of the recent calls none is %s: %v", want, seen)
		}
	}
}
