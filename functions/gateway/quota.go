package gateway

import (
	"context"
	"time"

	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/dataplane/gateway/policy"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// NewSubscriptionQuotas returns a policy.Subscriptions that reads the subscriptions of callers from the table of p, and
// a policy.Quotas that takes the units of subscriptions from quotas.
func NewSubscriptionQuotas(p installation.Parts, quotas *allowance.Quotas) (policy.SubscriptionReader, policy.Quotas) {
	return subscriptionDirectory{metering.NewDirectory(p)}, subscriptionQuotas{quotas, p.Now}
}

// subscriptionDirectory implements policy.Subscriptions with package metering, which does not import the gateway.
type subscriptionDirectory struct{ directory *metering.Directory }

var _ policy.SubscriptionReader = subscriptionDirectory{}

// CustomerState implements policy.Subscriptions.
func (d subscriptionDirectory) CustomerState(
	ctx context.Context, accountID, bucketID, customerKey string,
) (policy.CustomerState, error) {
	s, err := d.directory.CustomerState(ctx, accountID, bucketID, customerKey)
	if err != nil {
		return policy.CustomerState{}, err
	}
	return policy.CustomerState{
		Subscription: s.Subscription, Status: string(s.Status), Quotas: s.Quotas, From: s.Period.From, To: s.Period.To,
	}, nil
}

// subscriptionQuotas implements policy.Quotas with package allowance. It uses the allowance names of package metering,
// so that the management API reports the units that gateways count.
type subscriptionQuotas struct {
	quotas *allowance.Quotas
	now    func() time.Time
}

var _ policy.Quotas = subscriptionQuotas{}

// Take implements policy.Quotas.
func (q subscriptionQuotas) Take(ctx context.Context, counter policy.Counter, n int64) (policy.Decision, error) {
	d, err := q.quotas.Take(ctx, allowanceOf(counter), n)
	return q.decision(counter, d), err
}

// Refund implements policy.Quotas.
func (q subscriptionQuotas) Refund(ctx context.Context, counter policy.Counter, n int64) {
	q.quotas.Refund(ctx, allowanceOf(counter), n)
}

// TakeOnce implements policy.Quotas.
func (q subscriptionQuotas) TakeOnce(
	ctx context.Context, counter policy.Counter, n int64, receipt string,
) (policy.Decision, bool, error) {
	d, repeated, err := q.quotas.TakeOnce(ctx, allowanceOf(counter), n, receipt)
	return q.decision(counter, d), repeated, err
}

func (q subscriptionQuotas) decision(counter policy.Counter, d allowance.Decision) policy.Decision {
	return policy.Decision{Admitted: d.Admitted, Remaining: d.Remaining, ResetAfter: counter.To.Sub(q.now())}
}

func allowanceOf(counter policy.Counter) allowance.Allowance {
	return metering.Counter(counter.AccountID, counter.Subscription, counter.Meter,
		meter.Period{From: counter.From, To: counter.To}, counter.Limit)
}
