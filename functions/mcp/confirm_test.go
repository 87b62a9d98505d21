package mcp_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/auth"
	sharedmcp "github.com/gatewright/gatewright/shared/format/mcp"
)

// callConfirmable sends a call as a client with the protocol version 2026-07-28 and these capabilities. extra has
// further parameters of the message, such as the person's response.
func (fx fixture) callConfirmable(key, query, tool string, arguments, extra, capabilities map[string]any) result {
	fx.Helper()
	message := call(tool, arguments)
	params := message["params"].(map[string]any)
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    sharedmcp.Version20260728,
		"io.modelcontextprotocol/clientCapabilities": capabilities,
	}
	for name, value := range extra {
		params[name] = value
	}
	return fx.send(key, query, message, "Mcp-Protocol-Version", sharedmcp.Version20260728, "Mcp-Method", "tools/call",
		"Mcp-Name", tool,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream")
}

// TestConfirmationIsBoundToCall checks that a confirmation is only valid for the same key and the same arguments, and
// only until it expires. TestOtherResponsesDoNotConfirm confirms the call of another tool.
func TestConfirmationIsBoundToCall(t *testing.T) {
	fx := newFixture(t)
	for _, name := range []string{"bucket-a", "bucket-b"} {
		fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": name})
	}
	capabilities := map[string]any{"elicitation": map[string]any{"form": map[string]any{}}}
	confirmKey := fx.CreateKey("acme", func(p *auth.Permissions) { p.Confirm = true })
	target := func(name string) map[string]any { return map[string]any{"accountName": "acme", "bucketName": name} }
	params := func(state, action string, content map[string]any) map[string]any {
		return map[string]any{
			"requestState":   state,
			"inputResponses": map[string]any{"confirm": map[string]any{"action": action, "content": content}},
		}
	}
	const tool = "ApiKeyBucketsService_delete"
	exists := func(name string) bool {
		return strings.Contains(fx.mustCall("ApiKeyBucketsService_list", map[string]any{"accountName": "acme"}).String(),
			`"name":"`+name+`"`)
	}
	first := fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), nil, capabilities)
	question := first.Result.InputRequests["confirm"]
	if first.Result.ResultType != "input_required" || question.Method != "elicitation/create" ||
		!strings.Contains(question.Params.Message, "/v1/accounts/acme/key-buckets/bucket-a") || !exists("bucket-a") {
		t.Fatalf("%s = %s %+v, want a question about bucket-a, which still exists", tool, first.text(), first.Result)
	}
	confirmed := map[string]any{"confirm": true}
	state := first.Result.RequestState
	for name, r := range map[string]result{
		"other arguments": fx.callConfirmable(confirmKey, "", tool, target("bucket-b"), params(state, "accept", confirmed),
			capabilities),
		"another key": fx.callConfirmable(fx.key, "?confirm=true", tool, target("bucket-a"),
			params(state, "accept", confirmed), capabilities),
		"a made-up state": fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), params("AAAA", "accept", confirmed),
			capabilities),
		"confirm is false": fx.callConfirmable(confirmKey, "", tool, target("bucket-a"),
			params(state, "accept", map[string]any{"confirm": false}), capabilities),
		"declined question": fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), params(state, "decline", nil),
			capabilities),
		"no response": fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), map[string]any{"requestState": state},
			capabilities),
		"client without elicitation": fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), nil, map[string]any{}),
		"an older version":           fx.send(confirmKey, "", call(tool, target("bucket-a"))),
	} {
		if !r.Result.IsError || !exists("bucket-a") || !exists("bucket-b") {
			t.Errorf("%s: %s = %s %+v, want an error, and both buckets unchanged", name, tool, r.text(), r.Result)
		}
	}
	fx.Now = fx.Now.Add(11 * time.Minute)
	if r := fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), params(state, "accept", confirmed),
		capabilities); !r.Result.IsError || !exists("bucket-a") {
		t.Errorf("%s confirmed after eleven minutes = %s, want an error, and bucket-a unchanged", tool, r.text())
	}
	state = fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), nil, capabilities).Result.RequestState
	if r := fx.callConfirmable(confirmKey, "", tool, target("bucket-a"), params(state, "accept", confirmed),
		capabilities); r.Error != nil || r.Result.IsError || exists("bucket-a") {
		t.Errorf("%s confirmed = %s, want bucket-a deleted", tool, r.text())
	}
	if r := fx.callConfirmable(fx.key, "", tool, target("bucket-b"), nil, capabilities); r.Error != nil ||
		r.Result.IsError || exists("bucket-b") {
		t.Errorf("%s with a key that needs no confirmation = %s, want bucket-b deleted", tool, r.text())
	}
}

// TestQuestionShowsArgumentsWithoutSecrets checks that a question masks the secrets in arguments, and says if the
// response shows secrets. It also checks that the confirmation of one question is not valid for another.
func TestQuestionShowsArgumentsWithoutSecrets(t *testing.T) {
	fx := newFixture(t)
	fx.mustCall("ApiKeyBucketsService_create", map[string]any{"accountName": "acme", "name": "bucket-a"})
	fx.mustCall("ApiKeyConsumersService_create", map[string]any{
		"accountName": "acme", "bucketName": "bucket-a",
		"name": "somebody",
	})
	const firstKey, secondKey = "a-chosen-key-of-a-consumer-1", "a-chosen-key-of-a-consumer-2"
	keyPath := map[string]any{"accountName": "acme", "bucketName": "bucket-a", "consumerName": "somebody"}
	callWith := func(tool string, fields, extra map[string]any) result {
		arguments := map[string]any{}
		for _, part := range []map[string]any{keyPath, fields} {
			maps.Copy(arguments, part)
		}
		return fx.callConfirmable(fx.key, "?confirm=true", tool, arguments, extra,
			map[string]any{"elicitation": map[string]any{"form": map[string]any{}}})
	}
	created := fx.mustCall("ApiKeyKeysService_create", map[string]any{
		"accountName": "acme", "bucketName": "bucket-a",
		"consumerName": "somebody", "key": firstKey,
	})
	keyPath["keyId"] = created.Text("id")
	const tool = "ApiKeyKeysService_update"
	questionResult := callWith(tool, map[string]any{"description": "mine now", "key": secondKey}, nil)
	message := questionResult.Result.InputRequests["confirm"].Params.Message
	if !strings.Contains(message, `"description":"mine now"`) || strings.Contains(message, secondKey) ||
		strings.Contains(message, "consumerName") || strings.Contains(message, "shown") {
		t.Errorf("question = %q, result = %s, want the description without the key, consumerName and secrets",
			message, questionResult.text())
	}
	long := callWith(tool, map[string]any{"description": strings.Repeat("é", 1024)}, nil)
	if message := long.Result.InputRequests["confirm"].Params.Message; len(message) > 2500 ||
		!strings.Contains(message, " bytes more?") {
		t.Errorf("question = %q, result = %s, want at most 2500 bytes that end with the number of the others",
			message, long.text())
	}
	params := map[string]any{"inputResponses": map[string]any{"confirm": map[string]any{
		"action":  "accept",
		"content": map[string]any{"confirm": true},
	}}}
	change := map[string]any{"description": "x"}
	params["requestState"] = callWith(tool, change, nil).Result.RequestState
	change["revealSecrets"] = true
	if r := callWith(tool, change, params); !r.Result.IsError {
		t.Errorf("%s confirmed without revealSecrets and called with it = %s, want an error", tool, r.text())
	}
	revealQuestion := callWith(tool, change, nil)
	if message := revealQuestion.Result.InputRequests["confirm"].Params.Message; !strings.Contains(message,
		"Secrets in its answer are shown") {
		t.Errorf("question with revealSecrets = %q, want \"Secrets in its answer are shown\"", message)
	}
	params["requestState"] = revealQuestion.Result.RequestState
	if r := callWith(tool, change, params); r.Error != nil || r.Result.IsError {
		t.Errorf("%s confirmed with revealSecrets = %s, want success", tool, r.text())
	}
}
