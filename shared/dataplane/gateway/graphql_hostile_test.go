package gateway_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// hostileRequest is a request that must be refused, with the expected refusal.
type hostileRequest struct {
	method, target, body string
	modify               func(*http.Request)
	status               int
	want                 string // the code of a GraphQL error, or a part of a problem's detail, which has spaces
}

// tooDeep exceeds the depth limit.
const tooDeep = "a{b{c{d{e}}}}"

// badGraphQL returns a request that must be refused with status 400 and the code of an error.
func badGraphQL(body, code string) hostileRequest {
	return hostileRequest{body: body, status: http.StatusBadRequest, want: code}
}

// costlyRequests returns requests that exceed a limit, some of them in forms that are hard to recognize. It also
// returns invalid requests, such as a cycle of fragments and an empty batch.
func costlyRequests() map[string]hostileRequest {
	const depth, complexity = "DEPTH_LIMIT_EXCEEDED", "COMPLEXITY_LIMIT_EXCEEDED"
	const input, invalid = "BAD_USER_INPUT", "GRAPHQL_VALIDATION_FAILED"
	doubling := func() string {
		text := "{...F0}"
		for i := range 40 {
			text += fmt.Sprintf("fragment F%d on T{...F%d ...F%d}", i, i+1, i+1)
		}
		return text + "fragment F40 on T{a}"
	}()
	// variables returns a body with the variable a, whose value is the JSON text a.
	variables := func(a string) string { return `{"query":"{a}","variables":{"a":` + a + "}}" }
	batch := func(bodies ...string) string { return "[" + strings.Join(bodies, ",") + "]" }
	comments := func(n int) string { return queryBody(strings.Repeat("#\n", n) + "{a}") }
	overMegabyte := hostileRequest{
		body: queryBody("{a}" + strings.Repeat(" ", 1<<20)), status: 413, want: "at most 1048576 bytes",
	}
	overMegabyteInChunks := overMegabyte
	overMegabyteInChunks.modify = func(r *http.Request) { r.ContentLength = -1 }
	return map[string]hostileRequest{
		"deep": badGraphQL(queryBody("{"+tooDeep+"}"), depth),
		"wide": badGraphQL(queryBody("{"+strings.Repeat("a ", 13)+"}"), complexity),
		"aliases": badGraphQL(
			queryBody("{a:x b:x c:x d:x e:x f:x g:x h:x i:x j:x k:x l:x m:x}"), complexity),
		"cost hidden in fragments": badGraphQL(queryBody("{...F} fragment F on T{"+tooDeep+"}"), depth),
		"fragments that double":    badGraphQL(queryBody(doubling), complexity),
		"a fragment that is cheap first": badGraphQL(
			queryBody("{...A ...B} fragment A on T{...B} fragment B on T{"+strings.Repeat("a ", 12)+"}"), complexity),
		"a fragment called __schema": badGraphQL(queryBody("{...__schema} fragment __schema on T{"+tooDeep+"}"), depth),
		"an operation called IntrospectionQuery": badGraphQL(
			queryBody("query IntrospectionQuery{"+tooDeep+"}"), depth),
		"a cycle":                 badGraphQL(queryBody("{...F} fragment F on T{...F}"), invalid),
		"an unknown fragment":     badGraphQL(queryBody("{...F}"), invalid),
		"a skipped selection":     badGraphQL(queryBody("{...@include(if:false){"+tooDeep+"}}"), depth),
		"a deep second operation": badGraphQL(queryBody("query A{a} query B{"+tooDeep+"}"), depth),
		"a deep operation that operationName does not select": badGraphQL(
			`{"query":"query A{a} query B{a{b{c{d{e}}}}}","operationName":"A"}`, depth),
		"a deep last request of a batch": badGraphQL(batch(queryBody("{a}"), queryBody("{"+tooDeep+"}")), depth),
		"eleven requests in a batch":     badGraphQL(batch(slices.Repeat([]string{queryBody("{a}")}, 11)...), input),
		"too many tokens in a batch":     badGraphQL(batch(comments(8_000), comments(7_000)), invalid),
		"an empty batch":                 badGraphQL("[]", input),
		"batches in a batch":             badGraphQL("[["+queryBody("{a}")+"]]", "GRAPHQL_PARSE_FAILED"),
		"100 KB of tokens":               badGraphQL(queryBody("{"+strings.Repeat("a ", 50_000)+"}"), invalid),
		"100 KB of directives":           badGraphQL(queryBody("{a "+strings.Repeat("@b ", 33_000)+"}"), invalid),
		"100 KB of commas":               badGraphQL(queryBody("{"+strings.Repeat(",", 100_000)+tooDeep+"}"), depth),
		"deep selections":                badGraphQL(queryBody(strings.Repeat("{a", 20_000)), invalid),
		"deep lists":                     badGraphQL(queryBody("{a(b:"+strings.Repeat("[", 100_000)), invalid),
		"deep variables": badGraphQL(
			variables(strings.Repeat("[", 300_000)+strings.Repeat("]", 300_000)), input),
		"a long document":            badGraphQL(queryBody("{a}"+strings.Repeat(" ", 128<<10)), input),
		"a long document of escapes": badGraphQL(`{"query":"{a}`+strings.Repeat(`\u0020`, 140_000)+`"}`, input),
		"many names": badGraphQL(
			variables("["+strings.TrimSuffix(strings.Repeat(`{"a":1},`, 10_000), ",")+"]"), input),
		"many values": badGraphQL(
			variables("["+strings.TrimSuffix(strings.Repeat(`1,`, 50_000), ",")+"]"), input),
		"over a megabyte":           overMegabyte,
		"over a megabyte in chunks": overMegabyteInChunks,
	}
}

// ambiguousRequests returns bodies that some parsers interpret as another query, or as no query.
func ambiguousRequests() map[string]hostileRequest {
	const input, unreadable = "BAD_USER_INPUT", "GRAPHQL_PARSE_FAILED"
	zeros := strings.Repeat("0", 64)
	// persisted returns a body with members of the extension persistedQuery.
	persisted := func(members string) string {
		return `{"query":"{a}","extensions":{"persistedQuery":{` + members + `}}}`
	}
	return map[string]hostileRequest{
		"a hash without its query": badGraphQL(
			`{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"`+zeros+`"}}}`, "PERSISTED_QUERY_NOT_SUPPORTED"),
		"a hash of another query": badGraphQL(persisted(`"version":1,"sha256Hash":"`+zeros+`"`), input),
		"a hash of another query in other capitals": badGraphQL(
			`{"query":"{a}","extensions":{"PersistedQuery":{"SHA256hash":"`+zeros+`"}}}`, input),
		"a wrong and a right hash": badGraphQL(persisted(`"sha256Hash":"`+zeros+
			`","SHA256Hash":"460c3a93211614ac783c0f1d1bbbcb45a6da87d6421b5c0771772588f1015ff8"`), input),
		"the id of a document":         badGraphQL(`{"documentId":"1"}`, input),
		"two queries":                  badGraphQL(`{"query":"{a}","query":"{a{b{c{d{e}}}}}"}`, unreadable),
		"two queries, one escaped":     badGraphQL(`{"query":"{a}","qu\u0065ry":"{a{b{c{d{e}}}}}"}`, unreadable),
		"two queries, one capitalized": badGraphQL(`{"query":"{a}","Query":"{a{b{c{d{e}}}}}"}`, input),
		"a name with a long s":         badGraphQL(`{"query":"{a}","exten`+"\u017f"+`ions":{}}`, input),
		"white space around a name":    badGraphQL(`{"query":"{a}"," query ":"{a{b{c{d{e}}}}}"}`, input),
		"a query that is an object":    badGraphQL(`{"query":{"a":1}}`, input),
		"variables that are a string":  badGraphQL(`{"query":"{a}","variables":"{}"}`, input),
		"two bodies":                   badGraphQL(queryBody("{a}")+queryBody("{"+tooDeep+"}"), unreadable),
		"a body without JSON":          badGraphQL("query {a}", unreadable),
		"JSON with a trailing comma":   badGraphQL(`{"query":"{a}",}`, unreadable),
		"an empty body":                badGraphQL("", unreadable),
		"half of a surrogate pair":     badGraphQL(`{"query":"{a(b:\"\ud800\")}"}`, unreadable),
		"invalid UTF-8 in a query":     badGraphQL("{\"query\":\"{a(b:\\\"\xff\\\")}\"}", unreadable),
		"invalid UTF-8 in variables":   badGraphQL("{\"query\":\"{a}\",\"variables\":{\"a\":\"\xff\"}}", unreadable),
		"quotes that parsers read differently": badGraphQL(
			queryBody(`{a(b:["""c"""","]) __schema{types{name}} } #"])}`), unreadable),
		"a type definition": badGraphQL(queryBody("type A{b:C}"), unreadable),
		"only fragments":    badGraphQL(queryBody("fragment F on T{a}"), "GRAPHQL_VALIDATION_FAILED"),
	}
}

// unsupportedMedia returns a request that must be refused because the route reads JSON in UTF-8.
func unsupportedMedia(body string, modify func(*http.Request)) hostileRequest {
	return hostileRequest{
		body: body, modify: modify, status: http.StatusUnsupportedMediaType, want: "JSON in UTF-8",
	}
}

// queryInAddress returns a request that must be refused because its address has parameters of GraphQL.
func queryInAddress(target, body string) hostileRequest {
	return hostileRequest{
		target: target, body: body, status: http.StatusBadRequest, want: "The address of this GraphQL request",
	}
}

// misplacedRequests returns GraphQL requests in other forms than JSON in the body of a POST.
func misplacedRequests() map[string]hostileRequest {
	a, deep := queryBody("{a}"), queryBody("{"+tooDeep+"}")
	contentType := func(v string) func(*http.Request) { return replaceHeader("Content-Type", v) }
	return map[string]hostileRequest{
		"UTF-16":          badGraphQL(utf16Of(deep), "GRAPHQL_PARSE_FAILED"),
		"declared UTF-16": unsupportedMedia(utf16Of(a), contentType("application/json; charset=utf-16")),
		"compressed": {
			body: zipped(deep), modify: header("Content-Encoding", "gzip"), status: 415, want: "no compressed bodies",
		},
		"compressed without Content-Encoding": badGraphQL(zipped(deep), "GRAPHQL_PARSE_FAILED"),
		"a form": unsupportedMedia(
			"query={"+tooDeep+"}", contentType("application/x-www-form-urlencoded")),
		"application/graphql": unsupportedMedia("{"+tooDeep+"}", contentType("application/graphql")),
		"multipart/form-data": unsupportedMedia(
			"--x\r\n\r\n{}\r\n--x--", contentType("multipart/form-data; boundary=x")),
		"text/plain": unsupportedMedia(a, contentType("text/plain")),
		"no type":    unsupportedMedia(a, func(r *http.Request) { r.Header.Del("Content-Type") }),
		"two types":  unsupportedMedia(a, header("Content-Type", "application/graphql")),
		"GET": {
			method: "GET", target: "/graphql?query={a}", status: 405, want: "none for this method",
		},
		"a query in the address":           queryInAddress("/graphql?query={"+tooDeep+"}", a),
		"an escaped query in the address":  queryInAddress("/graphql?x=1&%71uery={"+tooDeep+"}", a),
		"a query behind a semicolon":       queryInAddress("/graphql?x=1;query={a}", a),
		"a list of queries in the address": queryInAddress("/graphql?query[]={a}", a),
		"operationName in the address":     queryInAddress("/graphql?operationName=B", queryBody("query A{a} query B{a}")),
	}
}

// introspectingRequests returns requests for the schema.
func introspectingRequests() map[string]hostileRequest {
	const introspection = "__schema{types{name}}"
	out := map[string]hostileRequest{}
	for name, body := range map[string]string{
		"introspection":                      queryBody("{" + introspection + "}"),
		"introspection of a type":            queryBody(`{__type(name:"T"){name}}`),
		"introspection with an alias":        queryBody("{a:" + introspection + "}"),
		"introspection in a fragment":        queryBody("{...F} fragment F on Query{" + introspection + "}"),
		"introspection and data":             queryBody("{a " + introspection + "}"),
		"introspection in a mutation":        queryBody("mutation{a{query{" + introspection + "}}}"),
		"introspection in a batch":           "[" + queryBody("{a}") + "," + queryBody("{"+introspection+"}") + "]",
		"introspection in another operation": `{"query":"query A{a} query B{__schema{types{name}}}","operationName":"A"}`,
		"introspection escaped in JSON":      `{"query":"{\u005f\u005fschema{types{name}}}"}`,
	} {
		out[name] = hostileRequest{
			body: body, status: http.StatusForbidden, want: "Introspection queries are not allowed",
		}
	}
	return out
}

// hostileRequests returns all hostile requests by their names.
func hostileRequests(t *testing.T) map[string]hostileRequest {
	t.Helper()
	all := map[string]hostileRequest{}
	for _, group := range []map[string]hostileRequest{
		costlyRequests(), ambiguousRequests(), misplacedRequests(), introspectingRequests(),
	} {
		for name, request := range group {
			if _, twice := all[name]; twice {
				t.Fatalf("two hostile requests are called %q, want one", name)
			}
			all[name] = request
		}
	}
	return all
}

// TestHostileGraphQLRequestsNeverReachTheUpstream checks that requests that could
// bypass a gateway's checks are refused, and that the upstream gets no request.
func TestHostileGraphQLRequestsNeverReachTheUpstream(t *testing.T) {
	h, server := newGraphQLFixture(t, map[string]any{
		"graphql-complexity-limit-inbound":      limits,
		"graphql-disable-introspection-inbound": map[string]any{},
	}, nil)
	for name, test := range hostileRequests(t) {
		t.Run(name, func(t *testing.T) {
			target, modify := "/graphql", func(*http.Request) {}
			if test.target != "" {
				target = strings.NewReplacer("{", "%7B", "}", "%7D").Replace(test.target)
			}
			if test.modify != nil {
				modify = test.modify
			}
			call := cmp.Or(test.method, "POST") + " " + target
			before := server.count()
			var response *http.Response
			if test.method != "" {
				response = h.do(t, test.method, target, modify)
			} else {
				response = h.send(t, target, test.body, modify)
			}
			if response.StatusCode != test.status {
				t.Fatalf("%s: status = %d, body = %s, want %d", call, response.StatusCode, body(t, response), test.status)
			}
			if strings.Contains(test.want, " ") {
				if p := problemOf(t, response); !strings.Contains(p.Detail, test.want) {
					t.Errorf("%s: detail = %q, want it to contain %q", call, p.Detail, test.want)
				}
			} else if message, code, _, _ := graphQLError(t, response); code != test.want || message == "" {
				t.Errorf("%s: code = %q, message = %q, want code %q and a message", call, code, message, test.want)
			}
			if server.count() != before {
				sent, _ := server.last()
				t.Errorf("%s: the upstream got %s, want no request", call, sent)
			}
		})
	}
}
