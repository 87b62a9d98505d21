package gateway_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/dataplane/gateway"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/upstream"
	"github.com/gatewright/gatewright/shared/format/project"
)

// fakeMetering implements policy.Subscriptions and policy.Quotas, with periods that do not end.
type fakeMetering struct {
	mu     sync.Mutex
	states map[string]policy.CustomerState // by account, bucket and customer, separated by spaces
	err    error                           // of CustomerState
	// failing is a meter that can't be counted. stalling is a meter whose Take blocks until the request ends.
	failing, stalling string
	// countedOnError makes the next TakeOnce count its units and return an error.
	countedOnError bool
	used           map[string]int64 // units by meter
	receipts       map[string]bool  // by meter and receipt
	calls          int              // of Take that have not stalled
}

func (f *fakeMetering) CustomerState(
	_ context.Context, accountID, bucketID, customerKey string,
) (policy.CustomerState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return policy.CustomerState{}, f.err
	}
	if s, ok := f.states[accountID+" "+bucketID+" "+customerKey]; ok {
		return s, nil
	}
	return policy.CustomerState{}, fault.Missing("subscription")
}

func (f *fakeMetering) Take(ctx context.Context, c policy.Counter, n int64) (policy.Decision, error) {
	if f.stalling == c.Meter {
		<-ctx.Done()
		return policy.Decision{}, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.failing == c.Meter {
		return policy.Decision{}, errTableUnavailable
	}
	if n < 1 {
		panic("invalid number of units: " + strconv.FormatInt(n, 10))
	}
	if f.used[c.Meter]+n > c.Limit {
		return policy.Decision{ResetAfter: 90 * time.Second}, nil
	}
	f.used[c.Meter] += n
	return policy.Decision{Admitted: true, Remaining: c.Limit - f.used[c.Meter], ResetAfter: 90 * time.Second}, nil
}

func (f *fakeMetering) Refund(ctx context.Context, c policy.Counter, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || n < 1 || f.used[c.Meter] < n {
		panic("invalid refund of " + strconv.FormatInt(n, 10) + " units of " + c.Meter)
	}
	f.used[c.Meter] -= n
}

func (f *fakeMetering) TakeOnce(
	ctx context.Context, c policy.Counter, n int64, receipt string,
) (policy.Decision, bool, error) {
	f.mu.Lock()
	counted := f.receipts[c.Meter+" "+receipt]
	f.mu.Unlock()
	if counted && f.failing != c.Meter {
		return policy.Decision{Admitted: true, ResetAfter: 90 * time.Second}, true, nil
	}
	d, err := f.Take(ctx, c, n)
	if f.countedOnError || d.Admitted {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.receipts[c.Meter+" "+receipt] = true
	}
	if f.countedOnError {
		f.countedOnError = false
		return policy.Decision{}, false, errTableUnavailable
	}
	return d, false, err
}

// quotaFixture is a gateway with routes at /x that have the policies key and quota,
// and further policies if a test needs them. The customer acme has a subscription.
type quotaFixture struct {
	*fixture
	*fakeMetering
	upstreamRequests int // number of requests at the upstream
}

// customerToken is the API key of the consumer acme.
const customerToken = "a-custom-key"

// newQuotaFixture returns a fixture whose upstream responds with handler. quotas has the units of each meter
// in the subscription of acme, and options override the options of the policy quota.
func newQuotaFixture(
	t *testing.T, handler http.HandlerFunc, quotas map[string]int64, options map[string]any, settings ...setting,
) *quotaFixture {
	t.Helper()
	return newQuotaFixtureWith(t, handler, quotas, options, nil, settings...)
}

// newQuotaFixtureWith is like newQuotaFixture, with inbound policies that run after the policy quota.
func newQuotaFixtureWith(
	t *testing.T, handler http.HandlerFunc, quotas map[string]int64, options map[string]any,
	laterPolicies []project.Policy, settings ...setting,
) *quotaFixture {
	t.Helper()
	q := &quotaFixture{fakeMetering: &fakeMetering{used: map[string]int64{}, receipts: map[string]bool{}}}
	q.states = map[string]policy.CustomerState{"a1 mtr_1 acme": {
		Subscription: "sbsc_1", Status: "active", Quotas: quotas,
		From: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	}}
	var mu sync.Mutex
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		q.upstreamRequests++
		mu.Unlock()
		handler(w, r)
	})
	inbound := []string{"key", "quota"}
	for _, p := range laterPolicies {
		inbound = append(inbound, p.Name)
	}
	r := route("GET /x", forward(server.URL), inbound...)
	post, put, remove, patch := r, r, r, r
	post.Method, put.Method, remove.Method, patch.Method = http.MethodPost, http.MethodPut, http.MethodDelete,
		http.MethodPatch
	a := artifact(r, post, put, remove, patch)
	declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	merged := map[string]any{"bucketId": "mtr_1", "meters": map[string]any{"requests": 1}}
	maps.Copy(merged, options)
	declare(a, "quota", "quota-inbound", merged)
	for _, p := range laterPolicies {
		a.Policies[p.Name] = p
	}
	withQuotas := func(c *gateway.Config, _ *upstream.Options) { c.Subscriptions, c.Quotas = q, q }
	q.fixture = newFixture(t, a, append([]setting{withQuotas}, settings...)...)
	q.keys.known = map[string]policy.KeyOwner{" " + customerToken: {
		Sub:  "acme",
		Data: json.RawMessage(`{"billing":{"customer":"globex","number":42}}`),
	}}
	return q
}

// send sends a request with the key of acme.
func (q *quotaFixture) send(t *testing.T, method, target string, modifiers ...func(*http.Request)) *http.Response {
	t.Helper()
	return q.do(t, method, target, append(slices.Clone(modifiers), header("Authorization", "Bearer "+customerToken))...)
}

// wantUsed closes the fixture, so that all requests have ended, and checks the number of used units of each meter.
func (q *quotaFixture) wantUsed(t *testing.T, want map[string]int64) {
	t.Helper()
	q.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.used, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(q.used, want) {
		t.Errorf("used units by meter = %v, want %v", q.used, want)
	}
}

// wantProblem checks a response's status and, for a problem, a part of the detail.
func wantProblem(t *testing.T, r *http.Response, status int, detail string) {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("%s %s: status = %d, want %d", r.Request.Method, r.Request.URL.Path, r.StatusCode, status)
		return
	}
	if status < http.StatusBadRequest {
		return
	}
	if p := problemOf(t, r); !strings.Contains(p.Detail, detail) {
		t.Errorf("%s %s: detail of the problem = %q, want it to contain %q",
			r.Request.Method, r.Request.URL.Path, p.Detail, detail)
	}
}
