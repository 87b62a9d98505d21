package gateway

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
)

// limiter implements policy.Allowances with package allowance, which does not import the gateway. For each request, it
// takes one unit from the allowance of the rate limit's current window. docs/decisions/0014-leases-without-expiry.md
// explains why windows are fixed.
type limiter struct {
	allowances *allowance.Pool
	now        func() time.Time
}

var _ policy.Allowances = (*limiter)(nil)

// NewLimiter returns a policy.Allowances that takes units from a pool. The time that now returns decides which window
// is current.
func NewLimiter(pool *allowance.Pool, now func() time.Time) policy.Allowances {
	return &limiter{pool, now}
}

// Take implements policy.Allowances.
func (l *limiter) Take(ctx context.Context, a policy.Allowance) (policy.Decision, error) {
	now := l.now()
	from, to := allowance.Window(now, a.Window)
	take := l.allowances.Take
	if a.Async {
		take = l.allowances.TakeAsync
	}
	d, err := take(ctx, allowance.Allowance{Name: a.Name, Limit: a.Limit, From: from, To: to}, 1)
	return policy.Decision{Admitted: d.Admitted, Remaining: d.Remaining, ResetAfter: to.Sub(now)}, err
}
