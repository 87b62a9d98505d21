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
	"github.com/gatewright/gatewright/shared/base/framing"
	"github.com/gatewright/gatewright/shared/format/credential"
	"github.com/gatewright/gatewright/shared/management/api"
)

// Response is the response to a call.
type Response struct {
	t      testing.TB
	call   string
	Status int
	Header http.Header
	Body   string
	// Dump is the whole response as text, with its headers, so that tests can compare two responses.
	Dump string
}

// Call sends a request with an account key. If key is the token of a session, Call sends it as a cookie, as a browser
// does. If key is "", Call sends no credential. headers has further headers: a name, its value, and so on. Call fails
// the test if the declaration of the operation does not list the status of the response or a use that Call recorded;
// checkDeclared describes the exceptions. So each call also checks that the OpenAPI document and the grants are
// complete.
func (fx *Fixture) Call(key, method, path, body string, headers ...string) Response {
	fx.Helper()
	return fx.call(fx.Context(), true, key, method, path, body, headers...)
}

// CallContext works like Call, but sends the request with ctx, for example within another request (api.WithCall). It
// does not compare the status and the uses with the declaration, because a dry run has another status and other uses.
func (fx *Fixture) CallContext(ctx context.Context, key, method, path, body string, headers ...string) Response {
	fx.Helper()
	return fx.call(ctx, false, key, method, path, body, headers...)
}

func (fx *Fixture) call(ctx context.Context, check bool, key, method, path, body string, headers ...string) Response {
	fx.Helper()
	r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "text/plain;charset=UTF-8") // as existing clients do (contract 1.1)
	switch {
	case credential.WellFormed(credential.SessionToken, key):
		r.Header.Set("Cookie", credential.SessionCookie+"="+key)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	case key != "":
		r.Header.Set("Authorization", "Bearer "+key)
	}
	seen := map[string]bool{}
	for header := range slices.Chunk(headers, 2) {
		if !seen[header[0]] { // the caller's value replaces a default header
			r.Header.Del(header[0])
		}
		seen[header[0]] = true
		r.Header.Add(header[0], header[1])
	}
	recorder := httptest.NewRecorder()
	uses := fx.Uses.during(func() { fx.handler.ServeHTTP(recorder, r) })
	if check {
		fx.checkDeclared(r, recorder.Code, uses)
	}
	dump, err := httputil.DumpResponse(recorder.Result(), true)
	if err != nil {
		fx.Fatalf("%s %s: %v", method, path, err)
	}
	return Response{
		t: fx.TB, call: method + " " + path,
		Status: recorder.Code, Header: recorder.Header(), Body: recorder.Body.String(), Dump: string(dump),
	}
}

// checkDeclared compares the status and the uses of a call with the declaration of the request's operation. Three
// things need not be declared: the status 304 of a read of one object, the separate audit record of a refused request
// or of an operation that contains requests, and the uses that EnableBackground adds. checkDeclared does not check
// requests that reach no operation.
func (fx *Fixture) checkDeclared(r *http.Request, status int, uses []api.Use) {
	fx.Helper()
	_, pattern := fx.routing.mux.Handler(r)
	d, ok := fx.routing.declarations[pattern]
	if escaped := r.URL.EscapedPath(); !ok || path.Clean(escaped) != escaped ||
		len(escaped) > framing.DefaultMaxPathBytes {
		return // the request does not reach an operation
	}
	unmodified := d.Single && status == http.StatusNotModified
	if status != d.Status && !unmodified && !slices.Contains(d.Errors, status) {
		fx.Errorf("%s returns %d for %s %s, want a status that it declares: list it in Errors",
			d.ID, status, r.Method, r.URL)
	}
	for _, use := range uses {
		// A refused request changes nothing, so its audit record is committed alone.
		separateAudit := use == separateAuditRecord && (status >= http.StatusBadRequest || d.ContainsRequests)
		optional := fx.background && slices.Contains(d.OptionalUses(), use)
		if !separateAudit && !optional && !slices.Contains(d.Uses, use) {
			fx.Errorf("%s does %q for %s %s, want a use that it declares: list it in Uses", d.ID, use, r.Method, r.URL)
		}
	}
}

// CallAs returns a function that works like Call with this key, for scenarios with one caller.
func (fx *Fixture) CallAs(key string) func(method, path, body string) Response {
	return func(method, path, body string) Response {
		fx.Helper()
		return fx.Call(key, method, path, body)
	}
}

// Want fails the test unless the response has the status and contains each of the texts. A text that begins with { and
// ends with } is a JSON object, and must be the whole body. In a problem document, Want searches only the result of
// Message, because the document also contains the request's path. A response with status 204 must have no body.
func (r Response) Want(status int, texts ...string) Response {
	r.t.Helper()
	if r.Status != status {
		r.t.Fatalf("%s: status = %d, body = %s, want status %d", r.call, r.Status, r.Body, status)
	}
	message := r.Message()
	for _, text := range texts {
		isObject := strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}")
		if isObject && strings.TrimSpace(r.Body) != text {
			r.t.Fatalf("%s: body = %s, want %s", r.call, r.Body, text)
		}
		if !strings.Contains(message, text) {
			r.t.Fatalf("%s: body = %s, want it to contain %s", r.call, r.Body, text)
		}
	}
	if status == http.StatusNoContent && r.Body != "" {
		r.t.Fatalf("%s: body of a 204 = %s, want none", r.call, r.Body)
	}
	return r
}

// Message returns the part of a response that tests compare: the detail and the invalid fields of a problem document,
// otherwise the whole body. Message fails the test if an error response is not a problem document. The plain text of an
// MCP server's 405 is the only exception.
func (r Response) Message() string {
	r.t.Helper()
	if r.Status < http.StatusBadRequest {
		return r.Body
	}
	if r.Status == http.StatusMethodNotAllowed && strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		return r.Body // an MCP server refuses the method (specification 4.1)
	}
	if contentType := r.Header.Get("Content-Type"); contentType != "application/problem+json" {
		r.t.Fatalf("%s: status = %d, Content-Type = %s, want application/problem+json: %s",
			r.call, r.Status, contentType, r.Body)
	}
	problem := r.JSON()
	var message strings.Builder
	message.WriteString(problem.Text("detail") + "\n")
	for i := range problem.Len("errors") {
		entry := "errors." + strconv.Itoa(i)
		message.WriteString(problem.Text(entry+".location") + ": " + problem.Text(entry+".message") + "\n")
	}
	return message.String()
}

// WantHeader fails the test unless the response has the header with this value.
func (r Response) WantHeader(name, value string) Response {
	r.t.Helper()
	if got := r.Header.Get(name); got != value {
		r.t.Fatalf("%s: header %s = %q, want %q", r.call, name, got, value)
	}
	return r
}

// JSON decodes the response's body.
func (r Response) JSON() Value {
	r.t.Helper()
	return Parse(r.t, r.Body)
}

// Parse decodes JSON.
func Parse(t testing.TB, text string) Value {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("Parse(%s): error = %v, want valid JSON", text, err)
	}
	return Value{v}
}

// Value is decoded JSON.
type Value struct{ any }

// At returns the value at a path of names and indexes, such as "apiKeys.0.key". An empty path returns the value itself.
// If there is no value at the path, At returns a Value of nil.
func (v Value) At(path string) Value {
	if path == "" {
		return v
	}
	return Value{events.Lookup(v.any, path)}
}

// Text returns the text at a path, or "" if there is none.
func (v Value) Text(path string) string {
	s, _ := v.At(path).any.(string)
	return s
}

// Number returns the number at a path, or -1 if there is none.
func (v Value) Number(path string) float64 {
	n, ok := v.At(path).any.(float64)
	if !ok {
		return -1
	}
	return n
}

// IsNull reports whether the value at a path is missing or null.
func (v Value) IsNull(path string) bool { return v.At(path).any == nil }

// Len returns the number of entries of the list or object at a path, or -1 if there is none.
func (v Value) Len(path string) int {
	switch entries := v.At(path).any.(type) {
	case []any:
		return len(entries)
	case map[string]any:
		return len(entries)
	}
	return -1
}

// Texts returns the texts at a path in each entry of a list, as in Texts("data", "name").
func (v Value) Texts(list, path string) []string {
	var out []string
	for i := range max(0, v.Len(list)) {
		out = append(out, v.At(list+"."+strconv.Itoa(i)).Text(path))
	}
	return out
}

// String returns the value as JSON.
func (v Value) String() string {
	text, err := json.Marshal(v.any)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Case is a row of a table of calls and their expected responses. It is an alias of an unnamed struct, so that rows can
// omit the names of fields: vet requires the names for named types of other packages.
type Case = struct {
	Name string
	// Key is an account key or the token of a session, or "" for no credential.
	Key          string
	Method, Path string
	Body         string
	// Status and Want are the arguments of Response.Want.
	Status int
	Want   string
}

// Run makes the call of each case in a new copy of the fixture, so that no case depends on another.
func (fx *Fixture) Run(t *testing.T, cases []Case) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			fx.Copy(t).Call(c.Key, c.Method, c.Path, c.Body).Want(c.Status, c.Want)
		})
	}
}
