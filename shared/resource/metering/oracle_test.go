package metering_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// model implements docs/metering.md and contract 3.7 literally: it stores every change of plans and of their terms with
// its time, and computes each result from all of them. It uses the service's types, but none of its computations.
type model struct {
	plans []*modelPlan
	subs  []*modelSubscription // in the order of their creation
}

// modelPlan is a plan with all its changes.
type modelPlan struct {
	id      string
	deleted bool
	terms   []termsChange
}

type termsChange struct {
	since          time.Time
	meters         map[string]int64
	days           int
	trialEndStatus metering.Status
	externalID     string
}

// termsBefore returns the last terms that were set before a time, or the first terms if there are none.
func (p *modelPlan) termsBefore(at time.Time) termsChange {
	out := p.terms[0]
	for _, t := range p.terms {
		if t.since.Before(at) {
			out = t
		}
	}
	return out
}

func (p *modelPlan) currentTerms() termsChange { return p.terms[len(p.terms)-1] }

// modelSubscription is a subscription with all its changes.
type modelSubscription struct {
	id, externalID, customer string
	deleted                  bool
	createdAt, anchor        time.Time
	renewal                  meter.Strategy
	// status is the status that was set last. trialEndStatus is the status after the trial. explicitEndStatus is the
	// status after the trial that was set for the subscription, or "" if the plans determine it.
	status, trialEndStatus, explicitEndStatus metering.Status
	start, end                                *time.Time // of the trial
	planChanges                               []planChange
	usages                                    []usage
}

// planChange contains the plans from a time on, and the part of the quotas that applies in the period that contains
// this time.
type planChange struct {
	since    time.Time
	plans    []*modelPlan
	fraction string // "" for the full quotas
}

type usage struct {
	at    time.Time
	meter string
	units int64
}

// statusAt returns the status at a time, computed from the status that was set last.
func (s *modelSubscription) statusAt(now time.Time) metering.Status {
	if s.status == metering.Trialing && s.end != nil && !now.Before(*s.end) {
		return s.trialEndStatus
	}
	return s.status
}

// applyTerms applies the trial terms of the plans.
func (s *modelSubscription) applyTerms(plans []*modelPlan) {
	s.trialEndStatus = s.explicitEndStatus
	for _, p := range plans {
		if s.trialEndStatus == "" {
			s.trialEndStatus = p.currentTerms().trialEndStatus
		}
	}
	if s.trialEndStatus == "" {
		s.trialEndStatus = metering.Canceled
	}
	s.setTrialEnd(plans)
}

// setTrialEnd sets the end of a trial that has no end yet, from the first plan with trial days.
func (s *modelSubscription) setTrialEnd(plans []*modelPlan) {
	for _, p := range plans {
		if days := p.currentTerms().days; days > 0 && s.status == metering.Trialing && s.end == nil {
			from := s.createdAt
			if s.start != nil {
				from = *s.start
			}
			s.end = new(from.Add(time.Duration(days) * 24 * time.Hour))
		}
	}
}

// period returns the period that contains a time.
func (s *modelSubscription) period(in time.Time) (from, to time.Time) {
	isStart := func(day time.Time) bool {
		last := day.AddDate(0, 0, 1).Month() != day.Month()
		a := s.anchor.UTC()
		return (s.renewal != meter.Yearly || day.Month() == a.Month()) &&
			(day.Day() == a.Day() || last && a.Day() > day.Day())
	}
	in = in.UTC()
	from = time.Date(in.Year(), in.Month(), in.Day(), 0, 0, 0, 0, time.UTC)
	for !isStart(from) {
		from = from.AddDate(0, 0, -1)
	}
	to = from.AddDate(0, 0, 1)
	for !isStart(to) {
		to = to.AddDate(0, 0, 1)
	}
	return from, to
}

// limits returns the prorated units of a period. in is a time within the period. For the current period, limits returns
// the current units. For a period that has ended, it returns the units at the end of the period.
func (s *modelSubscription) limits(in, now time.Time) map[string]int64 {
	from, to := s.period(in)
	until := now.Add(1000 * time.Hour) // include all changes, because the clock may have been set back after them
	if !to.After(now) {
		until = to
	}
	change := s.planChanges[0]
	for _, candidate := range s.planChanges {
		if candidate.since.Before(until) {
			change = candidate
		}
	}
	out := map[string]int64{}
	for _, p := range change.plans {
		for key, units := range p.termsBefore(until).meters {
			out[key] += units
		}
	}
	fraction := ""
	if changeStart, _ := s.period(change.since); changeStart.Equal(from) {
		fraction = change.fraction
	}
	if fraction != "" {
		for key, units := range out {
			ratio, _ := new(big.Rat).SetString(fraction)
			ratio.Mul(ratio, new(big.Rat).SetInt64(units))
			out[key] = new(big.Int).Div(ratio.Num(), ratio.Denom()).Int64()
		}
	}
	return out
}

// remaining returns the remaining units of a period, or "" if the subscription has no such period.
func (s *modelSubscription) remaining(in, now time.Time) string {
	from, to := s.period(in)
	if from.After(now) || !to.After(s.createdAt) {
		return ""
	}
	out := s.limits(in, now)
	for key := range out {
		for _, u := range s.usages {
			if u.meter == key && !u.at.Before(from) && u.at.Before(to) {
				out[key] -= u.units
			}
		}
		out[key] = max(0, out[key])
	}
	return fmt.Sprint(out, " ", meter.Period{From: from, To: to})
}

// wantState returns the state, as text, that a gateway must get for a customer.
func (m *model) wantState(customer string, now time.Time) string {
	order := [][]metering.Status{
		{metering.Active, metering.Trialing, metering.Incomplete},
		{metering.PastDue, metering.Unpaid, metering.Paused, metering.Inactive},
		{metering.Canceled, metering.IncompleteExpired},
	}
	for _, statuses := range order {
		for _, s := range slices.Backward(m.subs) {
			if !s.deleted && s.customer == customer && slices.Contains(statuses, s.statusAt(now)) {
				from, to := s.period(now)
				return fmt.Sprint(s.id, " ", s.statusAt(now), " ", s.limits(now, now), " ", meter.Period{From: from, To: to})
			}
		}
	}
	return "none"
}

// hasSubscriptions reports whether the plan has a subscription.
func (m *model) hasSubscriptions(p *modelPlan) bool {
	return slices.ContainsFunc(m.subs, func(s *modelSubscription) bool {
		return !s.deleted && slices.Contains(s.planChanges[len(s.planChanges)-1].plans, p)
	})
}

// livePlans returns the existing plans.
func (m *model) livePlans() []*modelPlan {
	return slices.DeleteFunc(slices.Clone(m.plans), func(p *modelPlan) bool { return p.deleted })
}

func toMeters(units map[string]int64) map[string]metering.Meter {
	out := map[string]metering.Meter{}
	for key, n := range maps.All(units) {
		out[key] = metering.Meter{Max: n}
	}
	return out
}
