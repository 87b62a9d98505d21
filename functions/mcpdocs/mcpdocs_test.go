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
	"github.com/gatewright/gatewright/shared/cards"
	"github.com/gatewright/gatewright/shared/docsearch/minilm"
	"github.com/gatewright/gatewright/shared/mcp"
)

const endpoint = "/mcp/docs"

// call is a message that calls a tool.
func call(tool string, arguments map[string]any) string {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": arguments}})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// result is what a call answered.
type result struct {
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

// post sends a message as clients do.
func post(w *functionstest.World, body string, headers ...string) functionstest.Answer {
	return w.Call("", "POST", endpoint, body, append(headers, "Content-Type", "application/json", "Accept", "application/json, text/event-stream")...)
}

func send(t *testing.T, w *functionstest.World, body string) result {
	t.Helper()
	var out result
	a := post(w, body).Want(200).WantHeader("Access-Control-Allow-Origin", "*")
	if err := json.Unmarshal([]byte(a.Body), &out); err != nil {
		t.Fatalf("it answers %s: %v", a.Whole, err)
	}
	return out
}

// fits holds what a call answered against the tool's own output schema.
func fits(t *testing.T, w *functionstest.World, tool string, r result) {
	t.Helper()
	for _, listed := range send(t, w, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Result.Tools {
		if listed.Name != tool {
			continue
		}
		schema, err := mcp.CompileSchema(listed.OutputSchema)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Check(t.Context(), r.Result.StructuredContent); err != nil {
			t.Errorf("%s does not fit its schema: %v", r.Result.StructuredContent, err)
		}
		return
	}
	t.Errorf("there is no tool %s", tool)
}

func TestToolsAreThoseOfTheSpecificationAndChangeNothing(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	var names []string
	for _, tool := range send(t, w, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).Result.Tools {
		names = append(names, tool.Name)
		if tool.Annotations["readOnlyHint"] != true || tool.Annotations["openWorldHint"] != false || tool.Annotations["destructiveHint"] != false {
			t.Errorf("%s has the hints %v", tool.Name, tool.Annotations)
		}
		for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
			if _, err := mcp.CompileSchema(schema); err != nil {
				t.Errorf("%s: %v", tool.Name, err)
			}
		}
	}
	if got := strings.Join(names, " "); got != "ask-question-about-gatewright search-gatewright-docs" {
		t.Errorf("the tools are %s", got)
	}
}

// TestSearchRanksPassagesAndSaysHow: the tests' binary has no weights beside it.
func TestSearchRanksPassagesAndSaysHow(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	r := send(t, w, call("search-gatewright-docs", map[string]any{"query": "roll the key of a consumer", "limit": 3}))
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
		t.Errorf("the mode is %q, since %q", found.Mode, found.Note)
	}
	if len(found.Passages) != 3 || !found.Covered {
		t.Fatalf("it finds %d passages, covered %t", len(found.Passages), found.Covered)
	}
	for i, p := range found.Passages {
		if p.Title == "" || p.Path == "" || p.Text == "" || i > 0 && p.Score > found.Passages[i-1].Score {
			t.Errorf("passage %d is %+v", i, p)
		}
		if !strings.Contains(p.URL, "/docs") || p.Anchor != "" && !strings.HasSuffix(p.URL, "#"+p.Anchor) {
			t.Errorf("the passage of %s#%s is at %s", p.Path, p.Anchor, p.URL)
		}
	}
	if r.Result.Content[0].Text != string(r.Result.StructuredContent) {
		t.Error("text and structure differ")
	}
	fits(t, w, "search-gatewright-docs", r)
}

// TestWhatIsFoundIsBounded, and said to be far from the question where it is; a list of nothing is a list.
func TestWhatIsFoundIsBounded(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	for query, want := range map[string]struct {
		passages int
		covered  bool
	}{
		"roll the key of a consumer":                                     {5, true}, // the default
		"giraffes elephants zebras":                                      {0, false},
		"Which giraffe, elephant or zebra of the savannah has a bucket?": {5, false},
	} {
		r := send(t, w, call("search-gatewright-docs", map[string]any{"query": query}))
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
			t.Errorf("%q finds passages of one score: %+v", query, found.Passages)
		}
		fits(t, w, "search-gatewright-docs", r)
	}
	for question, most := range map[string]int{"giraffes elephants zebras": 0, "Which giraffe, elephant or zebra of the savannah has a bucket?": 3} {
		r := send(t, w, call("ask-question-about-gatewright", map[string]any{"question": question}))
		var said struct{ Citations []struct{ Text string } }
		if err := json.Unmarshal(r.Result.StructuredContent, &said); err != nil {
			t.Fatal(err)
		}
		if len(said.Citations) != most {
			t.Errorf("%q is answered with %d citations, want %d", question, len(said.Citations), most)
		}
		for _, c := range said.Citations {
			if strings.Contains(c.Text, "\n") {
				t.Errorf("%q: a whole passage is cited: %q", question, c.Text)
			}
		}
		fits(t, w, "ask-question-about-gatewright", r)
	}
}

// TestWeightsThatCannotBeUsedAreTold in the log and in the result, which has passages nonetheless.
func TestWeightsThatCannotBeUsedAreTold(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "broken"), []byte("no weights"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"broken", "absent"} {
		w := functionstest.New(t, mcpdocs.Bind)
		var log strings.Builder
		w.Parts.Log, w.Parts.Config.DocsWeights = slog.New(slog.NewTextHandler(&log, nil)), filepath.Join(folder, name)
		w.Restart()
		r := string(send(t, w, call("search-gatewright-docs", map[string]any{"query": "roll a key"})).Result.StructuredContent)
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

// TestTheFirstSearchIsByMeaning with the weights of the repository, and its result has no note.
func TestTheFirstSearchIsByMeaning(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	w.Parts.Config.DocsWeights = "../../shared/docsearch/minilm/" + minilm.FileName
	w.Restart()
	r := send(t, w, call("search-gatewright-docs", map[string]any{"query": "my backend is in the office network behind a firewall"}))
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
	fits(t, w, "search-gatewright-docs", r)
}

// TestTheServerIsCalledAsOnItsCard, and no cache keeps what it answers.
func TestTheServerIsCalledAsOnItsCard(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	about := cards.Docs()
	post(w, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"a","version":"1"}}}`).
		Want(200, `"name":"`+about.Name+`"`, `"version":"`+about.Version+`"`, `"instructions":"`).WantHeader("Cache-Control", "no-store")
}

func TestAnswersQuoteAndCiteOrSayThatNothingCoversThem(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	tests := []struct {
		question string
		answered bool
	}{
		{"How do I roll the key of a consumer?", true},
		{"Which giraffe, elephant or zebra of the savannah sings best?", false},
	}
	for _, tt := range tests {
		t.Run(tt.question, func(t *testing.T) {
			r := send(t, w, call("ask-question-about-gatewright", map[string]any{"question": tt.question}))
			var said struct {
				Answered         bool
				Answer, By, Mode string
				Citations        []struct{ Path, URL, Text string }
			}
			if err := json.Unmarshal(r.Result.StructuredContent, &said); err != nil {
				t.Fatal(err)
			}
			if said.Answered != tt.answered || said.By != "extractive" || said.Mode != "lexical" {
				t.Errorf("answered %t by %q, %s", said.Answered, said.By, said.Mode)
			}
			for _, c := range said.Citations {
				if c.Path == "" || c.URL == "" || tt.answered && !strings.Contains(said.Answer, c.Text) {
					t.Errorf("the citation %+v is no part of %q", c, said.Answer)
				}
			}
			if tt.answered && len(said.Citations) == 0 || !tt.answered && !strings.Contains(said.Answer, "does not cover") {
				t.Errorf("it answers %q with %d citations", said.Answer, len(said.Citations))
			}
			fits(t, w, "ask-question-about-gatewright", r)
		})
	}
}

func TestQuestionsThatAreNoneAreRefused(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	long := strings.Repeat("ü", 1500) // 3,000 bytes, and fewer characters than its schema has
	tests := []struct {
		name      string
		arguments map[string]any
		want      string
	}{
		{"nothing but space", map[string]any{"query": "  "}, "1 to 2,048 bytes"},
		{"more than 2 KB", map[string]any{"query": long}, "1 to 2,048 bytes"},
		{"more than 2,048 characters", map[string]any{"query": strings.Repeat("k", 2049)}, "query"},
		{"no text", map[string]any{"query": 5}, "query"},
		{"none", map[string]any{}, "query"},
		{"too many passages", map[string]any{"query": "key", "limit": 21}, "limit"},
		{"an argument that is none", map[string]any{"query": "key", "page": 2}, "page"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := w.Copy(t)
			r := send(t, w, call("search-gatewright-docs", tt.arguments))
			if r.Error != nil || !r.Result.IsError || !strings.Contains(r.Result.Content[0].Text, tt.want) {
				t.Errorf("it says %+v, want a result that says %q", r, tt.want)
			}
		})
	}
}

func TestWithoutSessionsThereIsNothingToReadOrEnd(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		a := w.Call("", method, endpoint, "").WantHeader("Allow", "POST").
			WantHeader("Content-Type", "text/plain; charset=utf-8").WantHeader("Access-Control-Allow-Origin", "*")
		if a.Status != http.StatusMethodNotAllowed || !strings.HasPrefix(a.Body, "Send a POST") {
			t.Errorf("%s is told %d: %q", method, a.Status, a.Body)
		}
	}
}

func TestPagesOfEveryOriginMayCall(t *testing.T) {
	w := functionstest.New(t, mcpdocs.Bind)
	w.Call("", "OPTIONS", endpoint, "", "Origin", "https://page.example", "Access-Control-Request-Method", "POST").Want(204).
		WantHeader("Access-Control-Allow-Origin", "*").WantHeader("Access-Control-Allow-Methods", "POST").WantHeader("Access-Control-Allow-Headers", "*")
	post(w, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", "https://page.example").Want(200).
		WantHeader("Access-Control-Allow-Origin", "*")
}

// TestAnAddressMayCallTenTimesASecond, in messages of their own and in batches, and is told when to go on.
func TestAnAddressMayCallTenTimesASecond(t *testing.T) {
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	t.Run("messages", func(t *testing.T) {
		w := functionstest.New(t, mcpdocs.Bind)
		for range 10 {
			send(t, w, ping)
		}
		a := post(w, ping).WantHeader("Retry-After", "1").WantHeader("Access-Control-Allow-Origin", "*").WantHeader("Content-Type", "application/json")
		if a.Status != http.StatusTooManyRequests || !strings.Contains(a.Body, `"jsonrpc":"2.0"`) || !strings.Contains(a.Body, "10 calls a second") {
			t.Errorf("it is told %d: %q", a.Status, a.Body)
		}
	})
	t.Run("a batch", func(t *testing.T) {
		w := functionstest.New(t, mcpdocs.Bind)
		for range 6 {
			send(t, w, ping)
		}
		var calls []string
		for i := range 10 {
			calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"ping"}`, i))
		}
		a := post(w, "["+strings.Join(calls, ",")+"]").Want(200)
		if n := strings.Count(a.Body, `"result"`); n != 4 || strings.Count(a.Body, "10 calls a second") != 6 {
			t.Errorf("%d of 10 calls are answered after 6, want 4: %s", n, a.Body)
		}
	})
}
