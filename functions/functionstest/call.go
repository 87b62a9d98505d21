package functionstest

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/events"
	"github.com/gatewright/gatewright/shared/api"
	"github.com/gatewright/gatewright/shared/credential"
	"github.com/gatewright/gatewright/shared/listen/framing"
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

// Call makes a request with a caller's key, or as a page does with a session's token, "" for none. It fails the test when
// an operation answers a status, or does something outside its process, that
// its declaration does not list: each case that a test makes is one in which the
// document, or a grant, would be wrong. Names and values of further headers may
// follow.
func (w *World) Call(key, method, path, body string, headers ...string) Answer {
	w.Helper()
	return w.call(w.Context(), true, key, method, path, body, headers...)
}

// Within is Call for a request that is made within another one (api.Within), or in
// another context. What it is answered and does is not held against the declaration:
// a dry run is answered otherwise, and what shows secrets is recorded.
func (w *World) Within(ctx context.Context, key, method, path, body string, headers ...string) Answer {
	w.Helper()
	return w.call(ctx, false, key, method, path, body, headers...)
}

func (w *World) call(ctx context.Context, declared bool, key, method, path, body string, headers ...string) Answer {
	w.Helper()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "text/plain;charset=UTF-8") // as existing clients do (contract 1.1)
	switch {
	case credential.WellFormed(credential.SessionToken, key):
		r.Header.Set("Cookie", credential.SessionCookie+"="+key)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	case key != "":
		r.Header.Set("Authorization", "Bearer "+key)
	}
	set := map[string]bool{}
	for header := range slices.Chunk(headers, 2) {
		if !set[header[0]] { // one that is there anyway gives way to the test's
			r.Header.Del(header[0])
		}
		set[header[0]] = true
		r.Header.Add(header[0], header[1])
	}
	out := httptest.NewRecorder()
	done := w.Uses.during(func() { w.handler.ServeHTTP(out, r) })
	if declared {
		w.asDeclared(r, out.Code, done)
	}
	dump, err := httputil.DumpResponse(out.Result(), true)
	if err != nil {
		w.Fatalf("%s %s: %v", method, path, err)
	}
	return Answer{
		t: w.TB, call: method + " " + path,
		Status: out.Code, Header: out.Header(), Body: out.Body.String(), Whole: string(dump),
	}
}

// asDeclared holds an answer, and what was done for it, against the declaration
// of the request's operation.
func (w *World) asDeclared(r *http.Request, status int, done []api.Use) {
	w.Helper()
	_, pattern := w.routing.mux.Handler(r)
	d, ok := w.routing.declared[pattern]
	if escaped := r.URL.EscapedPath(); !ok || path.Clean(escaped) != escaped || len(escaped) > framing.MaxPathBytes {
		return // it leads to no operation
	}
	unmodified := d.Single && status == http.StatusNotModified
	if status != d.Status && !unmodified && !slices.Contains(d.Errors, status) {
		w.Errorf("%s answers %d to %s %s, which it does not declare: list it in Errors", d.ID, status, r.Method, r.URL)
	}
	for _, use := range done {
		apart := use == neverRecordedApart && (status >= http.StatusBadRequest || d.Carries) // how a refusal is recorded
		aside := w.asides && slices.Contains(d.Asides(), use)
		if !apart && !aside && !slices.Contains(d.Uses, use) {
			w.Errorf("%s does %q for %s %s, which it does not declare: list it in Uses", d.ID, use, r.Method, r.URL)
		}
	}
}

// As gives Call with a caller's key, for stories that one caller tells.
func (w *World) As(key string) func(method, path, body string) Answer {
	return func(method, path, body string) Answer {
		w.Helper()
		return w.Call(key, method, path, body)
	}
}

// Want fails the test unless the answer has the status and tells each of the
// texts. One that is a JSON object, from { to }, is the whole body. Of a problem
// document only what it says counts: it repeats the request's path besides. A
// 204 has no body.
func (a Answer) Want(status int, texts ...string) Answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("%s: got %d %s, want %d", a.call, a.Status, a.Body, status)
	}
	told := a.Told()
	for _, text := range texts {
		whole := strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}")
		if whole && strings.TrimSpace(a.Body) != text {
			a.t.Fatalf("%s: got %s, want %s", a.call, a.Body, text)
		}
		if !strings.Contains(told, text) {
			a.t.Fatalf("%s: got %s, want %s in it", a.call, a.Body, text)
		}
	}
	if status == http.StatusNoContent && a.Body != "" {
		a.t.Fatalf("%s: a 204 with the body %s", a.call, a.Body)
	}
	return a
}

// Told is the part of an answer that tests compare: of a problem document its
// detail and the fields at fault, else the whole body.
func (a Answer) Told() string {
	a.t.Helper()
	if a.Status < http.StatusBadRequest {
		return a.Body
	}
	if a.Status == http.StatusMethodNotAllowed && strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		return a.Body // of a server of messages (specification 4.1)
	}
	if kind := a.Header.Get("Content-Type"); kind != "application/problem+json" {
		a.t.Fatalf("%s: %d is answered with %s, which is no problem document: %s", a.call, a.Status, kind, a.Body)
	}
	problem := a.JSON()
	var text strings.Builder
	text.WriteString(problem.Text("detail") + "\n")
	for i := range problem.Len("errors") {
		at := "errors." + strconv.Itoa(i)
		text.WriteString(problem.Text(at+".location") + ": " + problem.Text(at+".message") + "\n")
	}
	return text.String()
}

// WantHeader fails the test unless the answer has a header of the value.
func (a Answer) WantHeader(name, value string) Answer {
	a.t.Helper()
	if got := a.Header.Get(name); got != value {
		a.t.Fatalf("%s: got %s: %q, want %q", a.call, name, got, value)
	}
	return a
}

// JSON decodes the answer's body.
func (a Answer) JSON() Value {
	a.t.Helper()
	return Parse(a.t, a.Body)
}

// Parse decodes JSON.
func Parse(t testing.TB, text string) Value {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return Value{v}
}

// Value is decoded JSON.
type Value struct{ any }

// At follows names and indexes, spelled as in "apiKeys.0.key"; "" leads
// nowhere. What is not there is a Value of nil.
func (v Value) At(path string) Value {
	if path == "" {
		return v
	}
	return Value{events.At(v.any, path)}
}

// Text is the text at a path, "" for none.
func (v Value) Text(path string) string {
	s, _ := v.At(path).any.(string)
	return s
}

// Number is the number at a path, -1 for none.
func (v Value) Number(path string) float64 {
	n, ok := v.At(path).any.(float64)
	if !ok {
		return -1
	}
	return n
}

// Null reports whether there is nothing at a path, or null.
func (v Value) Null(path string) bool { return v.At(path).any == nil }

// Len is how many entries the list or object at a path has, -1 for none.
func (v Value) Len(path string) int {
	switch in := v.At(path).any.(type) {
	case []any:
		return len(in)
	case map[string]any:
		return len(in)
	}
	return -1
}

// Texts are the texts at a path in each entry of a list, as in
// Texts("data", "name").
func (v Value) Texts(list, path string) []string {
	var out []string
	for i := range max(0, v.Len(list)) {
		out = append(out, v.At(list+"."+strconv.Itoa(i)).Text(path))
	}
	return out
}

// String is the value as JSON.
func (v Value) String() string {
	text, err := json.Marshal(v.any)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Case is one row of a table of calls and what they are answered. It is an
// alias of a struct without a name of its own, so that rows may leave out the
// names of its fields, which vet refuses for types of other packages.
type Case = struct {
	Name string
	// Key is the caller's, "" for none.
	Key          string
	Method, Path string
	Body         string
	// Status and Want are as Answer.Want takes them.
	Status int
	Want   string
}

// Run makes each case's call in a copy of the world, so that none sees what
// another has done.
func (w *World) Run(t *testing.T, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			w.Copy(t).Call(c.Key, c.Method, c.Path, c.Body).Want(c.Status, c.Want)
		})
	}
}
