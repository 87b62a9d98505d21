package mcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// FuzzMessages reads what anybody may send: what is taken is a JSON-RPC message that everybody reads in the same
// way, and what is refused is refused by an answer that can be read.
func FuzzMessages(f *testing.F) {
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"a":[1e3]}}}]`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `[]`, `[[]]`, `null`, ` `,
		`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, `{"jsonrpc":"2.0","ID":1,"Method":"ping","method":"ping","params":null}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":1e309}}`,
		`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", `{"jsonrpc":"2.0","id":1,"method":"pi\u006eg"} {}`,
		strings.Repeat("[", 200), `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"\u0061","method":"ping"}]`, `[{"jsonrpc":"2.0","id":0,"method":"ping"},{"jsonrpc":"2.0","id":-0,"method":"ping"}]`,
		`{"jsonrpc":"2.0","id":-0,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping","result":{},"error":1}`,
	} {
		f.Add([]byte(text))
	}
	server := New(Setup{})
	f.Fuzz(func(t *testing.T, body []byte) {
		messages, batch, err := readMessages(body)
		if err != nil {
			refused, ok := errors.AsType[*messageError](err)
			if !ok || refused.status != http.StatusBadRequest || !slices.Contains([]int{codeParse, codeInvalidRequest}, refused.code) {
				t.Fatalf("%q: %v", body, err)
			}
			var answer struct {
				Version string `json:"jsonrpc"`
				Error   struct {
					Code    int
					Message string
				}
			}
			if json.Unmarshal(encodeError(refused), &answer) != nil || answer.Version != "2.0" || answer.Error.Code != refused.code || answer.Error.Message == "" {
				t.Fatalf("%q is answered %s", body, encodeError(refused))
			}
			return
		}
		var all []map[string]any
		if text := strings.TrimSpace(string(body)); batch != strings.HasPrefix(text, "[") {
			t.Fatalf("%q: a batch: %v", body, batch)
		} else if !batch {
			body = []byte("[" + text + "]")
		}
		if err := json.Unmarshal(body, &all); err != nil || len(all) > maxBatch || len(messages) > len(all) {
			t.Fatalf("%q is taken: %v", body, err)
		}
		ids, next := map[any]bool{}, 0
		for _, each := range all {
			if each["method"] == nil {
				continue // an answer
			}
			m := messages[next]
			next++
			if m.Version != "2.0" || m.Method != each["method"] || m.Method == "" || m.isCall() != (each["id"] != nil) {
				t.Fatalf("%q is %+v", body, m)
			}
			if m.isCall() {
				again, err := json.Marshal(map[string]json.RawMessage{"id": m.ID})
				if err != nil || ids[each["id"]] {
					t.Fatalf("%q has the id %s: %v", body, again, err)
				}
				ids[each["id"]] = true
			}
			if params, isObject := each["params"].(map[string]any); (len(m.Params) > 0) != isObject || each["params"] != nil && !isObject {
				t.Fatalf("%q has the parameters %s, %v", body, m.Params, params)
			}
			_ = m.wantsProgress()
			if server.refuseMethod(&m, "") == nil && m.isCall() && !slices.Contains(server.methods(""), m.Method) {
				t.Fatalf("%q is passed on", body)
			}
		}
		if next != len(messages) {
			t.Fatalf("%q has %d messages, want %d", body, len(messages), next)
		}
	})
}
