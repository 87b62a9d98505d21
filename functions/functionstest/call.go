package functionstest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"strings"
	"testing"
)

// Answer is what a call was answered with.
type Answer struct {
	t      testing.TB
	call   string
	Status int
	Header http.Header
	Body   string
	// Whole is the answer with its headers, for two answers to be compared.
	Whole string
}

// Call makes a request with a caller's key, "" for none.
func (w *World) Call(key, method, path, body string) Answer {
	w.Helper()
	r := httptest.NewRequestWithContext(w.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "text/plain;charset=UTF-8") // as existing clients do (contract 1.1)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	dump, err := httputil.DumpResponse(out.Result(), true)
	if err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	return Answer{
		t: w.TB, call: method + " " + path,
		Status: out.Code, Header: out.Header(), Body: out.Body.String(), Whole: string(dump),
	}
}

// Want fails the test unless the answer has the status and holds each of the
// texts. A 204 has no body.
func (a Answer) Want(status int, texts ...string) Answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("%s: got %d %s, want %d", a.call, a.Status, a.Body, status)
	}
	for _, text := range texts {
		if !strings.Contains(a.Body, text) {
			a.t.Fatalf("%s: got %s, want %s in it", a.call, a.Body, text)
		}
	}
	if status == http.StatusNoContent && a.Body != "" {
		a.t.Fatalf("%s: a 204 with the body %s", a.call, a.Body)
	}
	return a
}

// JSON decodes the answer's body.
func (a Answer) JSON() Value {
	a.t.Helper()
	var v any
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		a.t.Fatalf("%s: %v in %s", a.call, err, a.Body)
	}
	return Value{v}
}

// Value is decoded JSON.
type Value struct{ any }

// At follows names and indexes, spelled as in "apiKeys.0.key". What is not
// there is a Value of nil.
func (v Value) At(path string) Value {
	for part := range strings.SplitSeq(path, ".") {
		switch in := v.any.(type) {
		case map[string]any:
			v = Value{in[part]}
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(in) {
				return Value{}
			}
			v = Value{in[i]}
		default:
			return Value{}
		}
	}
	return v
}

// Text is the text at a path, "" for none.
func (v Value) Text(path string) string {
	s, _ := v.At(path).any.(string)
	return s
}

// Len is the length of the list at a path, -1 for none.
func (v Value) Len(path string) int {
	l, ok := v.At(path).any.([]any)
	if !ok {
		return -1
	}
	return len(l)
}

// Case is one row of a table of calls and what they are answered.
type Case struct {
	Name         string
	Key          string
	Method, Path string
	Body         string
	Status       int
	// Want is in the answer's body.
	Want string
}

// Run makes each case's call in a copy of the world.
func (w *World) Run(t *testing.T, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			w.Copy(t).Call(c.Key, c.Method, c.Path, c.Body).Want(c.Status, c.Want)
		})
	}
}
