package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/telemetry/telemetrytest"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

var errTableUnavailable = errors.New("the table is unavailable")

// quotaCase changes the quota options or the subscription, and has the expected response.
type quotaCase struct {
	name      string
	options   map[string]any
	setUp     func(*quotaFixture)
	anonymous bool // whether the request has no key
	status    int
	detail    string
}

// quotaCases returns cases with different subscriptions and customers, and with failing lookups and counts.
func quotaCases() []quotaCase {
	status := func(s string) func(*quotaFixture) {
		return func(q *quotaFixture) {
			state := q.states["a1 mtr_1 acme"]
			state.Status = s
			q.states["a1 mtr_1 acme"] = state
		}
	}
	data := func(pointer string) map[string]any {
		return map[string]any{"customerKey": map[string]any{"data": pointer}}
	}
	customerNamed := func(customer string) func(*quotaFixture) {
		return func(q *quotaFixture) {
			q.states = map[string]policy.CustomerState{"a1 mtr_1 " + customer: q.states["a1 mtr_1 acme"]}
		}
	}
	failSubscriptions := func(q *quotaFixture) { q.err = errTableUnavailable }
	failCounts := func(q *quotaFixture) { q.failing = "requests" }
	pastDue, open := map[string]any{"allowedStatuses": []string{"past-due"}}, map[string]any{"onError": "open"}
	return []quotaCase{
		{"an active subscription", nil, nil, false, http.StatusOK, ""},
		{"an anonymous caller", nil, nil, true, http.StatusUnauthorized, "nobody knows who this one is"},
		{"no subscription", nil, customerNamed("globex"), false, http.StatusForbidden, "has no subscription"},
		{"a trialing subscription", nil, status("trialing"), false, http.StatusOK, ""},
		{"an incomplete subscription", nil, status("incomplete"), false, http.StatusOK, ""},
		{
			"a past-due subscription", nil, status("past-due"), false, http.StatusForbidden,
			"subscription is past-due, and this route is for those that are active, incomplete or trialing.",
		},
		{"an empty status", nil, status(""), false, http.StatusForbidden, "subscription is"},
		{"an allowed past-due subscription", pastDue, status("past-due"), false, http.StatusOK, ""},
		{
			"an active subscription that is not allowed", pastDue, nil, false, http.StatusForbidden,
			"for those that are past-due.",
		},
		{
			"an unknown meter",
			map[string]any{"meters": map[string]any{"requests": 1, "images": 0}},
			nil, false,
			http.StatusForbidden, "no meter images",
		},
		{"a customer in the user's data", data("/billing/customer"), customerNamed("globex"), false, http.StatusOK, ""},
		{
			"a number as the customer in the user's data", data("/billing/number"), customerNamed("42"), false, http.StatusOK,
			"",
		},
		{
			"a subscription of sub instead of the customer in the user's data",
			data("/billing/customer"), nil, false, http.StatusForbidden, "has no subscription",
		},
		{"no customer in the user's data", data("/billing/id"), nil, false, http.StatusForbidden, "which customer"},
		{
			"an object as the customer in the user's data", data("/billing"), customerNamed("{}"), false, http.StatusForbidden,
			"which customer",
		},
		{"unavailable subscriptions", nil, failSubscriptions, false, http.StatusServiceUnavailable, "can't be checked now"},
		{"unavailable counts", nil, failCounts, false, http.StatusServiceUnavailable, "can't be checked now"},
		{"unavailable subscriptions with onError open", open, failSubscriptions, false, http.StatusOK, ""},
		{"unavailable counts with onError open", open, failCounts, false, http.StatusOK, ""},
		{
			"no subscription with onError open", open, customerNamed("globex"), false, http.StatusForbidden,
			"has no subscription",
		},
	}
}

// TestQuotaRequiresASubscription checks the response of each case. A request that is sent upstream must be counted,
// unless the lookup or the count has failed. Only then must the log have an uncounted request.
func TestQuotaRequiresASubscription(t *testing.T) {
	for _, test := range quotaCases() {
		t.Run(test.name, func(t *testing.T) {
			q := newQuotaFixture(t, echo, map[string]int64{"requests": 10}, test.options)
			if test.setUp != nil {
				test.setUp(q)
			}
			send := q.send
			if test.anonymous {
				send = func(t *testing.T, method, target string, modifiers ...func(*http.Request)) *http.Response {
					return q.do(t, method, target, modifiers...)
				}
			}
			response := send(t, "GET", "/x")
			wantProblem(t, response, test.status, test.detail)
			if got := response.Header.Get("Retry-After"); (got != "") != (test.status == http.StatusServiceUnavailable) {
				t.Errorf("GET /x: Retry-After = %q, want one only with 503 (status %d)", got, test.status)
			}
			failed := q.err != nil || q.failing != ""
			want := map[string]int64{}
			if test.status == http.StatusOK && !failed {
				want["requests"] = 1
			}
			q.wantUsed(t, want)
			if (q.upstreamRequests == 1) != (test.status == http.StatusOK) {
				t.Errorf("GET /x: requests at the upstream = %d, want 1 only with 200 (status %d)",
					q.upstreamRequests, test.status)
			}
			if failed != strings.Contains(q.log.String(), "uncountedRequests=1") ||
				failed != strings.Contains(q.log.String(), "the table is unavailable") {
				t.Errorf("GET /x: log = %s, want the uncounted request and its cause: %t", q.log, failed)
			}
		})
	}
}

func TestAQuotaIsNeverExceeded(t *testing.T) {
	q := newQuotaFixture(t, echo, map[string]int64{"requests": 7}, map[string]any{"meters": map[string]any{"requests": 2}})
	for n, want := range []string{
		`"quota-requests";r=5;t=90`, `"quota-requests";r=3;t=90`, `"quota-requests";r=1;t=90`,
		`"quota-requests";r=0;t=90`,
	} {
		response := q.send(t, "GET", "/x")
		if got := response.Header.Get("RateLimit"); got != want {
			t.Errorf("request %d: RateLimit = %q, want %q", n, got, want)
		}
		if got := response.Header.Get("RateLimit-Policy"); got != `"quota-requests";q=7;w=2419200` {
			t.Errorf("request %d: RateLimit-Policy = %q, want 7 requests in 4 weeks", n, got)
		}
		if n < 3 {
			continue
		}
		if got := response.Header.Get("Retry-After"); got != "90" {
			t.Errorf("request %d: Retry-After = %q, want 90", n, got)
		}
		wantProblem(t, response, http.StatusTooManyRequests,
			"Of the meter requests the caller's subscription has fewer units left")
	}
	q.wantUsed(t, map[string]int64{"requests": 6})
}

func TestQuotaHeadersCanBeDisabled(t *testing.T) {
	q := newQuotaFixture(t, echo, map[string]int64{"requests": 1}, map[string]any{"headerMode": "none"})
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		response := q.send(t, "GET", "/x")
		if h := response.Header; response.StatusCode != want ||
			h.Get("Retry-After")+h.Get("RateLimit")+h.Get("RateLimit-Policy") != "" {
			t.Errorf("GET /x: status = %d, header = %v, want %d without rate limit headers", response.StatusCode, h, want)
		}
	}
}

// TestMetersAreCountedAtomically checks that no meter is counted if one meter with units refuses the request or can't
// be counted. There is one exception: with an Idempotency-Key, a stays counted if b can't be counted.
func TestMetersAreCountedAtomically(t *testing.T) {
	meters := map[string]any{"meters": map[string]any{
		"a": 1, "b": 2, "c": 0,
		"d": map[string]any{"responseHeader": "X-Units", "max": 5},
	}}
	units := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Units", "3") }
	for _, test := range []struct {
		name    string
		quotas  map[string]int64
		failing string
		status  int
		want    map[string]int64
	}{
		{
			"all meters have enough units",
			map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5},
			"", http.StatusOK,
			map[string]int64{"a": 1, "b": 2, "d": 3},
		},
		{
			"the first meter refuses",
			map[string]int64{"a": 0, "b": 2, "c": 0, "d": 5},
			"", http.StatusTooManyRequests,
			map[string]int64{},
		},
		{
			"the second meter refuses",
			map[string]int64{"a": 1, "b": 1, "c": 0, "d": 5},
			"", http.StatusTooManyRequests,
			map[string]int64{},
		},
		{
			"the meter of an amount refuses",
			map[string]int64{"a": 1, "b": 2, "c": 0, "d": 4},
			"", http.StatusTooManyRequests,
			map[string]int64{},
		},
		{
			"the second meter fails",
			map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5},
			"b", http.StatusServiceUnavailable,
			map[string]int64{},
		},
		{
			"the meter of an amount fails",
			map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5},
			"d", http.StatusServiceUnavailable,
			map[string]int64{},
		},
		{
			"a meter with 0 units fails",
			map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5},
			"c", http.StatusOK,
			map[string]int64{"a": 1, "b": 2, "d": 3},
		},
	} {
		for _, key := range []string{"", "key-1"} {
			t.Run(fmt.Sprintf("%s, Idempotency-Key %q", test.name, key), func(t *testing.T) {
				q := newQuotaFixture(t, units, test.quotas, meters)
				q.failing = test.failing
				response := q.send(t, "POST", "/x", idempotencyKey(key))
				wantProblem(t, response, test.status, "")
				if test.failing == "b" && key != "" {
					test.want = map[string]int64{"a": 1} // not refunded, because the receipt may exist
				}
				q.wantUsed(t, test.want)
			})
		}
	}
}

// TestUncertainRequestIsCountedForAllMeters checks that a request is counted
// once for all meters if it fails after its units were counted, and is repeated.
func TestUncertainRequestIsCountedForAllMeters(t *testing.T) {
	q := newQuotaFixture(t, echo, map[string]int64{"a": 9, "b": 9},
		map[string]any{"meters": map[string]any{"a": 1, "b": 2}})
	q.countedOnError = true
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		wantProblem(t, q.send(t, "POST", "/x", idempotencyKey("key")), want, "can't be checked now")
	}
	q.wantUsed(t, map[string]int64{"a": 1, "b": 2})
}

// idempotencyKey adds an Idempotency-Key to a request, unless key is "".
func idempotencyKey(key string) func(*http.Request) {
	return func(r *http.Request) {
		if key != "" {
			r.Header.Add("Idempotency-Key", key)
		}
	}
}

// TestRepeatedRequestIsCountedOnce checks which requests with an Idempotency-Key count as repeats of a counted request.
func TestRepeatedRequestIsCountedOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		options map[string]any
		// requests has texts of the form "METHOD target key". want has the units that all of them use.
		requests []string
		status   []int
		want     map[string]int64
	}{
		{
			"a repeated request", nil,
			[]string{"POST /x k", "POST /x k", "POST /x k"},
			[]int{200, 200, 200},
			map[string]int64{"a": 1, "b": 2},
		},
		{
			"the same key with other methods", nil,
			[]string{"PUT /x k", "PATCH /x k", "DELETE /x k", "PUT /x k"},
			[]int{200, 200, 200, 200},
			map[string]int64{"a": 3, "b": 6},
		},
		{
			"repeated reads", nil,
			[]string{"GET /x k", "GET /x k", "HEAD /x k"},
			[]int{200, 200, 200},
			map[string]int64{"a": 3, "b": 6},
		},
		{"another key", nil, []string{"POST /x k", "POST /x l"}, []int{200, 200}, map[string]int64{"a": 2, "b": 4}},
		{"another query", nil, []string{"POST /x k", "POST /x?page=2 k"}, []int{200, 200}, map[string]int64{"a": 2, "b": 4}},
		{"without a key", nil, []string{"POST /x", "POST /x"}, []int{200, 200}, map[string]int64{"a": 2, "b": 4}},
		{
			"idempotencyKeys switched off",
			map[string]any{"idempotencyKeys": false},
			[]string{"POST /x k", "POST /x k"},
			[]int{200, 200},
			map[string]int64{"a": 2, "b": 4},
		},
		{
			"quota used up before the repeat", nil,
			[]string{"POST /x k", "POST /x", "POST /x", "POST /x", "POST /x k", "POST /x l"},
			[]int{200, 200, 200, 429, 200, 429},
			map[string]int64{"a": 3, "b": 6},
		},
		{
			"too few units of the first meter for another key",
			map[string]any{"meters": map[string]any{"a": 2, "b": 1}},
			[]string{"POST /x k", "POST /x k", "POST /x l", "POST /x l"},
			[]int{200, 200, 429, 429},
			map[string]int64{"a": 2, "b": 1},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := map[string]any{"meters": map[string]any{"a": 1, "b": 2}}
			for name, value := range test.options {
				options[name] = value
			}
			q := newQuotaFixture(t, echo, map[string]int64{"a": 3, "b": 7}, options)
			for i, request := range test.requests {
				method, rest, _ := strings.Cut(request, " ")
				target, key, _ := strings.Cut(rest, " ")
				if got := q.send(t, method, target, idempotencyKey(key)); got.StatusCode != test.status[i] {
					t.Errorf("request %d, %s: status = %d, want %d", i, request, got.StatusCode, test.status[i])
				}
			}
			q.wantUsed(t, test.want)
		})
	}
}

func TestInvalidIdempotencyKeyIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, method string
		values       []string
		status       int
	}{
		{"an empty key", "POST", []string{""}, http.StatusBadRequest},
		{"a key of the largest size", "POST", []string{strings.Repeat("k", 255)}, http.StatusOK},
		{"a key over the largest size", "POST", []string{strings.Repeat("k", 256)}, http.StatusBadRequest},
		{"a space", "POST", []string{"a b"}, http.StatusBadRequest},
		{"bytes beyond ASCII", "DELETE", []string{"é"}, http.StatusBadRequest},
		{"two keys", "PATCH", []string{"a", "a"}, http.StatusBadRequest},
		{"a space in the key of a GET", "GET", []string{"a b"}, http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newQuotaFixture(t, echo, map[string]int64{"requests": 1}, nil)
			response := q.send(t, test.method, "/x", func(r *http.Request) { r.Header["Idempotency-Key"] = test.values })
			wantProblem(t, response, test.status, "Send one Idempotency-Key")
		})
	}
}

// TestQuotaIsRefundedForRefusedRequests checks that the units are refunded if a later policy refuses the
// request. With an Idempotency-Key, the fixed units of meter a stay counted, because a repeat of the request is free.
func TestQuotaIsRefundedForRefusedRequests(t *testing.T) {
	raw, err := json.Marshal(map[string]any{"rateLimitBy": "all", "requestsAllowed": 1, "timeWindowMinutes": 1})
	if err != nil {
		t.Fatal(err)
	}
	limit := project.Policy{
		Name: "limit", Type: "rate-limit-inbound",
		Handler: project.Component{Module: "$import(@gatewright/runtime)", Options: raw},
	}
	meters := map[string]any{"meters": map[string]any{"a": 1, "b": map[string]any{"responseHeader": "X-Units", "max": 5}}}
	for key, want := range map[string]map[string]int64{"": {"a": 1, "b": 5}, "key": {"a": 2, "b": 5}} {
		q := newQuotaFixtureWith(t, echo, map[string]int64{"a": 9, "b": 20}, meters, []project.Policy{limit})
		wantProblem(t, q.send(t, "POST", "/x"), http.StatusOK, "")
		wantProblem(t, q.send(t, "POST", "/x", idempotencyKey(key)), http.StatusTooManyRequests, "Rate limit exceeded")
		wantProblem(t, q.send(t, "POST", "/x", idempotencyKey(key)), http.StatusTooManyRequests, "Rate limit exceeded")
		q.wantUsed(t, want)
	}
}

// TestDisconnectedClientIsNotAdmitted checks that a request whose client disconnects while it is
// counted is not sent upstream, even if the policy lets requests through that can't be counted.
func TestDisconnectedClientIsNotAdmitted(t *testing.T) {
	q := newQuotaFixture(t, echo, map[string]int64{"a": 9, "b": 9},
		map[string]any{"onError": "open", "meters": map[string]any{"a": 1, "b": 1}})
	q.stalling = "b"
	ctx, disconnect := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.URL+"/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.test"
	r.Header.Set("Authorization", "Bearer "+customerToken)
	disconnected := make(chan struct{})
	go func() {
		defer close(disconnected)
		if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	for counted := false; !counted; time.Sleep(time.Millisecond) {
		q.mu.Lock()
		counted = q.used["a"] == 1
		q.mu.Unlock()
	}
	disconnect()
	<-disconnected
	q.wantUsed(t, map[string]int64{})
	if q.upstreamRequests != 0 || strings.Contains(q.log.String(), "not counted") {
		t.Errorf("GET of a disconnected client: requests at the upstream = %d, log = %s, want 0 and nothing uncounted",
			q.upstreamRequests, q.log)
	}
}

func TestMetersHaveSeparateHeaders(t *testing.T) {
	q := newQuotaFixture(t, echo, map[string]int64{`re"quests`: 5, "units": 9},
		map[string]any{"meters": map[string]any{`re"quests`: 1, "units": 2}})
	response := q.send(t, "GET", "/x")
	if got, want := fmt.Sprint(response.Header["Ratelimit"]),
		`["quota-re_quests";r=4;t=90 "quota-units";r=7;t=90]`; got != want {
		t.Errorf("GET /x: RateLimit = %s, want %s", got, want)
	}
	if got := response.Header["Ratelimit-Policy"]; !slices.Equal(got, []string{
		`"quota-re_quests";q=5;w=2419200`,
		`"quota-units";q=9;w=2419200`,
	}) {
		t.Errorf("GET /x with two meters: RateLimit-Policy = %q, want 5 re_quests and 9 units in 4 weeks", got)
	}
}

func TestQuotaLogLinesMatchDocs(t *testing.T) {
	for _, test := range []struct {
		message, heading string
		options          map[string]any
		failing          string
		want             map[string]any
	}{
		{
			"request not counted", "## Requests that were not counted", nil, "requests",
			map[string]any{"outcome": "refused", "uncountedRequests": 1.0, "error": "the table is unavailable"},
		},
		{
			"request not counted", "## Requests that were not counted",
			map[string]any{"onError": "open"},
			"requests",
			map[string]any{"outcome": "admitted", "uncountedRequests": 1.0},
		},
		{
			"amount not read", "## Amounts that were not read",
			map[string]any{"meters": map[string]any{"requests": map[string]any{"responseHeader": "X-Units", "max": 3}}},
			"",
			map[string]any{
				"meter": "requests", "status": 200.0, "units": 3.0, "error": "the answer does not say the amount",
			},
		},
	} {
		lines := &syncBuffer{}
		q := newQuotaFixture(t, echo, map[string]int64{"requests": 9}, test.options,
			func(c *gateway.Config, _ *upstream.Options) {
				c.Log, c.Telemetry.Metrics = slog.New(slog.NewJSONHandler(lines, nil)), true
			})
		q.failing = test.failing
		_ = q.send(t, "GET", "/x")
		q.Close()
		line := telemetrytest.Line(t, []byte(lines.String()), test.message)
		maps.Copy(test.want, map[string]any{"deployment": "shop-main-1234567", "operation": "GET /x", "policy": "quota"})
		for name, want := range test.want {
			if line[name] != want {
				t.Errorf("log line %q with the options %v: %s = %v, want %v", test.message, test.options, name, line[name], want)
			}
		}
		for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
			delete(line, name)
		}
		fields := slices.Collect(maps.Keys(line))
		for _, diff := range telemetrytest.Undocumented(t, observabilityDocs, test.heading, fields...) {
			t.Errorf("documentation of the log line %q: %s, want the same names", test.message, diff)
		}
		if _, hasMetric := line["_aws"]; hasMetric != (test.failing != "") {
			t.Errorf("log line %q with the options %v: has a metric: %t, want %t",
				test.message, test.options, hasMetric, test.failing != "")
		}
	}
}

// TestGatewayWithoutQuotas checks that a gateway without Subscriptions and Quotas treats them as unavailable.
func TestGatewayWithoutQuotas(t *testing.T) {
	for onError, want := range map[string]int{"closed": http.StatusServiceUnavailable, "open": http.StatusOK} {
		q := newQuotaFixture(t, echo, nil, map[string]any{"onError": onError}, func(c *gateway.Config, _ *upstream.Options) {
			c.Subscriptions, c.Quotas = nil, nil
		})
		wantProblem(t, q.send(t, "GET", "/x"), want, "can't be checked now")
	}
}
