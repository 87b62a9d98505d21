package gateway_test

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"testing"
)

// TestMCPAnswers: what an upstream answers becomes a text, or an error that a model can read.
func TestMCPAnswers(t *testing.T) {
	w := newMCPWorld(t)
	gzipped := func(text string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write([]byte(text))
		_ = z.Close()
		return b.String()
	}
	for _, tt := range []struct {
		name        string
		status      int
		contentType string
		coding      string
		body        string
		text        string
		isError     bool
		structured  string
	}{
		{name: "JSON", status: 200, contentType: "application/json", body: `{"a": 1}`, text: `{"a": 1}`, structured: `{"a":1}`},
		{name: "a list", status: 200, contentType: "application/json", body: `[1]`, text: `[1]`},
		{name: "a text", status: 200, contentType: "text/css", body: "p {}", text: "p {}"},
		{name: "nothing", status: 204, text: ""},
		{name: "Latin-1", status: 200, contentType: "text/plain; charset=ISO-8859-1", body: "caf\xe9", text: "café"},
		{name: "gzip", status: 200, contentType: "text/plain", coding: "gzip", body: gzipped("zipped"), text: "zipped"},
		{name: "a bomb", status: 200, contentType: "text/plain", coding: "gzip", body: gzipped(strings.Repeat("x", 2<<20)), text: "larger than", isError: true},
		{name: "another coding", status: 200, contentType: "text/plain", coding: "br", body: "x", text: "compressed", isError: true},
		{name: "no coding that was said", status: 200, contentType: "text/plain", coding: "gzip", body: "plain", text: "broke off", isError: true},
		{name: "no type", status: 200, body: "plain", text: "plain"},
		{name: "a picture", status: 200, contentType: "image/png", body: "\x89PNG", text: "4 bytes of image/png", isError: true},
		{name: "a picture of a refusal", status: 404, contentType: "image/png", body: "\x89PNG", text: "4 bytes of image/png", isError: true},
		{name: "no text for all its type", status: 200, contentType: "text/plain", body: "\xff\xfe", text: "no text", isError: true},
		{name: "events", status: 200, contentType: "text/event-stream", body: "data: 1\n\n", text: "stream of events", isError: true},
		{name: "too much", status: 200, contentType: "text/plain", body: strings.Repeat("x", 1<<20+1), text: "larger than", isError: true},
		{name: "as much as may be", status: 200, contentType: "text/plain", body: strings.Repeat("x", 1<<20), text: strings.Repeat("x", 1<<20)},
		{name: "a refusal", status: 404, contentType: "application/problem+json", body: `{"title":"Not Found"}`, text: `{"title":"Not Found"}`, isError: true},
		{name: "a refusal without a body", status: 503, text: "503 Service Unavailable", isError: true},
		{name: "a redirect", status: 302, contentType: "text/plain", body: "elsewhere", text: "elsewhere", isError: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.mu.Lock()
			w.answer = func(out http.ResponseWriter, _ *http.Request) {
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
			w.mu.Unlock()
			result, answer := w.tool(t, "/mcp", "readTodo", `{"id":"1"}`)
			if answer.Error != nil || len(result.Content) != 1 {
				t.Fatalf("%+v %+v", answer.Error, result)
			}
			text := result.Content[0].Text
			if result.IsError != tt.isError || string(result.StructuredContent) != tt.structured ||
				tt.isError && !strings.Contains(text, tt.text) || !tt.isError && text != tt.text {
				t.Errorf("isError %v, structured %s, text %.200q", result.IsError, result.StructuredContent, text)
			}
		})
	}
	if _, answer := w.tool(t, "/mcp", "readTodo", `{"id":"1"}`); answer.Error != nil {
		t.Error("an upstream's refusal has ended the server")
	}
}

// TestMCPResources is the specification's table, as clients see it.
func TestMCPResources(t *testing.T) {
	w := newMCPWorld(t)
	if got, want := string(w.call(t, "/mcp", "resources/list", `{}`).Result), `"resources":[`+
		`{"_meta":{"pages":3},"description":"Resource for guide","mimeType":"text/plain","name":"guide","title":"guide","uri":"mcp://resources/guide"},`+
		`{"description":"The style.","mimeType":"text/css","name":"our style","title":"our style","uri":"mcp://resources/our%20style"},`+
		`{"description":"Resource for picture","mimeType":"text/plain","name":"picture","title":"picture","uri":"shop://picture"}]`; !strings.Contains(got, want) {
		t.Errorf("%s\nwant %s", got, want)
	}
	for uri, want := range map[string]string{
		"mcp://resources/guide":       `"contents":[{"uri":"mcp://resources/guide","mimeType":"text/markdown","text":"# Guide","_meta":{"pages":3}}]`,
		"mcp://resources/our%20style": `"contents":[{"uri":"mcp://resources/our%20style","mimeType":"text/css","text":"p {}"}]`,
		"shop://picture":              `"contents":[{"uri":"shop://picture","mimeType":"image/png","blob":"iVBORwA="}]`,
	} {
		if got := string(w.call(t, "/mcp", "resources/read", `{"uri":"`+uri+`"}`).Result); !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// TestMCPResourcesThatAreRefused: what a route answers with another status than 2xx is read like the resource, as the
// contract has it, within the same bounds; its type is its own.
func TestMCPResourcesThatAreRefused(t *testing.T) {
	w := newMCPWorld(t)
	const style = "mcp://resources/our%20style" // of the type text/css
	for _, tt := range []struct {
		name, contentType, body string
		status                  int
		contents, refused       string
	}{
		{name: "an upstream's page", status: 404, contentType: "text/html; charset=utf-8", body: "<p>gone", contents: `{"uri":"` + style + `","mimeType":"text/html","text":"\u003cp\u003egone"}`},
		{name: "an upstream's failure", status: 500, contentType: "application/json", body: `{"error":1}`, contents: `"mimeType":"application/json","text":"{\"error\":1}"}`},
		{name: "nothing", status: 418, contents: `"mimeType":"text/plain","text":"418 I'm a teapot"}`},
		{name: "a redirect", status: 302, contentType: "text/plain", body: "elsewhere", contents: `"text":"elsewhere"}`},
		{name: "no text", status: 503, contentType: "image/png", body: "\x89PNG", contents: `"mimeType":"image/png","blob":"iVBORw=="}`},
		{name: "more than is passed on", status: 500, contentType: "text/plain", body: strings.Repeat("x", 1<<20+1), refused: "larger than the 1 MiB"},
		{name: "a stream", status: 200, contentType: "text/event-stream", body: "data: 1\n\n", refused: "stream of events"},
	} {
		w.mu.Lock()
		w.answer = func(out http.ResponseWriter, _ *http.Request) {
			out.Header()["Content-Type"] = nil
			if tt.contentType != "" {
				out.Header().Set("Content-Type", tt.contentType)
			}
			out.WriteHeader(tt.status)
			say(out, "%s", tt.body)
		}
		w.mu.Unlock()
		answer := w.call(t, "/mcp", "resources/read", `{"uri":"`+style+`"}`)
		if tt.refused != "" {
			if answer.Error == nil || answer.Error.Code != -32603 || !strings.Contains(answer.Error.Message, tt.refused) {
				t.Errorf("%s: %+v", tt.name, answer)
			}
			continue
		}
		if answer.Error != nil || !strings.Contains(string(answer.Result), tt.contents) {
			t.Errorf("%s: %+v %s", tt.name, answer.Error, answer.Result)
		}
	}
	w.up.Close()
	answer := w.call(t, "/mcp", "resources/read", `{"uri":"mcp://resources/guide"}`)
	if answer.Error != nil || !strings.Contains(string(answer.Result), `"mimeType":"application/problem+json","text":"{`) || !strings.Contains(string(answer.Result), `\"status\":502`) ||
		!strings.Contains(string(answer.Result), `"_meta":{"pages":3}`) {
		t.Errorf("without an upstream: %+v %s", answer.Error, answer.Result)
	}
}
