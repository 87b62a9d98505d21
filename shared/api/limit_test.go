package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/limits"
)

// TestLimitOfAnAccountIsNoFailureOfOurs: an operation that declares no 429 answers one where the account has used up what it
// may, and 500 to what passes by itself.
func TestLimitOfAnAccountIsNoFailureOfOurs(t *testing.T) {
	f := newFixture(t)
	f.fail = limits.Deployments.Refusal(5, 5, 90*time.Second)
	r, body := f.do(t, "PATCH", thing+"x", goodKey, "{}")
	if r.StatusCode != http.StatusTooManyRequests || r.Header.Get("Retry-After") != "90" {
		t.Errorf("answered %d %s", r.StatusCode, body)
	}
	checkProblem(t, r, body)
}
