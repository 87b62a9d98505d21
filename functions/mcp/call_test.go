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
	"github.com/gatewright/gatewright/shared/cards"
	sharedmcp "github.com/gatewright/gatewright/shared/mcp"
)

// TestACallSendsAllOfItsArguments: those of the query and of the header too, and a flag that is off as one that is not there.
func TestACallSendsAllOfItsArguments(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"bucket-a", "bucket-b"} {
		w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": name, "dryRun": false, "revealSecrets": false, "idempotencyKey": "order-" + name})
	}
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-b", "idempotencyKey": "order-bucket-b"}) // or it is a conflict
	if list := w.done("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "limit": 1}); list.Len("data") != 1 {
		t.Errorf("of two buckets one is asked for, and it lists %s", list)
	}
	outdated := w.call("ApiKeyBucketsService_update", map[string]any{"accountName": "acme", "bucketName": "bucket-a", "description": "another", "ifMatch": `"earlier"`})
	if !outdated.Result.IsError || !strings.Contains(outdated.text(), "412") || !strings.Contains(outdated.text(), "as ifMatch") {
		t.Errorf("on a condition that does not hold it answers %s", outdated.text())
	}
	// What may have a body and needs none has it, and what needs one has it without a field.
	w.done("ApiKeyConsumersService_create", map[string]any{"accountName": "acme", "bucketName": "bucket-a", "name": "ada"})
	keys := map[string]any{"accountName": "acme", "bucketName": "bucket-a", "consumerName": "ada", "body": []any{map[string]any{}, map[string]any{}}}
	if made := w.done("ApiKeyKeysService_bulkCreate", keys); made.Len("data") != 2 {
		t.Errorf("two keys are sent, and made is %s", made)
	}
	w.done("ApiKeyBucketsService_update", map[string]any{"accountName": "acme", "bucketName": "bucket-a"})
	unknown := w.call("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "dryRun": true})
	if !unknown.Result.IsError || !strings.Contains(unknown.text(), "'dryRun' not allowed") {
		t.Errorf("what changes nothing is tried, and answers %s", unknown.text())
	}
}

// TestTheServerIsCalledAsOnItsCard, and says that no cache may share what a key is shown. It answers in one piece.
func TestTheServerIsCalledAsOnItsCard(t *testing.T) {
	w := newWorld(t)
	about := cards.API()
	w.Call(w.key, "POST", endpoint, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`).
		Want(200, `"name":"`+about.Name+`"`, `"version":"`+about.Version+`"`, `"instructions":"`)
	w.Call(w.key, "POST", endpoint, `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`,
		"Mcp-Protocol-Version", sharedmcp.Version20260728, "Mcp-Method", "tools/list", "Content-Type", "application/json", "Accept", "application/json, text/event-stream").
		Want(200, `"cacheScope":"private"`).WantHeader("Cache-Control", "no-store")
	w.Call(w.key, "POST", endpoint, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"V1_whoAmI","_meta":{"progressToken":"p"}}}`,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream").Want(200).WantHeader("Content-Type", "application/json")
	if a := w.Call(w.key, "POST", endpoint, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Content-Type", "text/html"); a.Status != 415 {
		t.Errorf("what is no JSON is answered %s", a.Whole)
	}
}

// TestAHeaderHasAPersonConfirm, and rules nothing else out; a toolset that there is not is refused beside one that there is.
func TestAHeaderHasAPersonConfirm(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	if names := w.names(w.key, "", "X-MCP-Confirm", "true"); !slices.Contains(names, "ApiKeyBucketsService_delete") {
		t.Errorf("there are %v", names)
	}
	r := w.send(w.key, "", call("ApiKeyBucketsService_delete", map[string]any{"accountName": "acme", "bucketName": "bucket-a"}), "X-MCP-Confirm", "true")
	if !r.Result.IsError || !strings.Contains(r.text(), "A person has to confirm") {
		t.Errorf("it answers %s", r.text())
	}
	w.Call(w.key, "POST", endpoint+"?toolsets=tunnels,nothing", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Want(400, "query.toolsets", "that there is not")
}

// TestARecordNamesTheAgent that sent the message.
func TestARecordNamesTheAgent(t *testing.T) {
	w := newWorld(t)
	r := w.send(w.key, "", call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"}), "User-Agent", "a-client/1")
	if r.Error != nil || r.Result.IsError {
		t.Fatal(r.text())
	}
	w.Now = w.Now.Add(time.Minute)
	if record := w.done("AuditLogsService_list", map[string]any{"accountName": "acme"}).At("data.0"); record.Text("context.userAgent") != "a-client/1" {
		t.Errorf("the record says %s", record)
	}
}

// TestAListThatShowsSecretsIsRecorded as one thing is.
func TestAListThatShowsSecretsIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_list", map[string]any{"accountName": "acme", "revealSecrets": true})
	w.Now = w.Now.Add(time.Minute)
	if record := w.done("AuditLogsService_list", map[string]any{"accountName": "acme"}).At("data.0"); !strings.Contains(record.String(), "ApiKeyBucketsService_list") {
		t.Errorf("the record says %s", record)
	}
}

// TestARefusalIsToldWhole: the problem as the API has it, also of what was only tried.
func TestARefusalIsToldWhole(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents"})
	for _, dryRun := range []bool{false, true} {
		r := w.call("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "agents", "dryRun": dryRun})
		if !r.Result.IsError {
			t.Fatalf("tried %t: it answers %s", dryRun, r.text())
		}
		if len(r.Result.Content) != 2 {
			t.Fatalf("tried %t: it answers %s", dryRun, r.text())
		}
		inWords, problem := r.Result.Content[0].Text, functionstest.Parse(t, r.Result.Content[1].Text)
		detail := problem.Text("detail")
		if problem.Number("status") != 409 || detail == "" || !strings.Contains(inWords, detail+"\nRead what is there, and change that") {
			t.Errorf("tried %t: it answers %s", dryRun, r.text())
		}
	}
}

// TestWhatIsThereBeforeIsMasked as its read is: what deletes it has no secrets of its own.
func TestWhatIsThereBeforeIsMasked(t *testing.T) {
	w := newWorld(t)
	made := w.done("TunnelService_create", map[string]any{"accountName": "acme", "name": "office", "revealSecrets": true})
	token := made.Text("token")
	tried := w.done("TunnelService_delete", map[string]any{"accountName": "acme", "tunnelId": made.Text("tunnelId"), "dryRun": true})
	if got, want := tried.Text("before.token"), "****"+token[len(token)-8:]; got != want {
		t.Errorf("of the token of a tunnel that would go %q is shown, want %q", got, want)
	}
}

// asks is what a client says that can ask a person.
func asks() map[string]any {
	return map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
}

// said is what such a client sends of the person's answer.
func said(state, action string, content map[string]any) map[string]any {
	return map[string]any{"requestState": state, "inputResponses": map[string]any{"confirm": map[string]any{"action": action, "content": content}}}
}

// TestAPersonIsAskedAboutWhatIsDestroyedAlone: what adds, what is only tried and what would be refused is not asked about.
func TestAPersonIsAskedAboutWhatIsDestroyedAlone(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	const remove = "ApiKeyBucketsService_delete"
	for name, tt := range map[string]struct {
		tool      string
		arguments map[string]any
		refused   string
	}{
		"adds":     {"ApiKeyBucketsService_create", map[string]any{"name": "bucket-b"}, ""},
		"tried":    {remove, map[string]any{"bucketName": "bucket-a", "dryRun": true}, ""},
		"absent":   {remove, map[string]any{"bucketName": "bucket-c"}, "404"},
		"unfit":    {remove, map[string]any{"bucketName": "bucket-a", "ifMatch": "no ETag"}, "400"},
		"outdated": {remove, map[string]any{"bucketName": "bucket-a", "ifMatch": `"earlier"`}, "412"},
	} {
		tt.arguments["accountName"] = "acme"
		r := w.confirmable(w.key, "?confirm=true", tt.tool, tt.arguments, nil, asks())
		if r.Error != nil || len(r.Result.InputRequests) > 0 || r.Result.IsError != (tt.refused != "") || !strings.Contains(r.text(), tt.refused) {
			t.Errorf("%s: it answers %s %+v", name, r.text(), r.Result)
		}
	}
}

// TestAPersonIsToldWhatGoesAlong, which call it is, and what of it the path does not say.
func TestAPersonIsToldWhatGoesAlong(t *testing.T) {
	w := newWorld(t)
	w.done("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	w.done("ApiKeyConsumersService_create", map[string]any{"accountName": "acme", "bucketName": "bucket-a", "name": "ada", "with-api-key": true})
	ask := func(tool string, arguments map[string]any) string {
		arguments["accountName"], arguments["bucketName"] = "acme", "bucket-a"
		r := w.confirmable(w.key, "?confirm=true", tool, arguments, nil, asks())
		if len(r.Result.InputRequests) != 1 {
			t.Errorf("%s is answered %s", tool, r.text())
		}
		return r.Result.InputRequests["confirm"].Params.Message
	}
	for range 8 { // what is counted is a map
		const want = ": DELETE /v1/accounts/acme/key-buckets/bucket-a? It removes apiKeys: 1, consumers: 1, keyBuckets: 1."
		if message := ask("ApiKeyBucketsService_delete", map[string]any{}); !strings.HasSuffix(message, want) || strings.HasPrefix(message, ":") {
			t.Fatalf("it asks %q, want %q", message, want)
		}
	}
	const one = "/consumers/ada?tag.team=blue? It removes "
	tagged := map[string]any{"accountName": "acme", "bucketName": "bucket-a", "name": "bob", "tags": map[string]any{"team": "blue"}}
	w.done("ApiKeyConsumersService_create", tagged)
	if message := ask("ApiKeyConsumersService_delete", map[string]any{"consumerName": "bob", "tag": map[string]any{"tag.team": "blue"}}); !strings.Contains(message, "/consumers/bob?tag.team=blue? It removes consumers: 1.") {
		t.Errorf("it asks %q, want %q", message, one)
	}
	change := map[string]any{"consumerName": "ada", "description": "a" + strings.Repeat("é", 1023), "idempotencyKey": "order-17"}
	message := ask("ApiKeyConsumersService_update", change)
	_, shown, _ := strings.Cut(message, " with ")
	shown, more, _ := strings.Cut(shown, "… and ")
	left := len(`{"description":"`) + 1 + 2*1023 + len(`"}`) - len(shown)
	if !strings.Contains(message, ": PATCH /v1/") || strings.Contains(message, "order-17") || strings.Contains(message, "\ufffd") || more != fmt.Sprintf("%d bytes more?", left) {
		t.Errorf("it asks %q, want that %d bytes more are sent", message, left)
	}
}

// TestAnAnswerThatIsNoYesIsNone, whatever else is in it, and one about another tool.
func TestAnAnswerThatIsNoYesIsNone(t *testing.T) {
	w := newWorld(t)
	tunnel := w.done("TunnelService_create", map[string]any{"accountName": "acme", "name": "office"}).Text("tunnelId")
	target := map[string]any{"accountName": "acme", "tunnelId": tunnel}
	const tool, another = "TunnelService_delete", "TunnelService_update" // which takes the same
	state := func(tool string) string {
		r := w.confirmable(w.key, "?confirm=true", tool, target, nil, asks())
		if r.Result.RequestState == "" {
			t.Fatalf("%s is answered %s", tool, r.text())
		}
		return r.Result.RequestState
	}
	own, yes := state(tool), map[string]any{"confirm": true}
	unanswered := said(own, "accept", yes)
	delete(unanswered, "inputResponses")
	for name, tt := range map[string]struct {
		more map[string]any
		says string
	}{
		"nothing":            {unanswered, "inputResponses"},
		"nothing in it":      {said(own, "accept", map[string]any{}), "did not confirm"},
		"a word":             {said(own, "accept", map[string]any{"confirm": "true"}), "did not confirm"},
		"declined with yes":  {said(own, "decline", yes), "did not confirm"},
		"cancelled with yes": {said(own, "cancel", yes), "did not confirm"},
		"of another tool":    {said(state(another), "accept", yes), "not of this call"},
	} {
		if r := w.confirmable(w.key, "?confirm=true", tool, target, tt.more, asks()); !r.Result.IsError || !strings.Contains(r.text(), tt.says) {
			t.Errorf("%s: it answers %s, want %s", name, r.text(), tt.says)
		}
	}
	w.done("TunnelService_read", target)
	w.Now = w.Now.Add(9 * time.Minute) // as long as somebody may take to read it
	if r := w.confirmable(w.key, "?confirm=true", tool, map[string]any{"accountName": "acme", "tunnelId": tunnel}, said(own, "accept", yes), asks()); r.Error != nil || r.Result.IsError {
		t.Errorf("confirmed nine minutes later it answers %s", r.text())
	}
	older := call(tool, target)
	older["params"].(map[string]any)["_meta"] = map[string]any{"io.modelcontextprotocol/clientCapabilities": asks()}
	if r := w.send(w.key, "?confirm=true", older, "Mcp-Protocol-Version", "2025-11-25"); !r.Result.IsError || !strings.Contains(r.text(), "takes the protocol "+sharedmcp.Version20260728) {
		t.Errorf("a client of before there were questions is answered %s", r.text())
	}
}

// noKey is a root key that cannot be had.
type noKey struct{}

func (noKey) Root(context.Context) ([]byte, error) { return nil, errors.New("the root key is away") }

// requestID is what is told of what went wrong inside.
var requestID = regexp.MustCompile(`^The server failed on this call\. Quote the request id .*: [0-9a-f-]{36}\.$`)

// TestNothingIsDoneWhereNobodyCanBeAsked, since the question cannot be sealed.
func TestNothingIsDoneWhereNobodyCanBeAsked(t *testing.T) {
	w := newWorld(t)
	id := w.done("AccountKeysService_create", map[string]any{"accountName": "acme", "label": "a", "scopes": []string{"logs:read"}}).Text("id")
	w.Now = w.Now.Add(time.Minute)
	w.Parts.Key = noKey{}
	w.Restart()
	r := w.confirmable(w.key, "?confirm=true", "AccountKeysService_delete", map[string]any{"accountName": "acme", "accountKeyId": id}, nil, asks())
	if r.Error == nil || r.Error.Code != -32603 || !requestID.MatchString(r.text()) {
		t.Errorf("it answers %s %+v", r.text(), r.Result)
	}
	if list := w.done("AccountKeysService_list", map[string]any{"accountName": "acme"}).String(); !strings.Contains(list, id) {
		t.Errorf("there is %s", list)
	}
}
