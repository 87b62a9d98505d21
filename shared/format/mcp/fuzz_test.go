package mcp

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// messageSeeds are bodies of requests from which the fuzzer starts.
var messageSeeds = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
	`[{"jsonrpc":"2.0","id":1,"method":"ping"},` +
		`{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x","arguments":{"a":[1e3]}}}]`,
	`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","id":1,"result":{}}`, `[]`, `[[]]`,
	`null`, ` `,
	`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`,
	`{"jsonrpc":"2.0","ID":1,"Method":"ping","method":"ping","params":null}`,
	`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":null,"method":"ping"}`,
	`{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}`,
	`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"n":1e309}}`,
	`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}",
	`{"jsonrpc":"2.0","id":1,"method":"pi\u006eg"} {}`,
	strings.Repeat("[", 200),
	`{"jsonrpc":"2.0","id":1,"method":"tools/call",` +
		`"params":{"_meta":{"progressToken":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
	`[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"\u0061","method":"ping"}]`,
	`[{"jsonrpc":"2.0","id":0,"method":"ping"},{"jsonrpc":"2.0","id":-0,"method":"ping"}]`,
	`{"jsonrpc":"2.0","id":-0,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping","result":{},"error":1}`,
}

// FuzzMessages reads arbitrary messages: an accepted message is a JSON-RPC message that
// all parsers read the same way, and a refusal is a response that clients can read.
func FuzzMessages(f *testing.F) {
	for _, text := range messageSeeds {
		f.Add([]byte(text))
	}
	server := New(Setup{})
	f.Fuzz(func(t *testing.T, body []byte) {
		messages, batch, err := readMessages(body)
		if err != nil {
			refused, ok := errors.AsType[*messageError](err)
			if !ok || refused.status != http.StatusBadRequest ||
				!slices.Contains([]int{codeParse, codeInvalidRequest}, refused.code) {
				t.Fatalf("readMessages(%q) error = %v, want a messageError with status 400 and code %d or %d",
					body, err, codeParse, codeInvalidRequest)
			}
			var response struct {
				Version string `json:"jsonrpc"`
				Error   struct {
					Code    int
					Message string
				}
			}
			if json.Unmarshal(encodeError(refused), &response) != nil || response.Version != "2.0" ||
				response.Error.Code != refused.code || response.Error.Message == "" {
				t.Fatalf("response to %q = %s, want a JSON-RPC error with code %d", body, encodeError(refused), refused.code)
			}
			return
		}
		var all []map[string]any
		if text := strings.TrimSpace(string(body)); batch != strings.HasPrefix(text, "[") {
			t.Fatalf("readMessages(%q) = batch %v, want %v", body, batch, !batch)
		} else if !batch {
			body = []byte("[" + text + "]")
		}
		if err := json.Unmarshal(body, &all); err != nil || len(all) > maxBatch || len(messages) > len(all) {
			t.Fatalf("readMessages(%q) = %d messages of %d, %v, want at most %d of a JSON array",
				body, len(messages), len(all), err, maxBatch)
		}
		ids, next := map[any]bool{}, 0
		for _, msg := range all {
			if msg["method"] == nil {
				continue // a response
			}
			m := messages[next]
			next++
			if m.Version != "2.0" || m.Method != msg["method"] || m.Method == "" || m.isCall() != (msg["id"] != nil) {
				t.Fatalf("readMessages(%q) = %+v, want version 2.0 and the method and ID of %v", body, m, msg)
			}
			if m.isCall() {
				encoded, err := json.Marshal(map[string]json.RawMessage{"id": m.ID})
				if err != nil || ids[msg["id"]] {
					t.Fatalf("readMessages(%q) = ID %s, %v, want a unique ID", body, encoded, err)
				}
				ids[msg["id"]] = true
			}
			params, isObject := msg["params"].(map[string]any)
			if (len(m.Params) > 0) != isObject || msg["params"] != nil && !isObject {
				t.Fatalf("readMessages(%q) = parameters %s, want %v", body, m.Params, params)
			}
			_ = m.wantsProgress()
			if server.checkMethod(&m, "") == nil && m.isCall() && !slices.Contains(server.methods(""), m.Method) {
				t.Fatalf("checkMethod() of %q = nil, want a refusal of the unknown method %q", body, m.Method)
			}
		}
		if next != len(messages) {
			t.Fatalf("%q has %d messages, want %d", body, len(messages), next)
		}
	})
}
