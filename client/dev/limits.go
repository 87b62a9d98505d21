package dev

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gatewright/gatewright/shared/gateway/policy"
)

// receiptUses is how often a receipt may be repeated before it counts anew, as in an installation.
const receiptUses = 16

// limits count for rate limits and quotas, exactly: there is one process, and it forgets with its end. Package allowance
// does it for many, over a table that the client does not link.
type limits struct {
	now func() time.Time

	mu   sync.Mutex
	used map[counted]*tally
	// swept is how many there were after the last time that ended periods were forgotten.
	swept int
}

// counted is what is counted in a period.
type counted struct {
	name     string
	from, to time.Time
}

type tally struct {
	units    int64
	receipts map[string]int
}

var (
	_ policy.Allowances = (*limits)(nil)
	_ policy.Quotas     = quotas{}
)

func newLimits(now func() time.Time) *limits { return &limits{now: now, used: map[counted]*tally{}} }

// Take implements policy.Allowances.
func (l *limits) Take(_ context.Context, a policy.Allowance) (policy.Decision, error) {
	from := time.UnixMilli(0).Add(l.now().Sub(time.UnixMilli(0)).Truncate(a.Window)) // fixed windows, from 1970 on, as everywhere
	d, _ := l.take(counted{"limit/" + a.Name, from, from.Add(a.Window)}, a.Limit, 1, "")
	return d, nil
}

// take counts n units, all or none, and once for a receipt that is not "".
func (l *limits) take(of counted, limit, n int64, receipt string) (d policy.Decision, repeated bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	d.Ends = of.to.Sub(now)
	c := l.used[of]
	if c == nil {
		l.sweep(now)
		c = &tally{}
		l.used[of] = c
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

// sweep forgets periods that have ended, once there are twice as many as there were.
func (l *limits) sweep(now time.Time) {
	const few = 1024
	if len(l.used) < 2*l.swept+few {
		return
	}
	for of := range l.used {
		if !now.Before(of.to) {
			delete(l.used, of)
		}
	}
	l.swept = len(l.used)
}

// quotas are the limits as meters of subscriptions.
type quotas struct{ *limits }

func meterOf(c policy.Counter) counted {
	return counted{strings.Join([]string{"meter", c.Subscription, c.Meter}, "/"), c.From, c.To}
}

// Take implements policy.Quotas.
func (q quotas) Take(_ context.Context, c policy.Counter, n int64) (policy.Decision, error) {
	d, _ := q.take(meterOf(c), c.Limit, n, "")
	return d, nil
}

// Give implements policy.Quotas.
func (q quotas) Give(_ context.Context, c policy.Counter, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if its := q.used[meterOf(c)]; its != nil {
		its.units = max(0, its.units-n)
	}
}

// Once implements policy.Quotas.
func (q quotas) Once(_ context.Context, c policy.Counter, n int64, receipt string) (policy.Decision, bool, error) {
	d, repeated := q.take(meterOf(c), c.Limit, n, receipt)
	return d, repeated, nil
}
