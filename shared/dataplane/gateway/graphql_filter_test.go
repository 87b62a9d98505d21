package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/format/graphql/graphqltest"
)

// executing returns a handler that executes requests with GraphQL.js. encoding is the Content-Encoding of its
// responses. The handler compresses them only if encoding is gzip.
func executing(oracle *graphqltest.Oracle, encoding string) func(w http.ResponseWriter, body string) {
	return func(w http.ResponseWriter, body string) {
		var request struct{ Query, OperationName string }
		var text string
		if json.Unmarshal([]byte(body), &request) == nil {
			text = string(oracle.Execute(request.Query, request.OperationName))
		} else {
			var requests []struct{ Query, OperationName string }
			_ = json.Unmarshal([]byte(body), &requests)
			for i, r := range requests {
				text += map[bool]string{true: "[", false: ","}[i == 0] + string(oracle.Execute(r.Query, r.OperationName))
			}
			text += "]"
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Etag", `"1"`)
		if encoding == "gzip" {
			text = zipped(text)
		}
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		_, _ = io.WriteString(w, text)
	}
}

// TestFilteredRouteHidesExcludedTypes checks the filtered responses of a real GraphQL server.
func TestFilteredRouteHidesExcludedTypes(t *testing.T) {
	oracle := graphqltest.Start(t, "../../..")
	h, server := newGraphQLFixture(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{
		"excludeTypes":      []string{"Audit", "Secret", "SecretFilter"},
		"excludeTypeFields": map[string]any{"User": []string{"salary"}, "Query": []string{"secretReport", "secrets"}},
	}})
	for name, test := range map[string]struct {
		body, encoding string
		status         int
		want           string
	}{
		"types":                        {queryBody("{__schema{types{name}}}"), "", 200, `"User"`},
		"compressed types":             {queryBody("{__schema{types{name}}}"), "gzip", 200, `"User"`},
		"types compressed with brotli": {queryBody("{__schema{types{name}}}"), "br", 502, "can't be read"},
		"aliases": {
			queryBody("{me{name} x:__schema{t:types{f:fields{n:name}}}}"), "", 200, `"n":"friends"`,
		},
		"a hidden type": {
			queryBody(`{__type(name:"Secret"){enumValues{name}}}`), "", 200, `{"data":{"__type":null}}`,
		},
		"a batch": {
			"[" + queryBody("{me{name}}") + "," + queryBody(`{__type(name:"User"){fields{name}}}`) +
				"]", "", 200,
			`[{"data":{"me":{"name":"Ann"}}},{"data":{"__type":{"fields":[{"name":"id"},{"name":"name"},{"name":"friends"}]}}}]`,
		},
		"a suggestion": {queryBody("{secretRepor}"), "", 200, `Cannot query field \"secretRepor\" on type \"Query\"."`},
		"a compressed suggestion": {
			queryBody("{secretRepor}"), "gzip", 200, `Cannot query field \"secretRepor\" on type \"Query\"."`,
		},
		"a suggestion compressed with brotli": {queryBody("{secretRepor}"), "br", 502, "can't be read"},
		"a suggestion of a type": {
			queryBody("{...F} fragment F on Secre{id}"), "", 200, `Unknown type \"Secre\"."`,
		},
		"an unknown field of the introspection": {
			queryBody("{__schema{types{appliedDirectives{name}}}}"), "", 400, "GRAPHQL_VALIDATION_FAILED",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server.handler = executing(oracle, test.encoding)
			response := h.send(t, "/graphql", test.body, header("Accept-Encoding", "gzip, br"),
				header("Accept", "multipart/mixed, text/event-stream"))
			text := body(t, response)
			if response.StatusCode != test.status || !strings.Contains(text, test.want) {
				t.Fatalf("POST /graphql: status = %d, body = %s, want %d with %q",
					response.StatusCode, text, test.status, test.want)
			}
			for _, secret := range []string{
				`"Audit"`, `"Secret"`, "SecretFilter", "salary", `"secretReport`, `\"secretReport\"`,
				"secrets", "LOW", "_gatewright",
			} {
				if strings.Contains(text, secret) {
					t.Errorf("POST /graphql: the response contains %s, want it removed: %s", secret, text)
				}
			}
			if test.status == http.StatusOK && response.Header.Get("Etag") != "" {
				t.Errorf("POST /graphql: header = %v, want no ETag", response.Header)
			}
			if _, head := server.last(); test.status != http.StatusBadRequest && (head.Get("Accept") != "application/json" ||
				head.Get("Accept-Encoding") != "gzip") {
				t.Errorf("POST /graphql: the upstream got Accept = %q, Accept-Encoding = %q, want application/json and gzip",
					head.Get("Accept"), head.Get("Accept-Encoding"))
			}
		})
	}
}

// TestFilteredRequestNeedsTheWholeResponse checks the request at the upstream. It has no Range,
// because a part of a response can't be filtered. An introspection has no hash of the original
// document, because a server could execute the document that it has stored under this hash.
func TestFilteredRequestNeedsTheWholeResponse(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	hashed := func(document string) string {
		sum := sha256.Sum256([]byte(document))
		return fmt.Sprintf(`{"query":%q,"extensions":{"persistedQuery":{"version":1,"sha256Hash":"%x"}}}`, document, sum)
	}
	server.handler = func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":null}`)
	}
	for document, wantHash := range map[string]bool{"{a}": true, "{__schema{types{name}}}": false} {
		_ = body(t, h.send(t, "/graphql", hashed(document), header("Range", "bytes=0-9"), header("If-Range", `"1"`)))
		sent, head := server.last()
		if strings.Contains(sent, "sha256Hash") != wantHash {
			t.Errorf("%s: the upstream got %s, want a sha256Hash: %t", document, sent, wantHash)
		}
		if head.Get("Range") != "" || head.Get("If-Range") != "" {
			t.Errorf("%s: the upstream got %v, want no Range and no If-Range", document, head)
		}
	}
}

// TestUnfilterableIntrospectionIsWithheld checks that an introspection response that can't be filtered becomes a
// 502: a web page, unexpected events, or a schema without the fields that the filter has added to the request.
func TestUnfilterableIntrospectionIsWithheld(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	const schema = `{"data":{"__schema":{"types":[{"name":"Audit"}]}}}`
	for _, test := range []struct{ contentType, text string }{
		{"application/json", schema},
		{"application/json", "[" + schema + "]"},
		{"application/json", schema + schema},
		{"text/plain", schema},
		{"", schema},
		{"text/html", "<p>Audit"},
		{"text/event-stream", "event: next\ndata: " + schema + "\n\n"},
		{"multipart/mixed; boundary=-", "---\r\n\r\n" + schema + "\r\n-----"},
	} {
		server.handler = func(w http.ResponseWriter, _ string) {
			w.Header()["Content-Type"] = []string{test.contentType}
			_, _ = io.WriteString(w, test.text)
		}
		response := h.send(t, "/graphql", queryBody("{__schema{types{name}}}"),
			header("Accept", "text/event-stream, multipart/mixed, application/json"))
		if got := body(t, response); response.StatusCode != http.StatusBadGateway || strings.Contains(got, "Audit") {
			t.Errorf("introspection response %s as %q: status = %d, body = %s, want 502 without Audit",
				test.text, test.contentType, response.StatusCode, got)
		}
	}
}

// TestOversizedFilteredResponsesAreWithheld checks that a response that is too
// large to filter becomes a 502, even if it is small before decompression.
func TestOversizedFilteredResponsesAreWithheld(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	large := `{"errors":[{"message":"` + strings.Repeat("x", 16<<20) + `"}]}`
	for encoding, text := range map[string]string{"": large, "gzip": zipped(large)} {
		server.handler = func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			if encoding != "" {
				w.Header().Set("Content-Encoding", encoding)
			}
			_, _ = io.WriteString(w, text)
		}
		for _, document := range []string{"{a}", "{__schema{types{name}}}"} {
			if response := h.send(t, "/graphql", queryBody(document),
				header("Accept-Encoding", "gzip")); response.StatusCode != http.StatusBadGateway {
				_ = response.Body.Close()
				t.Errorf("%s with an oversized response as %q: status = %d, want 502", document, encoding, response.StatusCode)
			} else if text := body(t, response); !strings.Contains(text, "can't be read") {
				t.Errorf("%s with an oversized response as %q: body = %s, want it to contain \"can't be read\"",
					document, encoding, text)
			}
		}
	}
}

// TestSuggestionsAreRemovedForAnyContentType checks that suggestions are removed
// from JSON with another content type, and that other responses are not changed.
func TestSuggestionsAreRemovedForAnyContentType(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	const errors = `{"errors":[{"message":"Unknown type \"Audi\". Did you mean \"Audit\"?"}]}`
	for contentType, text := range map[string]string{
		"": errors, "text/plain; charset=utf-8": errors,
		"text/json": "\n" + errors, "application/octet-stream": "[" + errors + "]",
	} {
		server.handler = func(w http.ResponseWriter, _ string) {
			w.Header()["Content-Type"] = []string{contentType}
			_, _ = io.WriteString(w, text)
		}
		if got := body(t, h.send(t, "/graphql", queryBody("{...F} fragment F on Audi{id}"))); strings.Contains(got,
			`"Audit`) || !strings.Contains(got, "Unknown type") {
			t.Errorf("error response as %q: body = %s, want \"Unknown type\" without a suggestion", contentType, got)
		}
	}
	for contentType, text := range map[string]string{
		"text/plain": `{"data":{"did you mean":"Audit?"}}`, "text/html": `<p>did you mean Audit?</p>`,
		"text/css": `{color: red}`, "": "",
	} {
		for _, encoding := range []string{"", "br", "gzip"} {
			server.handler = func(w http.ResponseWriter, _ string) {
				w.Header()["Content-Type"], w.Header()["Content-Encoding"] = []string{contentType}, []string{encoding}
				_, _ = io.WriteString(w, text)
			}
			if got := body(t, h.send(t, "/graphql", queryBody("{a}"), header("Accept-Encoding", "gzip, br"))); got != text {
				t.Errorf("response as %q, %q: body = %s, want %s", contentType, encoding, got, text)
			}
		}
	}
}

// TestSubscriptionErrorsRevealNothing checks that suggestions are removed from events and from parts of a multipart
// response to a subscription. The response breaks off at an event that can't be filtered. Compressed events, and a
// response to a query that is not in one piece, become a 502.
func TestSubscriptionErrorsRevealNothing(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	const message = `{"errors":[{"message":"No field pric. Did you mean price?"}]}`
	for _, test := range []struct {
		document, contentType, encoding, text, want string
		status                                      int
		breaks                                      bool
	}{
		{
			"subscription{a{pric}}", "text/event-stream", "", "event: next\ndata: " + message + "\n\nevent: complete\n\n",
			"event: next\ndata: {\"errors\":[{\"message\":\"No field pric.\"}]}\n\nevent: complete\n\n", 200, false,
		},
		{"subscription{a{pric}}", "multipart/mixed; boundary=-", "", "\r\n---\r\nContent-Type: application/json\r\n\r\n" +
			message + "\r\n-----\r\n", "No field pric.\"}]}\r\n-----", 200, false},
		{"subscription{a{pric}}", "text/event-stream", "identity", "data: " + message, "No field pric.\"}]}", 200, false},
		{
			"subscription{a{pric}}", "text/event-stream", "gzip", zipped("data: " + message + "\n\n"), "can't be read", 502,
			false,
		},
		{
			"subscription{a{pric}}", "text/event-stream", "",
			"data: {\"errors\":\ndata: [{\"message\":\"Did you mean price?\"}]}\n\n", "data: {\"errors\":\n", 200, true,
		},
		{"{a{pric}}", "text/event-stream", "", "data: " + message + "\n\n", "can't be read", 502, false},
		{"{a{pric}}", "multipart/mixed; boundary=-", "", message, "can't be read", 502, false},
	} {
		server.handler = func(w http.ResponseWriter, _ string) {
			w.Header()["Content-Type"], w.Header()["Content-Encoding"] = []string{test.contentType}, []string{test.encoding}
			_, _ = io.WriteString(w, test.text)
		}
		response := h.send(t, "/graphql", queryBody(test.document), header("Accept", "text/event-stream, multipart/mixed"))
		raw, err := io.ReadAll(response.Body)
		if text := string(raw); response.StatusCode != test.status || !strings.Contains(text, test.want) ||
			strings.Contains(text, "price") || (err != nil) != test.breaks {
			t.Errorf("%s as %s, %s: status = %d, body = %q, %v, want %d with %q and no price, and a read error: %t",
				test.document, test.contentType, test.encoding, response.StatusCode, text, err, test.status, test.want, test.breaks)
		}
	}
}

// TestUnreadableErrorsAreWithheld checks that a malformed response becomes a 502 if it may contain excluded names or
// suggestions. A response with a byte order mark can be read, so the suggestion is removed from it.
func TestUnreadableErrorsAreWithheld(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	for text, want := range map[string]int{
		"{\"errors\":[]}\n{\"errors\":[{\"message\":\"Did you mean price?\"}]}": 502,
		"{did you mean Audit?": 502, "{the Audit": 502, "{no Audits": 200,
		"\xef\xbb\xbf{\"errors\":[{\"message\":\"Did you mean price?\"}]}": 200,
	} {
		for _, contentType := range []string{"application/json", "text/css"} {
			server.handler = func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", contentType)
				_, _ = io.WriteString(w, text)
			}
			response := h.send(t, "/graphql", queryBody("{a}"))
			if got := body(t, response); response.StatusCode != want || strings.Contains(got, "price") {
				t.Errorf("response %q as %s: status = %d, body = %s, want %d without the suggestion price",
					text, contentType, response.StatusCode, got, want)
			}
		}
	}
}

// TestLongIntrospectionsAreRefused checks that introspections with too many tokens are refused, alone or
// together in a batch, because each is parsed again. Long documents without an introspection are served.
func TestLongIntrospectionsAreRefused(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	server.handler = func(w http.ResponseWriter, body string) {
		_, _ = io.WriteString(w, map[bool]string{
			true:  `[{"data":null},{"data":null}]`,
			false: `{"data":null}`,
		}[body[0] == '['])
	}
	withComments := func(comments int, document string) string {
		return queryBody(strings.Repeat("#\n", comments) + document)
	}
	const introspection = "{__schema{types{name}}}"
	for text, want := range map[string]int{
		withComments(3_900, introspection): 200, withComments(4_000, introspection): 400, withComments(14_000, "{a}"): 200,
		"[" + withComments(3_900, introspection) + "," + withComments(2_000, "{a}") + "]":         200,
		"[" + withComments(2_100, introspection) + "," + withComments(2_100, introspection) + "]": 400,
	} {
		before := server.count()
		if response := h.send(t, "/graphql", text); response.StatusCode != want ||
			(server.count() > before) != (want == 200) {
			t.Errorf("request with %d comments: status = %d, body = %s, want %d, and a request at the upstream only with "+
				"200",
				strings.Count(text, "#"), response.StatusCode, body(t, response), want)
		}
	}
}

// TestQueryWithUnusedSubscriptionIsFiltered checks that a document with a query
// and a subscription requests a response in one piece, which can be filtered.
func TestQueryWithUnusedSubscriptionIsFiltered(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	server.handler = func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, "{}") }
	_ = body(t, h.send(t, "/graphql", `{"query":"query A{audi} subscription B{a}","operationName":"A"}`,
		header("Accept", "text/event-stream")))
	if _, head := server.last(); head.Get("Accept") != "application/json" {
		t.Errorf("POST /graphql: the upstream got Accept = %q, want application/json", head.Get("Accept"))
	}
}

// TestUpstreamAcceptFollowsTheClient checks that the Accept field at the upstream has the newer type of responses only
// if the client's Accept field names it, because servers choose statuses by the type.
func TestUpstreamAcceptFollowsTheClient(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	server.handler = func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "application/graphql-response+json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"errors":[{"message":"Did you mean \"Audit\"?"}]}`)
	}
	const newer, both = "application/graphql-response+json", "application/graphql-response+json, application/json;q=0.9"
	for accepted, want := range map[string]string{
		"": "application/json", "application/json": "application/json", "*/*": "application/json",
		"multipart/mixed": "application/json",
		newer:             both, "text/event-stream, " + newer + "; charset=utf-8;q=0.5, application/json": both,
	} {
		for _, document := range []string{"{a}", "{__schema{types{name}}}"} {
			response := h.send(t, "/graphql", queryBody(document), header("Accept", accepted))
			text := body(t, response)
			if _, head := server.last(); head.Get("Accept") != want {
				t.Errorf("client's Accept %q: Accept at the upstream = %q, want %q", accepted, head.Get("Accept"), want)
			}
			if response.StatusCode != http.StatusBadRequest || response.Header.Get("Content-Type") != newer ||
				strings.Contains(text, "Audit") {
				t.Errorf("%s: status = %d, Content-Type = %s, body = %s, want 400 as %s without Audit",
					document, response.StatusCode, response.Header.Get("Content-Type"), text, newer)
			}
		}
	}
}

// TestFilteredSubscriptionStreams checks that each event is forwarded immediately.
func TestFilteredSubscriptionStreams(t *testing.T) {
	h, server := newGraphQLFixture(t, nil,
		map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	release := make(chan struct{})
	server.handler = func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "data: 2\n\n")
	}
	response := h.send(t, "/graphql", queryBody("subscription{a}"), header("Accept", "text/event-stream"))
	if _, head := server.last(); head.Get("Accept-Encoding") != "identity" {
		t.Errorf("subscription: Accept-Encoding at the upstream = %q, want identity", head.Get("Accept-Encoding"))
	}
	first := make([]byte, 9)
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "data: 1\n\n" {
		t.Fatalf("POST /graphql, subscription: first event = %q, %v, want %q", first, err, "data: 1\n\n")
	}
	close(release)
	if got := body(t, response); got != "data: 2\n\n" {
		t.Errorf("POST /graphql, subscription: second event = %q, want %q", got, "data: 2\n\n")
	}
	if _, head := server.last(); head.Get("Accept") != "text/event-stream" {
		t.Errorf("POST /graphql: the upstream got Accept = %q, want text/event-stream", head.Get("Accept"))
	}
}
