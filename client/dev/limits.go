package dev

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
)

// receiptUses is how often a quota recognizes the same receipt. After that, the receipt counts again. Installations
// have the same limit.
const receiptUses = 16

// limits enforces rate limits and quotas exactly, with counters in the memory of this process. The client does not link
// package allowance, which counts for many processes in a table.
type limits struct {
	now func() time.Time

	mu       sync.Mutex
	counters map[counterKey]*counter
	// sizeAfterSweep is the number of counters after the last sweep.
	sizeAfterSweep int
}

// counterKey identifies a counter: a name and a period.
type counterKey struct {
	name     string
	from, to time.Time
}

// counter has the used units of a period. receipts has the remaining uses of each receipt (receiptUses).
type counter struct {
	units    int64
	receipts map[string]int
}

var (
	_ policy.Allowances = (*limits)(nil)
	_ policy.Quotas     = quotas{}
)

func newLimits(now func() time.Time) *limits {
	return &limits{now: now, counters: map[counterKey]*counter{}}
}

// Take implements policy.Allowances.
func (l *limits) Take(_ context.Context, a policy.Allowance) (policy.Decision, error) {
	// Windows begin at multiples of their length since 1970, as in the product.
	from := time.UnixMilli(0).Add(l.now().Sub(time.UnixMilli(0)).Truncate(a.Window))
	d, _ := l.take(counterKey{"limit/" + a.Name, from, from.Add(a.Window)}, a.Limit, 1, "")
	return d, nil
}

// take counts n units, or none if fewer than n remain. If receipt is not "", take counts the units only once for this
// receipt, and reports whether it is repeated.
func (l *limits) take(key counterKey, limit, n int64, receipt string) (d policy.Decision, repeated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	d.ResetAfter = key.to.Sub(now)
	c := l.counters[key]
	if c == nil {
		l.sweep(now)
		c = &counter{}
		l.counters[key] = c
	}
	if uses := c.receipts[receipt]; receipt != "" && uses > 0 {
		if c.receipts[receipt]--; c.receipts[receipt] == 0 {
			delete(c.receipts, receipt)
		}
		d.Admitted, d.Remaining = true, max(0, limit-c.units)
		return d, true
	}
	if n > limit-c.units {
		return d, false
	}
	c.units += n
	if receipt != "" {
		if c.receipts == nil {
			c.receipts = map[string]int{}
		}
		c.receipts[receipt] = receiptUses
	}
	d.Admitted, d.Remaining = true, limit-c.units
	return d, false
}

// sweep removes the counters of ended periods. It does so only when the number of counters is at least twice the number
// after the last sweep, plus minCounters.
func (l *limits) sweep(now time.Time) {
	const minCounters = 1024
	if len(l.counters) < 2*l.sizeAfterSweep+minCounters {
		return
	}
	for key := range l.counters {
		if !now.Before(key.to) {
			delete(l.counters, key)
		}
	}
	l.sizeAfterSweep = len(l.counters)
}

// quotas implements policy.Quotas with limits: it counts the units of a customer's subscription.
type quotas struct{ *limits }

func meterKey(c policy.Counter) counterKey {
	return counterKey{strings.Join([]string{"meter", c.Subscription, c.Meter}, "/"), c.From, c.To}
}

// Take implements policy.Quotas.
func (q quotas) Take(_ context.Context, c policy.Counter, n int64) (policy.Decision, error) {
	d, _ := q.take(meterKey(c), c.Limit, n, "")
	return d, nil
}

// Refund implements policy.Quotas.
func (q quotas) Refund(_ context.Context, c policy.Counter, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if used := q.counters[meterKey(c)]; used != nil {
		used.units = max(0, used.units-n)
	}
}

// TakeOnce implements policy.Quotas.
func (q quotas) TakeOnce(_ context.Context, c policy.Counter, n int64, receipt string) (policy.Decision, bool, error) {
	d, repeated := q.take(meterKey(c), c.Limit, n, receipt)
	return d, repeated, nil
}
