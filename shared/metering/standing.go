package metering

import (
	"sync/atomic"
	"time"

	"github.com/gatewright/gatewright/shared/meter"
)

// Standing is what a gateway has to know of a customer now.
type Standing struct {
	// Subscription is the id of the one that counts.
	Subscription string
	// Status is the one in force: a trial that is over has its end status.
	Status Status
	// Quotas are the units of each meter in the period, all of the plans together. Nobody changes the
	// map.
	Quotas map[string]int64
	// Period is the current one.
	Period meter.Period
}

// considered is how many subscriptions of a customer are looked at, the newest.
const considered = 25

// rank orders the subscriptions of a customer: that of the lowest rank counts, of several the newest. So who buys
// anew is served at once, and a canceled or unpaid one takes nothing from another that is in order
// (docs/decisions/0038-which-subscription-counts.md).
func (s Status) rank() int {
	switch s {
	case Active, Trialing, Incomplete: // what gateways admit unless a policy says otherwise
		return 0
	case PastDue, Unpaid, Paused, Inactive: // what may be in order again
		return 1
	case Canceled, IncompleteExpired:
	}
	return 2
}

// counting gives the subscription that counts at now, of those in the order of their ages, the newest
// first. It is nil for none.
func counting(all []record, now time.Time) *record {
	var best *record
	for i := range all {
		if best == nil || all[i].at(now).Status.rank() < best.at(now).Status.rank() {
			best = &all[i]
		}
	}
	return best
}

// customer is what a Directory knows of a customer's subscriptions, the newest first, with their
// plans. It is safe for concurrent use.
type customer struct {
	looked time.Time
	all    []record
	plans  map[string]planRecord
	last   atomic.Pointer[held]
}

// held is a standing, from since until something passes.
type held struct {
	since, until time.Time
	standing     Standing
}

// standing is that of the customer at now.
func (c *customer) standing(now time.Time) (Standing, error) {
	if h := c.last.Load(); h != nil && !now.Before(h.since) && now.Before(h.until) {
		return h.standing, nil
	}
	r := counting(c.all, now)
	if r == nil {
		return Standing{}, errNoCustomer
	}
	p := r.period(now)
	h := &held{since: now, until: p.To}
	// Another trial that ends takes nothing from the one that counts, and gives it nothing.
	if end := r.TrialEnd; end != nil && end.After(now) && end.Before(h.until) {
		h.until = *end
	}
	h.standing = Standing{Subscription: r.ID, Status: r.at(now).Status, Quotas: r.quotas(r.ordered(c.plans), p), Period: p}
	c.last.Store(h)
	return h.standing, nil
}
