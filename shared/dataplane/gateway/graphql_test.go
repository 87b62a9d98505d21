package gateway_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// declareGraphQL adds a policy to an artifact. It returns the policy's name, which is its type.
func declareGraphQL(a *project.Artifact, policyType string, options any) string {
	c := component("x", options)
	c.Module = "$import(@gatewright/graphql)"
	a.Policies[policyType] = project.Policy{Name: policyType, Type: policyType, Handler: c}
	return policyType
}

// graphQLServer records requests. It responds with handler, or with the data {"a":1} if handler is nil.
type graphQLServer struct {
	mu       sync.Mutex
	received []string
	headers  []http.Header
	handler  func(w http.ResponseWriter, body string)
}

func (s *graphQLServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.received, s.headers = append(s.received, string(body)), append(s.headers, r.Header)
	s.mu.Unlock()
	if s.handler != nil {
		s.handler(w, string(body))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	writef(w, `{"data":{"a":1}}`)
}

// last returns the body and the header of the last request, "" and nil before the first.
func (s *graphQLServer) last() (string, http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.received) == 0 {
		return "", nil
	}
	return s.received[len(s.received)-1], s.headers[len(s.headers)-1]
}

// count returns the number of received requests.
func (s *graphQLServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.received)
}

// limits has the options of the complexity limit in these tests.
var limits = map[string]any{"maxDepth": 3, "maxComplexity": 12}

// newGraphQLFixture returns a fixture with the route /graphql, and the server to which the
// route forwards. inbound and outbound have the options of the route's policies, by type.
func newGraphQLFixture(t testing.TB, inbound, outbound map[string]any, settings ...setting) (*fixture, *graphQLServer) {
	t.Helper()
	a, server := graphQLArtifact(t, inbound, outbound)
	return newFixture(t, a, settings...), server
}

// graphQLArtifact returns the artifact of newGraphQLFixture and the server that it forwards to.
func graphQLArtifact(t testing.TB, inbound, outbound map[string]any) (*project.Artifact, *graphQLServer) {
	t.Helper()
	server := &graphQLServer{}
	a := artifact(route("POST /graphql", rewrite(serve(t, server.ServeHTTP).URL+"/query")))
	a.Routes[0].GraphQL = true
	for policyType, options := range inbound {
		a.Routes[0].Inbound = append(a.Routes[0].Inbound, declareGraphQL(a, policyType, options))
	}
	for policyType, options := range outbound {
		a.Routes[0].Outbound = append(a.Routes[0].Outbound, declareGraphQL(a, policyType, options))
	}
	return a, server
}

// send sends a POST request with a JSON body.
func (fx *fixture) send(t testing.TB, target, body string, modifiers ...func(*http.Request)) *http.Response {
	t.Helper()
	all := append([]func(*http.Request){header("Content-Type", "application/json"), func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}}, modifiers...)
	return fx.do(t, http.MethodPost, target, all...)
}

// queryBody returns the body of a request with a document.
func queryBody(document string) string {
	body, err := json.Marshal(map[string]any{"query": document})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// graphQLError reads a response with one GraphQL error. line and column are its first location, 0 for none.
func graphQLError(t testing.TB, r *http.Response) (message, code string, line, column int) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("GraphQL error: Content-Type = %q, want application/json", got)
	}
	var out struct {
		Errors []struct {
			Message    string
			Locations  []struct{ Line, Column int }
			Extensions struct{ Code string }
		}
	}
	text := body(t, r)
	if err := json.Unmarshal([]byte(text), &out); err != nil || len(out.Errors) != 1 {
		t.Fatalf("GraphQL error: body = %s, %v, want one error", text, err)
	}
	e := out.Errors[0]
	if len(e.Locations) > 0 {
		line, column = e.Locations[0].Line, e.Locations[0].Column
	}
	return e.Message, e.Extensions.Code, line, column
}

// zipped returns a text in the format of gzip.
func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

// utf16Of returns a text in UTF-16, big-endian, with a byte order mark.
func utf16Of(text string) string {
	var b strings.Builder
	for _, u := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
		b.Write([]byte{byte(u >> 8), byte(u)})
	}
	return b.String()
}

// replaceHeader replaces a header field.
func replaceHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// TestOnlyCheckedGraphQLIsForwarded checks the bodies that the upstream receives for valid requests.
func TestOnlyCheckedGraphQLIsForwarded(t *testing.T) {
	h, server := newGraphQLFixture(t, map[string]any{
		"graphql-complexity-limit-inbound":      limits,
		"graphql-disable-introspection-inbound": map[string]any{},
	}, nil)
	sum := sha256.Sum256([]byte("{a}"))
	for name, test := range map[string]struct{ body, want string }{
		"only a query":     {`{"query":"{a}"}`, `{"query":"{a}"}`},
		"spaces and order": {" {\"variables\" : {\"x\":1} ,\n \"query\":\"{a}\"} ", `{"query":"{a}","variables":{"x":1}}`},
		"escapes":          {`{"qu\u0065ry":"\u007ba\u007d"}`, `{"query":"{a}"}`},
		"unknown members":  {`{"query":"{a}","documentId":"1","id":2,"doc_id":{"a":[]}}`, `{"query":"{a}"}`},
		"nulls":            {`{"query":"{a}","operationName":null,"variables":null,"extensions":null}`, `{"query":"{a}"}`},
		"all members": {
			`{"query":"query A{a}","operationName":"A","variables":{"x":1e3,"y":"é"},"extensions":{"z":[1]}}`,
			`{"query":"query A{a}","operationName":"A","variables":{"x":1e3,"y":"é"},"extensions":{"z":[1]}}`,
		},
		"the hash of the query": {
			`{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hex.EncodeToString(sum[:]) + `"}}}`,
			`{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hex.EncodeToString(sum[:]) + `"}}}`,
		},
		"a batch":                   {`[ {"query":"{a}"} , {"query":"{b}","x":1} ]`, `[{"query":"{a}"},{"query":"{b}"}]`},
		"a batch of one":            {`[{"query":"{a}"}]`, `[{"query":"{a}"}]`},
		"introspection in a string": {`{"query":"{a(b:\"__schema{types}\")}"}`, `{"query":"{a(b:\"__schema{types}\")}"}`},
		"__typename":                {`{"query":"{__typename a{__typename}}"}`, `{"query":"{__typename a{__typename}}"}`},
		"a query at the limits":     {`{"query":"{a{b{c{d}}}e f g h i j k l}"}`, `{"query":"{a{b{c{d}}}e f g h i j k l}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			response := h.send(t, "/graphql?page=1", test.body, replaceHeader("Content-Type", "application/json; charset=UTF-8"),
				header("Content-Digest", "sha-256=:AAAA:"))
			if response.StatusCode != http.StatusOK {
				t.Fatalf("POST /graphql: status = %d, body = %s, want 200", response.StatusCode, body(t, response))
			}
			sent, head := server.last()
			if sent != test.want || head.Get("Content-Type") != "application/json" ||
				head.Get("Content-Length") != fmt.Sprint(len(test.want)) || head.Get("Content-Digest") != "" {
				t.Errorf("POST /graphql: the upstream got %s with %v, want %s as application/json with its length and no digest",
					sent, head, test.want)
			}
		})
	}
}

// TestGraphQLLimitErrorsNameTheValue checks the texts of errors for exceeded limits.
func TestGraphQLLimitErrorsNameTheValue(t *testing.T) {
	h, _ := newGraphQLFixture(t, map[string]any{"graphql-complexity-limit-inbound": limits}, nil)
	for document, want := range map[string]string{
		"query Deep{a{b{c{d{e}}}}}": "The operation Deep has a depth of 4, and this " +
			"route allows 3. Ask for less deeply nested fields, or in several requests.",
		"{a} {a{b{c{d{e}}}}}": "The unnamed operation has a depth of 4, and this " +
			"route allows 3. Ask for less deeply nested fields, or in several requests.",
		"query Wide{" + strings.Repeat("a ", 13) + "}": "The operation Wide has a complexity of 13, and " +
			"this route allows 12. Ask for fewer fields, or in several requests.",
		"query " + strings.Repeat("L", 70) + "{a{b{c{d{e}}}}}": "The operation " + strings.Repeat("L", 64) +
			"… has a depth of 4, and this route allows 3. Ask for less deeply nested fields, or in several requests.",
		"{__schema{types{fields{type{fields{type{fields{name}}}}}}}}": "The introspection asks for lists within lists " +
			"within lists, and this route allows 2. Ask for the fields of types by their names.",
	} {
		response := h.send(t, "/graphql", queryBody(document))
		if message, _, line, column := graphQLError(t, response); message != want || line != 1 || column == 0 {
			t.Errorf("%s: status = %d, message = %q at %d:%d, want %q in line 1",
				document, response.StatusCode, message, line, column, want)
		}
	}
	response := h.send(t, "/graphql", "["+queryBody("{a}")+","+queryBody("{b{")+"]")
	if message, _, _, _ := graphQLError(t, response); !strings.HasPrefix(message, "Request 2 of the batch: ") {
		t.Errorf("batch with an invalid request: message = %q, want the prefix \"Request 2 of the batch: \"", message)
	}
}

// TestNestedGraphQLLimitOptions checks the nested options of the complexity limit, including ignored fields.
func TestNestedGraphQLLimitOptions(t *testing.T) {
	h, _ := newGraphQLFixture(t, map[string]any{"graphql-complexity-limit-inbound": map[string]any{
		"useDepthLimit":      map[string]any{"depthLimit": 1, "ignore": []string{"edges", "node"}},
		"useComplexityLimit": map[string]any{"complexityLimit": 6, "endpointUrl": "https://up.example.com/graphql"},
	}}, nil)
	for document, want := range map[string]int{
		"{a{b}}": 200, "{a{b{c}}}": 400, "{a{edges{node{b}}}}": 200, "{a{b c d e f}}": 200, "{a{b c d e f g}}": 400,
	} {
		if got := h.send(t, "/graphql", queryBody(document)).StatusCode; got != want {
			t.Errorf("POST /graphql with %s: status = %d, want %d", document, got, want)
		}
	}
}

// TestGraphQLResponsesAreForwardedUnchanged checks that a route with all GraphQL policies does not
// change a response if its errors have no excluded names. Other parts of the response can have them.
func TestGraphQLResponsesAreForwardedUnchanged(t *testing.T) {
	h, server := newGraphQLFixture(t,
		map[string]any{"graphql-complexity-limit-inbound": limits, "graphql-disable-introspection-inbound": map[string]any{}},
		map[string]any{
			"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Secret"}},
			"graphql-analytics-outbound":            map[string]any{},
		},
		func(c *gateway.Config, _ *upstream.Options) { c.Operations = &fakeOperations{} })
	for name, test := range map[string]struct{ contentType, encoding, text string }{
		"data": {
			"application/json", "", "{ \"data\" : {\"a\": 1.0, \"a\":2, \"Secret\":\"Did you mean Secret?\"} }\n",
		},
		"errors": {
			"application/graphql-response+json; charset=utf-8", "", ` {"errors": [ {"message":"no", "path":["a"]} ]}`,
		},
		"a batch":           {"application/json", "", ` [{"data":null} ,{"errors":[]}]`},
		"truncated JSON":    {"application/json", "", `{"errors":`},
		"an HTML page":      {"text/html", "", "<p>Did you mean Secret?"},
		"an empty body":     {"application/json", "", ""},
		"compressed data":   {"application/json", "gzip", zipped(`{"data":{"a":1}}`)},
		"compressed errors": {"application/json", "gzip", zipped(`{"errors":[{"message":"no"}]}`)},
		"long data":         {"application/json", "", `{"data":{"a":"` + strings.Repeat("x", 3<<20) + `"}}`},
		"a long error":      {"application/json", "", `{"errors":[{"message":"` + strings.Repeat("x", 3<<20) + `"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			server.handler = func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", test.contentType)
				w.Header().Set("Etag", `"1"`)
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, test.text)
			}
			response := h.send(t, "/graphql", queryBody("{a}"), header("Accept-Encoding", "gzip, br"))
			if got := body(t, response); got != test.text || response.StatusCode != http.StatusAccepted {
				t.Errorf("POST /graphql: status = %d, body = %.200q, want 202 %.200q", response.StatusCode, got, test.text)
			}
			h := response.Header
			if h.Get("Content-Type") != test.contentType || h.Get("Content-Encoding") != test.encoding ||
				h.Get("Etag") != `"1"` {
				t.Errorf("POST /graphql: header = %v, want Content-Type %q, Content-Encoding %q and ETag \"1\"",
					h, test.contentType, test.encoding)
			}
		})
	}
}
