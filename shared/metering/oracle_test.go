package metering_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
)

// model is what the texts say of metering (docs/metering.md, contract 3.7), read aloud: it keeps all that
// was ever said, each with its instant, and answers whatever it is asked by looking through
// all of it. It shares no code with the service.
type model struct {
	plans []*soldPlan
	subs  []*soldSubscription // in the order in which they were made
}

// soldPlan is a plan with all that was ever said of it.
type soldPlan struct {
	id    string
	gone  bool
	terms []termsSince
}

type termsSince struct {
	since    time.Time
	meters   map[string]int64
	days     int
	endsAs   metering.Status
	external string
}

// before are those that were said last before an instant.
func (p *soldPlan) before(at time.Time) termsSince {
	out := p.terms[0]
	for _, t := range p.terms {
		if t.since.Before(at) {
			out = t
		}
	}
	return out
}

func (p *soldPlan) now() termsSince { return p.terms[len(p.terms)-1] }

// soldSubscription is a subscription with all that was ever said of it.
type soldSubscription struct {
	id, external, customer string
	gone                   bool
	made, anchor           time.Time
	renewal                meter.Strategy
	// status is what it was set to last; endsAs what comes with the end of its trial.
	status, endsAs, ownEndsAs metering.Status
	start, end                *time.Time
	sold                      []soldSince
	used                      []usedAt
}

// soldSince is which plans it has, and which part of the quotas the period of since has.
type soldSince struct {
	since time.Time
	plans []*soldPlan
	part  string // "" for the whole
}

type usedAt struct {
	at    time.Time
	meter string
	units int64
}

// at is the status in force.
func (s *soldSubscription) at(now time.Time) metering.Status {
	if s.status == metering.Trialing && s.end != nil && !now.Before(*s.end) {
		return s.endsAs
	}
	return s.status
}

// takes is what becomes of a trial with the plans that it takes.
func (s *soldSubscription) takes(plans []*soldPlan) {
	s.endsAs = s.ownEndsAs
	for _, p := range plans {
		if s.endsAs == "" {
			s.endsAs = p.now().endsAs
		}
	}
	if s.endsAs == "" {
		s.endsAs = metering.Canceled
	}
	s.ends(plans)
}

// ends has a trial without an end have that of the plans.
func (s *soldSubscription) ends(plans []*soldPlan) {
	for _, p := range plans {
		if days := p.now().days; days > 0 && s.status == metering.Trialing && s.end == nil {
			from := s.made
			if s.start != nil {
				from = *s.start
			}
			s.end = new(from.Add(time.Duration(days) * 24 * time.Hour))
		}
	}
}

// period is the one in which an instant lies.
func (s *soldSubscription) period(in time.Time) (from, to time.Time) {
	begins := func(day time.Time) bool {
		last := day.AddDate(0, 0, 1).Month() != day.Month()
		a := s.anchor.UTC()
		return (s.renewal != meter.Yearly || day.Month() == a.Month()) && (day.Day() == a.Day() || last && a.Day() > day.Day())
	}
	in = in.UTC()
	from = time.Date(in.Year(), in.Month(), in.Day(), 0, 0, 0, 0, time.UTC)
	for !begins(from) {
		from = from.AddDate(0, 0, -1)
	}
	to = from.AddDate(0, 0, 1)
	for !begins(to) {
		to = to.AddDate(0, 0, 1)
	}
	return from, to
}

// limits are the units of the period in which an instant lies: those of now where it is the
// current one, and those that it ended with where it has passed.
func (s *soldSubscription) limits(in, now time.Time) map[string]int64 {
	from, to := s.period(in)
	said := now.Add(1000 * time.Hour) // all of it: the clock may have been set back since
	if !to.After(now) {
		said = to
	}
	sold := s.sold[0]
	for _, other := range s.sold {
		if other.since.Before(said) {
			sold = other
		}
	}
	out := map[string]int64{}
	for _, p := range sold.plans {
		for key, units := range p.before(said).meters {
			out[key] += units
		}
	}
	part := ""
	if began, _ := s.period(sold.since); began.Equal(from) {
		part = sold.part
	}
	if part != "" {
		for key, units := range out {
			share, _ := new(big.Rat).SetString(part)
			share.Mul(share, new(big.Rat).SetInt64(units))
			out[key] = new(big.Int).Div(share.Num(), share.Denom()).Int64()
		}
	}
	return out
}

// left is what is left of a period, "" where the subscription has no such.
func (s *soldSubscription) left(in, now time.Time) string {
	from, to := s.period(in)
	if from.After(now) || !to.After(s.made) {
		return ""
	}
	out := s.limits(in, now)
	for key := range out {
		for _, u := range s.used {
			if u.meter == key && !u.at.Before(from) && u.at.Before(to) {
				out[key] -= u.units
			}
		}
		out[key] = max(0, out[key])
	}
	return fmt.Sprint(out, " ", meter.Period{From: from, To: to})
}

// standing is by which subscription a gateway goes.
func (m *model) standing(customer string, now time.Time) string {
	order := [][]metering.Status{
		{metering.Active, metering.Trialing, metering.Incomplete},
		{metering.PastDue, metering.Unpaid, metering.Paused, metering.Inactive},
		{metering.Canceled, metering.IncompleteExpired},
	}
	for _, statuses := range order {
		for _, s := range slices.Backward(m.subs) {
			if !s.gone && s.customer == customer && slices.Contains(statuses, s.at(now)) {
				from, to := s.period(now)
				return fmt.Sprint(s.id, " ", s.at(now), " ", s.limits(now, now), " ", meter.Period{From: from, To: to})
			}
		}
	}
	return "none"
}

// has reports whether any subscription is of a plan.
func (m *model) has(p *soldPlan) bool {
	return slices.ContainsFunc(m.subs, func(s *soldSubscription) bool {
		return !s.gone && slices.Contains(s.sold[len(s.sold)-1].plans, p)
	})
}

// live are the plans that are there.
func (m *model) live() []*soldPlan {
	return slices.DeleteFunc(slices.Clone(m.plans), func(p *soldPlan) bool { return p.gone })
}

func metersOf(units map[string]int64) map[string]metering.Meter {
	out := map[string]metering.Meter{}
	for key, n := range maps.All(units) {
		out[key] = metering.Meter{Max: n}
	}
	return out
}
