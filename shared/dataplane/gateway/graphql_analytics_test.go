package gateway_test

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/resource/analytics"
)

// fakeOperations implements policy.Operations and records the operations.
type fakeOperations struct {
	mu       sync.Mutex
	recorded []analytics.Operation
}

func (f *fakeOperations) Operation(o analytics.Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recorded = append(f.recorded, o)
}

// waitFor waits until at least n operations are recorded. It removes and returns all recorded operations. After 5
// seconds, it fails the test.
func (f *fakeOperations) waitFor(t *testing.T, n int) []analytics.Operation {
	t.Helper()
	for range 500 {
		f.mu.Lock()
		recorded := f.recorded
		f.mu.Unlock()
		if len(recorded) >= n {
			f.mu.Lock()
			f.recorded = nil
			f.mu.Unlock()
			return recorded
		}
		time.Sleep(10 * time.Millisecond)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	t.Fatalf("recorded operations after 5 seconds = %+v, want %d", f.recorded, n)
	return nil
}

var _ policy.Operations = (*fakeOperations)(nil)

// errorsOf returns a GraphQL response with an error for each code.
func errorsOf(codes ...string) string {
	var all []string
	for _, code := range codes {
		all = append(all, `{"message":"m","extensions":{"code":"`+code+`"}}`)
	}
	return `{"data":null,"errors":[` + strings.Join(all, ",") + `]}`
}

// operationCase is a request and the upstream's response, with the operations that must be recorded.
type operationCase struct {
	h            *fixture
	target, body string
	status       int // of the upstream's response
	encoding     string
	response     string
	want         []string // for each operation, its name, type, complexity, outcome and classes of errors
}

// operationCases returns cases by their names. A case without a fixture is for a fixture that limits the complexity,
// refuses introspection and records operations. In limited, the route /graphql requires a key, and the route /limited
// has a rate limit. The route of unlimited only records operations.
func operationCases(limited, unlimited *fixture) map[string]operationCase {
	a, ab := queryBody("query A{a}"), "["+queryBody("query A{a}")+","+queryBody("query B{b}")+"]"
	// failed returns the expected record of the query A, with these classes of errors.
	failed := func(classes string) []string { return []string{"A query 1 failed [" + classes + "]"} }
	long := strings.Repeat("x", 200_000) // more than the default of maxScanBytes
	return map[string]operationCase{
		"a query":             {body: queryBody("query A{a{b}}"), want: []string{"A query 2 ok []"}},
		"an unnamed mutation": {body: queryBody("mutation{a}"), want: []string{" mutation 1 ok []"}},
		"operationName of the second query": {
			body: `{"query":"query A{a} query B{a b}","operationName":"B"}`, want: []string{"B query 2 ok []"},
		},
		"an unknown operationName": {
			body: `{"query":"query A{a} query B{a b}","operationName":"C"}`, want: []string{"  0 ok []"},
		},
		"a batch": {
			body: ab, response: "[{},{\"errors\":[{}]}]", want: []string{"A query 1 ok []", "B query 1 failed [timeout]"},
		},
		"one error for a batch": {
			body: ab, response: errorsOf("UNAUTHENTICATED"), want: append(failed("auth"), "B query 1 failed [auth]"),
		},
		"a batch with an error, longer than maxScanBytes": {
			body: ab, response: `[{"errors":[{"extensions":{"code":"UNAUTHENTICATED"}}],"data":"` + long + `"},{}]`,
			want: append(failed("auth"), "B query 1 ok []"),
		},
		"an error longer than maxScanBytes": {
			body: a, response: `{"errors":[{"message":"` + long + `"}]}`, want: failed("timeout"),
		},
		"known codes": {
			body: a, want: failed("auth syntax resolver timeout validation"),
			response: errorsOf("UNAUTHENTICATED", "graphql_parse_failed", "INTERNAL_SERVER_ERROR", "GATEWAY_TIMEOUT",
				"BAD_USER_INPUT"),
		},
		"three errors of one class": {
			body: a, response: errorsOf("UNAUTHENTICATED", "NO_MONEY", "UNAUTHENTICATED"), want: failed("auth"),
		},
		"a code that the project classifies": {body: a, response: errorsOf("FORBIDDEN"), want: failed("validation")},
		"a classified code in lower case":    {body: a, response: errorsOf("no_money"), want: failed("timeout")},
		"an error without a code":            {body: a, response: `{"errors":[{"message":"m"}]}`, want: failed("timeout")},
		"status 401 and an error without a code": {
			body: a, status: 401, response: `{"errors":[{"message":"m"}]}`, want: failed("auth"),
		},
		"status 503":            {body: a, status: 503, response: `busy`, want: failed("resolver")},
		"status 403":            {body: a, status: 403, response: `no`, want: failed("auth")},
		"status 408":            {body: a, status: 408, response: `slow`, want: failed("timeout")},
		"status 504":            {body: a, status: 504, response: `slow`, want: failed("timeout")},
		"status 404":            {body: a, status: 404, response: `where`, want: failed("validation")},
		"status 429":            {body: a, status: 429, response: `slowly`, want: failed("")},
		"a compressed response": {body: a, encoding: "gzip", response: errorsOf("UNAUTHENTICATED"), want: failed("auth")},
		"a code before an error longer than maxScanBytes": {
			body: a, response: `{"errors":[{"extensions":{"code":"UNAUTHENTICATED"}},{"message":"` + long + `"}]}`,
			want: failed("auth"),
		},
		"a query over the limit": {
			body: queryBody("query Deep{a{b{c{d{e}}}}}"), want: []string{"Deep query 5 failed [validation]"},
		},
		"introspection": {
			body: queryBody("query I{__schema{types{name}}}"), want: []string{"I query 3 failed [auth]"},
		},
		"invalid GraphQL":     {body: queryBody("query A{"), want: []string{"  0 failed [syntax]"}},
		"invalid JSON":        {body: "query A{", want: []string{"  0 failed [syntax]"}},
		"no key":              {h: limited, body: a, want: []string{"  0 failed [auth]"}},
		"exceeded rate limit": {h: limited, target: "/limited", body: a, want: []string{"  0 failed []"}},
		"no other policies": {
			h: unlimited, body: queryBody("query A{a{b}}"), want: []string{"A query 2 ok []"},
		},
		"no other policies and invalid GraphQL": {h: unlimited, body: queryBody("query A{"), want: []string{"  0 ok []"}},
		"a hash without a query": {
			h: unlimited, body: `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"0"}}}`, want: []string{"  0 ok []"},
		},
	}
}

// TestEachOperationIsRecorded checks the recorded operations of each case. It also checks that the log line about
// errors contains no code that an upstream has sent, and no name of an operation.
func TestEachOperationIsRecorded(t *testing.T) {
	operations := &fakeOperations{}
	recordOperations := func(c *gateway.Config, _ *upstream.Options) { c.Operations = operations }
	options := map[string]any{
		"errorCodeClassification": map[string]any{"NO_MONEY": "auth", "FORBIDDEN": "validation"},
		"defaultErrorClass":       "timeout", "logErrors": true,
	}
	checked, server := newGraphQLFixture(t, map[string]any{
		"graphql-complexity-limit-inbound":      limits,
		"graphql-disable-introspection-inbound": map[string]any{},
	}, map[string]any{"graphql-analytics-outbound": options},
		recordOperations)
	unlimited, unlimitedServer := newGraphQLFixture(t, nil, map[string]any{"graphql-analytics-outbound": options},
		recordOperations)
	limited, _ := newGraphQLFixture(t, nil, map[string]any{"graphql-analytics-outbound": options}, recordOperations)
	keyed := limited.deployments["shop.test"].Artifact
	declare(keyed, "key", "api-key-inbound", map[string]any{})
	declare(keyed, "limit", "rate-limit-inbound", map[string]any{
		"rateLimitBy": "all", "requestsAllowed": 1,
		"timeWindowMinutes": 1,
	})
	second := route("POST /limited", keyed.Routes[0].Handler, "limit")
	second.Outbound = keyed.Routes[0].Outbound
	keyed.Routes[0].Inbound = []string{"key"}
	keyed.Routes = append(keyed.Routes, second)

	// Use up the rate limit.
	_ = body(t, limited.send(t, "/limited", queryBody("{a}")))
	_ = operations.waitFor(t, 1)

	for name, test := range operationCases(limited, unlimited) {
		t.Run(name, func(t *testing.T) {
			reply := func(w http.ResponseWriter, _ string) {
				text := test.response
				if test.encoding == "gzip" {
					text = zipped(text)
					w.Header().Set("Content-Encoding", "gzip")
				}
				w.Header().Set("Content-Type", "application/json")
				if test.status != 0 {
					w.WriteHeader(test.status)
				}
				_, _ = io.WriteString(w, text)
			}
			server.handler, unlimitedServer.handler = reply, reply
			h, target := checked, "/graphql"
			if test.h != nil {
				h = test.h
			}
			if test.target != "" {
				target = test.target
			}
			response := h.send(t, target, test.body, header("Accept-Encoding", "gzip"))
			_ = body(t, response)
			var got []string
			for _, o := range operations.waitFor(t, len(test.want)) {
				outcome := "ok"
				if o.Failed {
					outcome = "failed"
				}
				got = append(got, fmt.Sprintf("%s %s %d %s %v", o.Name, o.Type, o.Complexity, outcome, classNames(o.Classes)))
				want := analytics.Deployment{AccountID: "a1", Project: "shop", Environment: "production", Name: "shop-main-1234567"}
				if o.Deployment != want || o.Route != target {
					t.Errorf("recorded operation = %+v, want deployment %+v and route %s", o, want, target)
				}
				if o.At.IsZero() || o.Total <= 0 || o.Resolver > o.Total {
					t.Errorf("recorded operation = %+v, want a time, a total, and at most the total for resolvers", o)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("recorded operations = %q, want %q", got, test.want)
			}
		})
	}
	if text := checked.log.String(); !strings.Contains(text, "graphql errors") ||
		strings.Contains(text, "UNAUTHENTICATED") || strings.Contains(text, "Deep") {
		t.Errorf("log after GraphQL errors = %s, want \"graphql errors\" without codes and names of operations", text)
	}
}

// TestOperationsAreNamedWithoutOtherReaders checks that an operation in a small body is recorded with its name if no
// other policy reads the body, even if the upstream is down. An available upstream must get the whole body, small or
// large.
func TestOperationsAreNamedWithoutOtherReaders(t *testing.T) {
	operations := &fakeOperations{}
	outbound := map[string]any{"graphql-analytics-outbound": map[string]any{}}
	recordOperations := func(c *gateway.Config, _ *upstream.Options) { c.Operations = operations }
	reachable, server := newGraphQLFixture(t, nil, outbound, recordOperations)
	a := artifact(route("POST /graphql", rewrite("http://127.0.0.1:1/query")))
	a.Routes[0].GraphQL, a.Routes[0].Outbound = true,
		[]string{declareGraphQL(a, "graphql-analytics-outbound", map[string]any{})}
	unreachable := newFixture(t, a, recordOperations)
	for _, padding := range []int{0, 1 << 20} {
		text := `{"query":"query Dead{a}","variables":{"a":"` + strings.Repeat("x", padding) + `"}}`
		_ = body(t, reachable.send(t, "/graphql", text))
		if got := operations.waitFor(t, 1); padding == 0 && got[0].Name != "Dead" {
			t.Errorf("recorded operations = %+v, want the name Dead", got)
		}
		if sent, _ := server.last(); sent != text {
			t.Errorf("POST /graphql: the upstream got %d bytes, want the %d bytes of the request", len(sent), len(text))
		}
	}
	if response := unreachable.send(t, "/graphql",
		queryBody("query Dead{a}")); response.StatusCode != http.StatusBadGateway {
		t.Errorf("POST /graphql with an unreachable upstream: status = %d, want 502", response.StatusCode)
	}
	if got := operations.waitFor(t, 1); got[0].Name != "Dead" || got[0].Type != "query" || !got[0].Failed {
		t.Errorf("recorded operations = %+v, want the failed query Dead", got)
	}
}

// TestStalledGraphQLBodyIsRefused checks that a body whose rest does not arrive is refused with 408, as usual, if the
// analytics policy reads it.
func TestStalledGraphQLBodyIsRefused(t *testing.T) {
	operations := &fakeOperations{}
	a, server := graphQLArtifact(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{}})
	h := newShortTimeoutFixture(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Operations = operations })
	reply, _ := sendRaw(t, h.URL, "POST /graphql HTTP/1.1\r\nHost: shop.test\r\nContent-Type: "+
		"application/json\r\nContent-Length: 50\r\n\r\n{\"query\":")
	var text strings.Builder
	_, _ = reply.WriteTo(&text)
	if !strings.HasPrefix(text.String(), "HTTP/1.1 408 ") || server.count() > 1 {
		t.Errorf("POST /graphql with a stalled body: response = %s, requests at the upstream = %d, want 408 and at most 1",
			text.String(), server.count())
	}
	if got := operations.waitFor(t, 1); got[0].Name != "" || !got[0].Failed {
		t.Errorf("recorded operations = %+v, want a failed one without a name", got)
	}
}

// TestGraphQLErrorLogLineMatchesDocs checks the log line of GraphQL errors. The line must contain no messages of the
// errors, and no names of the query.
func TestGraphQLErrorLogLineMatchesDocs(t *testing.T) {
	operations, lines := &fakeOperations{}, &syncBuffer{}
	h, server := newGraphQLFixture(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{"logErrors": true}},
		func(c *gateway.Config, _ *upstream.Options) {
			c.Operations, c.Log = operations, slog.New(slog.NewJSONHandler(lines, nil))
		})
	server.handler = func(w http.ResponseWriter, _ string) {
		writef(w, "%s", `{"errors":[{"message":"hidden","extensions":{"code":"UNAUTHENTICATED"}},{"message":"hidden"}]}`)
	}
	_ = body(t, h.send(t, "/graphql", queryBody("query Hidden{hidden}")))
	_ = operations.waitFor(t, 1)
	h.Close() // the line is written after the response
	line := telemetrytest.Line(t, []byte(lines.String()), "graphql errors")
	for name, want := range map[string]any{
		"deployment": "shop-main-1234567", "operation": "POST /graphql",
		"status": 200.0, "errors": 2.0, "classes": "auth,resolver", "level": "WARN",
	} {
		if line[name] != want {
			t.Errorf("log line: %s = %v, want %v", name, line[name], want)
		}
	}
	if strings.Contains(strings.ToLower(lines.String()), "hidden") {
		t.Errorf("log line contains private data, want none: %s", lines)
	}
	checkDocumented(t, line, "## The line of GraphQL errors")
}

// classNames returns the names of classes of errors.
func classNames(classes []analytics.Class) []string {
	names := []string{"syntax", "validation", "auth", "timeout", "resolver"}
	out := []string{}
	for _, class := range classes {
		out = append(out, names[class])
	}
	return out
}

// TestResolverTimeIsReadFromResponse checks that the duration in the response is recorded as resolver time, if it is
// present and plausible. Otherwise the gateway records its own measurement, which is at most the total.
func TestResolverTimeIsReadFromResponse(t *testing.T) {
	operations := &fakeOperations{}
	h, server := newGraphQLFixture(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{}},
		func(c *gateway.Config, _ *upstream.Options) { c.Operations = operations })
	for reply, want := range map[string]time.Duration{
		`{"data":{},"extensions":{"tracing":{"version":1,"duration":1500,"execution":{"resolvers":[{"duration":7}]}}}}`: 1500,
		`{"data":{}}`: 0,
		`{"data":{},"extensions":{"tracing":{"duration":"1500"}}}`: 0,
		`{"data":{},"extensions":{"tracing":{"duration":-1}}}`:     0,
		`{"data":{},"extensions":{"tracing":{"duration":1e300}}}`:  0,
		// The duration is longer than the whole request, so it is ignored.
		`{"data":{},"extensions":{"tracing":{"duration":9223372036854775807}}}`: 0,
		`{"data":{},"extensions":{"tracing":{"duration":3600000000000}}}`:       0,
	} {
		server.handler = func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, reply) }
		_ = body(t, h.send(t, "/graphql", queryBody("{a}")))
		if o := operations.waitFor(t, 1)[0]; want > 0 && o.Resolver != want ||
			want == 0 && (o.Resolver <= 0 || o.Resolver > o.Total) {
			t.Errorf("response %s: resolver time = %v, total = %v, want resolver time %v "+
				"(0 stands for any time above 0 and up to the total)", reply, o.Resolver, o.Total, want)
		}
	}
}
