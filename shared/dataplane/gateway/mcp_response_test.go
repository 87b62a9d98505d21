package gateway_test

import (
	"net/http"
	"strings"
	"testing"
)

// mcpToolResponses has responses of the upstream, with the expected results of the tool.
var mcpToolResponses = []struct {
	name        string
	status      int
	contentType string
	coding      string
	body        string
	text        string // the text of the result, or a part of it if isError is true
	isError     bool
	structured  string
}{
	{
		name: "JSON", status: 200, contentType: "application/json", body: `{"a": 1}`, text: `{"a": 1}`, structured: `{"a":1}`,
	},
	{name: "a JSON list", status: 200, contentType: "application/json", body: `[1]`, text: `[1]`},
	{name: "CSS", status: 200, contentType: "text/css", body: "p {}", text: "p {}"},
	{name: "no body", status: 204, text: ""},
	{name: "Latin-1", status: 200, contentType: "text/plain; charset=ISO-8859-1", body: "caf\xe9", text: "café"},
	{name: "gzip", status: 200, contentType: "text/plain", coding: "gzip", body: zipped("zipped"), text: "zipped"},
	{
		name: "a body that decompresses to 2 MiB", status: 200, contentType: "text/plain", coding: "gzip",
		body: zipped(strings.Repeat("x", 2<<20)), text: "larger than", isError: true,
	},
	{name: "brotli", status: 200, contentType: "text/plain", coding: "br", body: "x", text: "compressed", isError: true},
	{
		name: "plain text declared as gzip", status: 200, contentType: "text/plain", coding: "gzip", body: "plain",
		text: "broke off", isError: true,
	},
	{name: "no type", status: 200, body: "plain", text: "plain"},
	{
		name: "an image", status: 200, contentType: "image/png", body: "\x89PNG", text: "4 bytes of image/png", isError: true,
	},
	{
		name: "an image with status 404", status: 404, contentType: "image/png", body: "\x89PNG",
		text: "4 bytes of image/png", isError: true,
	},
	{
		name: "invalid UTF-8 declared as text", status: 200, contentType: "text/plain", body: "\xff\xfe", text: "no text",
		isError: true,
	},
	{
		name: "events", status: 200, contentType: "text/event-stream", body: "data: 1\n\n", text: "stream of events",
		isError: true,
	},
	{
		name: "a body over the limit", status: 200, contentType: "text/plain", body: strings.Repeat("x", 1<<20+1),
		text: "larger than", isError: true,
	},
	{
		name: "a body at the limit", status: 200, contentType: "text/plain", body: strings.Repeat("x", 1<<20),
		text: strings.Repeat("x", 1<<20),
	},
	{
		name: "a problem", status: 404, contentType: "application/problem+json", body: `{"title":"Not Found"}`,
		text: `{"title":"Not Found"}`, isError: true,
	},
	{name: "an error without a body", status: 503, text: "503 Service Unavailable", isError: true},
	{name: "a redirect", status: 302, contentType: "text/plain", body: "elsewhere", text: "elsewhere", isError: true},
}

// TestMCPToolResponses checks that an upstream's response becomes the text of a tool's result, or an error that a model
// can read. The tool has no output schema: TestMCPResponsesMatchTheirSchema is about one that has.
func TestMCPToolResponses(t *testing.T) {
	fx := newMCPFixture(t)
	for _, tt := range mcpToolResponses {
		t.Run(tt.name, func(t *testing.T) {
			fx.mu.Lock()
			fx.handler = func(out http.ResponseWriter, _ *http.Request) {
				out.Header()["Content-Type"] = nil
				if tt.contentType != "" {
					out.Header().Set("Content-Type", tt.contentType)
				}
				if tt.coding != "" {
					out.Header().Set("Content-Encoding", tt.coding)
				}
				out.WriteHeader(tt.status)
				_, _ = out.Write([]byte(tt.body))
			}
			fx.mu.Unlock()
			result, reply := fx.tool(t, "/mcp", "readItem", `{"id":"1","item":"2"}`)
			if reply.Error != nil || len(result.Content) != 1 {
				t.Fatalf("readItem: error = %+v, result = %+v, want one content", reply.Error, result)
			}
			text := result.Content[0].Text
			if result.IsError != tt.isError || string(result.StructuredContent) != tt.structured ||
				tt.isError && !strings.Contains(text, tt.text) || !tt.isError && text != tt.text {
				t.Errorf("readItem: isError = %t, structured = %s, text = %.200q, want %t, %s, %.200q",
					result.IsError, result.StructuredContent, text, tt.isError, tt.structured, tt.text)
			}
		})
	}
	if _, reply := fx.tool(t, "/mcp", "readItem", `{"id":"1","item":"2"}`); reply.Error != nil {
		t.Errorf("readItem after an error of the upstream: error = %+v, want none", reply.Error)
	}
}

// TestMCPResources checks the list of resources, and the contents of each resource.
func TestMCPResources(t *testing.T) {
	fx := newMCPFixture(t)
	want := `"resources":[` +
		`{"_meta":{"pages":3},"description":"Resource for guide","mimeType":"text/plain","name":"guide","title":"guide",` +
		`"uri":"mcp://resources/guide"},` +
		`{"description":"The style.","mimeType":"text/css","name":"our style","title":"our style",` +
		`"uri":"mcp://resources/our%20style"},` +
		`{"description":"Resource for picture","mimeType":"text/plain","name":"picture","title":"picture",` +
		`"uri":"shop://picture"}]`
	if got := string(fx.call(t, "/mcp", "resources/list", `{}`).Result); !strings.Contains(got, want) {
		t.Errorf("resources/list = %s\nwant %s", got, want)
	}
	for uri, want := range map[string]string{
		"mcp://resources/guide": `"contents":[{"uri":"mcp://resources/guide","mimeType":"text/markdown",` +
			`"text":"# Guide","_meta":{"pages":3}}]`,
		"mcp://resources/our%20style": `"contents":[{"uri":"mcp://resources/our%20style","mimeType":"text/css",` +
			`"text":"p {}"}]`,
		"shop://picture": `"contents":[{"uri":"shop://picture","mimeType":"image/png","blob":"iVBORwA="}]`,
	} {
		if got := string(fx.call(t, "/mcp", "resources/read", `{"uri":"`+uri+`"}`).Result); !strings.Contains(got, want) {
			t.Errorf("resources/read(%s) = %s\nwant %s", uri, got, want)
		}
	}
}

// TestMCPResourceErrors checks that a response with a status other than 2xx becomes the content of the resource, with
// its own media type and within the same limits (contract 4.2). So does the gateway's problem for an upstream that is
// down. A stream of events is refused.
func TestMCPResourceErrors(t *testing.T) {
	fx := newMCPFixture(t)
	const style = "mcp://resources/our%20style" // of the type text/css
	for _, tt := range []struct {
		name, contentType, body string
		status                  int
		contents, refused       string
	}{
		{
			name: "an HTML page", status: 404, contentType: "text/html; charset=utf-8", body: "<p>gone",
			contents: `{"uri":"` + style + `","mimeType":"text/html","text":"\u003cp\u003egone"}`,
		},
		{
			name: "an upstream's failure", status: 500, contentType: "application/json", body: `{"error":1}`,
			contents: `"mimeType":"application/json","text":"{\"error\":1}"}`,
		},
		{name: "no body", status: 418, contents: `"mimeType":"text/plain","text":"418 I'm a teapot"}`},
		{name: "a redirect", status: 302, contentType: "text/plain", body: "elsewhere", contents: `"text":"elsewhere"}`},
		{
			name: "an image", status: 503, contentType: "image/png", body: "\x89PNG",
			contents: `"mimeType":"image/png","blob":"iVBORw=="}`,
		},
		{
			name: "a body over the limit", status: 500, contentType: "text/plain", body: strings.Repeat("x", 1<<20+1),
			refused: "larger than the 1 MiB",
		},
		{name: "a stream", status: 200, contentType: "text/event-stream", body: "data: 1\n\n", refused: "stream of events"},
	} {
		fx.mu.Lock()
		fx.handler = func(out http.ResponseWriter, _ *http.Request) {
			out.Header()["Content-Type"] = nil
			if tt.contentType != "" {
				out.Header().Set("Content-Type", tt.contentType)
			}
			out.WriteHeader(tt.status)
			writef(out, "%s", tt.body)
		}
		fx.mu.Unlock()
		reply := fx.call(t, "/mcp", "resources/read", `{"uri":"`+style+`"}`)
		if tt.refused != "" {
			if reply.Error == nil || reply.Error.Code != -32603 || !strings.Contains(reply.Error.Message, tt.refused) {
				t.Errorf("%s: resources/read = %+v, want error -32603 with %q", tt.name, reply, tt.refused)
			}
			continue
		}
		if reply.Error != nil || !strings.Contains(string(reply.Result), tt.contents) {
			t.Errorf("%s: resources/read = %s, %+v, want a result with %s", tt.name, reply.Result, reply.Error, tt.contents)
		}
	}
	fx.backend.Close()
	reply := fx.call(t, "/mcp", "resources/read", `{"uri":"mcp://resources/guide"}`)
	if reply.Error != nil || !strings.Contains(string(reply.Result), `"mimeType":"application/problem+json","text":"{`) ||
		!strings.Contains(string(reply.Result), `\"status\":502`) ||
		!strings.Contains(string(reply.Result), `"_meta":{"pages":3}`) {
		t.Errorf("resources/read without an upstream = %s, %+v, want a problem of status 502 and the resource's _meta",
			reply.Result, reply.Error)
	}
}
