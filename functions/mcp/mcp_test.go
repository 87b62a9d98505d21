package mcp_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions"
	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/shared/core/auth"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
)

const endpoint = "/mcp"

// result is the response to a message.
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

// text returns all texts of a result as one text.
func (r result) text() string {
	var texts []string
	for _, c := range r.Result.Content {
		texts = append(texts, c.Text)
	}
	if r.Error != nil {
		texts = append(texts, r.Error.Message)
	}
	return strings.Join(texts, "\n")
}

// fixture is a functionstest.Fixture with an account and the MCP server.
type fixture struct {
	*functionstest.Fixture
	key string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	fx := functionstest.New(t, functions.MCP().Bind)
	return fixture{fx, fx.CreateAccount("acme")}
}

// send posts a message with a key.
func (fx fixture) send(key, query string, message map[string]any, headers ...string) result {
	fx.Helper()
	body, err := json.Marshal(message)
	if err != nil {
		fx.Fatal(err)
	}
	var out result
	resp := fx.Call(key, "POST", endpoint+query, string(body), headers...)
	if err := json.Unmarshal([]byte(resp.Body), &out); err != nil || resp.Status != 200 {
		fx.Fatalf("POST %s = %s, %v, want 200 with JSON", endpoint+query, resp.Dump, err)
	}
	return out
}

func (fx fixture) toolNames(key, query string, headers ...string) (names []string) {
	fx.Helper()
	for _, tool := range fx.send(key, query, map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
		headers...).Result.Tools {
		names = append(names, tool.Name)
	}
	return names
}

func call(tool string, arguments map[string]any) map[string]any {
	return map[string]any{
		"jsonrpc": "2.0", "id": 7, "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": arguments},
	}
}

func (fx fixture) call(tool string, arguments map[string]any) result {
	fx.Helper()
	return fx.send(fx.key, "", call(tool, arguments))
}

// mustCall calls a tool, and returns its structured content. It fails the test if the call fails or if the content does
// not match the tool's output schema.
func (fx fixture) mustCall(tool string, arguments map[string]any) functionstest.Value {
	fx.Helper()
	r := fx.call(tool, arguments)
	if r.Error != nil || r.Result.IsError {
		fx.Fatalf("%s = %s, want success", tool, r.text())
	}
	for _, definition := range fx.send(fx.key, "", map[string]any{
		"jsonrpc": "2.0", "id": 1,
		"method": "tools/list",
	}).Result.Tools {
		if definition.Name != tool || len(definition.OutputSchema) == 0 {
			continue
		}
		schema, err := sharedmcp.CompileSchema(definition.OutputSchema)
		if err != nil {
			fx.Fatal(err)
		}
		if err := schema.Check(fx.Context(), r.Result.StructuredContent); err != nil {
			fx.Errorf("%s = %s: error = %v, want content that matches the output schema",
				tool, r.Result.StructuredContent, err)
		}
	}
	return functionstest.Parse(fx.TB, string(r.Result.StructuredContent))
}

// TestToolListMatchesKeyPermissions checks that the list has the tools that the key can call, always in the same order.
func TestToolListMatchesKeyPermissions(t *testing.T) {
	fx := newFixture(t)
	firstList := fx.toolNames(fx.key, "")
	for _, g := range functions.Groups() {
		for _, d := range g.Declarations() {
			if isListed, want := slices.Contains(firstList, d.ID), !d.Hidden && !d.NoTool; isListed != want {
				t.Errorf("%s is a tool: %t, want %t", d.ID, isListed, want)
			}
		}
	}
	if secondList := fx.toolNames(fx.key, ""); !slices.Equal(secondList, firstList) {
		t.Errorf("second list of tools = %v, want %v", secondList, firstList)
	}
	readerKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Scopes = []auth.Scope{auth.KeyBuckets.Read()} })
	names := fx.toolNames(readerKey, "")
	if !slices.Contains(names, "ApiKeyBucketsService_list") || slices.Contains(names, "ApiKeyBucketsService_create") ||
		slices.Contains(names, "TunnelService_list") {
		t.Errorf("tools for key-buckets:read = %v, want ApiKeyBucketsService_list, and neither creation nor tunnels",
			names)
	}
	r := fx.send(readerKey, "",
		call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"}))
	if !r.Result.IsError || !strings.Contains(r.text(), "key-buckets:write") {
		t.Errorf("ApiKeyBucketsService_create with key-buckets:read = %s, want a refusal that names key-buckets:write",
			r.text())
	}
}

func TestViewsFilterTools(t *testing.T) {
	fx := newFixture(t)
	for _, tt := range []struct {
		query    string
		headers  []string
		included []string
		excluded []string
	}{
		{"?readonly=true", nil, []string{"ApiKeyBucketsService_list"}, []string{"ApiKeyBucketsService_create"}},
		{
			"",
			[]string{"X-MCP-Readonly", "true"},
			[]string{"ApiKeyBucketsService_list"},
			[]string{"ApiKeyBucketsService_create"},
		},
		{"?toolsets=tunnels", nil, []string{"TunnelService_list"}, []string{"ApiKeyBucketsService_list"}},
		{
			"",
			[]string{"X-MCP-Toolsets", "tunnels, metering"},
			[]string{"TunnelService_list"},
			[]string{"ApiKeyBucketsService_list"},
		},
		{
			"?toolsets=tunnels",
			[]string{"X-MCP-Readonly", "true"},
			[]string{"TunnelService_list"},
			[]string{"TunnelService_create"},
		},
		{
			"?toolsets=tunnels,metering",
			[]string{"X-MCP-Toolsets", "tunnels"},
			[]string{"TunnelService_list"},
			[]string{"MeteringBucketsService_list"},
		},
		{
			"?readonly=true",
			[]string{"X-MCP-Readonly", "false"},
			[]string{"TunnelService_list"},
			[]string{"TunnelService_create"},
		},
	} {
		names := fx.toolNames(fx.key, tt.query, tt.headers...)
		for _, name := range tt.included {
			if !slices.Contains(names, name) {
				t.Errorf("tools of %s %v have no %s, want it", tt.query, tt.headers, name)
			}
		}
		for _, name := range tt.excluded {
			if slices.Contains(names, name) {
				t.Errorf("tools of %s %v have %s, want it left out", tt.query, tt.headers, name)
			}
			r := fx.send(fx.key, tt.query, call(name, map[string]any{"accountName": "acme", "name": "x"}), tt.headers...)
			if r.Error == nil || r.Error.Code != -32602 {
				t.Errorf("%s %v: call of %s = %s, want error -32602", tt.query, tt.headers, name, r.text())
			}
		}
	}
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	fx.Call(fx.key, "POST", endpoint+"?toolsets=nothing", list).Want(400, "query.toolsets", "key-buckets")
	fx.Call(fx.key, "POST", endpoint, list, "X-MCP-Toolsets", "nothing").Want(400, "header.X-MCP-Toolsets", "key-buckets")
	fx.Call(fx.key, "POST", endpoint, list, "X-MCP-Readonly", "yes").Want(400, "header.X-MCP-Readonly")
	fx.Call(fx.key, "POST", endpoint+"?toolsets=tunnels", list, "X-MCP-Toolsets", "metering").Want(400, "X-MCP-Toolsets")
	for _, name := range []string{"X-MCP-Readonly", "X-MCP-Confirm", "X-MCP-Toolsets"} {
		fx.Call(fx.key, "POST", endpoint, list, name, "").Want(400, "header."+name, "empty")
		for _, first := range []string{"", "false", "tunnels"} { // the client's header; a proxy adds another
			fx.Call(fx.key, "POST", endpoint, list, name, first, name, "true").Want(400, "header."+name, "more than once")
		}
	}
	for _, name := range []string{"READONLY", "readOnly", "read-only", "Confirm", "tools", "utm_source"} {
		fx.Call(fx.key, "POST", endpoint+"?"+name+"=true", list).Want(400, "query."+name, "is no parameter")
	}
	// headers of other servers, and misspelled ones
	for _, name := range []string{"X-MCP-Read-Only", "X-MCP-Tools", "x-mcp-readonlyy"} {
		fx.Call(fx.key, "POST", endpoint, list, name, "true").Want(400, "header."+http.CanonicalHeaderKey(name),
			"X-MCP-Readonly, X-MCP-Toolsets, X-MCP-Confirm")
	}
	fx.Call(fx.key, "POST", endpoint, list, "X-MCP-Toolsets", " , ").Want(400, "header.X-MCP-Toolsets", "names no toolset")
	fx.Call(fx.key, "POST", endpoint+"?toolsets=,", list).Want(400, "query.toolsets", "names no toolset")
}

// TestCallHasRulesOfRequest checks that a call is refused like a request, and that its audit record has the method and
// the path of the request with the source mcp.
func TestCallHasRulesOfRequest(t *testing.T) {
	fx := newFixture(t)
	created := fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	if created.Text("name") != "agents" {
		t.Errorf("ApiKeyBucketsService_create = %s, want agents", created)
	}
	list := fx.mustCall("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "limit": 5})
	if list.Text("data.0.name") != "agents" {
		t.Errorf("ApiKeyBucketsService_list = %s, want agents", list)
	}
	fx.Now = fx.Now.Add(time.Minute)
	record := fx.mustCall("AuditLogsService_list", map[string]any{"accountName": "acme"}).At("data.0")
	if record.Text("route.source") != "mcp" || record.Text("route.method") != "POST" ||
		record.Text("route.url") != "/v1/accounts/acme/key-buckets" {
		t.Errorf("audit record = %s, want a POST to /v1/accounts/acme/key-buckets from mcp", record)
	}
	conflict := fx.call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	if !conflict.Result.IsError || !strings.Contains(conflict.text(), `"status":409`) ||
		!strings.Contains(conflict.text(), "choose another name") {
		t.Errorf("creation of an existing bucket = %s, want 409 with advice", conflict.text())
	}
	if conflict.Result.StructuredContent != nil { // it would not match the tool's output schema
		t.Errorf("structured content of a conflict = %s, want none", conflict.Result.StructuredContent)
	}
	for name, arguments := range map[string]map[string]any{
		`"name"`: {"accountName": "acme"}, "/label": {"accountName": "acme", "name": "agents", "label": "y"},
		`"accountName"`: {"accountName": "", "name": "agents"},
	} {
		invalid := fx.call("ApiKeyBucketsService_create", arguments)
		if invalid.Error != nil || !invalid.Result.IsError || !strings.Contains(invalid.text(), name) {
			t.Errorf("ApiKeyBucketsService_create of %v = %s, want an error that names %s",
				arguments, invalid.text(), name)
		}
	}
	r := fx.call("ApiKeyBucketsService_read", map[string]any{"accountName": "evil", "bucketName": "agents"})
	if !r.Result.IsError || !strings.Contains(r.text(), "404") {
		t.Errorf("ApiKeyBucketsService_read in another account = %s, want 404", r.text())
	}
}

// TestInvalidConditionIsRefused checks that a call is refused if its condition is a tag that the consumer does not
// have, or an object that names no tag. Otherwise the call would be made without a condition.
func TestInvalidConditionIsRefused(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	consumer := map[string]any{"accountName": "acme", "bucketName": "agents", "consumerName": "ada"}
	fx.mustCall("ApiKeyConsumersService_create", map[string]any{
		"accountName": "acme", "bucketName": "agents",
		"name": "ada", "tags": map[string]any{"plan": "gold"},
	})
	for name, tag := range map[string]map[string]any{
		"another value": {"tag.plan": "silver"},
		"another name":  {"plan": "silver"}, "no name": {"tag.": "silver"},
	} {
		consumer["tag"] = tag
		if r := fx.call("ApiKeyConsumersService_delete", consumer); !r.Result.IsError {
			t.Errorf("%s: ApiKeyConsumersService_delete = %s, want an error", name, r.text())
		}
	}
	consumer["tag"] = map[string]any{"tag.plan": "gold"}
	if r := fx.call("ApiKeyConsumersService_delete", consumer); r.Result.IsError {
		t.Errorf("ApiKeyConsumersService_delete with the consumer's tag = %s, want success", r.text())
	}
}

// TestSecretsAreShownOnRequest checks that a result contains secrets only if the call reveals them, and that each such
// call has an audit record.
func TestSecretsAreShownOnRequest(t *testing.T) {
	fx := newFixture(t)
	masked := fx.call("AccountKeysService_create",
		map[string]any{"accountName": "acme", "label": "a", "scopes": []string{"logs:read"}})
	revealedResult := fx.call("AccountKeysService_create",
		map[string]any{"accountName": "acme", "label": "b", "scopes": []string{"logs:read"}, "revealSecrets": true})
	for name, r := range map[string]result{"masked": masked, "shown": revealedResult} {
		if r.Error != nil || r.Result.IsError {
			t.Fatalf("AccountKeysService_create, %s = %s, want success", name, r.text())
		}
		if revealed := strings.Contains(r.text()+string(r.Result.StructuredContent), `"gwa_`); revealed != (name == "shown") {
			t.Errorf("AccountKeysService_create, %s = %s, want the key in it: %t", name, r.text(), name == "shown")
		}
	}
	fx.Now = fx.Now.Add(time.Minute)
	records := fx.mustCall("AuditLogsService_list", map[string]any{"accountName": "acme"}).String()
	if strings.Count(records, "secretsRevealed") != 1 {
		t.Errorf("audit records = %s, want secretsRevealed once", records)
	}
}

// TestDryRunsWriteNothing checks that dry runs write nothing and report what would change.
func TestDryRunsWriteNothing(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	report := fx.mustCall("ApiKeyBucketsService_delete", map[string]any{
		"accountName": "acme", "bucketName": "agents",
		"dryRun": true,
	})
	if report.Text("before.name") != "agents" || !report.IsNull("after") ||
		report.Text("auditRecord.route.source") != "mcp" {
		t.Errorf("dry run of a deletion = %s, want agents before, null after and a record from mcp", report)
	}
	list := fx.mustCall("ApiKeyBucketsService_list", map[string]any{"accountName": "acme"})
	if list.Text("data.0.name") != "agents" {
		t.Errorf("ApiKeyBucketsService_list after a dry run = %s, want agents", list)
	}
	key := fx.mustCall("AccountKeysService_create",
		map[string]any{"accountName": "acme", "label": "a", "scopes": []string{"logs:read"}, "dryRun": true})
	if strings.Contains(key.String(), `"gwa_`) {
		t.Errorf("dry run of AccountKeysService_create = %s, want no key in it", key)
	}
	if r := fx.call("ApiKeyBucketsService_create", map[string]any{
		"accountName": "acme", "name": "agents",
		"dryRun": true,
	}); !r.Result.IsError || !strings.Contains(r.text(), "409") {
		t.Errorf("dry run of the creation of an existing bucket = %s, want 409", r.text())
	}
}

func TestUnauthorizedCallersAndOriginsAreRefused(t *testing.T) {
	fx := newFixture(t)
	const message = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	fx.Call("", "POST", endpoint, message).Want(401).WantHeader("WWW-Authenticate", "Bearer")
	fx.Call("gwa_no", "POST", endpoint, message).Want(401).WantHeader("WWW-Authenticate", "Bearer")
	for _, method := range []string{"GET", "DELETE"} {
		resp := fx.Call("", method, endpoint, "").WantHeader("Allow", "POST").WantHeader("Content-Type",
			"text/plain; charset=utf-8")
		if resp.Status != 405 {
			t.Errorf("%s %s = %s, want 405", method, endpoint, resp.Dump)
		}
	}
	for _, foreignOrigin := range []string{
		"https://evil.test", "null", "http://api.test#", "http://api.test?",
		"http://api.test/", "http://api.test:", "http://@api.test", "http://api.test.evil.test", "https://api.test",
		"http://api.test:81",
	} {
		fx.Call(fx.key, "POST", endpoint, message, "Origin", foreignOrigin).Want(403, "GATEWRIGHT_ORIGINS")
		fx.Call("", "OPTIONS", endpoint, "", "Origin", foreignOrigin, "Access-Control-Request-Method", "POST").Want(403)
	}
	ownOrigin := "http://api.test"
	fx.Call(fx.key, "POST", endpoint, message, "Origin", ownOrigin).Want(200).WantHeader("Access-Control-Allow-Origin",
		ownOrigin)
	fx.Call("", "POST", endpoint, message, "Origin", ownOrigin).Want(401).WantHeader("Access-Control-Allow-Origin",
		ownOrigin)
	fx.Call("", "OPTIONS", endpoint, "", "Origin", ownOrigin, "Access-Control-Request-Method", "POST",
		"Access-Control-Request-Headers", "authorization,mcp-name").Want(204).
		WantHeader("Access-Control-Allow-Methods", "POST").WantHeader("Access-Control-Allow-Headers",
		"authorization,mcp-name")
}

// TestDryRunMasksSecrets checks that the states before and after the change are masked in the same way as a read of the
// object. The caller's own arguments must not be masked.
func TestDryRunMasksSecrets(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	fx.mustCall("ApiKeyConsumersService_create", map[string]any{
		"accountName": "acme", "bucketName": "agents",
		"name": "robot", "metadata": map[string]any{"key": "the caller's own"},
	})
	created := fx.send(fx.key, "", call("ApiKeyKeysService_create", map[string]any{
		"accountName": "acme", "bucketName": "agents", "consumerName": "robot",
		"key": "a-key-that-somebody-has-chosen-0123456789", "revealSecrets": true,
	}))
	if created.Error != nil || created.Result.IsError {
		t.Fatalf("ApiKeyKeysService_create = %s, want success", created.text())
	}
	id := functionstest.Parse(t, string(created.Result.StructuredContent)).Text("id")
	for tool, arguments := range map[string]map[string]any{
		"ApiKeyKeysService_create":       {"key": "another-key-that-somebody-has-chosen-01234567"},
		"ApiKeyKeysService_delete":       {"keyId": id},
		"ApiKeyKeysService_update":       {"keyId": id, "description": "another"},
		"ApiKeyConsumersService_update":  {"metadata": map[string]any{"key": "the caller's own"}, "description": "another"},
		"ApiKeyConsumersService_rollKey": {"expiresOn": "2030-01-01T00:00:00Z"},
	} {
		arguments["accountName"], arguments["bucketName"], arguments["consumerName"], arguments["dryRun"] = "acme", "agents",
			"robot", true
		if report := fx.mustCall(tool, arguments).String(); strings.Contains(report, "somebody-has-chosen") {
			t.Errorf("dry run of %s = %s, want no key in it", tool, report)
		} else if tool == "ApiKeyConsumersService_update" && !strings.Contains(report, "the caller's own") {
			t.Errorf("dry run of %s = %s, want the caller's own metadata in it", tool, report)
		}
	}
}

// TestKeyUsedAsIDIsNotAudited checks that audit records do not contain a key that was used instead of its id. Models
// confuse the two.
func TestKeyUsedAsIDIsNotAudited(t *testing.T) {
	fx := newFixture(t)
	r := fx.call("AccountKeysService_delete", map[string]any{"accountName": "acme", "accountKeyId": fx.key})
	resp := fx.Call(fx.key, "DELETE", "/v1/accounts/acme/account-keys/"+fx.key, "")
	var records strings.Builder // read the records from the table, because results of tools are masked
	for _, item := range fx.Items.Items() {
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		records.Write(text)
	}
	if !r.Result.IsError || !strings.Contains(records.String(), "/v1/accounts/acme/account-keys/") {
		t.Fatalf("result = %s, items = %s, want an error and a record of /v1/accounts/acme/account-keys/",
			r.text(), records.String())
	}
	if output := r.text() + string(r.Result.StructuredContent) + resp.Dump + records.String(); strings.Contains(output,
		fx.key) {
		t.Errorf("result, response and items = %s, want no key in them", output)
	}
}
