package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/functions/functionstest"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/servercards"
)

// TestCallSendsAllArguments checks that a call sends the arguments of the path, the query, the headers and the body. A
// flag that is false must be sent in the same way as a missing one.
func TestCallSendsAllArguments(t *testing.T) {
	fx := newFixture(t)
	for _, name := range []string{"bucket-a", "bucket-b"} {
		fx.mustCall("ApiKeyBucketsService_create", map[string]any{
			"accountName": "acme", "name": name, "dryRun": false,
			"revealSecrets": false, "idempotencyKey": "order-" + name,
		})
	}
	// The Idempotency-Key is sent: without it, this repeat of the creation would be a conflict.
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{
		"accountName": "acme", "name": "bucket-b",
		"idempotencyKey": "order-bucket-b",
	})
	list := fx.mustCall("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "limit": 1})
	if list.Len("data") != 1 {
		t.Errorf("ApiKeyBucketsService_list with limit 1 = %s, want 1 bucket", list)
	}
	outdated := fx.call("ApiKeyBucketsService_update", map[string]any{
		"accountName": "acme", "bucketName": "bucket-a",
		"description": "another", "ifMatch": `"earlier"`,
	})
	if !outdated.Result.IsError || !strings.Contains(outdated.text(), "412") ||
		!strings.Contains(outdated.text(), "as ifMatch") {
		t.Errorf("ApiKeyBucketsService_update with an outdated ifMatch = %s, want 412 that names ifMatch",
			outdated.text())
	}
	// A call of an operation with an optional body can have one. A call of an operation with a required body has an
	// empty object if there are no arguments.
	fx.mustCall("ApiKeyConsumersService_create", map[string]any{
		"accountName": "acme", "bucketName": "bucket-a",
		"name": "ada",
	})
	keys := map[string]any{
		"accountName": "acme", "bucketName": "bucket-a", "consumerName": "ada",
		"body": []any{map[string]any{}, map[string]any{}},
	}
	if created := fx.mustCall("ApiKeyKeysService_bulkCreate", keys); created.Len("data") != 2 {
		t.Errorf("ApiKeyKeysService_bulkCreate of two keys = %s, want 2", created)
	}
	fx.mustCall("ApiKeyBucketsService_update", map[string]any{"accountName": "acme", "bucketName": "bucket-a"})
	unknown := fx.call("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "dryRun": true})
	if !unknown.Result.IsError || !strings.Contains(unknown.text(), "/dryRun must not be sent") {
		t.Errorf("ApiKeyBucketsService_list with dryRun = %s, want \"/dryRun must not be sent\"", unknown.text())
	}
}

// TestServerMatchesItsCard checks that the server has the name and version of its card. It also checks that a response
// forbids shared caches to store it, because it depends on the key, that the response is not streamed, and that a
// message that is not JSON gets 415.
func TestServerMatchesItsCard(t *testing.T) {
	fx := newFixture(t)
	card := servercards.API()
	fx.Call(fx.key, "POST", endpoint,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
			`"clientInfo":{"name":"a","version":"1"}}}`).
		Want(200, `"name":"`+card.Name+`"`, `"version":"`+card.Version+`"`, `"instructions":"`)
	fx.Call(fx.key, "POST", endpoint,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list",`+
			`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",`+
			`"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", sharedmcp.Version20260728, "Mcp-Method", "tools/list", "Content-Type", "application/json",
		"Accept", "application/json, text/event-stream").
		Want(200, `"cacheScope":"private"`).WantHeader("Cache-Control", "no-store")
	fx.Call(fx.key, "POST", endpoint,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"V1_whoAmI","_meta":{"progressToken":"p"}}}`,
		"Content-Type", "application/json", "Accept",
		"application/json, text/event-stream").Want(200).WantHeader("Content-Type", "application/json")
	resp := fx.Call(fx.key, "POST", endpoint, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Content-Type",
		"text/html")
	if resp.Status != 415 {
		t.Errorf("POST of text/html = %s, want 415", resp.Dump)
	}
}

// TestConfirmHeaderRequiresConfirmation checks that X-MCP-Confirm requires a confirmation and does not hide the tool.
// It also checks that an unknown toolset is refused, even in a list with a known one.
func TestConfirmHeaderRequiresConfirmation(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	if names := fx.toolNames(fx.key, "", "X-MCP-Confirm", "true"); !slices.Contains(names, "ApiKeyBucketsService_delete") {
		t.Errorf("tools with X-MCP-Confirm = %v, want ApiKeyBucketsService_delete in them", names)
	}
	r := fx.send(fx.key, "", call("ApiKeyBucketsService_delete",
		map[string]any{"accountName": "acme", "bucketName": "bucket-a"}), "X-MCP-Confirm", "true")
	if !r.Result.IsError || !strings.Contains(r.text(), "A person has to confirm") {
		t.Errorf("ApiKeyBucketsService_delete = %s, want \"A person has to confirm\"", r.text())
	}
	fx.Call(fx.key, "POST", endpoint+"?toolsets=tunnels,nothing",
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Want(400,
		"query.toolsets", "that there is not")
}

// TestAuditRecordNamesUserAgent checks that the audit record of a call names the user agent of the message.
func TestAuditRecordNamesUserAgent(t *testing.T) {
	fx := newFixture(t)
	r := fx.send(fx.key, "", call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"}),
		"User-Agent", "a-client/1")
	if r.Error != nil || r.Result.IsError {
		t.Fatalf("ApiKeyBucketsService_create = %s, want success", r.text())
	}
	fx.Now = fx.Now.Add(time.Minute)
	record := fx.mustCall("AuditLogsService_list", map[string]any{"accountName": "acme"}).At("data.0")
	if record.Text("context.userAgent") != "a-client/1" {
		t.Errorf("audit record = %s, want the user agent a-client/1", record)
	}
}

// TestRevealingListIsAudited checks that a call that reveals the secrets in a list has an audit record.
func TestRevealingListIsAudited(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "revealSecrets": true})
	fx.Now = fx.Now.Add(time.Minute)
	record := fx.mustCall("AuditLogsService_list", map[string]any{"accountName": "acme"}).At("data.0")
	if !strings.Contains(record.String(), "ApiKeyBucketsService_list") {
		t.Errorf("audit record = %s, want one of ApiKeyBucketsService_list", record)
	}
}

// TestRefusalContainsProblemDocument checks that the result of a refused call contains the API's whole problem
// document, also for a dry run.
func TestRefusalContainsProblemDocument(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	for _, dryRun := range []bool{false, true} {
		r := fx.call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents", "dryRun": dryRun})
		if !r.Result.IsError {
			t.Fatalf("creation of an existing bucket, dryRun %t = %s, want an error", dryRun, r.text())
		}
		if len(r.Result.Content) != 2 {
			t.Fatalf("creation of an existing bucket, dryRun %t = %s, want a text and a problem", dryRun, r.text())
		}
		text, problem := r.Result.Content[0].Text, functionstest.Parse(t, r.Result.Content[1].Text)
		detail := problem.Text("detail")
		if problem.Number("status") != 409 || detail == "" ||
			!strings.Contains(text, detail+"\nRead what is there, and change that") {
			t.Errorf("creation of an existing bucket, dryRun %t = %s, want 409 with its detail and advice",
				dryRun, r.text())
		}
	}
}

// TestBeforeStateIsMasked checks that the dry run of a deletion masks the secrets of the object. The mask is that of
// the tool that reads the object, because the tool that deletes it has none.
func TestBeforeStateIsMasked(t *testing.T) {
	fx := newFixture(t)
	created := fx.mustCall("TunnelService_create", map[string]any{
		"accountName": "acme", "name": "office",
		"revealSecrets": true,
	})
	token := created.Text("token")
	report := fx.mustCall("TunnelService_delete",
		map[string]any{"accountName": "acme", "tunnelId": created.Text("tunnelId"), "dryRun": true})
	if got, want := report.Text("before.token"), "****"+token[len(token)-8:]; got != want {
		t.Errorf("before.token = %q, want %q", got, want)
	}
}

// elicitationCapabilities returns the capabilities of a client that can ask a person.
func elicitationCapabilities() map[string]any {
	return map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
}

// confirmParams returns the parameters of a call that contain a person's response to a question.
func confirmParams(state, action string, content map[string]any) map[string]any {
	return map[string]any{
		"requestState":   state,
		"inputResponses": map[string]any{"confirm": map[string]any{"action": action, "content": content}},
	}
}

// TestOnlyDestructiveCallsNeedConfirmation checks that no confirmation is required for calls that only add something,
// for dry runs, and for calls that would be refused.
func TestOnlyDestructiveCallsNeedConfirmation(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	const deleteTool = "ApiKeyBucketsService_delete"
	for name, tt := range map[string]struct {
		tool        string
		arguments   map[string]any
		wantRefusal string
	}{
		"creation":           {"ApiKeyBucketsService_create", map[string]any{"name": "bucket-b"}, ""},
		"dry run":            {deleteTool, map[string]any{"bucketName": "bucket-a", "dryRun": true}, ""},
		"missing object":     {deleteTool, map[string]any{"bucketName": "bucket-c"}, "404"},
		"invalid arguments":  {deleteTool, map[string]any{"bucketName": "bucket-a", "ifMatch": "no ETag"}, "400"},
		"outdated condition": {deleteTool, map[string]any{"bucketName": "bucket-a", "ifMatch": `"earlier"`}, "412"},
	} {
		tt.arguments["accountName"] = "acme"
		r := fx.callConfirmable(fx.key, "?confirm=true", tt.tool, tt.arguments, nil, elicitationCapabilities())
		if r.Error != nil || len(r.Result.InputRequests) > 0 || r.Result.IsError != (tt.wantRefusal != "") ||
			!strings.Contains(r.text(), tt.wantRefusal) {
			t.Errorf("%s: result = %s %+v, want the error %q and no question", name, r.text(), r.Result, tt.wantRefusal)
		}
	}
}

// TestQuestionListsRemovedObjects checks that a question names the call, the arguments that are not in the path, and
// the objects that the call removes.
func TestQuestionListsRemovedObjects(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	fx.mustCall("ApiKeyConsumersService_create", map[string]any{
		"accountName": "acme", "bucketName": "bucket-a",
		"name": "ada", "with-api-key": true,
	})
	questionFor := func(tool string, arguments map[string]any) string {
		arguments["accountName"], arguments["bucketName"] = "acme", "bucket-a"
		r := fx.callConfirmable(fx.key, "?confirm=true", tool, arguments, nil, elicitationCapabilities())
		if len(r.Result.InputRequests) != 1 {
			t.Errorf("%s = %s, want 1 question", tool, r.text())
		}
		return r.Result.InputRequests["confirm"].Params.Message
	}
	for range 8 { // repeat, because the order of a map is random
		const want = ": DELETE /v1/accounts/acme/key-buckets/bucket-a? It removes apiKeys: 1, consumers: 1, keyBuckets: 1."
		if message := questionFor("ApiKeyBucketsService_delete", map[string]any{}); !strings.HasSuffix(message, want) ||
			strings.HasPrefix(message, ":") {
			t.Fatalf("question = %q, want it to end with %q after a title", message, want)
		}
	}
	const wantText = "/consumers/bob?tag.team=blue? It removes consumers: 1."
	tagged := map[string]any{
		"accountName": "acme", "bucketName": "bucket-a", "name": "bob",
		"tags": map[string]any{"team": "blue"},
	}
	fx.mustCall("ApiKeyConsumersService_create", tagged)
	if message := questionFor("ApiKeyConsumersService_delete",
		map[string]any{"consumerName": "bob", "tag": map[string]any{"tag.team": "blue"}}); !strings.Contains(message,
		wantText) {
		t.Errorf("question = %q, want %q in it", message, wantText)
	}
	change := map[string]any{
		"consumerName": "ada", "description": "a" + strings.Repeat("é", 1023),
		"idempotencyKey": "order-17",
	}
	message := questionFor("ApiKeyConsumersService_update", change)
	_, excerpt, _ := strings.Cut(message, " with ")
	excerpt, more, _ := strings.Cut(excerpt, "… and ")
	wantMore := len(`{"description":"`) + 1 + 2*1023 + len(`"}`) - len(excerpt)
	if !strings.Contains(message, ": PATCH /v1/") || strings.Contains(message, "order-17") ||
		strings.Contains(message, "\ufffd") || more != fmt.Sprintf("%d bytes more?", wantMore) {
		t.Errorf("question = %q, want a PATCH without order-17 and \\ufffd, with %d bytes more", message, wantMore)
	}
}

// TestOtherResponsesDoNotConfirm checks that only the right response of a person confirms a call. The confirmation of a
// call of another tool must not confirm it either. A client with an older version of the protocol cannot ask a person,
// so its call must be refused.
func TestOtherResponsesDoNotConfirm(t *testing.T) {
	fx := newFixture(t)
	tunnel := fx.mustCall("TunnelService_create", map[string]any{"accountName": "acme", "name": "office"}).Text("tunnelId")
	target := map[string]any{"accountName": "acme", "tunnelId": tunnel}
	const tool, otherTool = "TunnelService_delete", "TunnelService_update" // both tools accept the same arguments
	state := func(tool string) string {
		r := fx.callConfirmable(fx.key, "?confirm=true", tool, target, nil, elicitationCapabilities())
		if r.Result.RequestState == "" {
			t.Fatalf("%s = %s, want a request state", tool, r.text())
		}
		return r.Result.RequestState
	}
	toolState, confirmed := state(tool), map[string]any{"confirm": true}
	withoutResponse := confirmParams(toolState, "accept", confirmed)
	delete(withoutResponse, "inputResponses")
	for name, tt := range map[string]struct {
		params map[string]any
		text   string
	}{
		"no response":    {withoutResponse, "inputResponses"},
		"empty response": {confirmParams(toolState, "accept", map[string]any{}), "did not confirm"},
		"text as response": {
			confirmParams(toolState, "accept", map[string]any{"confirm": "true"}), "did not confirm",
		},
		"declined with a confirmation": {confirmParams(toolState, "decline", confirmed), "did not confirm"},
		"canceled with a confirmation": {confirmParams(toolState, "cancel", confirmed), "did not confirm"},
		"confirmation of another tool": {confirmParams(state(otherTool), "accept", confirmed), "not of this call"},
	} {
		if r := fx.callConfirmable(fx.key, "?confirm=true", tool, target, tt.params,
			elicitationCapabilities()); !r.Result.IsError || !strings.Contains(r.text(), tt.text) {
			t.Errorf("%s: result = %s, want an error with %s", name, r.text(), tt.text)
		}
	}
	fx.mustCall("TunnelService_read", target)
	fx.Now = fx.Now.Add(9 * time.Minute) // less than confirmationTimeout
	if r := fx.callConfirmable(fx.key, "?confirm=true", tool, map[string]any{"accountName": "acme", "tunnelId": tunnel},
		confirmParams(toolState, "accept", confirmed), elicitationCapabilities()); r.Error != nil || r.Result.IsError {
		t.Errorf("%s confirmed after nine minutes = %s, want success", tool, r.text())
	}
	oldCall := call(tool, target)
	oldCall["params"].(map[string]any)["_meta"] = map[string]any{
		"io.modelcontextprotocol/clientCapabilities": elicitationCapabilities(),
	}
	if r := fx.send(fx.key, "?confirm=true", oldCall, "Mcp-Protocol-Version", "2025-11-25"); !r.Result.IsError ||
		!strings.Contains(r.text(), "takes the protocol "+sharedmcp.Version20260728) {
		t.Errorf("%s of the protocol 2025-11-25 = %s, want a refusal that names %s",
			tool, r.text(), sharedmcp.Version20260728)
	}
}

// failingRootKey is a root key that cannot be read.
type failingRootKey struct{}

func (failingRootKey) Root(context.Context) ([]byte, error) {
	return nil, errors.New("the root key is away")
}

// requestID matches the message for an internal error, which contains a request ID.
var requestID = regexp.MustCompile(`^The server failed on this call\. Quote the request id .*: [0-9a-f-]{36}\.$`)

// TestCallFailsWithoutRootKeyForQuestion checks that a call that needs a confirmation fails if the root key cannot be
// read, because the state of the question cannot be sealed.
func TestCallFailsWithoutRootKeyForQuestion(t *testing.T) {
	fx := newFixture(t)
	id := fx.mustCall("AccountKeysService_create",
		map[string]any{"accountName": "acme", "label": "a", "scopes": []string{"logs:read"}}).Text("id")
	fx.Now = fx.Now.Add(time.Minute)
	fx.Parts.Key = failingRootKey{}
	fx.Restart()
	r := fx.callConfirmable(fx.key, "?confirm=true", "AccountKeysService_delete",
		map[string]any{"accountName": "acme", "accountKeyId": id}, nil, elicitationCapabilities())
	if r.Error == nil || r.Error.Code != -32603 || !requestID.MatchString(r.text()) {
		t.Errorf("AccountKeysService_delete without the root key = %s %+v, want error -32603 with the request id",
			r.text(), r.Result)
	}
	if list := fx.mustCall("AccountKeysService_list", map[string]any{"accountName": "acme"}).String(); !strings.Contains(
		list, id) {
		t.Errorf("AccountKeysService_list = %s, want the key %s in it", list, id)
	}
}
