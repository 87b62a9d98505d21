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

	"github.com/gatewright/gatewright/shared/analytics"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

// fakeOperations keeps what it is told.
type fakeOperations struct {
	mu   sync.Mutex
	told []analytics.Operation
}

func (f *fakeOperations) Operation(o analytics.Operation) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, o)
}

// take waits until so many have been told, and forgets them.
func (f *fakeOperations) take(t *testing.T, n int) []analytics.Operation {
	t.Helper()
	for range 500 {
		f.mu.Lock()
		told := f.told
		f.mu.Unlock()
		if len(told) >= n {
			f.mu.Lock()
			f.told = nil
			f.mu.Unlock()
			return told
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("fewer than %d operations were told", n)
	return nil
}

var _ policy.Operations = (*fakeOperations)(nil)

// TestEachOperationIsTold has what becomes of requests, and what is told of it.
func TestEachOperationIsTold(t *testing.T) {
	told := &fakeOperations{}
	counting := func(c *gateway.Config, _ *upstream.Options) { c.Operations = told }
	options := map[string]any{"errorCodeClassification": map[string]any{"NO_MONEY": "auth", "FORBIDDEN": "validation"}, "defaultErrorClass": "timeout", "logErrors": true}
	checked, server := graphQLHouse(t, map[string]any{"graphql-complexity-limit-inbound": limits, "graphql-disable-introspection-inbound": map[string]any{}}, map[string]any{"graphql-analytics-outbound": options}, counting)
	free, freeServer := graphQLHouse(t, nil, map[string]any{"graphql-analytics-outbound": options}, counting)
	limited, _ := graphQLHouse(t, nil, map[string]any{"graphql-analytics-outbound": options}, counting)
	keyed := limited.deployments["shop.test"].Artifact
	declare(keyed, "key", "api-key-inbound", map[string]any{})
	declare(keyed, "limit", "rate-limit-inbound", map[string]any{"rateLimitBy": "all", "requestsAllowed": 1, "timeWindowMinutes": 1})
	second := route("POST /limited", keyed.Routes[0].Handler, "limit")
	second.Outbound = keyed.Routes[0].Outbound
	keyed.Routes[0].Inbound = []string{"key"}
	keyed.Routes = append(keyed.Routes, second)

	_ = body(t, limited.send(t, "/limited", queryOf("{a}")))
	_ = told.take(t, 1)

	failing := func(codes ...string) string {
		var all []string
		for _, code := range codes {
			all = append(all, `{"message":"m","extensions":{"code":"`+code+`"}}`)
		}
		return `{"data":null,"errors":[` + strings.Join(all, ",") + `]}`
	}
	for name, test := range map[string]struct {
		h            *house
		target, body string
		status       int // of the upstream
		encoding     string
		answer       string
		want         []string
	}{
		"a query":                  {body: queryOf("query A{a{b}}"), want: []string{"A query 2 ok []"}},
		"an unnamed mutation":      {body: queryOf("mutation{a}"), want: []string{" mutation 1 ok []"}},
		"the one that is named":    {body: `{"query":"query A{a} query B{a b}","operationName":"B"}`, want: []string{"B query 2 ok []"}},
		"one that is not there":    {body: `{"query":"query A{a} query B{a b}","operationName":"C"}`, want: []string{"  0 ok []"}},
		"a batch":                  {body: "[" + queryOf("query A{a}") + "," + queryOf("query B{b}") + "]", answer: "[{},{\"errors\":[{}]}]", want: []string{"A query 1 ok []", "B query 1 failed [timeout]"}},
		"a refusal of a batch":     {body: "[" + queryOf("query A{a}") + "," + queryOf("query B{b}") + "]", answer: failing("UNAUTHENTICATED"), want: []string{"A query 1 failed [auth]", "B query 1 failed [auth]"}},
		"a batch that is cut":      {body: "[" + queryOf("query A{a}") + "," + queryOf("query B{b}") + "]", answer: `[{"errors":[{"extensions":{"code":"UNAUTHENTICATED"}}],"data":"` + strings.Repeat("x", 200_000) + `"},{}]`, want: []string{"A query 1 failed [auth]", "B query 1 ok []"}},
		"an error that is cut":     {body: queryOf("query A{a}"), answer: `{"errors":[{"message":"` + strings.Repeat("x", 200_000) + `"}]}`, want: []string{"A query 1 failed [timeout]"}},
		"known codes":              {body: queryOf("query A{a}"), answer: failing("UNAUTHENTICATED", "graphql_parse_failed", "INTERNAL_SERVER_ERROR", "GATEWAY_TIMEOUT", "BAD_USER_INPUT"), want: []string{"A query 1 failed [auth syntax resolver timeout validation]"}},
		"each class once":          {body: queryOf("query A{a}"), answer: failing("UNAUTHENTICATED", "NO_MONEY", "UNAUTHENTICATED"), want: []string{"A query 1 failed [auth]"}},
		"the project's own":        {body: queryOf("query A{a}"), answer: failing("FORBIDDEN"), want: []string{"A query 1 failed [validation]"}},
		"in their own capitals":    {body: queryOf("query A{a}"), answer: failing("no_money"), want: []string{"A query 1 failed [timeout]"}},
		"an error without a code":  {body: queryOf("query A{a}"), answer: `{"errors":[{"message":"m"}]}`, want: []string{"A query 1 failed [timeout]"}},
		"one by its status":        {body: queryOf("query A{a}"), status: 401, answer: `{"errors":[{"message":"m"}]}`, want: []string{"A query 1 failed [auth]"}},
		"a status alone":           {body: queryOf("query A{a}"), status: 503, answer: `busy`, want: []string{"A query 1 failed [resolver]"}},
		"403":                      {body: queryOf("query A{a}"), status: 403, answer: `no`, want: []string{"A query 1 failed [auth]"}},
		"408":                      {body: queryOf("query A{a}"), status: 408, answer: `slow`, want: []string{"A query 1 failed [timeout]"}},
		"504":                      {body: queryOf("query A{a}"), status: 504, answer: `slow`, want: []string{"A query 1 failed [timeout]"}},
		"404":                      {body: queryOf("query A{a}"), status: 404, answer: `where`, want: []string{"A query 1 failed [validation]"}},
		"too many at the upstream": {body: queryOf("query A{a}"), status: 429, answer: `slowly`, want: []string{"A query 1 failed []"}},
		"a compressed answer":      {body: queryOf("query A{a}"), encoding: "gzip", answer: failing("UNAUTHENTICATED"), want: []string{"A query 1 failed [auth]"}},
		"an answer that is cut":    {body: queryOf("query A{a}"), answer: `{"errors":[{"extensions":{"code":"UNAUTHENTICATED"}},{"message":"` + strings.Repeat("x", 200_000) + `"}]}`, want: []string{"A query 1 failed [auth]"}},
		"over the limit":           {body: queryOf("query Deep{a{b{c{d{e}}}}}"), want: []string{"Deep query 5 failed [validation]"}},
		"introspection":            {body: queryOf("query I{__schema{types{name}}}"), want: []string{"I query 3 failed [auth]"}},
		"no GraphQL":               {body: queryOf("query A{"), want: []string{"  0 failed [syntax]"}},
		"no JSON":                  {body: "query A{", want: []string{"  0 failed [syntax]"}},
		"no key":                   {h: limited, body: queryOf("query A{a}"), want: []string{"  0 failed [auth]"}},
		"beyond a rate":            {h: limited, target: "/limited", body: queryOf("query A{a}"), want: []string{"  0 failed []"}},
		"without other policies":   {h: free, body: queryOf("query A{a{b}}"), want: []string{"A query 2 ok []"}},
		"what they would refuse":   {h: free, body: queryOf("query A{"), want: []string{"  0 ok []"}},
		"a hash alone":             {h: free, body: `{"extensions":{"persistedQuery":{"version":1,"sha256Hash":"0"}}}`, want: []string{"  0 ok []"}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := func(w http.ResponseWriter, _ string) {
				text := test.answer
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
			server.answer, freeServer.answer = answer, answer
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
			for _, o := range told.take(t, len(test.want)) {
				outcome := "ok"
				if o.Failed {
					outcome = "failed"
				}
				got = append(got, fmt.Sprintf("%s %s %d %s %v", o.Name, o.Type, o.Complexity, outcome, classNames(o.Classes)))
				if o.Deployment != (analytics.Deployment{AccountID: "a1", Project: "shop", Environment: "production", Name: "shop-main-1234567"}) || o.Route != target || o.At.IsZero() || o.Total <= 0 || o.Resolver > o.Total {
					t.Errorf("told %+v", o)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("told %q, want %q", got, test.want)
			}
		})
	}
	if text := checked.log.String(); !strings.Contains(text, "graphql errors") || strings.Contains(text, "UNAUTHENTICATED") || strings.Contains(text, "Deep") {
		t.Errorf("log: %s", text)
	}
}

// TestOperationsHaveTheirNamesThoughNobodyReadsThem: an upstream that is down takes no body, and the one that is up gets
// all of it, however large it is.
func TestOperationsHaveTheirNamesThoughNobodyReadsThem(t *testing.T) {
	told := &fakeOperations{}
	outbound := map[string]any{"graphql-analytics-outbound": map[string]any{}}
	counting := func(c *gateway.Config, _ *upstream.Options) { c.Operations = told }
	up, server := graphQLHouse(t, nil, outbound, counting)
	a := artifact(route("POST /graphql", rewrite("http://127.0.0.1:1/query")))
	a.Routes[0].GraphQL, a.Routes[0].Outbound = true, []string{declareGraphQL(a, "graphql-analytics-outbound", map[string]any{})}
	down := newHouse(t, a, counting)
	for _, padding := range []int{0, 1 << 20} {
		text := `{"query":"query Dead{a}","variables":{"a":"` + strings.Repeat("x", padding) + `"}}`
		_ = body(t, up.send(t, "/graphql", text))
		if got := told.take(t, 1); padding == 0 && got[0].Name != "Dead" {
			t.Errorf("told %+v", got)
		}
		if sent, _ := server.last(); sent != text {
			t.Errorf("%d bytes go upstream, of %d", len(sent), len(text))
		}
	}
	if response := down.send(t, "/graphql", queryOf("query Dead{a}")); response.StatusCode != http.StatusBadGateway {
		t.Errorf("answered %d", response.StatusCode)
	}
	if got := told.take(t, 1); got[0].Name != "Dead" || got[0].Type != "query" || !got[0].Failed {
		t.Errorf("told %+v", got)
	}
}

// TestABodyThatBreaksOffIsRefusedAsElsewhere, with analytics that have begun to read it.
func TestABodyThatBreaksOffIsRefusedAsElsewhere(t *testing.T) {
	told := &fakeOperations{}
	a, server := graphQLArtifact(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{}})
	h := impatientHouse(t, a, func(c *gateway.Config, _ *upstream.Options) { c.Operations = told })
	answer, _ := raw(t, h.URL, "POST /graphql HTTP/1.1\r\nHost: shop.test\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n{\"query\":")
	var text strings.Builder
	_, _ = answer.WriteTo(&text)
	if !strings.HasPrefix(text.String(), "HTTP/1.1 408 ") || server.count() > 1 {
		t.Errorf("answered %s", text.String())
	}
	if got := told.take(t, 1); got[0].Name != "" || !got[0].Failed {
		t.Errorf("told %+v", got)
	}
}

// TestTheLineOfGraphQLErrorsIsAsDocumented, and has nothing of what the errors say.
func TestTheLineOfGraphQLErrorsIsAsDocumented(t *testing.T) {
	told, lines := &fakeOperations{}, &syncBuffer{}
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{"logErrors": true}}, func(c *gateway.Config, _ *upstream.Options) {
		c.Operations, c.Log = told, slog.New(slog.NewJSONHandler(lines, nil))
	})
	server.answer = func(w http.ResponseWriter, _ string) {
		say(w, "%s", `{"errors":[{"message":"hidden","extensions":{"code":"UNAUTHENTICATED"}},{"message":"hidden"}]}`)
	}
	_ = body(t, h.send(t, "/graphql", queryOf("query Hidden{hidden}")))
	_ = told.take(t, 1)
	h.Close() // a line is written after its answer
	line := telemetrytest.Line(t, []byte(lines.String()), "graphql errors")
	for name, want := range map[string]any{"deployment": "shop-main-1234567", "operation": "POST /graphql", "status": 200.0, "errors": 2.0, "classes": "auth,resolver", "level": "WARN"} {
		if line[name] != want {
			t.Errorf("%s is %v, not %v", name, line[name], want)
		}
	}
	if strings.Contains(strings.ToLower(lines.String()), "hidden") {
		t.Errorf("the line tells what is nobody's business: %s", lines)
	}
	documentedLine(t, line, "## The line of GraphQL errors")
}

func classNames(classes []analytics.Class) []string {
	names := []string{"syntax", "validation", "auth", "timeout", "resolver"}
	out := []string{}
	for _, class := range classes {
		out = append(out, names[class])
	}
	return out
}

// TestTheTimeOfResolversIsTheServersOwn where it tells it.
func TestTheTimeOfResolversIsTheServersOwn(t *testing.T) {
	told := &fakeOperations{}
	h, server := graphQLHouse(t, nil, map[string]any{"graphql-analytics-outbound": map[string]any{}}, func(c *gateway.Config, _ *upstream.Options) { c.Operations = told })
	for answer, want := range map[string]time.Duration{
		`{"data":{},"extensions":{"tracing":{"version":1,"duration":1500,"execution":{"resolvers":[{"duration":7}]}}}}`: 1500,
		`{"data":{}}`: 0,
		`{"data":{},"extensions":{"tracing":{"duration":"1500"}}}`: 0,
		`{"data":{},"extensions":{"tracing":{"duration":-1}}}`:     0,
		`{"data":{},"extensions":{"tracing":{"duration":1e300}}}`:  0,
		// Longer than all of the request: whatever it counts, it is no time of this one.
		`{"data":{},"extensions":{"tracing":{"duration":9223372036854775807}}}`: 0,
		`{"data":{},"extensions":{"tracing":{"duration":3600000000000}}}`:       0,
	} {
		server.answer = func(w http.ResponseWriter, _ string) { _, _ = io.WriteString(w, answer) }
		_ = body(t, h.send(t, "/graphql", queryOf("{a}")))
		if o := told.take(t, 1)[0]; want > 0 && o.Resolver != want || want == 0 && (o.Resolver <= 0 || o.Resolver > o.Total) {
			t.Errorf("%s: %v of %v", answer, o.Resolver, o.Total)
		}
	}
}
