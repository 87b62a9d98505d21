package metering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/meter"
)

// Quotas contains the remaining units of each meter of a subscription in a period.
type Quotas struct {
	Period    meter.Period
	Remaining map[string]int64
}

// historyPrefix is the key prefix of the passed periods of a subscription, sorted by the time when they began.
const historyPrefix store.KeyPrefix = "metering-history"

// history is a passed period of a subscription.
type history struct {
	store.UnknownAttributes

	From time.Time `dynamodbav:"from"`
	To   time.Time `dynamodbav:"to"`
	// Limits are the quotas of each meter.
	Limits map[string]int64 `dynamodbav:"limits"`
	// Used is the number of used units of each meter. It is nil while units are still counted:
	// if a subscription's plans change before Close has run, only the limits are stored.
	Used map[string]int64 `dynamodbav:"used"`
}

func historyPartition(subscriptionID string) string { return historyPrefix.Partition(subscriptionID) }

// historyKey sorts like the periods, because every stored period begins in a year of four digits.
func historyKey(subscriptionID string, from time.Time) store.Key {
	return store.KeyIn(historyPartition(subscriptionID), from.Format(time.DateOnly))
}

var errNoPeriod = fault.New(fault.NotFound, "The subscription has no such period: it had not begun then, or the "+
	"period is still to come. Ask for an instant from its creation until now.")

// quotas returns the units of each meter in a period: the sum over the plans. If the subscription is prorated in the
// period, quotas returns the prorated part of each sum, rounded down.
func (r record) quotas(plans []planRecord, p meter.Period) map[string]int64 {
	out := map[string]int64{}
	for _, plan := range plans {
		for key, units := range plan.unitsIn(p) {
			out[key] += units
		}
	}
	if r.Prorate != "" && p.From.Equal(r.ProratedFrom) {
		for key, units := range out {
			out[key] = prorate(units, r.Prorate)
		}
	}
	return out
}

// Quotas returns the remaining units of each meter of a subscription, never less than 0. The period is the period that
// contains instant, or the current period if instant is nil. Quotas returns NotFound for a subscription that is missing
// or invisible. It also returns NotFound for a period before the first of the subscription, or after the current one.
func (s *Service) Quotas(ctx context.Context, at BucketLocator, id string, instant *time.Time) (Quotas, error) {
	_, r, err := s.loadSubscription(ctx, at, id)
	if err != nil {
		return Quotas{}, err
	}
	now := s.now()
	if instant == nil {
		instant = &now
	}
	p := r.period(*instant)
	if p.From.After(now) || !p.To.After(r.CreatedOn) {
		return Quotas{}, errNoPeriod
	}
	h, err := s.loadPeriod(ctx, r, p, s.parts.UnspentUnits)
	if err != nil {
		return Quotas{}, err
	}
	out := Quotas{Period: p, Remaining: map[string]int64{}}
	for key, limit := range h.Limits {
		out.Remaining[key] = max(0, limit-h.Used[key])
	}
	return out, nil
}

// loadPeriod returns a period from the history. If the history does not have the limits or the used units yet,
// loadPeriod computes them from the plans and the counters.
func (s *Service) loadPeriod(ctx context.Context, r record, p meter.Period, unspent unspentFunc) (history, error) {
	h := history{From: p.From, To: p.To}
	row := store.Get(historyKey(r.ID, p.From), &h)
	if err := s.parts.Table.Load(ctx, row); err != nil {
		return history{}, fmt.Errorf("read a period that has passed: %w", err)
	}
	if !row.Found {
		plans, err := plansOf(ctx, s.parts.Table, r.BucketID, []record{r})
		if err != nil {
			return history{}, err
		}
		h.Limits = r.quotas(r.orderedPlans(plans), p)
	}
	if h.Used == nil {
		var err error
		if h.Used, err = s.usedUnits(ctx, r, p, h.Limits, unspent); err != nil {
			return history{}, err
		}
	}
	return h, nil
}

func sortedMeters(limits map[string]int64) []string { return slices.Sorted(maps.Keys(limits)) }
