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

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// declareGraphQL adds a policy to an artifact, called as its type is.
func declareGraphQL(a *project.Artifact, policyType string, options any) string {
	c := component("x", options)
	c.Module = "$import(@gatewright/graphql)"
	a.Policies[policyType] = project.Policy{Name: policyType, Type: policyType, Handler: c}
	return policyType
}

// graphQLServer keeps what it is sent, and answers what it is told to.
type graphQLServer struct {
	mu      sync.Mutex
	sent    []string
	headers []http.Header
	answer  func(w http.ResponseWriter, body string)
}

func (s *graphQLServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.sent, s.headers = append(s.sent, string(body)), append(s.headers, r.Header)
	s.mu.Unlock()
	if s.answer != nil {
		s.answer(w, string(body))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	say(w, `{"data":{"a":1}}`)
}

func (s *graphQLServer) last() (string, http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.sent) == 0 {
		return "", nil
	}
	return s.sent[len(s.sent)-1], s.headers[len(s.headers)-1]
}

func (s *graphQLServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent)
}

// limits are those of the routes of these tests.
var limits = map[string]any{"maxDepth": 3, "maxComplexity": 12}

// graphQLHouse serves a route /graphql with inbound and outbound policies in front of a server.
func graphQLHouse(t testing.TB, inbound, outbound map[string]any, settings ...setting) (*house, *graphQLServer) {
	t.Helper()
	a, server := graphQLArtifact(t, inbound, outbound)
	return newHouse(t, a, settings...), server
}

// graphQLArtifact returns the artifact of graphQLHouse and the server that it forwards to.
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

// send posts a body of JSON.
func (h *house) send(t testing.TB, target, body string, set ...func(*http.Request)) *http.Response {
	t.Helper()
	all := append([]func(*http.Request){header("Content-Type", "application/json"), func(r *http.Request) {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}}, set...)
	return h.do(t, http.MethodPost, target, all...)
}

// queryOf is the body of a request for a document.
func queryOf(document string) string {
	body, err := json.Marshal(map[string]any{"query": document})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// graphQLErrors reads a refusal in the form of GraphQL.
func graphQLErrors(t testing.TB, r *http.Response) (message, code string, line, column int) {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	var out struct {
		Errors []struct {
			Message    string
			Locations  []struct{ Line, Column int }
			Extensions struct{ Code string }
		}
	}
	if err := json.Unmarshal([]byte(body(t, r)), &out); err != nil || len(out.Errors) != 1 {
		t.Fatalf("%v %+v", err, out)
	}
	e := out.Errors[0]
	if len(e.Locations) > 0 {
		line, column = e.Locations[0].Line, e.Locations[0].Column
	}
	return e.Message, e.Extensions.Code, line, column
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func utf16Of(text string) string {
	var b strings.Builder
	for _, u := range append([]uint16{0xfeff}, utf16.Encode([]rune(text))...) {
		b.Write([]byte{byte(u >> 8), byte(u)})
	}
	return b.String()
}

// TestHostileGraphQLRequestsNeverReachTheUpstream is the list of what gets round the checks of others.
func TestHostileGraphQLRequestsNeverReachTheUpstream(t *testing.T) {
	h, server := graphQLHouse(t, map[string]any{"graphql-complexity-limit-inbound": limits, "graphql-disable-introspection-inbound": map[string]any{}}, nil)
	const deep = "a{b{c{d{e}}}}"
	introspection := "__schema{types{name}}"
	doubling := func() string {
		text := "{...F0}"
		for i := range 40 {
			text += fmt.Sprintf("fragment F%d on T{...F%d ...F%d}", i, i+1, i+1)
		}
		return text + "fragment F40 on T{a}"
	}()
	many := func(text string) string { return "[" + strings.TrimSuffix(strings.Repeat(text+",", 11), ",") + "]" }
	for name, test := range map[string]struct {
		method, target, body string
		set                  func(*http.Request)
		status               int
		says                 string // the code of an error, or a part of a problem's detail
	}{
		"deep":                             {body: queryOf("{" + deep + "}"), status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"wide":                             {body: queryOf("{" + strings.Repeat("a ", 13) + "}"), status: 400, says: "COMPLEXITY_LIMIT_EXCEEDED"},
		"aliases":                          {body: queryOf("{a:x b:x c:x d:x e:x f:x g:x h:x i:x j:x k:x l:x m:x}"), status: 400, says: "COMPLEXITY_LIMIT_EXCEEDED"},
		"cost hidden in fragments":         {body: queryOf("{...F} fragment F on T{" + deep + "}"), status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"fragments that double":            {body: queryOf(doubling), status: 400, says: "COMPLEXITY_LIMIT_EXCEEDED"},
		"a fragment that is cheap first":   {body: queryOf("{...A ...B} fragment A on T{...B} fragment B on T{" + strings.Repeat("a ", 12) + "}"), status: 400, says: "COMPLEXITY_LIMIT_EXCEEDED"},
		"a fragment called __schema":       {body: queryOf("{...__schema} fragment __schema on T{" + deep + "}"), status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"an exempted name":                 {body: queryOf("query IntrospectionQuery{" + deep + "}"), status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"a cycle":                          {body: queryOf("{...F} fragment F on T{...F}"), status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
		"an unknown fragment":              {body: queryOf("{...F}"), status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
		"skipped":                          {body: queryOf("{...@include(if:false){" + deep + "}}"), status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"the second operation":             {body: queryOf("query A{a} query B{" + deep + "}"), status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"one that is not named":            {body: `{"query":"query A{a} query B{a{b{c{d{e}}}}}","operationName":"A"}`, status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"the last of a batch":              {body: "[" + queryOf("{a}") + "," + queryOf("{"+deep+"}") + "]", status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"eleven in a batch":                {body: many(queryOf("{a}")), status: 400, says: "BAD_USER_INPUT"},
		"too many tokens together":         {body: "[" + queryOf(strings.Repeat("#\n", 8_000)+"{a}") + "," + queryOf(strings.Repeat("#\n", 7_000)+"{a}") + "]", status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
		"an empty batch":                   {body: "[]", status: 400, says: "BAD_USER_INPUT"},
		"batches in a batch":               {body: "[[" + queryOf("{a}") + "]]", status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"100 KB of tokens":                 {body: queryOf("{" + strings.Repeat("a ", 50_000) + "}"), status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
		"100 KB of directives":             {body: queryOf("{a " + strings.Repeat("@b ", 33_000) + "}"), status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
		"100 KB of commas":                 {body: queryOf("{" + strings.Repeat(",", 100_000) + deep + "}"), status: 400, says: "DEPTH_LIMIT_EXCEEDED"},
		"deep selections":                  {body: queryOf(strings.Repeat("{a", 20_000)), status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
		"deep lists":                       {body: queryOf("{a(b:" + strings.Repeat("[", 100_000)), status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
		"deep variables":                   {body: `{"query":"{a}","variables":{"a":` + strings.Repeat("[", 300_000) + strings.Repeat("]", 300_000) + "}}", status: 400, says: "BAD_USER_INPUT"},
		"a long document":                  {body: queryOf("{a}" + strings.Repeat(" ", 128<<10)), status: 400, says: "BAD_USER_INPUT"},
		"a long one of escapes":            {body: `{"query":"{a}` + strings.Repeat(`\u0020`, 140_000) + `"}`, status: 400, says: "BAD_USER_INPUT"},
		"many names":                       {body: `{"query":"{a}","variables":{"a":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, 10_000), ",") + `]}}`, status: 400, says: "BAD_USER_INPUT"},
		"many values":                      {body: `{"query":"{a}","variables":{"a":[` + strings.TrimSuffix(strings.Repeat(`1,`, 50_000), ",") + `]}}`, status: 400, says: "BAD_USER_INPUT"},
		"over a megabyte":                  {body: queryOf("{a}" + strings.Repeat(" ", 1<<20)), status: 413, says: "at most 1048576 bytes"},
		"over a megabyte in chunks":        {body: queryOf("{a}" + strings.Repeat(" ", 1<<20)), set: func(r *http.Request) { r.ContentLength = -1 }, status: 413, says: "at most 1048576 bytes"},
		"a hash without its query":         {body: `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + strings.Repeat("0", 64) + `"}}}`, status: 400, says: "PERSISTED_QUERY_NOT_SUPPORTED"},
		"a hash of another query":          {body: `{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + strings.Repeat("0", 64) + `"}}}`, status: 400, says: "BAD_USER_INPUT"},
		"the same in other capitals":       {body: `{"query":"{a}","extensions":{"PersistedQuery":{"SHA256hash":"` + strings.Repeat("0", 64) + `"}}}`, status: 400, says: "BAD_USER_INPUT"},
		"a hash of another beside its own": {body: `{"query":"{a}","extensions":{"persistedQuery":{"sha256Hash":"` + strings.Repeat("0", 64) + `","SHA256Hash":"460c3a93211614ac783c0f1d1bbbcb45a6da87d6421b5c0771772588f1015ff8"}}}`, status: 400, says: "BAD_USER_INPUT"},
		"the id of a document":             {body: `{"documentId":"1"}`, status: 400, says: "BAD_USER_INPUT"},
		"two queries":                      {body: `{"query":"{a}","query":"{a{b{c{d{e}}}}}"}`, status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"two by an escape":                 {body: `{"query":"{a}","qu\u0065ry":"{a{b{c{d{e}}}}}"}`, status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"other capitals":                   {body: `{"query":"{a}","Query":"{a{b{c{d{e}}}}}"}`, status: 400, says: "BAD_USER_INPUT"},
		"a long s":                         {body: `{"query":"{a}","exten` + "\u017f" + `ions":{}}`, status: 400, says: "BAD_USER_INPUT"},
		"white space around a name":        {body: `{"query":"{a}"," query ":"{a{b{c{d{e}}}}}"}`, status: 400, says: "BAD_USER_INPUT"},
		"a query that is none":             {body: `{"query":{"a":1}}`, status: 400, says: "BAD_USER_INPUT"},
		"variables that are none":          {body: `{"query":"{a}","variables":"{}"}`, status: 400, says: "BAD_USER_INPUT"},
		"two bodies":                       {body: queryOf("{a}") + queryOf("{"+deep+"}"), status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"no JSON":                          {body: "query {a}", status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"JSON that is close to it":         {body: `{"query":"{a}",}`, status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"nothing":                          {body: "", status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"half of a surrogate pair":         {body: `{"query":"{a(b:\"\ud800\")}"}`, status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"bytes that are no UTF-8":          {body: "{\"query\":\"{a(b:\\\"\xff\\\")}\"}", status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"such bytes in variables":          {body: "{\"query\":\"{a}\",\"variables\":{\"a\":\"\xff\"}}", status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"UTF-16":                           {body: utf16Of(queryOf("{" + deep + "}")), status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"UTF-16 that says so":              {body: utf16Of(queryOf("{a}")), set: instead("Content-Type", "application/json; charset=utf-16"), status: 415, says: "JSON in UTF-8"},
		"compressed":                       {body: zipped(queryOf("{" + deep + "}")), set: header("Content-Encoding", "gzip"), status: 415, says: "no compressed bodies"},
		"compressed without saying so":     {body: zipped(queryOf("{" + deep + "}")), status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"a form":                           {body: "query={" + deep + "}", set: instead("Content-Type", "application/x-www-form-urlencoded"), status: 415, says: "JSON in UTF-8"},
		"a document by itself":             {body: "{" + deep + "}", set: instead("Content-Type", "application/graphql"), status: 415, says: "JSON in UTF-8"},
		"parts":                            {body: "--x\r\n\r\n{}\r\n--x--", set: instead("Content-Type", "multipart/form-data; boundary=x"), status: 415, says: "JSON in UTF-8"},
		"a text":                           {body: queryOf("{a}"), set: instead("Content-Type", "text/plain"), status: 415, says: "JSON in UTF-8"},
		"no type":                          {body: queryOf("{a}"), set: func(r *http.Request) { r.Header.Del("Content-Type") }, status: 415, says: "JSON in UTF-8"},
		"two types":                        {body: queryOf("{a}"), set: header("Content-Type", "application/graphql"), status: 415, says: "JSON in UTF-8"},
		"GET":                              {method: "GET", target: "/graphql?query={a}", status: 405, says: "none for this method"},
		"a query in the address":           {target: "/graphql?query={" + deep + "}", body: queryOf("{a}"), status: 400, says: "The address of this GraphQL request"},
		"an escaped one":                   {target: "/graphql?x=1&%71uery={" + deep + "}", body: queryOf("{a}"), status: 400, says: "The address of this GraphQL request"},
		"behind a semicolon":               {target: "/graphql?x=1;query={a}", body: queryOf("{a}"), status: 400, says: "The address of this GraphQL request"},
		"as a list":                        {target: "/graphql?query[]={a}", body: queryOf("{a}"), status: 400, says: "The address of this GraphQL request"},
		"the address's operation":          {target: "/graphql?operationName=B", body: queryOf("query A{a} query B{a}"), status: 400, says: "The address of this GraphQL request"},
		"introspection":                    {body: queryOf("{" + introspection + "}"), status: 403, says: "Introspection queries are not allowed"},
		"of a type":                        {body: queryOf(`{__type(name:"T"){name}}`), status: 403, says: "Introspection queries are not allowed"},
		"by an alias":                      {body: queryOf("{a:" + introspection + "}"), status: 403, says: "Introspection queries are not allowed"},
		"by a fragment":                    {body: queryOf("{...F} fragment F on Query{" + introspection + "}"), status: 403, says: "Introspection queries are not allowed"},
		"beside data":                      {body: queryOf("{a " + introspection + "}"), status: 403, says: "Introspection queries are not allowed"},
		"in a mutation":                    {body: queryOf("mutation{a{query{" + introspection + "}}}"), status: 403, says: "Introspection queries are not allowed"},
		"in a batch":                       {body: "[" + queryOf("{a}") + "," + queryOf("{"+introspection+"}") + "]", status: 403, says: "Introspection queries are not allowed"},
		"in the operation that is not run": {body: `{"query":"query A{a} query B{__schema{types{name}}}","operationName":"A"}`, status: 403, says: "Introspection queries are not allowed"},
		"by JSON's escapes":                {body: `{"query":"{\u005f\u005fschema{types{name}}}"}`, status: 403, says: "Introspection queries are not allowed"},
		"by what parsers disagree about":   {body: queryOf(`{a(b:["""c"""","]) __schema{types{name}} } #"])}`), status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"a schema":                         {body: queryOf("type A{b:C}"), status: 400, says: "GRAPHQL_PARSE_FAILED"},
		"fragments alone":                  {body: queryOf("fragment F on T{a}"), status: 400, says: "GRAPHQL_VALIDATION_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			target, set := "/graphql", func(*http.Request) {}
			if test.target != "" {
				target = strings.NewReplacer("{", "%7B", "}", "%7D").Replace(test.target)
			}
			if test.set != nil {
				set = test.set
			}
			before := server.count()
			var response *http.Response
			if test.method != "" {
				response = h.do(t, test.method, target, set)
			} else {
				response = h.send(t, target, test.body, set)
			}
			if response.StatusCode != test.status {
				t.Fatalf("got %d %s", response.StatusCode, body(t, response))
			}
			if strings.Contains(test.says, " ") {
				if p := problemOf(t, response); !strings.Contains(p.Detail, test.says) {
					t.Errorf("detail %q", p.Detail)
				}
			} else if message, code, _, _ := graphQLErrors(t, response); code != test.says || message == "" {
				t.Errorf("%s %q", code, message)
			}
			if server.count() != before {
				sent, _ := server.last()
				t.Errorf("the upstream was sent %s", sent)
			}
		})
	}
}

// instead sets a header field in place of the one that is there.
func instead(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// TestOnlyWhatWasCheckedGoesUpstream holds what the upstream gets of good requests.
func TestOnlyWhatWasCheckedGoesUpstream(t *testing.T) {
	h, server := graphQLHouse(t, map[string]any{"graphql-complexity-limit-inbound": limits, "graphql-disable-introspection-inbound": map[string]any{}}, nil)
	sum := sha256.Sum256([]byte("{a}"))
	for name, test := range map[string]struct{ body, want string }{
		"as it is":             {`{"query":"{a}"}`, `{"query":"{a}"}`},
		"spaces and order":     {" {\"variables\" : {\"x\":1} ,\n \"query\":\"{a}\"} ", `{"query":"{a}","variables":{"x":1}}`},
		"escapes":              {`{"qu\u0065ry":"\u007ba\u007d"}`, `{"query":"{a}"}`},
		"what nobody looks at": {`{"query":"{a}","documentId":"1","id":2,"doc_id":{"a":[]}}`, `{"query":"{a}"}`},
		"nulls":                {`{"query":"{a}","operationName":null,"variables":null,"extensions":null}`, `{"query":"{a}"}`},
		"all of it":            {`{"query":"query A{a}","operationName":"A","variables":{"x":1e3,"y":"é"},"extensions":{"z":[1]}}`, `{"query":"query A{a}","operationName":"A","variables":{"x":1e3,"y":"é"},"extensions":{"z":[1]}}`},
		"the hash of the query": {
			`{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hex.EncodeToString(sum[:]) + `"}}}`,
			`{"query":"{a}","extensions":{"persistedQuery":{"version":1,"sha256Hash":"` + hex.EncodeToString(sum[:]) + `"}}}`,
		},
		"a batch":           {`[ {"query":"{a}"} , {"query":"{b}","x":1} ]`, `[{"query":"{a}"},{"query":"{b}"}]`},
		"a batch of one":    {`[{"query":"{a}"}]`, `[{"query":"{a}"}]`},
		"words in a string": {`{"query":"{a(b:\"__schema{types}\")}"}`, `{"query":"{a(b:\"__schema{types}\")}"}`},
		"__typename":        {`{"query":"{__typename a{__typename}}"}`, `{"query":"{__typename a{__typename}}"}`},
		"at the limits":     {`{"query":"{a{b{c{d}}}e f g h i j k l}"}`, `{"query":"{a{b{c{d}}}e f g h i j k l}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			response := h.send(t, "/graphql?page=1", test.body, instead("Content-Type", "application/json; charset=UTF-8"), header("Content-Digest", "sha-256=:AAAA:"))
			if response.StatusCode != http.StatusOK {
				t.Fatalf("got %d %s", response.StatusCode, body(t, response))
			}
			sent, head := server.last()
			if sent != test.want || head.Get("Content-Type") != "application/json" || head.Get("Content-Length") != fmt.Sprint(len(test.want)) || head.Get("Content-Digest") != "" {
				t.Errorf("sent %s with %v", sent, head)
			}
		})
	}
}

// TestLimitsTellWhatWasFound holds the texts that people read.
func TestLimitsTellWhatWasFound(t *testing.T) {
	h, _ := graphQLHouse(t, map[string]any{"graphql-complexity-limit-inbound": limits}, nil)
	for document, want := range map[string]string{
		"query Deep{a{b{c{d{e}}}}}":                                   "The operation Deep has a depth of 4, and this route allows 3. Ask for less deeply nested fields, or in several requests.",
		"{a} {a{b{c{d{e}}}}}":                                         "The unnamed operation has a depth of 4, and this route allows 3. Ask for less deeply nested fields, or in several requests.",
		"query Wide{" + strings.Repeat("a ", 13) + "}":                "The operation Wide has a complexity of 13, and this route allows 12. Ask for fewer fields, or in several requests.",
		"query " + strings.Repeat("L", 70) + "{a{b{c{d{e}}}}}":        "The operation " + strings.Repeat("L", 64) + "… has a depth of 4, and this route allows 3. Ask for less deeply nested fields, or in several requests.",
		"{__schema{types{fields{type{fields{type{fields{name}}}}}}}}": "The introspection asks for lists within lists within lists, and this route allows 2. Ask for the fields of types by their names.",
	} {
		response := h.send(t, "/graphql", queryOf(document))
		if message, _, line, column := graphQLErrors(t, response); message != want || line != 1 || column == 0 {
			t.Errorf("%s: %d %s at %d:%d", document, response.StatusCode, message, line, column)
		}
	}
	response := h.send(t, "/graphql", "["+queryOf("{a}")+","+queryOf("{b{")+"]")
	if message, _, _, _ := graphQLErrors(t, response); !strings.HasPrefix(message, "Request 2 of the batch: ") {
		t.Errorf("%s", message)
	}
}

// TestExistingSpellingsOfLimitsHold has the nested options, and fields that add no depth.
func TestExistingSpellingsOfLimitsHold(t *testing.T) {
	h, _ := graphQLHouse(t, map[string]any{"graphql-complexity-limit-inbound": map[string]any{
		"useDepthLimit":      map[string]any{"depthLimit": 1, "ignore": []string{"edges", "node"}},
		"useComplexityLimit": map[string]any{"complexityLimit": 6, "endpointUrl": "https://up.example.com/graphql"},
	}}, nil)
	for document, want := range map[string]int{
		"{a{b}}": 200, "{a{b{c}}}": 400, "{a{edges{node{b}}}}": 200, "{a{b c d e f}}": 200, "{a{b c d e f g}}": 400,
	} {
		if got := h.send(t, "/graphql", queryOf(document)).StatusCode; got != want {
			t.Errorf("%s: %d, want %d", document, got, want)
		}
	}
}

// TestAnswersOfGraphQLRoutesPassByteForByte has all policies on a route, and nothing to change.
func TestAnswersOfGraphQLRoutesPassByteForByte(t *testing.T) {
	h, server := graphQLHouse(t,
		map[string]any{"graphql-complexity-limit-inbound": limits, "graphql-disable-introspection-inbound": map[string]any{}},
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Secret"}}, "graphql-analytics-outbound": map[string]any{}},
		func(c *gateway.Config, _ *upstream.Options) { c.Operations = &fakeOperations{} })
	for name, test := range map[string]struct{ kind, encoding, text string }{
		"data":              {"application/json", "", "{ \"data\" : {\"a\": 1.0, \"a\":2, \"Secret\":\"Did you mean Secret?\"} }\n"},
		"errors":            {"application/graphql-response+json; charset=utf-8", "", ` {"errors": [ {"message":"no", "path":["a"]} ]}`},
		"a batch":           {"application/json", "", ` [{"data":null} ,{"errors":[]}]`},
		"no JSON though":    {"application/json", "", `{"errors":`},
		"a page":            {"text/html", "", "<p>Did you mean Secret?"},
		"nothing":           {"application/json", "", ""},
		"compressed data":   {"application/json", "gzip", zipped(`{"data":{"a":1}}`)},
		"compressed errors": {"application/json", "gzip", zipped(`{"errors":[{"message":"no"}]}`)},
		"much data":         {"application/json", "", `{"data":{"a":"` + strings.Repeat("x", 3<<20) + `"}}`},
		"many errors":       {"application/json", "", `{"errors":[{"message":"` + strings.Repeat("x", 3<<20) + `"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			server.answer = func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", test.kind)
				w.Header().Set("Etag", `"1"`)
				if test.encoding != "" {
					w.Header().Set("Content-Encoding", test.encoding)
				}
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, test.text)
			}
			response := h.send(t, "/graphql", queryOf("{a}"), header("Accept-Encoding", "gzip, br"))
			if got := body(t, response); got != test.text || response.StatusCode != http.StatusAccepted || response.Header.Get("Content-Type") != test.kind || response.Header.Get("Content-Encoding") != test.encoding || response.Header.Get("Etag") != `"1"` {
				t.Errorf("got %d %v %.200q", response.StatusCode, response.Header, got)
			}
		})
	}
}
