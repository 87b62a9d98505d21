package mcpdocs_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/format/mcp"
	"github.com/gatewright/gatewright/shared/management/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/management/servercards"
)

const endpoint = "/mcp/docs"

// call returns a message that calls a tool.
func call(tool string, arguments map[string]any) string {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 7, "method": "tools/call",
		"params": map[string]any{"name": tool, "arguments": arguments},
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// rpcResult is the response to a call.
type rpcResult struct {
	Error *struct {
		Code    int
		Message string
	}
	Result struct {
		IsError           bool
		Content           []struct{ Text string }
		StructuredContent json.RawMessage
		Tools             []struct {
			Name, Description         string
			InputSchema, OutputSchema json.RawMessage
			Annotations               map[string]any
		}
	}
}

// post sends a message like a client.
func post(fx *functionstest.Fixture, body string, headers ...string) functionstest.Response {
	return fx.Call("", "POST", endpoint, body, append(headers, "Content-Type", "application/json", "Accept",
		"application/json, text/event-stream")...)
}

func send(t *testing.T, fx *functionstest.Fixture, body string) rpcResult {
	t.Helper()
	var out rpcResult
	resp := post(fx, body).Want(200).WantHeader("Access-Control-Allow-Origin", "*")
	if err := json.Unmarshal([]byte(resp.Body), &out); err != nil {
		t.Fatalf("POST %s = %s, error = %v, want JSON", body, resp.Dump, err)
	}
	return out
}

// checkOutputSchema compares the result of a call with the tool's own output schema.
func checkOutputSchema(t *testing.T, fx *functionstest.Fixture, tool string, r rpcResult) {
	t.Helper()
	for _, definition := range send(t, fx, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Result.Tools {
		if definition.Name != tool {
			continue
		}
		schema, err := mcp.CompileSchema(definition.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Check(t.Context(), r.Result.StructuredContent); err != nil {
			t.Errorf("%s = %s, error = %v, want content that matches the output schema",
				tool, r.Result.StructuredContent, err)
		}
		return
	}
	t.Errorf("the server has no tool %s, want one", tool)
}

func TestToolsAreReadOnly(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	var names []string
	for _, tool := range send(t, fx, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Result.Tools {
		names = append(names, tool.Name)
		if tool.Annotations["readOnlyHint"] != true || tool.Annotations["openWorldHint"] != false ||
			tool.Annotations["destructiveHint"] != false {
			t.Errorf("hints of %s = %v, want readOnlyHint true, openWorldHint and destructiveHint false",
				tool.Name, tool.Annotations)
		}
		for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
			if _, err := mcp.CompileSchema(schema); err != nil {
				t.Errorf("CompileSchema(a schema of %s) error = %v, want none", tool.Name, err)
			}
		}
	}
	if got := strings.Join(names, " "); got != "ask-question-about-gatewright search-gatewright-docs" {
		t.Errorf("tools = %s, want ask-question-about-gatewright search-gatewright-docs", got)
	}
}

// TestSearchReportsRankingMode checks that results say how they were ranked: by words, because there are no weights
// near the test binary.
func TestSearchReportsRankingMode(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	r := send(t, fx, call("search-gatewright-docs", map[string]any{"query": "roll the key of a consumer", "limit": 3}))
	var found struct {
		Mode, Note string
		Covered    bool
		Passages   []struct {
			Title, Path, Anchor, URL, Text string
			Score                          float64
		}
	}
	if err := json.Unmarshal(r.Result.StructuredContent, &found); err != nil {
		t.Fatal(err)
	}
	if found.Mode != "lexical" || !strings.Contains(found.Note, "cannot read the weights") {
		t.Errorf("mode = %q, note = %q, want lexical since the weights cannot be read", found.Mode, found.Note)
	}
	if len(found.Passages) != 3 || !found.Covered {
		t.Fatalf("passages = %d, covered = %t, want 3 and true", len(found.Passages), found.Covered)
	}
	for i, p := range found.Passages {
		if p.Title == "" || p.Path == "" || p.Text == "" || i > 0 && p.Score > found.Passages[i-1].Score {
			t.Errorf("passage %d = %+v, want a title, a path, a text and a score not above the one before", i, p)
		}
		if !strings.Contains(p.URL, "/docs") || p.Anchor != "" && !strings.HasSuffix(p.URL, "#"+p.Anchor) {
			t.Errorf("URL of the passage %s#%s = %s, want one of /docs with the anchor", p.Path, p.Anchor, p.URL)
		}
	}
	if r.Result.Content[0].Text != string(r.Result.StructuredContent) {
		t.Errorf("text of the result = %s, want %s", r.Result.Content[0].Text, r.Result.StructuredContent)
	}
	checkOutputSchema(t, fx, "search-gatewright-docs", r)
}

// TestResultsAreLimited checks the number of passages, and that a result says if its passages are far from the
// question. Without passages, the list must be empty and not null.
func TestResultsAreLimited(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	for query, want := range map[string]struct {
		passages int
		covered  bool
	}{
		"roll the key of a consumer":                                     {5, true}, // the default limit
		"giraffes elephants zebras":                                      {0, false},
		"Which giraffe, elephant or zebra of the savannah has a bucket?": {5, false},
	} {
		r := send(t, fx, call("search-gatewright-docs", map[string]any{"query": query}))
		var found struct {
			Covered  bool
			Passages []struct{ Score float64 }
		}
		if err := json.Unmarshal(r.Result.StructuredContent, &found); err != nil {
			t.Fatal(err)
		}
		if n := len(found.Passages); n != want.passages || found.Covered != want.covered {
			t.Errorf("%q finds %d passages, covered %t, want %+v", query, n, found.Covered, want)
		} else if n > 0 && found.Passages[0].Score <= found.Passages[n-1].Score {
			t.Errorf("search(%q) = %+v, want a lower score for the last passage", query, found.Passages)
		}
		checkOutputSchema(t, fx, "search-gatewright-docs", r)
	}
	for question, citations := range map[string]int{
		"giraffes elephants zebras":                                      0,
		"Which giraffe, elephant or zebra of the savannah has a bucket?": 3,
	} {
		r := send(t, fx, call("ask-question-about-gatewright", map[string]any{"question": question}))
		var reply struct{ Citations []struct{ Text string } }
		if err := json.Unmarshal(r.Result.StructuredContent, &reply); err != nil {
			t.Fatal(err)
		}
		if len(reply.Citations) != citations {
			t.Errorf("answer to %q has %d citations, want %d", question, len(reply.Citations), citations)
		}
		for _, c := range reply.Citations {
			if strings.Contains(c.Text, "\n") {
				t.Errorf("citation for %q = %q, want one line", question, c.Text)
			}
		}
		checkOutputSchema(t, fx, "ask-question-about-gatewright", r)
	}
}

// TestUnusableWeightsAreReported checks that the log and the result report unusable weights, and that the result has
// passages nevertheless.
func TestUnusableWeightsAreReported(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "broken"), []byte("no weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"broken", "absent"} {
		fx := functionstest.New(t, mcpdocs.Bind)
		var log strings.Builder
		fx.Parts.Log, fx.Parts.Config.DocsWeights = slog.New(slog.NewTextHandler(&log, nil)), filepath.Join(folder, name)
		fx.Restart()
		r := string(
			send(t, fx, call("search-gatewright-docs", map[string]any{"query": "roll a key"})).Result.StructuredContent)
		for _, want := range []string{`"mode":"lexical"`, "cannot read the weights", `"path":"docs/`} {
			if !strings.Contains(r, want) {
				t.Errorf("search with the %s file = %s, want %s", name, r, want)
			}
		}
		if !strings.Contains(log.String(), "its weights cannot be used") {
			t.Errorf("the log of a search with the %s file = %q, want that its weights cannot be used", name, &log)
		}
	}
}

// TestFirstSearchIsSemantic checks that the first search finds a passage by its meaning, with the weights of the
// repository. The result must have no note.
func TestFirstSearchIsSemantic(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	fx.Parts.Config.DocsWeights = "../../shared/management/docsearch/minilm/" + minilm.FileName
	fx.Restart()
	r := send(t, fx, call("search-gatewright-docs", map[string]any{"query": "my backend is in the office network " +
		"behind a firewall"}))
	var got struct {
		Mode, Note string
		Passages   []struct{ Path string }
	}
	if err := json.Unmarshal(r.Result.StructuredContent, &got); err != nil {
		t.Fatal(err)
	}
	if got.Mode != "semantic" || got.Note != "" {
		t.Errorf("search mode = %q, note = %q, want semantic without a note", got.Mode, got.Note)
	}
	if len(got.Passages) == 0 || got.Passages[0].Path != "docs/tunnels.md" {
		t.Errorf("search passages = %+v, want docs/tunnels.md first", got.Passages)
	}
	checkOutputSchema(t, fx, "search-gatewright-docs", r)
}

// TestServerMatchesItsCard checks that the server has the name and the version of its card, and that the response
// forbids caches to store it.
func TestServerMatchesItsCard(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	card := servercards.Docs()
	post(fx, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},`+
		`"clientInfo":{"name":"a","version":"1"}}}`).
		Want(200, `"name":"`+card.Name+`"`, `"version":"`+card.Version+`"`, `"instructions":"`).WantHeader("Cache-Control",
		"no-store")
}

func TestAnswersCiteDocumentation(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	tests := []struct {
		question string
		answered bool
	}{
		{"How do I roll the key of a consumer?", true},
		{"Which giraffe, elephant or zebra of the savannah sings best?", false},
	}
	for _, tt := range tests {
		t.Run(tt.question, func(t *testing.T) {
			r := send(t, fx, call("ask-question-about-gatewright", map[string]any{"question": tt.question}))
			var reply struct {
				Answered         bool
				Answer, By, Mode string
				Citations        []struct{ Path, URL, Text string }
			}
			if err := json.Unmarshal(r.Result.StructuredContent, &reply); err != nil {
				t.Fatal(err)
			}
			if reply.Answered != tt.answered || reply.By != "extractive" || reply.Mode != "lexical" {
				t.Errorf("answered = %t, by = %q, mode = %s, want %t, extractive and lexical",
					reply.Answered, reply.By, reply.Mode, tt.answered)
			}
			for _, c := range reply.Citations {
				if c.Path == "" || c.URL == "" || tt.answered && !strings.Contains(reply.Answer, c.Text) {
					t.Errorf("citation = %+v, want a path, a URL and a text of the answer %q", c, reply.Answer)
				}
			}
			if tt.answered && len(reply.Citations) == 0 || !tt.answered && !strings.Contains(reply.Answer, "does not cover") {
				t.Errorf("answer = %q with %d citations, want citations if it is covered, otherwise \"does not cover\"",
					reply.Answer, len(reply.Citations))
			}
			checkOutputSchema(t, fx, "ask-question-about-gatewright", r)
		})
	}
}

func TestInvalidArgumentsAreRefused(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	long := strings.Repeat("ü", 1500) // 3,000 bytes, but fewer characters than the schema allows
	tests := []struct {
		name      string
		arguments map[string]any
		want      string
	}{
		{"only white space", map[string]any{"query": "  "}, "1 to 2,048 bytes"},
		{"more than 2 KB", map[string]any{"query": long}, "1 to 2,048 bytes"},
		{"more than 2,048 characters", map[string]any{"query": strings.Repeat("k", 2049)}, "query"},
		{"number as query", map[string]any{"query": 5}, "query"},
		{"missing argument", map[string]any{}, "query"},
		{"too many passages", map[string]any{"query": "key", "limit": 21}, "limit"},
		{"unknown argument", map[string]any{"query": "key", "page": 2}, "page"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := fx.Copy(t)
			r := send(t, fx, call("search-gatewright-docs", tt.arguments))
			if r.Error != nil || !r.Result.IsError || !strings.Contains(r.Result.Content[0].Text, tt.want) {
				t.Errorf("search(%v) = %+v, want an error that names %q", tt.arguments, r, tt.want)
			}
		})
	}
}

func TestSessionMethodsAreNotAllowed(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		resp := fx.Call("", method, endpoint, "").WantHeader("Allow", "POST").
			WantHeader("Content-Type", "text/plain; charset=utf-8").WantHeader("Access-Control-Allow-Origin", "*")
		if resp.Status != http.StatusMethodNotAllowed || !strings.HasPrefix(resp.Body, "Send a POST") {
			t.Errorf("%s %s = %d %q, want 405 with \"Send a POST\"", method, endpoint, resp.Status, resp.Body)
		}
	}
}

func TestEveryOriginIsAllowed(t *testing.T) {
	fx := functionstest.New(t, mcpdocs.Bind)
	fx.Call("", "OPTIONS", endpoint, "", "Origin", "https://page.example", "Access-Control-Request-Method", "POST").
		Want(204).
		WantHeader("Access-Control-Allow-Origin", "*").WantHeader("Access-Control-Allow-Methods", "POST").
		WantHeader("Access-Control-Allow-Headers", "*")
	post(fx, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", "https://page.example").Want(200).
		WantHeader("Access-Control-Allow-Origin", "*")
}

// TestRateLimitPerAddress sends separate messages and batches from one address until they are refused, and checks the
// Retry-After of the refusal.
func TestRateLimitPerAddress(t *testing.T) {
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	t.Run("messages", func(t *testing.T) {
		fx := functionstest.New(t, mcpdocs.Bind)
		for range 10 {
			send(t, fx, ping)
		}
		resp := post(fx, ping).WantHeader("Retry-After", "1").WantHeader("Access-Control-Allow-Origin", "*").
			WantHeader("Content-Type", "application/json")
		if resp.Status != http.StatusTooManyRequests || !strings.Contains(resp.Body, `"jsonrpc":"2.0"`) ||
			!strings.Contains(resp.Body, "10 calls a second") {
			t.Errorf("message above the limit = %d %q, want 429 with \"10 calls a second\"", resp.Status, resp.Body)
		}
	})
	t.Run("a batch", func(t *testing.T) {
		fx := functionstest.New(t, mcpdocs.Bind)
		for range 6 {
			send(t, fx, ping)
		}
		var calls []string
		for i := range 10 {
			calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		}
		resp := post(fx, "["+strings.Join(calls, ",")+"]").Want(200)
		if n := strings.Count(resp.Body, `"result"`); n != 4 || strings.Count(resp.Body, "10 calls a second") != 6 {
			t.Errorf("successful calls of 10, after 6 others = %d, want 4 and 6 refusals: %s", n, resp.Body)
		}
	})
}
