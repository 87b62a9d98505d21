package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
)

// requestChanges change a request before it is sent.
type requestChanges = []func(*http.Request)

func mcpVersion(v string) func(*http.Request) { return header("Mcp-Protocol-Version", v) }

func mcpMethod(m string) func(*http.Request) { return header("Mcp-Method", m) }

func mcpName(n string) func(*http.Request) { return header("Mcp-Name", n) }

// mcpExchange is a request with the expected response. method is the HTTP method, "" for POST. code is the
// code of the JSON-RPC error, 0 for no error, and want is a part of the response's body.
type mcpExchange struct {
	name, method, body string
	changes            requestChanges
	status, code       int
	want               string
}

// listed returns an exchange whose request for the list of tools succeeds.
func listed(name string, changes ...func(*http.Request)) mcpExchange {
	return mcpExchange{name: name, body: listTools, changes: changes, status: 200, want: `"tools"`}
}

// notListed returns an exchange whose request for the list of tools is refused with a status, a code and a text.
func notListed(name string, status, code int, want string, changes ...func(*http.Request)) mcpExchange {
	return mcpExchange{name: name, body: listTools, changes: changes, status: status, code: code, want: want}
}

// mcpCall returns a message that calls a method. params is the text of the members of its parameters.
func mcpCall(method, params string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{` + params + `}}`
}

// initializeParams returns the members of the parameters of initialize for a version.
func initializeParams(version string) string {
	return `"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}`
}

// mcpHeaders returns exchanges about HTTP methods, media types and encodings.
func mcpHeaders() []mcpExchange {
	accept := func(v string) func(*http.Request) { return header("Accept", v) }
	contentType := func(v string) func(*http.Request) { return header("Content-Type", v) }
	coding := func(v string) func(*http.Request) { return header("Content-Encoding", v) }
	return []mcpExchange{
		{name: "no headers", body: listTools, status: 200, want: `"name":"readTodo"`},
		listed("JSON and events accepted", accept("application/json, text/event-stream")),
		listed("only JSON accepted", accept("application/json")),
		listed("anything accepted", accept("*/*")),
		notListed("only events accepted", 406, -32000, "", accept("text/event-stream")),
		notListed("only HTML accepted", 406, -32000, "", accept("text/html")),
		notListed("JSON excluded", 406, -32000, "", accept("application/json;q=0, text/html")),
		listed("JSON with a charset", contentType("application/json; charset=utf-8")),
		listed("curl's default type", contentType("application/x-www-form-urlencoded")),
		notListed("XML", 415, -32000, "", contentType("application/xml")),
		notListed("plain text", 415, -32000, "", contentType("text/plain")),
		listed("a vendor's type of JSON", contentType("application/vnd.shop+json")),
		notListed("a type of text with +json", 415, -32000, "", contentType("text/shop+json")),
		listed("an unknown session", header("Mcp-Session-Id", "7")),
		notListed("JSON in UTF-16", 415, -32000, "in UTF-8", contentType("application/json; charset=utf-16")),
		notListed("a form in Latin-1", 415, -32000, "",
			contentType("application/x-www-form-urlencoded; charset=iso-8859-1")),
		listed("JSON with an alias of its charset", contentType(`application/json; charset="UTF8"`)),
		notListed("two types, JSON first", 415, -32000, "one Content-Type",
			contentType("application/json"), contentType("text/plain")),
		notListed("two types, JSON last", 415, -32000, "", contentType("text/plain"), contentType("application/json")),
		notListed("a compressed body", 415, -32000, "without Content-Encoding", coding("gzip")),
		notListed("two encodings", 415, -32000, "", coding("identity"), coding("br")),
		listed("an identity encoding", coding("Identity")),
		{name: "GET", method: "GET", status: 405},
		{name: "DELETE", method: "DELETE", status: 405},
		{name: "PUT", method: "PUT", body: listTools, status: 405},
	}
}

// mcpDocuments returns exchanges about bodies that are not valid calls.
func mcpDocuments() []mcpExchange {
	deep := strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200)
	// bad returns an exchange whose request gets status 400 and an error with a code.
	bad := func(name, body string, code int) mcpExchange {
		return mcpExchange{name: name, body: body, status: 400, code: code}
	}
	return []mcpExchange{
		bad("truncated JSON", `{"jsonrpc":`, -32700),
		bad("white space", ` `, -32700),
		bad("two documents", listTools+listTools, -32700),
		bad("invalid UTF-8", "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", -32700),
		bad("a repeated name", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, -32700),
		bad("a repeated name, escaped", `{"jsonrpc":"2.0","id":1,"method":"ping","\u006dethod":"tools/list"}`, -32700),
		bad("objects in 200 levels", deep, -32600),
		bad("a number that fills the memory", `{"jsonrpc":"2.0","id":1,"method":"tools/call",`+
			`"params":{"name":"putList","arguments":{"body":[1e99999999]}}}`, -32600),
		{
			name: "too many values", status: 400, code: -32600, want: "at most 50000 values",
			body: `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"putList","arguments":{"body":[1` +
				strings.Repeat(",1", 500_000) + `]}}}`,
		},
		bad("another version of JSON-RPC", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, -32600),
		bad("no method", `{"jsonrpc":"2.0","id":1}`, -32600),
		bad("an id that is a list", `{"jsonrpc":"2.0","id":[1],"method":"ping"}`, -32600),
		bad("an id of null", `{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600),
		bad("an id with a fraction", `{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, -32600),
		bad("parameters by position", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}`, -32600),
		bad("a JSON string", `"ping"`, -32600),
		{
			name: "over a megabyte", status: 413, code: -32600,
			body: `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`,
		},
	}
}

// mcpMethods returns exchanges about methods of the protocol and their parameters.
func mcpMethods() []mcpExchange {
	// ok returns an exchange whose request gets status 200. code is the code of the error, 0 if the call succeeds.
	ok := func(name, body string, code int, want string) mcpExchange {
		return mcpExchange{name: name, body: body, status: 200, code: code, want: want}
	}
	// in28 returns an exchange in the protocol version 2026-07-28.
	in28 := func(name, method string, status, code int, want string) mcpExchange {
		return mcpExchange{
			name: name, body: mcpCall(method, meta28), changes: requestChanges{mcpVersion(version28), mcpMethod(method)},
			status: status, code: code, want: want,
		}
	}
	const notFound, invalid = -32601, -32602
	return []mcpExchange{
		ok("an unknown method", `{"jsonrpc":"2.0","id":7,"method":"tools/make"}`, notFound,
			"resources/templates/list, initialize, ping."),
		in28("an unknown method in 2026-07-28", "tools/make", 404, notFound, "resources/templates/list, server/discover."),
		ok("a resource without a uri", mcpCall("resources/read", ""), invalid, ""),
		ok("a resource without params", `{"jsonrpc":"2.0","id":7,"method":"resources/read"}`, invalid, ""),
		{
			name: "discovery in an older version", body: `{"jsonrpc":"2.0","id":7,"method":"server/discover"}`,
			changes: requestChanges{mcpVersion("2025-11-25")}, status: 200, code: notFound, want: "initialize, ping.",
		},
		in28("a subscription", "subscriptions/listen", 404, notFound, ""),
		ok("logging/setLevel", mcpCall("logging/setLevel", `"level":"info"`), notFound, ""),
		ok("an unknown tool", mcpCall("tools/call", `"name":"nowhere"`), invalid, ""),
		ok("a call without parameters", `{"jsonrpc":"2.0","id":7,"method":"tools/call"}`, invalid, ""),
		ok("an unknown prompt", mcpCall("prompts/get", `"name":"nowhere"`), invalid, ""),
		ok("an unknown uri", mcpCall("resources/read", `"uri":"mcp://nowhere"`), -32002, ""),
		{
			name: "an unknown uri in 2026-07-28", body: mcpCall("resources/read", `"uri":"mcp://nowhere",`+meta28),
			changes: requestChanges{mcpVersion(version28), mcpMethod("resources/read"), mcpName("mcp://nowhere")},
			status:  400, code: invalid,
		},
		ok("a tool's name that is a number", mcpCall("tools/call", `"name":5`), invalid,
			"The params are none of tools/call."),
		ok("a uri that is a number", mcpCall("resources/read", `"uri":5`), invalid,
			"The params are none of resources/read."),
		ok("a version that is a number", mcpCall("initialize", `"protocolVersion":5`), invalid,
			"The params are none of initialize."),
		ok("a prompt's argument that is a number", mcpCall("prompts/get", `"name":"review","arguments":{"code":5}`),
			invalid, "The params are none of prompts/get."),
		ok("a _meta that is a string", mcpCall("ping", `"_meta":"x"`), invalid, "The params are none of ping."),
		ok("a batch with a cursor that is a number", `[{"jsonrpc":"2.0","id":2,"method":"tools/list",`+
			`"params":{"cursor":1}},{"jsonrpc":"2.0","id":1,"method":"ping"}]`, 0,
			`"The params are none of tools/list. Compare them with the protocol."},"id":2,"jsonrpc":"2.0"},`+
				`{"jsonrpc":"2.0","id":1,"result":{}}]`),
		ok("a bad cursor", mcpCall("tools/list", `"cursor":"!"`), invalid, ""),
		{name: "a notification", body: `{"jsonrpc":"2.0","method":"notifications/initialized"}`, status: 202},
		{name: "an unexpected response", body: `{"jsonrpc":"2.0","id":7,"result":{}}`, status: 202},
		ok("initialize", mcpCall("initialize", initializeParams("2025-06-18")), 0, `"protocolVersion":"2025-06-18"`),
		ok("initialize in an unknown version", mcpCall("initialize", initializeParams("1999-01-01")), 0,
			`"protocolVersion":"2025-11-25"`),
		in28("discover", "server/discover", 200, 0,
			`"supportedVersions":["2026-07-28","2025-11-25","2025-06-18","2025-03-26"]`),
		ok("no resource templates", `{"jsonrpc":"2.0","id":7,"method":"resources/templates/list"}`, 0,
			`"resourceTemplates":[]`),
	}
}

// mcpVersions returns exchanges about versions of the protocol, and about header fields that repeat values of the body.
func mcpVersions() []mcpExchange {
	newestVersion, callMethod := mcpVersion(version28), mcpMethod("tools/call")
	list := mcpCall("tools/list", meta28)
	call := mcpCall("tools/call", `"name":"readTodo","arguments":{"id":"1"},`+meta28)
	// mismatch returns an exchange of a request whose header fields contradict its body.
	mismatch := func(name, body string, changes ...func(*http.Request)) mcpExchange {
		return mcpExchange{name: name, body: body, changes: changes, status: 400, code: -32020}
	}
	return []mcpExchange{
		notListed("an old unsupported version", 400, -32022, "", mcpVersion("1999-01-01")),
		notListed("a future version", 400, -32022, "", mcpVersion("2099-01-01")),
		notListed("2026-07-28 without its _meta", 400, -32602, "", newestVersion),
		mismatch("2026-07-28 without its header", list),
		mismatch("another method in the header", list, newestVersion, mcpMethod("ping")),
		mismatch("another tool in the header", call, newestVersion, callMethod, mcpName("putList")),
		mismatch("another method in a call's header", call, newestVersion, mcpMethod("tools/list"), mcpName("readTodo")),
		mismatch("a call of 2026-07-28 without its header", call),
		mismatch("a call of 2026-07-28 with an older version", call, mcpVersion("2025-06-18")),
		mismatch("two tools in the header", call, newestVersion, callMethod, mcpName("readTodo"), mcpName("putList")),
		mismatch("two methods in the header", list, newestVersion, mcpMethod("tools/list"), callMethod),
		notListed("two versions in the header", 400, -32020, "", mcpVersion("2025-06-18"), newestVersion),
		{
			name: "initialize in 2026-07-28", body: mcpCall("initialize", initializeParams(version28)+","+meta28),
			changes: requestChanges{newestVersion, mcpMethod("initialize")}, status: 404, code: -32601,
		},
	}
}

// newBatch returns a batch of n pings.
func newBatch(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// mcpBatches returns exchanges about batches, which only one version of the protocol has.
func mcpBatches() []mcpExchange {
	// pings returns a batch of two pings with these ids.
	pings := func(first, second string) string {
		return `[{"jsonrpc":"2.0","id":` + first + `,"method":"ping"},{"jsonrpc":"2.0","id":` + second + `,"method":"ping"}]`
	}
	return []mcpExchange{
		{name: "a batch", body: newBatch(2), status: 200, want: `{"jsonrpc":"2.0","id":0,"result":{}}`},
		{
			name: "a batch of the largest size", body: newBatch(10), changes: requestChanges{mcpVersion("2025-03-26")},
			status: 200, want: `"id":9`,
		},
		{name: "a batch that is too large", body: newBatch(11), status: 400, code: -32600},
		{name: "an empty batch", body: `[]`, status: 400, code: -32600},
		{
			name: "a batch in a version without batches", body: newBatch(2), changes: requestChanges{mcpVersion("2025-06-18")},
			status: 400, code: -32600,
		},
		{name: "a batch with a repeated id", body: pings("1", "1"), status: 400, code: -32600},
		{
			name: "a batch with a repeated id, escaped", body: pings(`"a"`, `"\u0061"`), status: 400, code: -32600,
			want: "an id of its own",
		},
		{name: "a batch with the ids 0 and -0", body: pings("0", "-0"), status: 400, code: -32600, want: "an id of its own"},
		{name: "a batch with a number and its text", body: pings("1", `"1"`), status: 200, want: `"id":"1"`},
		{
			name: "a batch with initialize", body: "[" + mcpCall("initialize", initializeParams("2025-03-26")) + "]",
			status: 400, code: -32600,
		},
		{name: "a batch of one", body: newBatch(1), status: 200, want: `[{"jsonrpc":"2.0","id":0,"result":{}}]`},
		{
			name: "a batch with an unknown method", status: 200,
			body: `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"no"}]`,
			want: `{"jsonrpc":"2.0","id":1,"result":{}},{"error":{"code":-32601`,
		},
		{
			name: "a batch with a method that needs a session", status: 200, want: `[{"error":{"code":-32601`,
			body: "[" + mcpCall("logging/setLevel", `"level":"info"`) + "]",
		},
		{
			name: "a batch with a stream that never ends", status: 200, want: `[{"error":{"code":-32601`,
			body: "[" + mcpCall("subscriptions/listen", meta28) + "]",
		},
	}
}

// mcpPages returns exchanges whose requests come from web pages.
func mcpPages() []mcpExchange {
	origin := func(v string) func(*http.Request) { return header("Origin", v) }
	return []mcpExchange{
		notListed("a page of another host", 403, -32000, "", origin("https://evil.test")),
		notListed("a page without an origin", 403, -32000, "", origin("null")),
		notListed("a page of the host with another scheme", 403, -32000, "", origin("https://shop.test")),
		listed("a page of the host", origin("http://shop.test")),
		listed("a page of the host with its port", origin("http://shop.test:80")),
	}
}
