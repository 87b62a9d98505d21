package gateway_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

const (
	listTools = `{"jsonrpc":"2.0","id":7,"method":"tools/list"}`
	version28 = "2026-07-28"
)

// meta28 is what each call has in the version 2026-07-28.
const meta28 = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

// TestMCPTransport is the table of what HTTP has to be, and of what is answered if it is not (contract 4.3).
func TestMCPTransport(t *testing.T) {
	w := newMCPWorld(t)
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	batch := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	version := func(v string) func(*http.Request) { return header("Mcp-Protocol-Version", v) }
	method := func(m string) func(*http.Request) { return header("Mcp-Method", m) }
	type set = []func(*http.Request)
	for _, tt := range []struct {
		name, method, body string
		set                set
		status, code       int
		has                string
	}{
		{name: "no headers at all", body: listTools, status: 200, has: `"name":"readTodo"`},
		{name: "both accepted", body: listTools, set: set{header("Accept", "application/json, text/event-stream")}, status: 200, has: `"tools"`},
		{name: "JSON alone accepted", body: listTools, set: set{header("Accept", "application/json")}, status: 200, has: `"tools"`},
		{name: "anything accepted", body: listTools, set: set{header("Accept", "*/*")}, status: 200, has: `"tools"`},
		{name: "events alone accepted", body: listTools, set: set{header("Accept", "text/event-stream")}, status: 406, code: -32000},
		{name: "a page accepted", body: listTools, set: set{header("Accept", "text/html")}, status: 406, code: -32000},
		{name: "JSON refused", body: listTools, set: set{header("Accept", "application/json;q=0, text/html")}, status: 406, code: -32000},
		{name: "JSON by its name", body: listTools, set: set{header("Content-Type", "application/json; charset=utf-8")}, status: 200, has: `"tools"`},
		{name: "curl's own type", body: listTools, set: set{header("Content-Type", "application/x-www-form-urlencoded")}, status: 200, has: `"tools"`},
		{name: "XML", body: listTools, set: set{header("Content-Type", "application/xml")}, status: 415, code: -32000},
		{name: "a text", body: listTools, set: set{header("Content-Type", "text/plain")}, status: 415, code: -32000},
		{name: "another type of JSON", body: listTools, set: set{header("Content-Type", "application/vnd.shop+json")}, status: 200, has: `"tools"`},
		{name: "a text that is called JSON", body: listTools, set: set{header("Content-Type", "text/shop+json")}, status: 415, code: -32000},
		{name: "a session that there is not", body: listTools, set: set{header("Mcp-Session-Id", "7")}, status: 200, has: `"tools"`},
		{name: "JSON in another charset", body: listTools, set: set{header("Content-Type", "application/json; charset=utf-16")}, status: 415, code: -32000, has: "in UTF-8"},
		{name: "a form in another charset", body: listTools, set: set{header("Content-Type", "application/x-www-form-urlencoded; charset=iso-8859-1")}, status: 415, code: -32000},
		{name: "JSON with a charset by its short name", body: listTools, set: set{header("Content-Type", `application/json; charset="UTF8"`)}, status: 200, has: `"tools"`},
		{name: "two types", body: listTools, set: set{header("Content-Type", "application/json"), header("Content-Type", "text/plain")}, status: 415, code: -32000, has: "one Content-Type"},
		{name: "two types, the other way around", body: listTools, set: set{header("Content-Type", "text/plain"), header("Content-Type", "application/json")}, status: 415, code: -32000},
		{name: "a compressed body", body: listTools, set: set{header("Content-Encoding", "gzip")}, status: 415, code: -32000, has: "without Content-Encoding"},
		{name: "a body that is compressed twice", body: listTools, set: set{header("Content-Encoding", "identity"), header("Content-Encoding", "br")}, status: 415, code: -32000},
		{name: "a body as it is", body: listTools, set: set{header("Content-Encoding", "Identity")}, status: 200, has: `"tools"`},
		{name: "GET", method: "GET", status: 405},
		{name: "DELETE", method: "DELETE", status: 405},
		{name: "PUT", method: "PUT", body: listTools, status: 405},
		{name: "no JSON", body: `{"jsonrpc":`, status: 400, code: -32700},
		{name: "nothing", body: ` `, status: 400, code: -32700},
		{name: "two documents", body: listTools + listTools, status: 400, code: -32700},
		{name: "no UTF-8", body: "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", status: 400, code: -32700},
		{name: "a name twice", body: `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, status: 400, code: -32700},
		{name: "a name twice, escaped", body: `{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/list"}`, status: 400, code: -32700},
		{name: "too deep", body: deep, status: 400, code: -32600},
		{name: "a number that fills the memory", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"putList","arguments":{"body":[1e99999999]}}}`, status: 400, code: -32600},
		{name: "too many values", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"putList","arguments":{"body":[1` + strings.Repeat(",1", 500_000) + `]}}}`, status: 400, code: -32600, has: "at most 50000 values"},
		{name: "another JSON-RPC", body: `{"jsonrpc":"1.0","id":1,"method":"ping"}`, status: 400, code: -32600},
		{name: "no method", body: `{"jsonrpc":"2.0","id":1}`, status: 400, code: -32600},
		{name: "an id that is a list", body: `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, status: 400, code: -32600},
		{name: "an id of null", body: `{"jsonrpc":"2.0","id":null,"method":"ping"}`, status: 400, code: -32600},
		{name: "an id that would come back rounded", body: `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, status: 400, code: -32600},
		{name: "parameters by position", body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`, status: 400, code: -32600},
		{name: "a text", body: `"ping"`, status: 400, code: -32600},
		{name: "an unknown method", body: `{"jsonrpc":"2.0","id":7,"method":"tools/make"}`, status: 200, code: -32601, has: "resources/templates/list, initialize, ping."},
		{name: "an unknown method, newly", body: `{"jsonrpc":"2.0","id":7,"method":"tools/make","params":{` + meta28 + `}}`, set: set{version(version28), method("tools/make")}, status: 404, code: -32601, has: "resources/templates/list, server/discover."},
		{name: "a resource without a uri", body: `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{}}`, status: 200, code: -32602},
		{name: "a resource without params", body: `{"jsonrpc":"2.0","id":7,"method":"resources/read"}`, status: 200, code: -32602},
		{name: "discovery in an older version", body: `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`, set: set{version("2025-11-25")}, status: 200, code: -32601, has: "initialize, ping."},
		{name: "a subscription", body: `{"jsonrpc":"2.0","id":7,"method":"subscriptions/listen","params":{` + meta28 + `}}`, set: set{version(version28), method("subscriptions/listen")}, status: 404, code: -32601},
		{name: "a level of logging", body: `{"jsonrpc":"2.0","id":7,"method":"logging/setLevel","params":{"level":"info"}}`, status: 200, code: -32601},
		{name: "an unknown tool", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"nowhere"}}`, status: 200, code: -32602},
		{name: "a call without parameters", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, status: 200, code: -32602},
		{name: "an unknown prompt", body: `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"nowhere"}}`, status: 200, code: -32602},
		{name: "an unknown uri", body: `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"mcp://nowhere"}}`, status: 200, code: -32002},
		{name: "an unknown uri, newly", body: `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":"mcp://nowhere",` + meta28 + `}}`, set: set{version(version28), method("resources/read"), header("Mcp-Name", "mcp://nowhere")}, status: 400, code: -32602},
		{name: "a tool's name that is a number", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}`, status: 200, code: -32602, has: "The params are none of tools/call."},
		{name: "a uri that is a number", body: `{"jsonrpc":"2.0","id":7,"method":"resources/read","params":{"uri":5}}`, status: 200, code: -32602, has: "The params are none of resources/read."},
		{name: "a version that is a number", body: `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":5}}`, status: 200, code: -32602, has: "The params are none of initialize."},
		{name: "a prompt's argument that is a number", body: `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":"review","arguments":{"code":5}}}`, status: 200, code: -32602, has: "The params are none of prompts/get."},
		{name: "a _meta that is a text", body: `{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":"x"}}`, status: 200, code: -32602, has: "The params are none of ping."},
		{name: "one of a batch", body: `[{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":1}},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, status: 200, has: `"The params are none of tools/list. Compare them with the protocol."},"id":2,"jsonrpc":"2.0"},{"jsonrpc":"2.0","id":1,"result":{}}]`},
		{name: "a bad cursor", body: `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":"!"}}`, status: 200, code: -32602},
		{name: "a notification", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 202},
		{name: "an answer to nothing", body: `{"jsonrpc":"2.0","id":7,"result":{}}`, status: 202},
		{name: "initialize", body: `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, status: 200, has: `"protocolVersion":"2025-06-18"`},
		{name: "initialize in a version that is none", body: `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"1999-01-01","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`, status: 200, has: `"protocolVersion":"2025-11-25"`},
		{name: "discover", body: `{"jsonrpc":"2.0","id":7,"method":"server/discover","params":{` + meta28 + `}}`, set: set{version(version28), method("server/discover")}, status: 200, has: `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]`},
		{name: "templates", body: `{"jsonrpc":"2.0","id":7,"method":"resources/templates/list"}`, status: 200, has: `"resourceTemplates":[]`},
		{name: "an unsupported version", body: listTools, set: set{version("1999-01-01")}, status: 400, code: -32022},
		{name: "a version to come", body: listTools, set: set{version("2099-01-01")}, status: 400, code: -32022},
		{name: "the new version without its fields", body: listTools, set: set{version(version28)}, status: 400, code: -32602},
		{name: "the new version without its header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta28 + `}}`, status: 400, code: -32020},
		{name: "another method in the header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta28 + `}}`, set: set{version(version28), method("ping")}, status: 400, code: -32020},
		{name: "another tool in the header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"},` + meta28 + `}}`, set: set{version(version28), method("tools/call"), header("Mcp-Name", "putList")}, status: 400, code: -32020},
		{name: "another method in a call's header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"},` + meta28 + `}}`, set: set{version(version28), method("tools/list"), header("Mcp-Name", "readTodo")}, status: 400, code: -32020},
		{name: "a new call without its header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"},` + meta28 + `}}`, status: 400, code: -32020},
		{name: "a new call by an older header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"},` + meta28 + `}}`, set: set{version("2025-06-18")}, status: 400, code: -32020},
		{name: "two tools in the header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"},` + meta28 + `}}`, set: set{version(version28), method("tools/call"), header("Mcp-Name", "readTodo"), header("Mcp-Name", "putList")}, status: 400, code: -32020},
		{name: "two methods in the header", body: `{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{` + meta28 + `}}`, set: set{version(version28), method("tools/list"), method("tools/call")}, status: 400, code: -32020},
		{name: "two versions in the header", body: listTools, set: set{version("2025-06-18"), version(version28)}, status: 400, code: -32020},
		{name: "initialize in the new version", body: `{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2026-07-28","capabilities":{},"clientInfo":{"name":"c","version":"1"},` + meta28 + `}}`, set: set{version(version28), method("initialize")}, status: 404, code: -32601},
		{name: "a batch", body: batch(2), status: 200, has: `{"jsonrpc":"2.0","id":0,"result":{}}`},
		{name: "a batch of the largest size", body: batch(10), set: set{version("2025-03-26")}, status: 200, has: `"id":9`},
		{name: "a batch that is too large", body: batch(11), status: 400, code: -32600},
		{name: "a batch of none", body: `[]`, status: 400, code: -32600},
		{name: "a batch in a version without them", body: batch(2), set: set{version("2025-06-18")}, status: 400, code: -32600},
		{name: "a batch with an id twice", body: `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, status: 400, code: -32600},
		{name: "a batch with an id twice, escaped", body: `[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"\u0061","method":"ping"}]`, status: 400, code: -32600, has: "an id of its own"},
		{name: "a batch with zero twice", body: `[{"jsonrpc":"2.0","id":0,"method":"ping"},{"jsonrpc":"2.0","id":-0,"method":"ping"}]`, status: 400, code: -32600, has: "an id of its own"},
		{name: "a batch with a number and its text", body: `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"1","method":"ping"}]`, status: 200, has: `"id":"1"`},
		{name: "a batch with initialize", body: `[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}]`, status: 400, code: -32600},
		{name: "a batch of one", body: batch(1), status: 200, has: `[{"jsonrpc":"2.0","id":0,"result":{}}]`},
		{name: "a batch with what there is not", body: `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"no"}]`, status: 200, has: `{"jsonrpc":"2.0","id":1,"result":{}},{"error":{"code":-32601`},
		{name: "a batch with what needs a session", body: `[{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}]`, status: 200, has: `[{"error":{"code":-32601`},
		{name: "a batch with a stream that never ends", body: `[{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{` + meta28 + `}}]`, status: 200, has: `[{"error":{"code":-32601`},
		{name: "too large", body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`, status: 413, code: -32600},
		{name: "a page of elsewhere", body: listTools, set: set{header("Origin", "https://evil.test")}, status: 403, code: -32000},
		{name: "a page of nowhere", body: listTools, set: set{header("Origin", "null")}, status: 403, code: -32000},
		{name: "a page of the host, by another scheme", body: listTools, set: set{header("Origin", "https://shop.test")}, status: 403, code: -32000},
		{name: "a page of the host", body: listTools, set: set{header("Origin", "http://shop.test")}, status: 200, has: `"tools"`},
		{name: "a page of the host with its port", body: listTools, set: set{header("Origin", "http://shop.test:80")}, status: 200, has: `"tools"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.method == "" {
				tt.method = http.MethodPost
			}
			response := w.do(t, tt.method, "/mcp", append(tt.set, func(r *http.Request) {
				if tt.body != "" {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(tt.body)), int64(len(tt.body))
				}
			})...)
			text := body(t, response)
			if response.StatusCode != tt.status {
				t.Fatalf("status %d, want %d: %s", response.StatusCode, tt.status, text)
			}
			if tt.status == 405 && response.Header.Get("Allow") != "POST" {
				t.Errorf("allow %q", response.Header.Get("Allow"))
			}
			if coded := strings.Contains(text, "without Content-Encoding"); coded != (response.Header.Get("Accept-Encoding") == "identity") {
				t.Errorf("accept-encoding %q: %s", response.Header.Get("Accept-Encoding"), text)
			}
			if tt.status == 202 && text != "" {
				t.Errorf("body %s", text)
			}
			if !strings.Contains(text, tt.has) {
				t.Errorf("%s has no %s", text, tt.has)
			}
			if tt.code == 0 {
				return
			}
			var answer rpc
			if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Error == nil || answer.Error.Code != tt.code {
				t.Errorf("%s, want the code %d", text, tt.code)
			}
			if got := response.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %s", got)
			}
		})
	}
	if w.count() != 0 {
		t.Errorf("%d requests came to the upstream", w.count())
	}
}

// TestServersOfToolsAloneAnswerTheOtherLists, empty: contract 4.3 has the methods of every server.
func TestServersOfToolsAloneAnswerTheOtherLists(t *testing.T) {
	w := newMCPWorld(t)
	for _, tt := range []struct{ path, method, want string }{
		{"/keyed/mcp", "prompts/list", `"prompts":[]`},
		{"/limited/mcp", "resources/list", `"resources":[]`},
	} {
		answer := w.call(t, tt.path, tt.method, "{}", header("Authorization", "Bearer good"))
		if answer.Error != nil || !strings.Contains(string(answer.Result), tt.want) {
			t.Errorf("%s at %s: %s, %+v; want %s", tt.method, tt.path, answer.Result, answer.Error, tt.want)
		}
	}
}

// TestPagesThatTheCORSPolicyNamesMayCall: by it, and by nothing else.
func TestPagesThatTheCORSPolicyNamesMayCall(t *testing.T) {
	w := newMCPWorld(t)
	for origin, want := range map[string]int{"https://pages.test": 200, "https://pages.test.evil.test": 403, "https://evil.test": 403} {
		response := w.post(t, "/keyed/mcp", listTools, header("Authorization", "Bearer good"), header("Origin", origin))
		if response.StatusCode != want {
			t.Errorf("%s: %d, want %d", origin, response.StatusCode, want)
		}
	}
}

// TestWhoWantsProgressGetsEvents: and the stream ends with the answer, so that no Lambda is held by it.
func TestWhoWantsProgressGetsEvents(t *testing.T) {
	w := newMCPWorld(t)
	const both = "application/json, text/event-stream"
	asks := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"readTodo","arguments":{"id":"1"},"_meta":{"progressToken":"p"}}}`
	for _, tt := range []struct {
		name, body, accept, contentType string
	}{
		{"asks and takes events", asks, both, "text/event-stream"},
		{"asks and takes JSON alone", asks, "application/json", "application/json"},
		{"does not ask", strings.ReplaceAll(asks, `,"_meta":{"progressToken":"p"}`, ""), both, "application/json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			response := w.post(t, "/mcp", tt.body, header("Accept", tt.accept))
			text := body(t, response)
			if got := response.Header.Get("Content-Type"); got != tt.contentType {
				t.Fatalf("content type %s: %s", got, text)
			}
			if !strings.Contains(text, `\"id\":\"1\"`) {
				t.Errorf("no answer: %s", text)
			}
			if events := strings.Count(text, "event: message"); (events == 3) != (tt.contentType == "text/event-stream") {
				t.Errorf("%d events: %s", events, text)
			}
		})
	}
}

// TestTheShortWayAnswersAsTheSDKDoes: calls of tools are answered without the SDK's session, except in batches and
// where events are asked for; what is answered there is the measure.
func TestTheShortWayAnswersAsTheSDKDoes(t *testing.T) {
	w := newMCPWorld(t)
	for _, arguments := range []string{`{"name":"readTodo","arguments":{"id":"1"}`, `{"name":"pictureTool"`, `{"name":"readTodo","arguments":{}`, `{"name":"nowhere"`, `{"name":"shop_introspect","arguments":{}`} {
		for _, version := range []string{"2025-06-18", version28} {
			meta, set := "", []func(*http.Request){header("Mcp-Protocol-Version", version)}
			if version == version28 {
				_, name, _ := strings.Cut(arguments, `"name":"`)
				name, _, _ = strings.Cut(name, `"`)
				meta, set = strings.TrimSuffix(strings.TrimPrefix(meta28, `"_meta":{`), "}"), append(set, header("Mcp-Method", "tools/call"), header("Mcp-Name", name))
			}
			ask := func(more, accept string) (int, string) {
				all := strings.Trim(meta+","+more, ",")
				response := w.post(t, "/mcp", `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":`+arguments+`,"_meta":{`+all+`}}}`, append(set, header("Accept", accept))...)
				text := body(t, response)
				if at := strings.LastIndex(text, "data: "); at >= 0 {
					text = text[at+len("data: "):]
				}
				return response.StatusCode, text
			}
			status, got := ask("", "application/json")
			wantStatus, want := ask(`"progressToken":1`, "application/json, text/event-stream")
			var a, b any
			if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) || status != wantStatus {
				t.Errorf("%s %s: %d %s\nwant %d %s", version, arguments, status, got, wantStatus, want)
			}
		}
	}
}
