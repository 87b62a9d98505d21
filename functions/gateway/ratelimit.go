package gateway

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/gateway/policy"
)

// limiter lets the gateway take from allowances, which know no gateway: it takes
// what a request needs from the allowance of the limit's current window. Why the
// windows are fixed ones: docs/decisions/0014-leases-without-expiry.md.
type limiter struct {
	allowances *allowance.Pool
	now        func() time.Time
}

var _ policy.Allowances = (*limiter)(nil)

// Limiter gives a gateway the allowances of a pool; now is the clock that windows are of.
func Limiter(pool *allowance.Pool, now func() time.Time) policy.Allowances {
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
	return policy.Decision{Admitted: d.Admitted, Remaining: d.Remaining, Ends: to.Sub(now)}, err
}
