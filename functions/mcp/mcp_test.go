package mcp_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/auth"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

const endpoint = "/mcp"

// result is what a message was answered.
type result struct {
	Error *struct {
		Code    int
		Message string
	}
	Result struct {
		IsError           bool
		ResultType        string
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		Tools             []struct {
			Name         string
			OutputSchema json.RawMessage
			Annotations  struct{ ReadOnlyHint, DestructiveHint bool }
		}
		InputRequests map[string]struct {
			Method string
			Params struct{ Message string }
		}
		RequestState string
	}
}

// text is all that a result says.
func (r result) text() string {
	var all []string
	for _, c := range r.Result.Content {
		all = append(all, c.Text)
	}
	if r.Error != nil {
		all = append(all, r.Error.Message)
	}
	return strings.Join(all, "\n")
}

// world is an installation with an account and the server of all operations.
type world struct {
	*functionstest.World
	key string
}

func newWorld(t *testing.T) world {
	t.Helper()
	w := functionstest.New(t, functions.MCP().Bind)
	return world{w, w.Account("acme")}
}

// send posts a message with a key.
func (w world) send(key, query string, message map[string]any, headers ...string) result {
	w.Helper()
	body, err := json.Marshal(message)
	if err != nil {
		w.Fatal(err)
	}
	var out result
	a := w.Call(key, "POST", endpoint+query, string(body), headers...)
	if err := json.Unmarshal([]byte(a.Body), &out); err != nil || a.Status != 200 {
		w.Fatalf("it answers %s: %v", a.Whole, err)
	}
	return out
}

func (w world) names(key, query string, headers ...string) (names []string) {
	w.Helper()
	for _, tool := range w.send(key, query, map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers...).Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func call(tool string, arguments map[string]any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}}
}

func (w world) call(tool string, arguments map[string]any) result {
	w.Helper()
	return w.send(w.key, "", call(tool, arguments))
}

// done is call, which has to succeed, with its answer, which has to fit the schema that the tool promises.
func (w world) done(tool string, arguments map[string]any) functionstest.Value {
	w.Helper()
	r := w.call(tool, arguments)
	if r.Error != nil || r.Result.IsError {
		w.Fatalf("%s is refused: %s", tool, r.text())
	}
	for _, listed := range w.send(w.key, "", map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).Result.Tools {
		if listed.Name != tool || len(listed.OutputSchema) == 0 {
			continue
		}
		schema, err := sharedmcp.CompileSchema(listed.OutputSchema)
		if err != nil {
			w.Fatal(err)
		}
		if err := schema.Check(w.Context(), r.Result.StructuredContent); err != nil {
			w.Errorf("%s answers %s: %v", tool, r.Result.StructuredContent, err)
		}
	}
	return functionstest.Parse(w.TB, string(r.Result.StructuredContent))
}

// TestToolsAreThoseThatTheKeyMayCall, in the order of the reference, each time.
func TestToolsAreThoseThatTheKeyMayCall(t *testing.T) {
	w := newWorld(t)
	all := w.names(w.key, "")
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			if listed, want := slices.Contains(all, d.ID), !d.Hidden && !d.NoTool; listed != want {
				t.Errorf("%s is a tool: %t, want %t", d.ID, listed, want)
			}
		}
	}
	if again := w.names(w.key, ""); !slices.Equal(again, all) {
		t.Errorf("they are listed as %v, and then as %v", all, again)
	}
	reader := w.Key("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} })
	names := w.names(reader, "")
	if !slices.Contains(names, "ApiKeyBucketsService_list") || slices.Contains(names, "ApiKeyBucketsService_create") || slices.Contains(names, "TunnelService_list") {
		t.Errorf("a key that reads buckets is shown %v", names)
	}
	r := w.send(reader, "", call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"}))
	if !r.Result.IsError || !strings.Contains(r.text(), "key-buckets:write") {
		t.Errorf("a call without its scope is answered %s", r.text())
	}
}

func TestViewsLeaveToolsOut(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		query   string
		headers []string
		has     []string
		lacks   []string
	}{
		{"?readonly=true", nil, []string{"ApiKeyBucketsService_list"}, []string{"ApiKeyBucketsService_create"}},
		{"", []string{"X-MCP-Readonly", "true"}, []string{"ApiKeyBucketsService_list"}, []string{"ApiKeyBucketsService_create"}},
		{"?toolsets=tunnels", nil, []string{"TunnelService_list"}, []string{"ApiKeyBucketsService_list"}},
		{"", []string{"X-MCP-Toolsets", "tunnels, metering"}, []string{"TunnelService_list"}, []string{"ApiKeyBucketsService_list"}},
		{"?toolsets=tunnels", []string{"X-MCP-Readonly", "true"}, []string{"TunnelService_list"}, []string{"TunnelService_create"}},
		{"?toolsets=tunnels,metering", []string{"X-MCP-Toolsets", "tunnels"}, []string{"TunnelService_list"}, []string{"MeteringService_list"}},
		{"?readonly=true", []string{"X-MCP-Readonly", "false"}, []string{"TunnelService_list"}, []string{"TunnelService_create"}},
	} {
		names := w.names(w.key, tt.query, tt.headers...)
		for _, name := range tt.has {
			if !slices.Contains(names, name) {
				t.Errorf("%s %v: %s is left out", tt.query, tt.headers, name)
			}
		}
		for _, name := range tt.lacks {
			if slices.Contains(names, name) {
				t.Errorf("%s %v: %s is there", tt.query, tt.headers, name)
			}
			r := w.send(w.key, tt.query, call(name, map[string]any{"accountName": "acme", "name": "x"}), tt.headers...)
			if r.Error == nil || r.Error.Code != -32602 {
				t.Errorf("%s %v: a call of %s is answered %s", tt.query, tt.headers, name, r.text())
			}
		}
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	w.Call(w.key, "POST", endpoint+"?toolsets=nothing", list).Want(400, "query.toolsets", "key-buckets")
	w.Call(w.key, "POST", endpoint, list, "X-MCP-Toolsets", "nothing").Want(400, "header.X-MCP-Toolsets", "key-buckets")
	w.Call(w.key, "POST", endpoint, list, "X-MCP-Readonly", "yes").Want(400, "header.X-MCP-Readonly")
	w.Call(w.key, "POST", endpoint+"?toolsets=tunnels", list, "X-MCP-Toolsets", "metering").Want(400, "X-MCP-Toolsets")
	for _, name := range []string{"X-MCP-Readonly", "X-MCP-Confirm", "X-MCP-Toolsets"} {
		w.Call(w.key, "POST", endpoint, list, name, "").Want(400, "header."+name, "empty")
		for _, first := range []string{"", "false", "tunnels"} { // a client's own, and one that a proxy adds
			w.Call(w.key, "POST", endpoint, list, name, first, name, "true").Want(400, "header."+name, "more than once")
		}
	}
	for _, name := range []string{"READONLY", "readOnly", "read-only", "Confirm", "tools", "utm_source"} {
		w.Call(w.key, "POST", endpoint+"?"+name+"=true", list).Want(400, "query."+name, "is no parameter")
	}
	for _, name := range []string{"X-MCP-Read-Only", "X-MCP-Tools", "x-mcp-readonlyy"} { // of other servers, and mistyped
		w.Call(w.key, "POST", endpoint, list, name, "true").Want(400, "header."+http.CanonicalHeaderKey(name), "X-MCP-Readonly, X-MCP-Toolsets, X-MCP-Confirm")
	}
	w.Call(w.key, "POST", endpoint, list, "X-MCP-Toolsets", " , ").Want(400, "header.X-MCP-Toolsets", "names no toolset")
	w.Call(w.key, "POST", endpoint+"?toolsets=,", list).Want(400, "query.toolsets", "names no toolset")
}

// TestACallIsARequest: of the same rules, with the same record but for where it came from.
func TestACallIsARequest(t *testing.T) {
	w := newWorld(t)
	made := w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	if made.Text("name") != "agents" {
		t.Errorf("it makes %s", made)
	}
	list := w.done("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "limit": 5})
	if list.Text("data.0.name") != "agents" {
		t.Errorf("it lists %s", list)
	}
	w.Now = w.Now.Add(time.Minute)
	record := w.done("AuditLogsService_list", map[string]any{"accountName": "acme"}).At("data.0")
	if record.Text("route.source") != "mcp" || record.Text("route.method") != "POST" || record.Text("route.url") != "/v1/accounts/acme/key-buckets" {
		t.Errorf("the record says %s", record)
	}
	again := w.call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	if !again.Result.IsError || !strings.Contains(again.text(), `"status":409`) || !strings.Contains(again.text(), "choose another name") {
		t.Errorf("a conflict is answered %s", again.text())
	}
	if again.Result.StructuredContent != nil { // which would not fit the tool's output schema
		t.Errorf("a conflict has the content %s", again.Result.StructuredContent)
	}
	for name, arguments := range map[string]map[string]any{
		"'name'": {"accountName": "acme"}, "'label'": {"accountName": "acme", "name": "agents", "label": "y"}, `"accountName"`: {"accountName": "", "name": "agents"},
	} {
		unfit := w.call("ApiKeyBucketsService_create", arguments)
		if unfit.Error != nil || !unfit.Result.IsError || !strings.Contains(unfit.text(), name) {
			t.Errorf("the arguments %v, which do not fit, are answered %s", arguments, unfit.text())
		}
	}
	if r := w.call("ApiKeyBucketsService_read", map[string]any{"accountName": "evil", "bucketName": "agents"}); !r.Result.IsError || !strings.Contains(r.text(), "404") {
		t.Errorf("another account is answered %s", r.text())
	}
}

// TestAConditionIsNeverLeftOut: a tag that is not written as the operation reads it refuses the call, where it would
// otherwise have no condition at all.
func TestAConditionIsNeverLeftOut(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	consumer := map[string]any{"accountName": "acme", "bucketName": "agents", "consumerName": "ada"}
	w.done("ApiKeyConsumersService_create", map[string]any{"accountName": "acme", "bucketName": "agents", "name": "ada", "tags": map[string]any{"plan": "gold"}})
	for name, tag := range map[string]map[string]any{"another value": {"tag.plan": "silver"}, "another name": {"plan": "silver"}, "no name": {"tag.": "silver"}} {
		consumer["tag"] = tag
		if r := w.call("ApiKeyConsumersService_delete", consumer); !r.Result.IsError {
			t.Errorf("%s: deleting is answered %s", name, r.text())
		}
	}
	consumer["tag"] = map[string]any{"tag.plan": "gold"}
	if r := w.call("ApiKeyConsumersService_delete", consumer); r.Result.IsError {
		t.Errorf("deleting by its tag is answered %s", r.text())
	}
}

// TestSecretsAreShownToWhoAsks, which is recorded.
func TestSecretsAreShownToWhoAsks(t *testing.T) {
	w := newWorld(t)
	masked := w.call("AccountKeysService_create", map[string]any{"accountName": "acme", "label": "a", "scopes": []string{"logs:read"}})
	shown := w.call("AccountKeysService_create", map[string]any{"accountName": "acme", "label": "b", "scopes": []string{"logs:read"}, "revealSecrets": true})
	for name, r := range map[string]result{"masked": masked, "shown": shown} {
		if r.Error != nil || r.Result.IsError {
			t.Fatalf("%s: %s", name, r.text())
		}
		if has := strings.Contains(r.text()+string(r.Result.StructuredContent), `"gwa_`); has != (name == "shown") {
			t.Errorf("%s: it answers %s", name, r.text())
		}
	}
	w.Now = w.Now.Add(time.Minute)
	records := w.done("AuditLogsService_list", map[string]any{"accountName": "acme"}).String()
	if strings.Count(records, "secretsRevealed") != 1 {
		t.Errorf("the records say %s", records)
	}
}

// TestDryRunsWriteNothing and say what would be.
func TestDryRunsWriteNothing(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	tried := w.done("ApiKeyBucketsService_delete", map[string]any{"accountName": "acme", "bucketName": "agents", "dryRun": true})
	if tried.Text("before.name") != "agents" || !tried.Null("after") || tried.Text("auditRecord.route.source") != "mcp" {
		t.Errorf("it would be %s", tried)
	}
	if list := w.done("ApiKeyBucketsService_list", map[string]any{"accountName": "acme"}); list.Text("data.0.name") != "agents" {
		t.Errorf("there is %s", list)
	}
	key := w.done("AccountKeysService_create", map[string]any{"accountName": "acme", "label": "a", "scopes": []string{"logs:read"}, "dryRun": true})
	if strings.Contains(key.String(), `"gwa_`) {
		t.Errorf("it shows %s", key)
	}
	if r := w.call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents", "dryRun": true}); !r.Result.IsError || !strings.Contains(r.text(), "409") {
		t.Errorf("what would be refused is answered %s", r.text())
	}
}

// confirmable is a call as a client of 2026-07-28 sends it that can ask a person.
func (w world) confirmable(key, query, tool string, arguments, more, capabilities map[string]any) result {
	w.Helper()
	message := call(tool, arguments)
	params := message["params"].(map[string]any)
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion": sharedmcp.Version20260728, "io.modelcontextprotocol/clientCapabilities": capabilities,
	}
	for name, value := range more {
		params[name] = value
	}
	return w.send(key, query, message, "Mcp-Protocol-Version", sharedmcp.Version20260728, "Mcp-Method", "tools/call", "Mcp-Name", tool,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
}

// TestAPersonConfirmsWhatDestroys, of this key's, this tool's and these arguments' call, in time.
func TestAPersonConfirmsWhatDestroys(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"bucket-a", "bucket-b"} {
		w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": name})
	}
	asks := map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
	confirming := w.Key("acme", func(p *auth.Permissions) { p.Confirm = true })
	target := func(name string) map[string]any { return map[string]any{"accountName": "acme", "bucketName": name} }
	answer := func(state, action string, content map[string]any) map[string]any {
		return map[string]any{"requestState": state, "inputResponses": map[string]any{"confirm": map[string]any{"action": action, "content": content}}}
	}
	const tool = "ApiKeyBucketsService_delete"
	there := func(name string) bool {
		return strings.Contains(w.done("ApiKeyBucketsService_list", map[string]any{"accountName": "acme"}).String(), `"name":"`+name+`"`)
	}
	first := w.confirmable(confirming, "", tool, target("bucket-a"), nil, asks)
	question := first.Result.InputRequests["confirm"]
	if first.Result.ResultType != "input_required" || question.Method != "elicitation/create" || !strings.Contains(question.Params.Message, "/v1/accounts/acme/key-buckets/bucket-a") || !there("bucket-a") {
		t.Fatalf("it answers %s %+v", first.text(), first.Result)
	}
	yes := map[string]any{"confirm": true}
	state := first.Result.RequestState
	for name, r := range map[string]result{
		"other arguments":  w.confirmable(confirming, "", tool, target("bucket-b"), answer(state, "accept", yes), asks),
		"another key":      w.confirmable(w.key, "?confirm=true", tool, target("bucket-a"), answer(state, "accept", yes), asks),
		"a made-up state":  w.confirmable(confirming, "", tool, target("bucket-a"), answer("AAAA", "accept", yes), asks),
		"no":               w.confirmable(confirming, "", tool, target("bucket-a"), answer(state, "accept", map[string]any{"confirm": false}), asks),
		"a refusal":        w.confirmable(confirming, "", tool, target("bucket-a"), answer(state, "decline", nil), asks),
		"no answer":        w.confirmable(confirming, "", tool, target("bucket-a"), map[string]any{"requestState": state}, asks),
		"who cannot ask":   w.confirmable(confirming, "", tool, target("bucket-a"), nil, map[string]any{}),
		"an older version": w.send(confirming, "", call(tool, target("bucket-a"))),
	} {
		if !r.Result.IsError || !there("bucket-a") || !there("bucket-b") {
			t.Errorf("%s: it answers %s %+v", name, r.text(), r.Result)
		}
	}
	w.Now = w.Now.Add(11 * time.Minute)
	if r := w.confirmable(confirming, "", tool, target("bucket-a"), answer(state, "accept", yes), asks); !r.Result.IsError || !there("bucket-a") {
		t.Errorf("too late: it answers %s", r.text())
	}
	state = w.confirmable(confirming, "", tool, target("bucket-a"), nil, asks).Result.RequestState
	if r := w.confirmable(confirming, "", tool, target("bucket-a"), answer(state, "accept", yes), asks); r.Error != nil || r.Result.IsError || there("bucket-a") {
		t.Errorf("confirmed: it answers %s", r.text())
	}
	if r := w.confirmable(w.key, "", tool, target("bucket-b"), nil, asks); r.Error != nil || r.Result.IsError || there("bucket-b") {
		t.Errorf("where nobody has to confirm it answers %s", r.text())
	}
}

func TestStrangersAndForeignPagesAreKeptOut(t *testing.T) {
	w := newWorld(t)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	w.Call("", "POST", endpoint, list).Want(401).WantHeader("WWW-Authenticate", "Bearer")
	w.Call("gwa_no", "POST", endpoint, list).Want(401).WantHeader("WWW-Authenticate", "Bearer")
	for _, method := range []string{"GET", "DELETE"} {
		a := w.Call("", method, endpoint, "").WantHeader("Allow", "POST").WantHeader("Content-Type", "text/plain; charset=utf-8")
		if a.Status != 405 {
			t.Errorf("%s is answered %s", method, a.Whole)
		}
	}
	for _, foreign := range []string{"https://evil.test", "null", "http://api.test#", "http://api.test?", "http://api.test/", "http://api.test:", "http://@api.test", "http://api.test.evil.test", "https://api.test", "http://api.test:81"} {
		w.Call(w.key, "POST", endpoint, list, "Origin", foreign).Want(403, "GATEWRIGHT_ORIGINS")
		w.Call("", "OPTIONS", endpoint, "", "Origin", foreign, "Access-Control-Request-Method", "POST").Want(403)
	}
	own := "http://api.test"
	w.Call(w.key, "POST", endpoint, list, "Origin", own).Want(200).WantHeader("Access-Control-Allow-Origin", own)
	w.Call("", "POST", endpoint, list, "Origin", own).Want(401).WantHeader("Access-Control-Allow-Origin", own)
	w.Call("", "OPTIONS", endpoint, "", "Origin", own, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,mcp-name").Want(204).
		WantHeader("Access-Control-Allow-Methods", "POST").WantHeader("Access-Control-Allow-Headers", "authorization,mcp-name")
}

// TestTriedChangesShowNoSecret: before and after are masked as their read is, and what is the caller's own is not.
func TestTriedChangesShowNoSecret(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	w.done("ApiKeyConsumersService_create", map[string]any{"accountName": "acme", "bucketName": "agents", "name": "robot", "metadata": map[string]any{"key": "the caller's own"}})
	made := w.send(w.key, "", call("ApiKeyKeysService_create", map[string]any{
		"accountName": "acme", "bucketName": "agents", "consumerName": "robot", "key": "a-key-that-somebody-has-chosen-0123456789", "revealSecrets": true,
	}))
	if made.Error != nil || made.Result.IsError {
		t.Fatal(made.text())
	}
	id := functionstest.Parse(t, string(made.Result.StructuredContent)).Text("id")
	for tool, arguments := range map[string]map[string]any{
		"ApiKeyKeysService_create":       {"key": "another-key-that-somebody-has-chosen-01234567"},
		"ApiKeyKeysService_delete":       {"keyId": id},
		"ApiKeyKeysService_update":       {"keyId": id, "description": "another"},
		"ApiKeyConsumersService_update":  {"metadata": map[string]any{"key": "the caller's own"}, "description": "another"},
		"ApiKeyConsumersService_rollKey": {"expiresOn": "2030-01-01T00:00:00Z"},
	} {
		arguments["accountName"], arguments["bucketName"], arguments["consumerName"], arguments["dryRun"] = "acme", "agents", "robot", true
		if said := w.done(tool, arguments).String(); strings.Contains(said, "somebody-has-chosen") {
			t.Errorf("%s shows %s", tool, said)
		} else if strings.Contains(tool, "Consumers_update") && !strings.Contains(said, "the caller's own") {
			t.Errorf("%s hides what is the caller's: %s", tool, said)
		}
	}
}

// TestAPersonIsToldWhatTheyConfirm: what is sent, without its secrets, and whether secrets are shown of it. An answer to one
// of these questions is none to another.
func TestAPersonIsToldWhatTheyConfirm(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	w.done("ApiKeyConsumersService_create", map[string]any{"accountName": "acme", "bucketName": "bucket-a", "name": "somebody"})
	const first, second = "a-chosen-key-of-a-consumer-1", "a-chosen-key-of-a-consumer-2"
	of := map[string]any{"accountName": "acme", "bucketName": "bucket-a", "consumerName": "somebody"}
	ask := func(tool string, sent, more map[string]any) result {
		arguments := map[string]any{}
		for _, part := range []map[string]any{of, sent} {
			maps.Copy(arguments, part)
		}
		return w.confirmable(w.key, "?confirm=true", tool, arguments, more, map[string]any{"elicitation": map[string]any{"form": map[string]any{}}})
	}
	made := w.done("ApiKeyKeysService_create", map[string]any{"accountName": "acme", "bucketName": "bucket-a", "consumerName": "somebody", "key": first})
	of["keyId"] = made.Text("id")
	const tool = "ApiKeyKeysService_update"
	asked := ask(tool, map[string]any{"description": "mine now", "key": second}, nil)
	message := asked.Result.InputRequests["confirm"].Params.Message
	if !strings.Contains(message, `"description":"mine now"`) || strings.Contains(message, second) || strings.Contains(message, "consumerName") || strings.Contains(message, "shown") {
		t.Errorf("it asks %q; refused: %s", message, asked.text())
	}
	long := ask(tool, map[string]any{"description": strings.Repeat("é", 1024)}, nil)
	if message := long.Result.InputRequests["confirm"].Params.Message; len(message) > 2500 || !strings.Contains(message, " bytes more?") {
		t.Errorf("of what is long it asks %q; refused: %s", message, long.text())
	}
	answer := map[string]any{"inputResponses": map[string]any{"confirm": map[string]any{"action": "accept", "content": map[string]any{"confirm": true}}}}
	change := map[string]any{"description": "x"}
	answer["requestState"] = ask(tool, change, nil).Result.RequestState
	change["revealSecrets"] = true
	if r := ask(tool, change, answer); !r.Result.IsError {
		t.Errorf("confirmed without its secrets, and with them then: it answers %s", r.text())
	}
	shown := ask(tool, change, nil)
	if message := shown.Result.InputRequests["confirm"].Params.Message; !strings.Contains(message, "Secrets in its answer are shown") {
		t.Errorf("where secrets are shown it asks %q", message)
	}
	answer["requestState"] = shown.Result.RequestState
	if r := ask(tool, change, answer); r.Error != nil || r.Result.IsError {
		t.Errorf("confirmed with its secrets: it answers %s", r.text())
	}
}

// TestAKeyForItsIDIsNotRecorded: models send one as the other.
func TestAKeyForItsIDIsNotRecorded(t *testing.T) {
	w := newWorld(t)
	r := w.call("AccountKeysService_delete", map[string]any{"accountName": "acme", "accountKeyId": w.key})
	a := w.Call(w.key, "DELETE", "/v1/accounts/acme/account-keys/"+w.key, "")
	var records strings.Builder // as the table has them: a tool's answer is masked anyway
	for _, item := range w.Items.Items() {
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		records.Write(text)
	}
	if !r.Result.IsError || !strings.Contains(records.String(), "/v1/accounts/acme/account-keys/") {
		t.Fatalf("it answers %s, and the table has %s", r.text(), records.String())
	}
	if all := r.text() + string(r.Result.StructuredContent) + a.Whole + records.String(); strings.Contains(all, w.key) {
		t.Errorf("a key is repeated: %s", all)
	}
}
