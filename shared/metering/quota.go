package metering

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/store"
)

// Quotas are what is left of each meter of a subscription in a period.
type Quotas struct {
	Period meter.Period
	Left   map[string]int64
}

// history is a period of a subscription that has passed.
type history struct {
	store.Rest

	From time.Time `dynamodbav:"from"`
	To   time.Time `dynamodbav:"to"`
	// Limits are the units that each meter had.
	Limits map[string]int64 `dynamodbav:"limits"`
	// Used is how many of them were used. It is nil while that is still counted: the limits alone are kept when
	// a subscription's plans change before Close has come.
	Used map[string]int64 `dynamodbav:"used"`
}

var errNoPeriod = fault.New(fault.NotFound, "The subscription has no such period: it had not begun then, or the period is still to come. Ask for an instant from its creation until now.")

// quotas are the units of each meter in a period: the sum over the plans, and of the period that the plans
// changed in the part that goes to it, rounded down.
func (r record) quotas(plans []planRecord, p meter.Period) map[string]int64 {
	out := map[string]int64{}
	for _, plan := range plans {
		for key, units := range plan.unitsIn(p) {
			out[key] += units
		}
	}
	if r.Prorate != "" && p.From.Equal(r.Prorated) {
		for key, units := range out {
			out[key] = shareOf(units, r.Prorate)
		}
	}
	return out
}

// Quotas gives what is left of each meter of a subscription, never less than 0: in the period in which at
// lies, or for nil in the current one. It answers NotFound for a subscription that is not there or
// not seen, and for a period before its first or after the current one.
func (s *Service) Quotas(ctx context.Context, at BucketAt, id string, in *time.Time) (Quotas, error) {
	_, r, err := s.loadSubscription(ctx, at, id)
	if err != nil {
		return Quotas{}, err
	}
	now := s.now()
	if in == nil {
		in = &now
	}
	p := r.period(*in)
	if p.From.After(now) || !p.To.After(r.CreatedOn) {
		return Quotas{}, errNoPeriod
	}
	h, err := s.passed(ctx, r, p, s.parts.Held)
	if err != nil {
		return Quotas{}, err
	}
	out := Quotas{Period: p, Left: map[string]int64{}}
	for key, limit := range h.Limits {
		out.Left[key] = max(0, limit-h.Used[key])
	}
	return out, nil
}

// passed gives a period as it is written down, or as it is counted until then.
func (s *Service) passed(ctx context.Context, r record, p meter.Period, held holds) (history, error) {
	h := history{From: p.From, To: p.To}
	row := store.Want(historyKey(r.ID, p.From), &h)
	if err := s.parts.Table.Load(ctx, row); err != nil {
		return history{}, fmt.Errorf("read a period that has passed: %w", err)
	}
	if !row.Found {
		plans, err := plansOf(ctx, s.parts.Table, r.BucketID, []record{r})
		if err != nil {
			return history{}, err
		}
		h.Limits = r.quotas(r.ordered(plans), p)
	}
	if h.Used == nil {
		var err error
		if h.Used, err = s.used(ctx, r, p, h.Limits, held); err != nil {
			return history{}, err
		}
	}
	return h, nil
}

func meters(limits map[string]int64) []string { return slices.Sorted(maps.Keys(limits)) }
