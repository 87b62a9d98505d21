package gateway_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/graphql/graphqltest"
)

// executing has a server answer what GraphQL.js does, in whatever encoding.
func executing(oracle *graphqltest.Oracle, encoding string) func(w http.ResponseWriter, body string) {
	return func(w http.ResponseWriter, body string) {
		var one struct{ Query, OperationName string }
		var text string
		if json.Unmarshal([]byte(body), &one) == nil {
			text = string(oracle.Execute(one.Query, one.OperationName))
		} else {
			var all []struct{ Query, OperationName string }
			_ = json.Unmarshal([]byte(body), &all)
			for i, r := range all {
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

// TestAFilteredRouteShowsNothingOfWhatIsHidden asks a real server through the gateway.
func TestAFilteredRouteShowsNothingOfWhatIsHidden(t *testing.T) {
	oracle := graphqltest.Start(t, "../..")
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{
		"excludeTypes": []string{"Audit", "Secret", "SecretFilter"}, "excludeTypeFields": map[string]any{"User": []string{"salary"}, "Query": []string{"secretReport", "secrets"}},
	}})
	for name, test := range map[string]struct {
		body, encoding string
		status         int
		want           string
	}{
		"types":                    {queryOf("{__schema{types{name}}}"), "", 200, `"User"`},
		"compressed":               {queryOf("{__schema{types{name}}}"), "gzip", 200, `"User"`},
		"compressed otherwise":     {queryOf("{__schema{types{name}}}"), "br", 502, "can't be read"},
		"under other names":        {queryOf("{me{name} x:__schema{t:types{f:fields{n:name}}}}"), "", 200, `"n":"friends"`},
		"by a name":                {queryOf(`{__type(name:"Secret"){enumValues{name}}}`), "", 200, `{"data":{"__type":null}}`},
		"in a batch":               {"[" + queryOf("{me{name}}") + "," + queryOf(`{__type(name:"User"){fields{name}}}`) + "]", "", 200, `[{"data":{"me":{"name":"Ann"}}},{"data":{"__type":{"fields":[{"name":"id"},{"name":"name"},{"name":"friends"}]}}}]`},
		"a suggestion":             {queryOf("{secretRepor}"), "", 200, `Cannot query field \"secretRepor\" on type \"Query\"."`},
		"a compressed suggestion":  {queryOf("{secretRepor}"), "gzip", 200, `Cannot query field \"secretRepor\" on type \"Query\"."`},
		"one of another coding":    {queryOf("{secretRepor}"), "br", 502, "can't be read"},
		"a suggestion of a type":   {queryOf("{...F} fragment F on Secre{id}"), "", 200, `Unknown type \"Secre\"."`},
		"not of the introspection": {queryOf("{__schema{types{appliedDirectives{name}}}}"), "", 400, "GRAPHQL_VALIDATION_FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			server.answer = executing(oracle, test.encoding)
			response := h.send(t, "/graphql", test.body, header("Accept-Encoding", "gzip, br"), header("Accept", "multipart/mixed, text/event-stream"))
			text := body(t, response)
			if response.StatusCode != test.status || !strings.Contains(text, test.want) {
				t.Fatalf("got %d %s", response.StatusCode, text)
			}
			for _, secret := range []string{`"Audit"`, `"Secret"`, "SecretFilter", "salary", `"secretReport`, `\"secretReport\"`, "secrets", "LOW", "_gatewright"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s is in %s", secret, text)
				}
			}
			if test.status == http.StatusOK && response.Header.Get("Etag") != "" {
				t.Errorf("the upstream's ETag stayed: %v", response.Header)
			}
			if _, head := server.last(); test.status != http.StatusBadRequest && (head.Get("Accept") != "application/json" || head.Get("Accept-Encoding") != "gzip") {
				t.Errorf("the upstream was asked for %q, %q", head.Get("Accept"), head.Get("Accept-Encoding"))
			}
		})
	}
}

// TestWhatIsAskedForOfAFilteredAnswer: all of it, or nothing of it could be filtered, and without the hash of a document that
// is another one now, under which a server may keep that.
func TestWhatIsAskedForOfAFilteredAnswer(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	hashed := func(document string) string {
		sum := sha256.Sum256([]byte(document))
		return fmt.Sprintf(`{"query":%q,"extensions":{"persistedQuery":{"version":1,"sha256Hash":"%x"}}}`, document, sum)
	}
	server.answer = func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"data":null}`)
	}
	for document, hash := range map[string]bool{"{a}": true, "{__schema{types{name}}}": false} {
		_ = body(t, h.send(t, "/graphql", hashed(document), header("Range", "bytes=0-9"), header("If-Range", `"1"`)))
		sent, head := server.last()
		if strings.Contains(sent, "sha256Hash") != hash {
			t.Errorf("%s: sent is %s", document, sent)
		}
		if head.Get("Range") != "" || head.Get("If-Range") != "" {
			t.Errorf("%s: a part is asked for: %v", document, head)
		}
	}
}

// TestAnIntrospectionThatCanNotBeFilteredIsNotShown, in whatever form an upstream answers it: a page that nobody reads, events
// that nobody waits for, or a schema that says nothing of what it was asked beside it.
func TestAnIntrospectionThatCanNotBeFilteredIsNotShown(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
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
		server.answer = func(w http.ResponseWriter, _ string) {
			w.Header()["Content-Type"] = []string{test.contentType}
			_, _ = io.WriteString(w, test.text)
		}
		response := h.send(t, "/graphql", queryOf("{__schema{types{name}}}"), header("Accept", "text/event-stream, multipart/mixed, application/json"))
		if got := body(t, response); response.StatusCode != http.StatusBadGateway || strings.Contains(got, "Audit") {
			t.Errorf("as %q: %d %s", test.contentType, response.StatusCode, got)
		}
	}
}

// TestAnswersThatAreTooLargeToBeFilteredAreNotShown, whether they say so at once or unzip to it: a gateway that serves others
// would have all of them in its memory.
func TestAnswersThatAreTooLargeToBeFilteredAreNotShown(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	large := `{"errors":[{"message":"` + strings.Repeat("x", 16<<20) + `"}]}`
	for encoding, text := range map[string]string{"": large, "gzip": zipped(large)} {
		server.answer = func(w http.ResponseWriter, _ string) {
			w.Header().Set("Content-Type", "application/json")
			if encoding != "" {
				w.Header().Set("Content-Encoding", encoding)
			}
			_, _ = io.WriteString(w, text)
		}
		for _, document := range []string{"{a}", "{__schema{types{name}}}"} {
			if response := h.send(t, "/graphql", queryOf(document), header("Accept-Encoding", "gzip")); response.StatusCode != http.StatusBadGateway {
				_ = response.Body.Close()
				t.Errorf("%s, as %q: %d", document, encoding, response.StatusCode)
			} else if text := body(t, response); !strings.Contains(text, "can't be read") {
				t.Errorf("%s, as %q: %s", document, encoding, text)
			}
		}
	}
}

// TestSuggestionsAreCutWhateverTheAnswerIsCalled has servers that do not say that they send JSON.
func TestSuggestionsAreCutWhateverTheAnswerIsCalled(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	const errors = `{"errors":[{"message":"Unknown type \"Audi\". Did you mean \"Audit\"?"}]}`
	for contentType, text := range map[string]string{"": errors, "text/plain; charset=utf-8": errors, "text/json": "\n" + errors, "application/octet-stream": "[" + errors + "]"} {
		server.answer = func(w http.ResponseWriter, _ string) {
			w.Header()["Content-Type"] = []string{contentType}
			_, _ = io.WriteString(w, text)
		}
		if got := body(t, h.send(t, "/graphql", queryOf("{...F} fragment F on Audi{id}"))); strings.Contains(got, `"Audit`) || !strings.Contains(got, "Unknown type") {
			t.Errorf("as %q: %s", contentType, got)
		}
	}
	for contentType, text := range map[string]string{
		"text/plain": `{"data":{"did you mean":"Audit?"}}`, "text/html": `<p>did you mean Audit?</p>`, "text/css": `{color: red}`, "": "",
	} {
		for _, encoding := range []string{"", "br", "gzip"} {
			server.answer = func(w http.ResponseWriter, _ string) {
				w.Header()["Content-Type"], w.Header()["Content-Encoding"] = []string{contentType}, []string{encoding}
				_, _ = io.WriteString(w, text)
			}
			if got := body(t, h.send(t, "/graphql", queryOf("{a}"), header("Accept-Encoding", "gzip, br"))); got != text {
				t.Errorf("as %q, %q: %s", contentType, encoding, got)
			}
		}
	}
}

// TestWhatIsWrongWithASubscriptionTellsNothing: servers say it by an event, or by a part.
func TestWhatIsWrongWithASubscriptionTellsNothing(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	const message = `{"errors":[{"message":"No field pric. Did you mean price?"}]}`
	for _, test := range []struct {
		document, contentType, encoding, text, want string
		status                                      int
		breaks                                      bool
	}{
		{"subscription{a{pric}}", "text/event-stream", "", "event: next\ndata: " + message + "\n\nevent: complete\n\n", "event: next\ndata: {\"errors\":[{\"message\":\"No field pric.\"}]}\n\nevent: complete\n\n", 200, false},
		{"subscription{a{pric}}", "multipart/mixed; boundary=-", "", "\r\n---\r\nContent-Type: application/json\r\n\r\n" + message + "\r\n-----\r\n", "No field pric.\"}]}\r\n-----", 200, false},
		{"subscription{a{pric}}", "text/event-stream", "identity", "data: " + message, "No field pric.\"}]}", 200, false},
		{"subscription{a{pric}}", "text/event-stream", "gzip", zipped("data: " + message + "\n\n"), "can't be read", 502, false},
		{"subscription{a{pric}}", "text/event-stream", "", "data: {\"errors\":\ndata: [{\"message\":\"Did you mean price?\"}]}\n\n", "data: {\"errors\":\n", 200, true},
		{"{a{pric}}", "text/event-stream", "", "data: " + message + "\n\n", "can't be read", 502, false},
		{"{a{pric}}", "multipart/mixed; boundary=-", "", message, "can't be read", 502, false},
	} {
		server.answer = func(w http.ResponseWriter, _ string) {
			w.Header()["Content-Type"], w.Header()["Content-Encoding"] = []string{test.contentType}, []string{test.encoding}
			_, _ = io.WriteString(w, test.text)
		}
		response := h.send(t, "/graphql", queryOf(test.document), header("Accept", "text/event-stream, multipart/mixed"))
		raw, err := io.ReadAll(response.Body)
		if text := string(raw); response.StatusCode != test.status || !strings.Contains(text, test.want) || strings.Contains(text, "price") || (err != nil) != test.breaks {
			t.Errorf("%s as %s, %s: %d %q, %v", test.document, test.contentType, test.encoding, response.StatusCode, text, err)
		}
	}
}

// TestErrorsThatCanNotBeReadAreWithheld where they may tell of something hidden.
func TestErrorsThatCanNotBeReadAreWithheld(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	for text, want := range map[string]int{
		"{\"errors\":[]}\n{\"errors\":[{\"message\":\"Did you mean price?\"}]}": 502,
		"{did you mean Audit?": 502, "{the Audit": 502, "{no Audits": 200, "\xef\xbb\xbf{\"errors\":[{\"message\":\"Did you mean price?\"}]}": 200,
	} {
		for _, contentType := range []string{"application/json", "text/css"} {
			server.answer = func(w http.ResponseWriter, _ string) {
				w.Header().Set("Content-Type", contentType)
				_, _ = io.WriteString(w, text)
			}
			response := h.send(t, "/graphql", queryOf("{a}"))
			if got := body(t, response); response.StatusCode != want || strings.Contains(got, "price") {
				t.Errorf("%q as %s: %d %s", text, contentType, response.StatusCode, got)
			}
		}
	}
}

// TestLongIntrospectionsAreRefused, one or several together: each is read anew, and long data beside none is not.
func TestLongIntrospectionsAreRefused(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	server.answer = func(w http.ResponseWriter, body string) {
		_, _ = io.WriteString(w, map[bool]string{true: `[{"data":null},{"data":null}]`, false: `{"data":null}`}[body[0] == '['])
	}
	of := func(comments int, document string) string {
		return queryOf(strings.Repeat("#\n", comments) + document)
	}
	const introspection = "{__schema{types{name}}}"
	for text, want := range map[string]int{
		of(3_900, introspection): 200, of(4_000, introspection): 400, of(14_000, "{a}"): 200,
		"[" + of(3_900, introspection) + "," + of(2_000, "{a}") + "]":         200,
		"[" + of(2_100, introspection) + "," + of(2_100, introspection) + "]": 400,
	} {
		before := server.count()
		if response := h.send(t, "/graphql", text); response.StatusCode != want || (server.count() > before) != (want == 200) {
			t.Errorf("%d tokens and more: %d %s", strings.Count(text, "#"), response.StatusCode, body(t, response))
		}
	}
}

// TestASubscriptionBesideAQueryMakesNoStreamOfIt: what the query answers is read.
func TestASubscriptionBesideAQueryMakesNoStreamOfIt(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	server.answer = func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, "{}") }
	_ = body(t, h.send(t, "/graphql", `{"query":"query A{audi} subscription B{a}","operationName":"A"}`, header("Accept", "text/event-stream")))
	if _, head := server.last(); head.Get("Accept") != "application/json" {
		t.Errorf("asked for %q", head.Get("Accept"))
	}
}

// TestTheUpstreamIsAskedForWhatTheClientTakes, of answers in one piece: servers choose statuses and codes by it.
func TestTheUpstreamIsAskedForWhatTheClientTakes(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	server.answer = func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "application/graphql-response+json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"errors":[{"message":"Did you mean \"Audit\"?"}]}`)
	}
	const newer, both = "application/graphql-response+json", "application/graphql-response+json, application/json;q=0.9"
	for accepted, want := range map[string]string{
		"": "application/json", "application/json": "application/json", "*/*": "application/json", "multipart/mixed": "application/json",
		newer: both, "text/event-stream, " + newer + "; charset=utf-8;q=0.5, application/json": both,
	} {
		for _, document := range []string{"{a}", "{__schema{types{name}}}"} {
			response := h.send(t, "/graphql", queryOf(document), header("Accept", accepted))
			text := body(t, response)
			if _, head := server.last(); head.Get("Accept") != want {
				t.Errorf("who takes %q asks for %q, want %q", accepted, head.Get("Accept"), want)
			}
			if response.StatusCode != http.StatusBadRequest || response.Header.Get("Content-Type") != newer || strings.Contains(text, "Audit") {
				t.Errorf("%s: answered %d as %s: %s", document, response.StatusCode, response.Header.Get("Content-Type"), text)
			}
		}
	}
}

// TestASubscriptionStreamsThroughAFilter holds that nothing waits for its end.
func TestASubscriptionStreamsThroughAFilter(t *testing.T) {
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-introspection-filter-outbound": map[string]any{"excludeTypes": []string{"Audit"}}})
	release := make(chan struct{})
	server.answer = func(w http.ResponseWriter, _ string) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: 1\n\n")
		_ = http.NewResponseController(w).Flush()
		<-release
		_, _ = io.WriteString(w, "data: 2\n\n")
	}
	response := h.send(t, "/graphql", queryOf("subscription{a}"), header("Accept", "text/event-stream"))
	if _, head := server.last(); head.Get("Accept-Encoding") != "identity" {
		t.Errorf("the stream may come as %q", head.Get("Accept-Encoding"))
	}
	first := make([]byte, 9)
	if _, err := io.ReadFull(response.Body, first); err != nil || string(first) != "data: 1\n\n" {
		t.Fatalf("%q %v", first, err)
	}
	close(release)
	if got := body(t, response); got != "data: 2\n\n" {
		t.Errorf("got %q", got)
	}
	if _, head := server.last(); head.Get("Accept") != "text/event-stream" {
		t.Errorf("asked for %q", head.Get("Accept"))
	}
}
