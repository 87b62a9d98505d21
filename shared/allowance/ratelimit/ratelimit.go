// Package ratelimit applies the gateway's rate limits: it takes what a request
// needs from the allowance (package allowance) of the limit's current window.
//
// What it is not: the counting, which is package allowance, or the policy,
// which is package policy of the gateway. It stands between them because the
// gateway knows no table. Why the windows are fixed ones:
// docs/decisions/0014-leases-without-expiry.md.
package ratelimit

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/gateway/policy"
)

// Limiter is the gateway's view of a Book. It is safe for concurrent use.
type Limiter struct {
	book *allowance.Book
	now  func() time.Time
}

var _ policy.Allowances = (*Limiter)(nil)

// New makes a Limiter that takes from book what the clock now says is current.
func New(book *allowance.Book, now func() time.Time) *Limiter {
	return &Limiter{book: book, now: now}
}

// Take implements policy.Allowances.
func (l *Limiter) Take(ctx context.Context, a policy.Allowance) (policy.Decision, error) {
	from, to := allowance.Window(l.now(), a.Window)
	take := l.book.Take
	if a.Async {
		take = l.book.TakeAsync
	}
	d, err := take(ctx, allowance.Allowance{Name: a.Name, Limit: a.Limit, From: from, To: to}, 1)
	return policy.Decision{Admitted: d.Admitted, RetryAfter: d.RetryAfter}, err
}
