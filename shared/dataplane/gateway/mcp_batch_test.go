package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
)

// TestBatchCallsRunTheServersPolicies checks that each call of a batch counts for the rate limit of the server's route.
func TestBatchCallsRunTheServersPolicies(t *testing.T) {
	fx := newMCPFixture(t)
	call := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id +
			`,"method":"tools/call","params":{"name":"whoAmI","_meta":{"progressToken":1}}}`
	}
	text := body(t,
		fx.post(t, "/limited/mcp", "["+call("1")+","+call("2")+`,{"jsonrpc":"2.0","method":"notifications/cancelled"},`+
			call(`"three"`)+"]", header("Authorization", "Bearer good")))
	var replies []rpcResponse
	if err := json.Unmarshal([]byte(text), &replies); err != nil || len(replies) != 3 {
		t.Fatalf("POST /limited/mcp with a batch: body = %s, %v, want 3 responses", text, err)
	}
	if replies[0].Error != nil {
		t.Errorf("POST /limited/mcp with a batch: responses = %s, want no error in the first", text)
	}
	if got := fx.last(t).Target; fx.count() != 1 || got != "/users/acme" {
		t.Errorf("POST /limited/mcp with a batch: %d requests at the upstream, the last for %s, want one for /users/acme",
			fx.count(), got)
	}
	for i, id := range []any{2.0, "three"} {
		if got := replies[i+1]; got.ID != id || got.Error == nil || got.Error.Code != -32000 ||
			!strings.Contains(got.Error.Message, "429") {
			t.Errorf("response %d: ID = %+v, error = %+v, want ID %v and error -32000 with 429", i+2, got.ID, got.Error, id)
		}
	}
	if len(fx.allowances.taken) != 3 {
		t.Errorf("calls of Take = %+v, want 3", fx.allowances.taken)
	}
}

// TestBatchResponseSizeIsLimited checks that the whole response to a batch is small enough for a Lambda. A call's
// response that does not fit becomes an error with advice. The calls after it are not made.
func TestBatchResponseSizeIsLimited(t *testing.T) {
	fx := newMCPFixture(t)
	var calls []string
	for i := range 10 {
		calls = append(calls,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"}}}`,
				i))
	}
	for _, tt := range []struct {
		name, text string
		// wantResults is the number of calls with a result, and upstreamCalls the number of calls that are made.
		wantResults, upstreamCalls int
	}{
		{name: "short texts", text: "x", wantResults: 10, upstreamCalls: 10},
		{name: "long texts", text: strings.Repeat("x", 1<<20), wantResults: 3, upstreamCalls: 4},
		{
			name: "texts that are six times as long in JSON", text: strings.Repeat("\x01", 1<<20), wantResults: 0,
			upstreamCalls: 1,
		},
		{name: "texts that fit in JSON", text: strings.Repeat("\x01", 1<<16), wantResults: 10, upstreamCalls: 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fx.mu.Lock()
			fx.handler = func(out http.ResponseWriter, _ *http.Request) {
				out.Header().Set("Content-Type", "text/plain")
				writef(out, "%s", tt.text)
			}
			fx.mu.Unlock()
			before := fx.count()
			text := body(t, fx.post(t, "/mcp", "["+strings.Join(calls, ",")+"]"))
			var replies []rpcResponse
			if err := json.Unmarshal([]byte(text), &replies); err != nil || len(replies) != len(calls) ||
				len(text) > 4<<20+4096 {
				t.Fatalf("batch of %d: %d responses of %d bytes, %v, want one each and at most 4 MiB",
					len(calls), len(replies), len(text), err)
			}
			for i, reply := range replies {
				wantText := map[bool]string{true: "This one was made", false: "This one was not made"}[i < tt.upstreamCalls]
				refused := reply.Error != nil && reply.Error.Code == -32603 && strings.Contains(reply.Error.Message,
					"Send fewer calls at once") && strings.Contains(reply.Error.Message, wantText)
				if reply.ID != float64(i) || refused != (i >= tt.wantResults) || !refused && reply.Error != nil {
					t.Errorf("call %d: ID = %v, error = %+v, want error -32603 with %q only from call %d on",
						i, reply.ID, reply.Error, wantText, tt.wantResults)
				}
			}
			if upstreamCalls := fx.count() - before; upstreamCalls != tt.upstreamCalls {
				t.Errorf("batch of %d: requests at the upstream = %d, want %d", len(calls), upstreamCalls, tt.upstreamCalls)
			}
		})
	}
}

// TestBatchSharesOneCheckBudget checks that all calls of a batch share one budget for the validation of their
// arguments. Calls that exceed the budget are refused, like a single call whose validation takes too long.
func TestBatchSharesOneCheckBudget(t *testing.T) {
	fx := newMCPFixture(t)
	files := mcpFiles(fx.backend.URL, "putList")
	const file, original = "config/routes.oas.json", `"items": {"type": "integer"}`
	text := strings.Replace(string(files[file]), original, `"items": {"anyOf": [`+
		strings.Repeat(`{"const": 0}, `, 99)+`{"const": 1}]}`, 1)
	if text == string(files[file]) {
		t.Fatalf("Replace(%s) in the project = no change, want a change", original)
	}
	files[file] = []byte(text)
	fx.deployments["shop.test"] = &gateway.Deployment{Digest: "two", Artifact: built(t, files)}
	var calls []string
	for i := range 10 {
		calls = append(calls,
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"putList","arguments":{"body":[1%s]}}}`,
				i, strings.Repeat(",1", 3999)))
	}
	var replies []rpcResponse
	if err := json.Unmarshal([]byte(body(t, fx.post(t, "/mcp", "["+strings.Join(calls, ",")+"]"))),
		&replies); err != nil ||
		len(replies) != 10 {
		t.Fatalf("batch of 10: %d responses, %v, want 10", len(replies), err)
	}
	accepted := 0
	for i, reply := range replies {
		refused := reply.Error != nil && reply.Error.Code == -32602 &&
			strings.Contains(reply.Error.Message, "Send fewer values at once")
		switch {
		case refused && i == 0, !refused && (reply.Error != nil || accepted < i || i == len(replies)-1):
			t.Errorf("call %d: error = %+v, want the first calls accepted and all others refused", i, reply.Error)
		case !refused:
			accepted++
		}
	}
	if fx.count() != accepted {
		t.Errorf("batch of 10 calls: requests at the upstream = %d, want %d, as many as were accepted", fx.count(), accepted)
	}
}
