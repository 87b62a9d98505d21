package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/management/api"
)

func TestFaultsBecomeProblems(t *testing.T) {
	for _, c := range []struct {
		err        error
		want       int
		retryAfter string
	}{
		{fault.InvalidField("body.name", "is bad"), 400, ""},
		{fault.New(fault.Forbidden, "no"), 403, ""},
		{fault.Missing("thing"), 404, ""},
		{fmt.Errorf("wrapped: %w", fault.New(fault.Conflict, "in use")), 409, ""},
		{fault.New(fault.Unprocessable, "no"), 422, ""},
		{&fault.Fault{Kind: fault.Throttled, Public: "slow down", RetryAfter: 7 * time.Second}, 429, "7"},
		{fault.New(fault.Unavailable, "later"), 503, "1"},
		{fault.New(fault.DatabaseUnavailable, "look first").WithCause(errors.New("secret-cause")), 500, ""},
		{errors.New("secret-cause"), 500, ""},
		{fault.New(fault.Internal, "secret-cause"), 500, ""},
		{fault.Missing("thing").WithCause(errors.New("secret-cause")), 404, ""},
	} {
		f := newFixture(t)
		f.fail = c.err
		r, body := f.do(t, "GET", thing+"x", goodKey, "")
		if r.StatusCode != c.want || r.Header.Get("Retry-After") != c.retryAfter {
			t.Errorf("GET with %v = %d, Retry-After %q, want %d, %q",
				c.err, r.StatusCode, r.Header.Get("Retry-After"), c.want, c.retryAfter)
		}
		checkProblem(t, r, body)
		if c.want == 500 && !strings.Contains(f.log.String(), "secret-cause") {
			t.Errorf("log of a 500 = %s, want the cause", f.log)
		}
	}
}

// TestThrottledPolledOperationIs500 checks that polled operations respond 500 in place of 429, because their clients
// stop polling at a 429 (contract 3.1). Other operations must respond 429. Both responses must have Retry-After.
func TestThrottledPolledOperationIs500(t *testing.T) {
	f := newFixture(t)
	f.fail = &fault.Fault{Kind: fault.Throttled, Public: "slow down", RetryAfter: 7 * time.Second}
	for _, c := range []struct {
		method, target, body string
		want                 int
	}{
		{"GET", "/v1/accounts/acme/projects/shop", "", http.StatusInternalServerError},
		{"GET", thing + "x", "", http.StatusTooManyRequests},
		{"PATCH", thing + "x", "{}", http.StatusTooManyRequests},
	} {
		r, body := f.do(t, c.method, c.target, goodKey, c.body)
		if r.StatusCode != c.want || r.Header.Get("Retry-After") != "7" || !strings.Contains(body, "slow down") {
			t.Errorf("%s %s = %d %s, Retry-After %q, want %d with \"slow down\" and Retry-After 7",
				c.method, c.target, r.StatusCode, body, r.Header.Get("Retry-After"), c.want)
		}
		checkProblem(t, r, body)
	}
}

// checkProblem checks that a response has a problem document that fits its status.
func checkProblem(t *testing.T, r *http.Response, body string) {
	t.Helper()
	if ct := r.Header.Get("Content-Type"); ct != "application/problem+json" {
		t.Errorf("Content-Type = %q, want application/problem+json", ct)
	}
	var p api.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("response body = %s, %v, want a problem document", body, err)
	}
	if p.Status != r.StatusCode || p.Title != http.StatusText(r.StatusCode) || p.Detail == "" ||
		p.Type != fmt.Sprintf("https://httpproblems.com/http-status/%d", r.StatusCode) {
		t.Errorf("problem = %+v, want the type and title of status %d and a detail", p, r.StatusCode)
	}
	if p.Trace == nil || p.Trace.RequestID != r.Header.Get("X-Request-Id") {
		t.Errorf("trace = %+v, want the request ID %s", p.Trace, r.Header.Get("X-Request-Id"))
	}
	if strings.Contains(body, "secret-cause") {
		t.Errorf("response body = %s, want no cause", body)
	}
}
