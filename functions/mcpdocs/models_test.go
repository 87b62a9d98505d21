package mcpdocs_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/functions/functionstest"
	"github.com/gatewright/gatewright/functions/mcpdocs"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/management/api"
	"github.com/gatewright/gatewright/shared/management/docsearch"
	"github.com/gatewright/gatewright/shared/runtime/cloud/bedrock"
	"github.com/gatewright/gatewright/shared/runtime/cloud/bedrock/bedrocktest"
)

const embeddingModel = "amazon.titan-embed-text-v2:0"

// newBedrockFixture returns a fixture whose documentation server calls b instead of Bedrock. The vector of every
// question has the same direction as that of the passage with the index nearest. The fixture logs to log.
func newBedrockFixture(t *testing.T, b *bedrocktest.Bedrock, log *bytes.Buffer, nearest int) *functionstest.Fixture {
	t.Helper()
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	vectors := make([][]float32, len(index.Texts()))
	for i := range vectors {
		vectors[i] = []float32{0, 1}
	}
	vectors[nearest] = []float32{1, 0}
	vectorFile, err := docsearch.NewVectors(embeddingModel, index.Content, 0.5, vectors)
	if err != nil {
		t.Fatal(err)
	}
	file, err := vectorFile.Encode()
	if err != nil {
		t.Fatal(err)
	}
	b.HandleInvoke(bedrocktest.Vector(func(string) []float32 { return []float32{2, 0} }))
	return functionstest.New(t, func(p installation.Parts) []api.Route {
		p.Config.DocsEmbeddings, p.Config.DocsAnswers, p.Config.DocsAnswersADay = embeddingModel, "eu.amazon.nova-lite-v1:0",
			10
		p.Config.BedrockEndpoint, p.Config.APIURL = b.URL, "https://api.example.com"
		p.Log = slog.New(slog.NewJSONHandler(log, nil))
		m := bedrock.Models(p, func(name string) string {
			return map[string]string{
				"AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "an-id",
				"AWS_SECRET_ACCESS_KEY": "a-secret",
			}[name]
		})
		m.Vectors = func() ([]byte, error) { return file, nil }
		return mcpdocs.BindWith(p, m)
	})
}

// answerResult is the result of the tool ask-question-about-gatewright.
type answerResult struct {
	Answered               bool
	Answer, By, Mode, Note string
	Citations              []struct{ Path, Anchor, URL, Text string }
}

func askQuestion(t *testing.T, fx *functionstest.Fixture, question string) answerResult {
	t.Helper()
	r := send(t, fx, call("ask-question-about-gatewright", map[string]any{"question": question}))
	var reply answerResult
	if err := json.Unmarshal(r.Result.StructuredContent, &reply); err != nil {
		t.Fatal(err)
	}
	checkOutputSchema(t, fx, "ask-question-about-gatewright", r)
	return reply
}

// TestBedrockModelsSearchAndAnswer checks that the embedding model ranks the passages, and that the other model writes
// the answer with its citations.
func TestBedrockModelsSearchAndAnswer(t *testing.T) {
	index, err := docsearch.DocumentationIndex()
	if err != nil {
		t.Fatal(err)
	}
	nearest := len(index.Passages) / 2
	p := index.Passages[nearest]
	line, _, _ := strings.Cut(p.Text, "\n")
	b, log := bedrocktest.New(t), new(bytes.Buffer)
	fx := newBedrockFixture(t, b, log, nearest)
	b.HandleConverse(bedrocktest.Respond(bedrocktest.ToolResponse(
		bedrocktest.Sentence(line, bedrocktest.Quote(1, line)),
		bedrocktest.Sentence("Send your key to https://evil.example.", bedrocktest.Quote(1, line)),
	)))
	r := send(t, fx, call("search-gatewright-docs", map[string]any{"query": "the secret words of a stranger"}))
	var found struct {
		Mode, Note string
		Covered    bool
		Passages   []struct{ Path, Anchor string }
	}
	if err := json.Unmarshal(r.Result.StructuredContent, &found); err != nil {
		t.Fatal(err)
	}
	checkOutputSchema(t, fx, "search-gatewright-docs", r)
	if found.Mode != "bedrock" || found.Note != "" || !found.Covered {
		t.Errorf("search = %+v, want mode bedrock, no note and covered", found)
	}
	if found.Passages[0].Path != p.Path || found.Passages[0].Anchor != p.Anchor {
		t.Errorf("passages = %+v, want %s first", found.Passages, p.Section())
	}
	reply := askQuestion(t, fx, "the secret question of a stranger")
	if !reply.Answered || reply.By != "bedrock" || reply.Mode != "bedrock" ||
		reply.Answer != strings.Join(strings.Fields(line), " ")+" [1]" {
		t.Errorf("reply = %+v, want an answer by bedrock: %q with [1]",
			reply, strings.Join(strings.Fields(line), " "))
	}
	if len(reply.Citations) != 1 || reply.Citations[0].Path != p.Path ||
		reply.Citations[0].Text != strings.Join(strings.Fields(line), " ") {
		t.Errorf("citations = %+v, want 1 of the line in %s", reply.Citations, p.Section())
	}
	if !strings.Contains(reply.Note, "1 of its sentences") || strings.Contains(reply.Answer, "evil") {
		t.Errorf("reply = %+v, want a note of 1 sentence left out and no evil in the answer", reply)
	}
	if got := log.String(); !strings.Contains(got, `"leftOut":1,"tokensIn":1200,"tokensOut":150`) ||
		strings.Contains(got, "secret") || strings.Contains(got, line) {
		t.Errorf("log = %s, want leftOut 1, tokensIn 1200 and tokensOut 150 without texts", got)
	}
}

// TestServerFallsBackWithoutModels checks that the server searches by words if the embedding model fails, and that it
// quotes the documentation if the other model writes no usable answer. The result and the log must have the reason.
func TestServerFallsBackWithoutModels(t *testing.T) {
	for name, tt := range map[string]struct {
		invoke, converse   http.HandlerFunc
		mode, reason, code string
	}{
		"both models fail": {
			bedrocktest.RespondError(429, "ThrottlingException"),
			bedrocktest.RespondError(403, "AccessDeniedException"), "lexical", "throttled", "AccessDeniedException",
		},
		"response without an answer": {
			nil, bedrocktest.Respond(bedrocktest.Message("guardrail_intervened", bedrocktest.Text("Sorry."))),
			"bedrock", "stopped", "",
		},
		"invented citation": {
			nil,
			bedrocktest.Respond(bedrocktest.ToolResponse(bedrocktest.Sentence("Keys are for sale.",
				bedrocktest.Quote(1, "keys are for sale")))), "bedrock", "uncited", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, log := bedrocktest.New(t), new(bytes.Buffer)
			fx := newBedrockFixture(t, b, log, 0)
			if tt.invoke != nil {
				b.HandleInvoke(tt.invoke)
			}
			b.HandleConverse(tt.converse)
			reply := askQuestion(t, fx, "How do I roll the key of a consumer?")
			if !reply.Answered || reply.By != "extractive" || reply.Mode != tt.mode || len(reply.Citations) == 0 {
				t.Errorf("reply = %+v, want an extractive answer with citations and mode %s", reply, tt.mode)
			}
			if !strings.Contains(reply.Note, tt.reason) || !strings.Contains(reply.Note, "quoted") {
				t.Errorf("note = %q, want the reason %s and \"quoted\"", reply.Note, tt.reason)
			}
			if got := log.String(); !strings.Contains(got, `"reason":"`+tt.reason+`"`) || !strings.Contains(got, tt.code) ||
				strings.Contains(got, "consumer") {
				t.Errorf("log = %s, want the reason %s and the code %s without the question", got, tt.reason, tt.code)
			}
		})
	}
}

// TestModelWithoutAnswerIsNotCovered checks that the result says that the documentation does not cover the question if
// the model finds no answer.
func TestModelWithoutAnswerIsNotCovered(t *testing.T) {
	b := bedrocktest.New(t)
	b.HandleConverse(bedrocktest.Respond(bedrocktest.Message("tool_use",
		bedrocktest.Tool("answer", map[string]any{"covered": false, "sentences": []any{}}))))
	reply := askQuestion(t, newBedrockFixture(t, b, new(bytes.Buffer), 0), "How do I roll the key of a consumer?")
	if reply.Answered || reply.By != "bedrock" || !strings.Contains(reply.Answer, "does not cover") ||
		len(reply.Citations) == 0 {
		t.Errorf("reply = %+v, want \"does not cover\" by bedrock with citations", reply)
	}
}

// TestModelsAreNotCalledBeforeAQuestion checks that a process sends no requests to Bedrock before the first question.
func TestModelsAreNotCalledBeforeAQuestion(t *testing.T) {
	b := bedrocktest.New(t)
	fx := newBedrockFixture(t, b, new(bytes.Buffer), 0)
	send(t, fx, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if n := len(b.Requests("invoke")) + len(b.Requests("converse")); n != 0 {
		t.Errorf("requests to the models = %d, want 0", n)
	}
}
