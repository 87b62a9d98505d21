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

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/gateway"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/gateway/upstream"
	"github.com/gatewright/gatewright/shared/project"
)

// fakeMetering is subscriptions and quotas without a clock.
type fakeMetering struct {
	mu        sync.Mutex
	standings map[string]policy.Standing // by "account bucket customer"
	err       error
	// fails are the meters that nobody can count, stalls those that wait for the request's end.
	fails, stalls string
	// unsure loses the answer to the next receipt.
	unsure   bool
	used     map[string]int64
	receipts map[string]bool // by meter and receipt
	calls    int
}

func (f *fakeMetering) Standing(_ context.Context, accountID, bucketID, customerKey string) (policy.Standing, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return policy.Standing{}, f.err
	}
	if s, ok := f.standings[accountID+" "+bucketID+" "+customerKey]; ok {
		return s, nil
	}
	return policy.Standing{}, fault.Missing("subscription")
}

func (f *fakeMetering) Take(ctx context.Context, c policy.Counter, n int64) (policy.Decision, error) {
	if f.stalls == c.Meter {
		<-ctx.Done()
		return policy.Decision{}, context.Cause(ctx)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.fails == c.Meter {
		return policy.Decision{}, errTableAway
	}
	if n < 1 {
		panic("a quota is asked for " + strconv.FormatInt(n, 10) + " units")
	}
	if f.used[c.Meter]+n > c.Limit {
		return policy.Decision{Ends: 90 * time.Second}, nil
	}
	f.used[c.Meter] += n
	return policy.Decision{Admitted: true, Remaining: c.Limit - f.used[c.Meter], Ends: 90 * time.Second}, nil
}

func (f *fakeMetering) Give(ctx context.Context, c policy.Counter, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ctx.Err() != nil || n < 1 || f.used[c.Meter] < n {
		panic("given back " + strconv.FormatInt(n, 10) + " units of " + c.Meter)
	}
	f.used[c.Meter] -= n
}

func (f *fakeMetering) Once(ctx context.Context, c policy.Counter, n int64, receipt string) (policy.Decision, bool, error) {
	f.mu.Lock()
	counted := f.receipts[c.Meter+" "+receipt]
	f.mu.Unlock()
	if counted && f.fails != c.Meter {
		return policy.Decision{Admitted: true, Ends: 90 * time.Second}, true, nil
	}
	d, err := f.Take(ctx, c, n)
	if f.unsure || d.Admitted {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.receipts[c.Meter+" "+receipt] = true
	}
	if f.unsure {
		f.unsure = false
		return policy.Decision{}, false, errTableAway
	}
	return d, false, err
}

// quotaHouse is a gateway with one route, /x, which has the policies key and quota, and
// maybe others then, and a customer acme with the quotas that are given.
type quotaHouse struct {
	*house
	*fakeMetering
	asked int // the upstream
}

const customerToken = "a-custom-key"

func newQuotaHouse(t *testing.T, up http.HandlerFunc, quotas map[string]int64, options map[string]any, settings ...setting) *quotaHouse {
	t.Helper()
	return newQuotaHouseThen(t, up, quotas, options, nil, settings...)
}

func newQuotaHouseThen(t *testing.T, up http.HandlerFunc, quotas map[string]int64, options map[string]any, then []project.Policy, settings ...setting) *quotaHouse {
	t.Helper()
	q := &quotaHouse{fakeMetering: &fakeMetering{used: map[string]int64{}, receipts: map[string]bool{}}}
	q.standings = map[string]policy.Standing{"a1 mtr_1 acme": {
		Subscription: "sbsc_1", Status: "active", Quotas: quotas,
		From: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	}}
	var mu sync.Mutex
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		q.asked++
		mu.Unlock()
		up(w, r)
	})
	inbound := []string{"key", "quota"}
	for _, p := range then {
		inbound = append(inbound, p.Name)
	}
	r := route("GET /x", forward(server.URL), inbound...)
	post, put, remove, patch := r, r, r, r
	post.Method, put.Method, remove.Method, patch.Method = http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch
	a := artifact(r, post, put, remove, patch)
	declare(a, "key", "api-key-inbound", map[string]any{"allowUnauthenticatedRequests": true})
	merged := map[string]any{"bucketId": "mtr_1", "meters": map[string]any{"requests": 1}}
	maps.Copy(merged, options)
	declare(a, "quota", "quota-inbound", merged)
	for _, p := range then {
		a.Policies[p.Name] = p
	}
	counted := func(c *gateway.Config, _ *upstream.Options) { c.Subscriptions, c.Quotas = q, q }
	q.house = newHouse(t, a, append([]setting{counted}, settings...)...)
	q.keys.known = map[string]policy.Identity{" " + customerToken: {Sub: "acme", Data: json.RawMessage(`{"billing":{"customer":"globex","number":42}}`)}}
	return q
}

// ask sends a request of acme's.
func (q *quotaHouse) ask(t *testing.T, method, target string, set ...func(*http.Request)) *http.Response {
	t.Helper()
	return q.do(t, method, target, append(slices.Clone(set), header("Authorization", "Bearer "+customerToken))...)
}

// wantUsed waits until all requests are answered, and checks what they have used.
func (q *quotaHouse) wantUsed(t *testing.T, want map[string]int64) {
	t.Helper()
	q.Close()
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.used, func(_ string, n int64) bool { return n == 0 })
	if !maps.Equal(q.used, want) {
		t.Errorf("used %v, want %v", q.used, want)
	}
}

// wantProblem checks a problem's status and a part of its detail.
func wantProblem(t *testing.T, r *http.Response, status int, detail string) {
	t.Helper()
	if r.StatusCode != status {
		t.Errorf("got %d, want %d", r.StatusCode, status)
		return
	}
	if status < http.StatusBadRequest {
		return
	}
	if p := problemOf(t, r); !strings.Contains(p.Detail, detail) {
		t.Errorf("got %q, want %q in it", p.Detail, detail)
	}
}
