// Package bedrocktest is a server that answers as Amazon Bedrock does, in the documented wire format of Converse and InvokeModel, and
// misbehaves as told. It holds no model: what it says is the test's. That the real service answers like this was not tried.
package bedrocktest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Request is one that was made.
type Request struct {
	// Model is the id in its path, Action converse or invoke.
	Model, Action string
	// Signed tells that it has a signature of AWS, Version 4.
	Signed bool
	Body   map[string]any
}

// Bedrock is the server. Its handlers may be changed between requests.
type Bedrock struct {
	URL string
	mu  sync.Mutex
	// asked are all requests.
	asked            []Request
	converse, invoke http.HandlerFunc
}

// New starts one that knows no model until it is told what to say. It ends with the test.
func New(t *testing.T) *Bedrock {
	t.Helper()
	unknown := Fails(http.StatusNotFound, "ResourceNotFoundException")
	b := &Bedrock{converse: unknown, invoke: unknown}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /model/{model}/{action}", b.serve)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections() // a handler that hangs ends with its client
		server.Close()
	})
	b.URL = server.URL
	return b
}

// Converse says how Converse is answered from now on, Invoke how InvokeModel is.
func (b *Bedrock) Converse(h http.HandlerFunc) { b.mu.Lock(); defer b.mu.Unlock(); b.converse = h }

// Invoke says how InvokeModel is answered from now on.
func (b *Bedrock) Invoke(h http.HandlerFunc) { b.mu.Lock(); defer b.mu.Unlock(); b.invoke = h }

// Asked are the requests of an action, converse or invoke.
func (b *Bedrock) Asked(action string) (all []Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.asked {
		if r.Action == action {
			all = append(all, r)
		}
	}
	return all
}

func (b *Bedrock) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	in := Request{
		Model: r.PathValue("model"), Action: r.PathValue("action"),
		Signed: strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") && strings.Contains(r.Header.Get("Authorization"), "/bedrock/aws4_request"),
	}
	if json.Unmarshal(body, &in.Body) != nil {
		Fails(http.StatusBadRequest, "ValidationException")(w, r)
		return
	}
	b.mu.Lock()
	b.asked = append(b.asked, in)
	answer := map[string]http.HandlerFunc{"converse": b.converse, "invoke": b.invoke}[in.Action]
	b.mu.Unlock()
	if answer == nil {
		answer = Fails(http.StatusNotFound, "UnknownOperationException")
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	answer(w, r)
}

// Fails answers with an error of the service's, whose message repeats what was asked, as some do.
func Fails(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Amzn-Errortype", code+":http://internal.amazon.com/coral/com.amazon.bedrock/")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": "You asked: " + string(asked)})
	}
}

// Says answers with bytes.
func Says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// Hangs answers with the beginning of an answer, "" for nothing, and then no more.
func Hangs(beginning string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if beginning != "" {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, beginning)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// Breaks answers with the beginning of an answer, and ends the connection.
func Breaks(beginning string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, beginning)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Vector answers InvokeModel as Titan does with what vector gives of a text.
func Vector(vector func(text string) []float32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct{ InputText string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"embedding": vector(in.InputText), "inputTextTokenCount": len(in.InputText)})
	}
}

// Message is an answer of Converse: the blocks of its message, and why it ended.
func Message(stopReason string, blocks ...any) string {
	if blocks == nil {
		blocks = []any{}
	}
	body, err := json.Marshal(map[string]any{
		"output":     map[string]any{"message": map[string]any{"role": "assistant", "content": blocks}},
		"stopReason": stopReason,
		"usage":      map[string]any{"inputTokens": 1200, "outputTokens": 150, "totalTokens": 1350},
		"metrics":    map[string]any{"latencyMs": 900},
	})
	if err != nil {
		panic(fmt.Sprintf("bedrocktest: %v", err))
	}
	return string(body)
}

// Tool is a block that calls a tool with an input, Text one of text.
func Tool(name string, input any) any {
	return map[string]any{"toolUse": map[string]any{"toolUseId": "tooluse_1", "name": name, "input": input}}
}

// Text is a block of text.
func Text(text string) any { return map[string]any{"text": text} }

// Quote is a quote of an answer's sentence.
func Quote(passage int, text string) map[string]any {
	return map[string]any{"passage": passage, "quote": text}
}

// Sentence is one of an answer's.
func Sentence(text string, quotes ...map[string]any) map[string]any {
	return map[string]any{"text": text, "quotes": quotes}
}

// Answer is a whole answer of the tool that is demanded.
func Answer(sentences ...map[string]any) string {
	return Message("tool_use", Tool("answer", map[string]any{"covered": true, "sentences": sentences}))
}
