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

	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
	"github.com/gatewright/gatewright/shared/telemetry/telemetrytest"
)

var errTableAway = errors.New("the table is away")

func TestAQuotaIsForThoseWhoHaveBoughtIt(t *testing.T) {
	status := func(s string) func(*quotaHouse) {
		return func(q *quotaHouse) {
			standing := q.standings["a1 mtr_1 acme"]
			standing.Status = s
			q.standings["a1 mtr_1 acme"] = standing
		}
	}
	data := func(pointer string) map[string]any {
		return map[string]any{"customerKey": map[string]any{"data": pointer}}
	}
	called := func(customer string) func(*quotaHouse) {
		return func(q *quotaHouse) {
			q.standings = map[string]policy.Standing{"a1 mtr_1 " + customer: q.standings["a1 mtr_1 acme"]}
		}
	}
	for _, test := range []struct {
		name    string
		options map[string]any
		set     func(*quotaHouse)
		header  string
		status  int
		detail  string
	}{
		{"good", nil, nil, "", http.StatusOK, ""},
		{"nobody", nil, nil, "none", http.StatusUnauthorized, "nobody knows who this one is"},
		{"no subscription", nil, called("globex"), "", http.StatusForbidden, "has no subscription"},
		{"trialing", nil, status("trialing"), "", http.StatusOK, ""},
		{"incomplete", nil, status("incomplete"), "", http.StatusOK, ""},
		{"past due", nil, status("past-due"), "", http.StatusForbidden, "subscription is past-due, and this route is for those that are active, incomplete or trialing."},
		{"a status of no list", nil, status(""), "", http.StatusForbidden, "subscription is"},
		{"past due and allowed", map[string]any{"allowedStatuses": []string{"past-due"}}, status("past-due"), "", http.StatusOK, ""},
		{"active and not allowed", map[string]any{"allowedStatuses": []string{"past-due"}}, nil, "", http.StatusForbidden, "for those that are past-due."},
		{"no such meter", map[string]any{"meters": map[string]any{"requests": 1, "images": 0}}, nil, "", http.StatusForbidden, "no meter images"},
		{"by the data", data("/billing/customer"), called("globex"), "", http.StatusOK, ""},
		{"by a number in the data", data("/billing/number"), called("42"), "", http.StatusOK, ""},
		{"by the data and not by sub", data("/billing/customer"), nil, "", http.StatusForbidden, "has no subscription"},
		{"by data that are not there", data("/billing/id"), nil, "", http.StatusForbidden, "which customer"},
		{"by data that are no text", data("/billing"), called("{}"), "", http.StatusForbidden, "which customer"},
		{"nobody knows", nil, func(q *quotaHouse) { q.err = errTableAway }, "", http.StatusServiceUnavailable, "can't be checked now"},
		{"nobody can count", nil, func(q *quotaHouse) { q.fails = "requests" }, "", http.StatusServiceUnavailable, "can't be checked now"},
		{"nobody knows and open", map[string]any{"onError": "open"}, func(q *quotaHouse) { q.err = errTableAway }, "", http.StatusOK, ""},
		{"nobody can count and open", map[string]any{"onError": "open"}, func(q *quotaHouse) { q.fails = "requests" }, "", http.StatusOK, ""},
		{"open is for failures alone", map[string]any{"onError": "open"}, called("globex"), "", http.StatusForbidden, "has no subscription"},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newQuotaHouse(t, echo, map[string]int64{"requests": 10}, test.options)
			if test.set != nil {
				test.set(q)
			}
			ask := q.ask
			if test.header == "none" {
				ask = func(t *testing.T, method, target string, set ...func(*http.Request)) *http.Response {
					return q.do(t, method, target, set...)
				}
			}
			response := ask(t, "GET", "/x")
			wantProblem(t, response, test.status, test.detail)
			if got := response.Header.Get("Retry-After"); (got != "") != (test.status == http.StatusServiceUnavailable) {
				t.Errorf("Retry-After is %q", got)
			}
			failed := q.err != nil || q.fails != ""
			want := map[string]int64{}
			if test.status == http.StatusOK && !failed {
				want["requests"] = 1
			}
			q.wantUsed(t, want)
			if (q.asked == 1) != (test.status == http.StatusOK) {
				t.Errorf("the upstream was asked %d times", q.asked)
			}
			if failed != strings.Contains(q.log.String(), "uncountedRequests=1") || failed != strings.Contains(q.log.String(), "the table is away") {
				t.Errorf("the log has %s", q.log)
			}
		})
	}
}

func TestAQuotaIsNeverExceeded(t *testing.T) {
	q := newQuotaHouse(t, echo, map[string]int64{"requests": 7}, map[string]any{"meters": map[string]any{"requests": 2}})
	for n, want := range []string{`"quota-requests";r=5;t=90`, `"quota-requests";r=3;t=90`, `"quota-requests";r=1;t=90`, `"quota-requests";r=0;t=90`} {
		response := q.ask(t, "GET", "/x")
		if got := response.Header.Get("RateLimit"); got != want {
			t.Errorf("request %d: %q, want %q", n, got, want)
		}
		if got := response.Header.Get("RateLimit-Policy"); got != `"quota-requests";q=7;w=2419200` {
			t.Errorf("request %d: %q", n, got)
		}
		if n < 3 {
			continue
		}
		if got := response.Header.Get("Retry-After"); got != "90" {
			t.Errorf("Retry-After is %q", got)
		}
		wantProblem(t, response, http.StatusTooManyRequests, "Of the meter requests the caller's subscription has fewer units left")
	}
	q.wantUsed(t, map[string]int64{"requests": 6})
}

func TestAQuotaMayBeKeptUntold(t *testing.T) {
	q := newQuotaHouse(t, echo, map[string]int64{"requests": 1}, map[string]any{"headerMode": "none"})
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		response := q.ask(t, "GET", "/x")
		if h := response.Header; response.StatusCode != want || h.Get("Retry-After")+h.Get("RateLimit")+h.Get("RateLimit-Policy") != "" {
			t.Errorf("got %d with %v", response.StatusCode, h)
		}
	}
}

func TestAllMetersAreCountedOrNone(t *testing.T) {
	meters := map[string]any{"meters": map[string]any{"a": 1, "b": 2, "c": 0, "d": map[string]any{"responseHeader": "X-Units", "max": 5}}}
	units := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Units", "3") }
	for _, test := range []struct {
		name   string
		quotas map[string]int64
		fails  string
		status int
		want   map[string]int64
	}{
		{"all", map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5}, "", http.StatusOK, map[string]int64{"a": 1, "b": 2, "d": 3}},
		{"the first refuses", map[string]int64{"a": 0, "b": 2, "c": 0, "d": 5}, "", http.StatusTooManyRequests, map[string]int64{}},
		{"the last refuses", map[string]int64{"a": 1, "b": 1, "c": 0, "d": 5}, "", http.StatusTooManyRequests, map[string]int64{}},
		{"the amount refuses", map[string]int64{"a": 1, "b": 2, "c": 0, "d": 4}, "", http.StatusTooManyRequests, map[string]int64{}},
		{"the last fails", map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5}, "b", http.StatusServiceUnavailable, map[string]int64{}},
		{"the amount fails", map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5}, "d", http.StatusServiceUnavailable, map[string]int64{}},
		{"what counts nothing never fails", map[string]int64{"a": 1, "b": 2, "c": 0, "d": 5}, "c", http.StatusOK, map[string]int64{"a": 1, "b": 2, "d": 3}},
	} {
		for _, key := range []string{"", "key-1"} {
			t.Run(test.name+key, func(t *testing.T) {
				q := newQuotaHouse(t, units, test.quotas, meters)
				q.fails = test.fails
				response := q.ask(t, "POST", "/x", idempotent(key))
				wantProblem(t, response, test.status, "")
				if test.fails == "b" && key != "" {
					test.want = map[string]int64{"a": 1} // nobody knows whether there is a receipt
				}
				q.wantUsed(t, test.want)
			})
		}
	}
}

// TestARequestOfWhichNobodyKnowsIsPaidForByAllMeters: its repeat finds the receipt.
func TestARequestOfWhichNobodyKnowsIsPaidForByAllMeters(t *testing.T) {
	q := newQuotaHouse(t, echo, map[string]int64{"a": 9, "b": 9}, map[string]any{"meters": map[string]any{"a": 1, "b": 2}})
	q.unsure = true
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusOK} {
		wantProblem(t, q.ask(t, "POST", "/x", idempotent("key")), want, "can't be checked now")
	}
	q.wantUsed(t, map[string]int64{"a": 1, "b": 2})
}

// idempotent gives a request a key, none for "".
func idempotent(key string) func(*http.Request) {
	return func(r *http.Request) {
		if key != "" {
			r.Header.Add("Idempotency-Key", key)
		}
	}
}

func TestARepeatIsCountedOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		options map[string]any
		// asks are "METHOD target key", after which so much is used.
		asks   []string
		status []int
		want   map[string]int64
	}{
		{"repeated", nil, []string{"POST /x k", "POST /x k", "POST /x k"}, []int{200, 200, 200}, map[string]int64{"a": 1, "b": 2}},
		{"other methods", nil, []string{"PUT /x k", "PATCH /x k", "DELETE /x k", "PUT /x k"}, []int{200, 200, 200, 200}, map[string]int64{"a": 3, "b": 6}},
		{"a read has no use for it", nil, []string{"GET /x k", "GET /x k", "HEAD /x k"}, []int{200, 200, 200}, map[string]int64{"a": 3, "b": 6}},
		{"another key", nil, []string{"POST /x k", "POST /x l"}, []int{200, 200}, map[string]int64{"a": 2, "b": 4}},
		{"another query", nil, []string{"POST /x k", "POST /x?page=2 k"}, []int{200, 200}, map[string]int64{"a": 2, "b": 4}},
		{"without a key", nil, []string{"POST /x", "POST /x"}, []int{200, 200}, map[string]int64{"a": 2, "b": 4}},
		{"switched off", map[string]any{"idempotencyKeys": false}, []string{"POST /x k", "POST /x k"}, []int{200, 200}, map[string]int64{"a": 2, "b": 4}},
		{"used up meanwhile", nil, []string{"POST /x k", "POST /x", "POST /x", "POST /x", "POST /x k", "POST /x l"}, []int{200, 200, 200, 429, 200, 429}, map[string]int64{"a": 3, "b": 6}},
		{"used up by the first meter", map[string]any{"meters": map[string]any{"a": 2, "b": 1}}, []string{"POST /x k", "POST /x k", "POST /x l", "POST /x l"}, []int{200, 200, 429, 429}, map[string]int64{"a": 2, "b": 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			options := map[string]any{"meters": map[string]any{"a": 1, "b": 2}}
			for name, value := range test.options {
				options[name] = value
			}
			q := newQuotaHouse(t, echo, map[string]int64{"a": 3, "b": 7}, options)
			for i, ask := range test.asks {
				method, rest, _ := strings.Cut(ask, " ")
				target, key, _ := strings.Cut(rest, " ")
				if got := q.ask(t, method, target, idempotent(key)); got.StatusCode != test.status[i] {
					t.Errorf("request %d, %s: got %d, want %d", i, ask, got.StatusCode, test.status[i])
				}
			}
			q.wantUsed(t, test.want)
		})
	}
}

func TestAnIdempotencyKeyThatIsNoneIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, method string
		values       []string
		status       int
	}{
		{"empty", "POST", []string{""}, http.StatusBadRequest},
		{"longest", "POST", []string{strings.Repeat("k", 255)}, http.StatusOK},
		{"too long", "POST", []string{strings.Repeat("k", 256)}, http.StatusBadRequest},
		{"a space", "POST", []string{"a b"}, http.StatusBadRequest},
		{"no ASCII", "DELETE", []string{"é"}, http.StatusBadRequest},
		{"two", "PATCH", []string{"a", "a"}, http.StatusBadRequest},
		{"of a read", "GET", []string{"a b"}, http.StatusOK},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := newQuotaHouse(t, echo, map[string]int64{"requests": 1}, nil)
			response := q.ask(t, test.method, "/x", func(r *http.Request) { r.Header["Idempotency-Key"] = test.values })
			wantProblem(t, response, test.status, "Send one Idempotency-Key")
		})
	}
}

// TestWhatALaterPolicyRefusesIsGivenBack: and kept for a repeat, which counts nothing.
func TestWhatALaterPolicyRefusesIsGivenBack(t *testing.T) {
	raw, err := json.Marshal(map[string]any{"rateLimitBy": "all", "requestsAllowed": 1, "timeWindowMinutes": 1})
	if err != nil {
		t.Fatal(err)
	}
	limit := project.Policy{Name: "limit", Type: "rate-limit-inbound", Handler: project.Component{Module: "$import(@gatewright/runtime)", Options: raw}}
	meters := map[string]any{"meters": map[string]any{"a": 1, "b": map[string]any{"responseHeader": "X-Units", "max": 5}}}
	for key, want := range map[string]map[string]int64{"": {"a": 1, "b": 5}, "key": {"a": 2, "b": 5}} {
		q := newQuotaHouseThen(t, echo, map[string]int64{"a": 9, "b": 20}, meters, []project.Policy{limit})
		wantProblem(t, q.ask(t, "POST", "/x"), http.StatusOK, "")
		wantProblem(t, q.ask(t, "POST", "/x", idempotent(key)), http.StatusTooManyRequests, "Rate limit exceeded")
		wantProblem(t, q.ask(t, "POST", "/x", idempotent(key)), http.StatusTooManyRequests, "Rate limit exceeded")
		q.wantUsed(t, want)
	}
}

// TestAClientThatLeavesIsNotLetThrough: also where what nobody can count is.
func TestAClientThatLeavesIsNotLetThrough(t *testing.T) {
	q := newQuotaHouse(t, echo, map[string]int64{"a": 9, "b": 9}, map[string]any{"onError": "open", "meters": map[string]any{"a": 1, "b": 1}})
	q.stalls = "b"
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.URL+"/x", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "shop.test"
	r.Header.Set("Authorization", "Bearer "+customerToken)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if response, err := http.DefaultTransport.RoundTrip(r); err == nil {
			_ = response.Body.Close()
		}
	}()
	for counted := false; !counted; time.Sleep(time.Millisecond) {
		q.mu.Lock()
		counted = q.used["a"] == 1
		q.mu.Unlock()
	}
	leave()
	<-gone
	q.wantUsed(t, map[string]int64{})
	if q.asked != 0 || strings.Contains(q.log.String(), "not counted") {
		t.Errorf("the upstream was asked %d times, the log has %s", q.asked, q.log)
	}
}

func TestQuotasOfSeveralMetersAreToldApart(t *testing.T) {
	q := newQuotaHouse(t, echo, map[string]int64{`re"quests`: 5, "units": 9}, map[string]any{"meters": map[string]any{`re"quests`: 1, "units": 2}})
	response := q.ask(t, "GET", "/x")
	if got, want := fmt.Sprint(response.Header["Ratelimit"]), `["quota-re_quests";r=4;t=90 "quota-units";r=7;t=90]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := response.Header["Ratelimit-Policy"]; !slices.Equal(got, []string{`"quota-re_quests";q=5;w=2419200`, `"quota-units";q=9;w=2419200`}) {
		t.Errorf("got %q", got)
	}
}

func TestTheLinesOfAQuotaAreAsDocumented(t *testing.T) {
	for _, test := range []struct {
		message, heading string
		options          map[string]any
		fails            string
		want             map[string]any
	}{
		{"request not counted", "## Requests that were not counted", nil, "requests", map[string]any{"outcome": "refused", "uncountedRequests": 1.0, "error": "the table is away"}},
		{"request not counted", "## Requests that were not counted", map[string]any{"onError": "open"}, "requests", map[string]any{"outcome": "admitted", "uncountedRequests": 1.0}},
		{"amount not read", "## Amounts that were not read", map[string]any{"meters": map[string]any{"requests": map[string]any{"responseHeader": "X-Units", "max": 3}}}, "", map[string]any{
			"meter": "requests", "status": 200.0, "units": 3.0, "error": "the answer does not say the amount",
		}},
	} {
		lines := &syncBuffer{}
		q := newQuotaHouse(t, echo, map[string]int64{"requests": 9}, test.options, func(c *gateway.Config, _ *upstream.Options) {
			c.Log, c.Telemetry.Metrics = slog.New(slog.NewJSONHandler(lines, nil)), true
		})
		q.fails = test.fails
		_ = q.ask(t, "GET", "/x")
		q.Close()
		line := telemetrytest.Line(t, []byte(lines.String()), test.message)
		maps.Copy(test.want, map[string]any{"deployment": "shop-main-1234567", "operation": "GET /x", "policy": "quota"})
		for name, want := range test.want {
			if line[name] != want {
				t.Errorf("%s: %s is %v, not %v", test.message, name, line[name], want)
			}
		}
		for _, name := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
			delete(line, name)
		}
		for _, wrong := range telemetrytest.Undocumented(t, documentation, test.heading, slices.Collect(maps.Keys(line))...) {
			t.Error(wrong)
		}
		if _, counted := line["_aws"]; counted != (test.fails != "") {
			t.Errorf("%s: a metric is made: %v", test.message, counted)
		}
	}
}

func TestAGatewayWithoutQuotasCountsNothing(t *testing.T) {
	for open, want := range map[string]int{"closed": http.StatusServiceUnavailable, "open": http.StatusOK} {
		q := newQuotaHouse(t, echo, nil, map[string]any{"onError": open}, func(c *gateway.Config, _ *upstream.Options) { c.Subscriptions, c.Quotas = nil, nil })
		wantProblem(t, q.ask(t, "GET", "/x"), want, "can't be checked now")
	}
}
