package metering

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/format/meter"
)

// CustomerState is a customer's current state for a gateway.
type CustomerState struct {
	// Subscription is the id of the subscription that determines the state (Status.rank).
	Subscription string
	// Status is the current status. If the trial is over, it is the status after the trial.
	Status Status
	// Quotas are the units of each meter in the period: the sum over all plans, or its prorated part. Callers must not
	// change the map.
	Quotas map[string]int64
	// Period is the current period.
	Period meter.Period
}

// Status is the status of a subscription.
type Status string

// The statuses of specification 3, and two more from its samples.
const (
	Active            Status = "active"
	Inactive          Status = "inactive"
	Incomplete        Status = "incomplete"
	IncompleteExpired Status = "incomplete-expired"
	Trialing          Status = "trialing"
	PastDue           Status = "past-due"
	Canceled          Status = "canceled"
	Unpaid            Status = "unpaid"
	Paused            Status = "paused"
)

func (s Status) valid() bool {
	return slices.Contains([]Status{
		Active, Inactive, Incomplete, IncompleteExpired, Trialing, PastDue, Canceled, Unpaid,
		Paused,
	}, s)
}

// ended reports whether a subscription with the status has ended. An ended subscription can be reactivated.
func (s Status) ended() bool { return s == Canceled || s == IncompleteExpired }

// maxCustomerSubscriptions is the maximum number of a customer's subscriptions that are read, the newest first.
const maxCustomerSubscriptions = 25

// rank orders the subscriptions of a customer. The subscription with the lowest rank determines the customer's state.
// Among equal ranks, the newest subscription does. So a customer who buys again is served immediately, and a canceled
// or unpaid subscription does not affect an active one (docs/decisions/0038-which-subscription-counts.md).
func (s Status) rank() int {
	switch s {
	case Active, Trialing, Incomplete: // gateways admit these unless a policy says otherwise
		return 0
	case PastDue, Unpaid, Paused, Inactive: // these may become active again
		return 1
	case Canceled, IncompleteExpired:
	}
	return 2
}

// decisive returns the subscription that determines the customer's state at now, or nil if there is none. subscriptions
// is sorted by age, the newest first.
func decisive(subscriptions []record, now time.Time) *record {
	var best *record
	for i := range subscriptions {
		if best == nil || subscriptions[i].currentAt(now).Status.rank() < best.currentAt(now).Status.rank() {
			best = &subscriptions[i]
		}
	}
	return best
}

// customer is a Directory's cache entry: a customer's subscriptions, the newest first, with their plans. It is safe for concurrent use.
type customer struct {
	readAt        time.Time
	subscriptions []record
	plans         map[string]planRecord
	last          atomic.Pointer[cachedState]
}

// cachedState is a state that is valid from since to until. until is the next end of a period or trial.
type cachedState struct {
	since, until time.Time
	state        CustomerState
}

// state returns the state of the customer at now.
func (c *customer) state(now time.Time) (CustomerState, error) {
	if cached := c.last.Load(); cached != nil && !now.Before(cached.since) && now.Before(cached.until) {
		return cached.state, nil
	}
	r := decisive(c.subscriptions, now)
	if r == nil {
		return CustomerState{}, errNoCustomer
	}
	p := r.period(now)
	cached := &cachedState{since: now, until: p.To}
	// The end of another subscription's trial does not affect which subscription determines the state.
	if end := r.TrialEnd; end != nil && end.After(now) && end.Before(cached.until) {
		cached.until = *end
	}
	cached.state = CustomerState{
		Subscription: r.ID, Status: r.currentAt(now).Status,
		Quotas: r.quotas(r.orderedPlans(c.plans), p), Period: p,
	}
	c.last.Store(cached)
	return cached.state, nil
}
