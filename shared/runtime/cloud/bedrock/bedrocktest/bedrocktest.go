// Package bedrocktest is a server with the documented wire format of Amazon Bedrock's Converse and InvokeModel. Tests
// can make it fail. It contains no model: tests set its responses. It has not been compared with the real service.
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

// Request is a request that the server has received.
type Request struct {
	// Model is the id in the path. Action is converse or invoke.
	Model, Action string
	// Signed reports whether the request has an AWS signature, Version 4.
	Signed bool
	Body   map[string]any
}

// Bedrock is the server. Tests may change its handlers between requests.
type Bedrock struct {
	URL string
	mu  sync.Mutex
	// requests are all requests so far.
	requests         []Request
	converse, invoke http.HandlerFunc
}

// New starts a server that responds with ResourceNotFoundException until a test sets a handler. The server ends with
// the test.
func New(t *testing.T) *Bedrock {
	t.Helper()
	unknown := RespondError(http.StatusNotFound, "ResourceNotFoundException")
	b := &Bedrock{converse: unknown, invoke: unknown}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /model/{model}/{action}", b.serve)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections() // ends the handlers of Hang
		server.Close()
	})
	b.URL = server.URL
	return b
}

// HandleConverse sets the handler of Converse.
func (b *Bedrock) HandleConverse(h http.HandlerFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.converse = h
}

// HandleInvoke sets the handler of InvokeModel.
func (b *Bedrock) HandleInvoke(h http.HandlerFunc) { b.mu.Lock(); defer b.mu.Unlock(); b.invoke = h }

// Requests returns the requests for an action, converse or invoke.
func (b *Bedrock) Requests(action string) (all []Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, r := range b.requests {
		if r.Action == action {
			all = append(all, r)
		}
	}
	return all
}

func (b *Bedrock) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	request := Request{
		Model: r.PathValue("model"), Action: r.PathValue("action"),
		Signed: strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") &&
			strings.Contains(r.Header.Get("Authorization"), "/bedrock/aws4_request"),
	}
	if json.Unmarshal(body, &request.Body) != nil {
		RespondError(http.StatusBadRequest, "ValidationException")(w, r)
		return
	}
	b.mu.Lock()
	b.requests = append(b.requests, request)
	handler := map[string]http.HandlerFunc{"converse": b.converse, "invoke": b.invoke}[request.Action]
	b.mu.Unlock()
	if handler == nil {
		handler = RespondError(http.StatusNotFound, "UnknownOperationException")
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	handler(w, r)
}

// RespondError returns a handler that responds with an error of the service.
// The error's message repeats the request, as the messages of some services do.
func RespondError(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Amzn-Errortype", code+":http://internal.amazon.com/coral/com.amazon.bedrock/")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"message": "You asked: " + string(body)})
	}
}

// Respond returns a handler that responds with body.
func Respond(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// Hang returns a handler that sends the beginning of a response, or nothing for "", and then hangs.
func Hang(prefix string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if prefix != "" {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "100000")
			_, _ = io.WriteString(w, prefix)
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}
}

// Disconnect returns a handler that sends the beginning of a response, and then ends the connection.
func Disconnect(prefix string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100000")
		_, _ = io.WriteString(w, prefix)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// Vector returns a handler for InvokeModel that responds as Titan does. It calls vector to get the vector of a text.
func Vector(vector func(text string) []float32) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in struct{ InputText string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{
			"embedding":           vector(in.InputText),
			"inputTextTokenCount": len(in.InputText),
		})
	}
}

// Message returns a response of Converse with the blocks of its message and its stop reason.
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

// Tool returns a block that calls a tool with an input.
func Tool(name string, input any) any {
	return map[string]any{"toolUse": map[string]any{"toolUseId": "tooluse_1", "name": name, "input": input}}
}

// Text returns a block of text.
func Text(text string) any { return map[string]any{"text": text} }

// Quote returns a quote for a sentence of an answer.
func Quote(passage int, text string) map[string]any {
	return map[string]any{"passage": passage, "quote": text}
}

// Sentence returns a sentence of an answer.
func Sentence(text string, quotes ...map[string]any) map[string]any {
	return map[string]any{"text": text, "quotes": quotes}
}

// ToolResponse returns a complete response of Converse that calls the required tool.
func ToolResponse(sentences ...map[string]any) string {
	return Message("tool_use", Tool("answer", map[string]any{"covered": true, "sentences": sentences}))
}
