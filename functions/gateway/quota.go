package gateway

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/gateway/policy"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
)

// Counting is what a gateway counts what callers have bought by.
func Counting(p installation.Parts, quotas *allowance.Quotas) (policy.Subscriptions, policy.Quotas) {
	return customers{metering.NewDirectory(p)}, counters{quotas, p.Now}
}

// customers lets the gateway ask package metering, which knows no gateway.
type customers struct{ directory *metering.Directory }

var _ policy.Subscriptions = customers{}

// Standing implements policy.Subscriptions.
func (c customers) Standing(ctx context.Context, accountID, bucketID, customerKey string) (policy.Standing, error) {
	s, err := c.directory.Standing(ctx, accountID, bucketID, customerKey)
	if err != nil {
		return policy.Standing{}, err
	}
	return policy.Standing{
		Subscription: s.Subscription, Status: string(s.Status), Quotas: s.Quotas, From: s.Period.From, To: s.Period.To,
	}, nil
}

// counters lets the gateway count by package allowance, under the names that package metering
// gives: what is counted here is what the management API says is used.
type counters struct {
	quotas *allowance.Quotas
	now    func() time.Time
}

var _ policy.Quotas = counters{}

// Take implements policy.Quotas.
func (c counters) Take(ctx context.Context, at policy.Counter, n int64) (policy.Decision, error) {
	d, err := c.quotas.Take(ctx, allowanceOf(at), n)
	return c.decision(at, d), err
}

// Give implements policy.Quotas.
func (c counters) Give(ctx context.Context, at policy.Counter, n int64) {
	c.quotas.Give(ctx, allowanceOf(at), n)
}

// Once implements policy.Quotas.
func (c counters) Once(ctx context.Context, at policy.Counter, n int64, receipt string) (policy.Decision, bool, error) {
	d, repeated, err := c.quotas.Once(ctx, allowanceOf(at), n, receipt)
	return c.decision(at, d), repeated, err
}

func (c counters) decision(at policy.Counter, d allowance.Decision) policy.Decision {
	return policy.Decision{Admitted: d.Admitted, Remaining: d.Remaining, Ends: at.To.Sub(c.now())}
}

func allowanceOf(at policy.Counter) allowance.Allowance {
	return metering.Counter(at.AccountID, at.Subscription, at.Meter, meter.Period{From: at.From, To: at.To}, at.Limit)
}
