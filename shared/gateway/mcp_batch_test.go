package gateway_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/gateway"
)

// TestEachCallOfABatchPassesTheServersPolicies: ten calls in one body are ten for its limits.
func TestEachCallOfABatchPassesTheServersPolicies(t *testing.T) {
	w := newMCPWorld(t)
	one := func(id string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"whoAmI","_meta":{"progressToken":1}}}`
	}
	text := body(t, w.post(t, "/limited/mcp", "["+one("1")+","+one("2")+`,{"jsonrpc":"2.0","method":"notifications/cancelled"},`+one(`"three"`)+"]", header("Authorization", "Bearer good")))
	var answers []rpc
	if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != 3 {
		t.Fatalf("%s: %v", text, err)
	}
	if answers[0].Error != nil || w.count() != 1 || w.last(t).Target != "/users/acme" {
		t.Errorf("the first: %s", text)
	}
	for i, id := range []any{2.0, "three"} {
		if got := answers[i+1]; got.ID != id || got.Error == nil || got.Error.Code != -32000 || !strings.Contains(got.Error.Message, "429") {
			t.Errorf("another: %+v %+v", got.ID, got.Error)
		}
	}
	if len(w.allowances.asked) != 3 {
		t.Errorf("asked %+v", w.allowances.asked)
	}
}

// TestAllAnswersOfABatchAreBounded together, by what a Lambda can send: what has no room is told what to do, and
// what cannot have any is not made.
func TestAllAnswersOfABatchAreBounded(t *testing.T) {
	w := newMCPWorld(t)
	var calls []string
	for i := range 10 {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"}}}`, i))
	}
	for _, tt := range []struct {
		name, text     string
		answered, made int
	}{
		{name: "some texts", text: "x", answered: 10, made: 10},
		{name: "long ones", text: strings.Repeat("x", 1<<20), answered: 3, made: 4},
		{name: "such as are six times as long in JSON", text: strings.Repeat("\x01", 1<<20), answered: 0, made: 1},
		{name: "which fit", text: strings.Repeat("\x01", 1<<16), answered: 10, made: 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.mu.Lock()
			w.answer = func(out http.ResponseWriter, _ *http.Request) {
				out.Header().Set("Content-Type", "text/plain")
				say(out, "%s", tt.text)
			}
			w.mu.Unlock()
			before := w.count()
			text := body(t, w.post(t, "/mcp", "["+strings.Join(calls, ",")+"]"))
			var answers []rpc
			if err := json.Unmarshal([]byte(text), &answers); err != nil || len(answers) != len(calls) || len(text) > 4<<20+4096 {
				t.Fatalf("%d answers of %d bytes: %v", len(answers), len(text), err)
			}
			for i, answer := range answers {
				of := map[bool]string{true: "This one was made", false: "This one was not made"}[i < tt.made]
				refused := answer.Error != nil && answer.Error.Code == -32603 && strings.Contains(answer.Error.Message, "Send fewer calls at once") && strings.Contains(answer.Error.Message, of)
				if answer.ID != float64(i) || refused != (i >= tt.answered) || !refused && answer.Error != nil {
					t.Errorf("call %d: %v %+v", i, answer.ID, answer.Error)
				}
			}
			if made := w.count() - before; made != tt.made {
				t.Errorf("%d calls were made, want %d", made, tt.made)
			}
		})
	}
}

// TestABatchIsCheckedWithinOneBudget, as one message is: what is over it is refused like arguments that are too much.
func TestABatchIsCheckedWithinOneBudget(t *testing.T) {
	w := newMCPWorld(t)
	files := mcpFiles(w.up.URL, "putList")
	const file, was = "config/routes.oas.json", `"items": {"type": "integer"}`
	text := strings.Replace(string(files[file]), was, `"items": {"anyOf": [{"const": 0}`+strings.Repeat(`, {"const": 1}`, 99)+`]}`, 1)
	if text == string(files[file]) {
		t.Fatalf("%s is not in the project", was)
	}
	files[file] = []byte(text)
	w.deployments["shop.test"] = &gateway.Deployment{Digest: "two", Artifact: built(t, files)}
	var calls []string
	for i := range 10 {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"putList","arguments":{"body":[1%s]}}}`, i, strings.Repeat(",1", 999)))
	}
	var answers []rpc
	if err := json.Unmarshal([]byte(body(t, w.post(t, "/mcp", "["+strings.Join(calls, ",")+"]"))), &answers); err != nil || len(answers) != 10 {
		t.Fatalf("%d answers: %v", len(answers), err)
	}
	for i, answer := range answers {
		if refused := answer.Error != nil && answer.Error.Code == -32602 && strings.Contains(answer.Error.Message, "Send fewer values at once"); refused != (i >= 5) {
			t.Errorf("call %d: %+v", i, answer.Error)
		}
	}
	if w.count() != 5 {
		t.Errorf("%d requests came to the upstream", w.count())
	}
}
