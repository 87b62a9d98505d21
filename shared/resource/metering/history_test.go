package metering_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/metering"
	"github.com/gatewright/gatewright/shared/testing/simulations"
)

// TestRandomHistoriesMatchModel makes random changes of plans and subscriptions at times around the ends of periods,
// and compares what can be read with a model. The hourly job sometimes runs on time and sometimes late.
func TestRandomHistoriesMatchModel(t *testing.T) {
	simulations.SkipUnderRace(t)
	rapid.Check(t, func(rt *rapid.T) {
		sc := newScenario(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"advance the clock":     sc.advanceClock,
			"create a plan":         sc.addPlan,
			"change a plan":         sc.changeTerms,
			"delete a plan":         sc.deletePlan,
			"create a subscription": sc.addSubscription,
			"change a subscription": sc.change,
			"delete a subscription": sc.deleteSubscription,
			"use units":             sc.use,
			"close periods":         func(*rapid.T) { sc.close() },
			"":                      sc.compare,
		})
	})
}

// scenario is an installation with its model.
type scenario struct {
	*fixture
	model
	bucket        metering.BucketLocator
	warmDirectory *metering.Directory // of a gateway that runs during the whole scenario, so its cache is in use
	quotas        *allowance.Quotas   // of the same gateway
	// lastChange is the time of the last change. lastClose is the time when the hourly job last ran.
	lastChange, lastClose, startedAt time.Time
	created                          int // the number of created plans and subscriptions
}

func newScenario(t *testing.T, rt *rapid.T) *scenario {
	sc := &scenario{fixture: newFixture(t)}
	sc.now.Store(new(rapid.SampledFrom([]time.Time{
		instant("2026-01-31T10:30:00Z"), instant("2023-12-31T23:59:59.999Z"),
		instant("2024-02-29T00:00:00Z"), instant("2026-04-30T00:00:00Z"),
	}).Draw(rt, "start time")))
	sc.startedAt = sc.clock()
	sc.bucket, sc.warmDirectory, sc.lastClose = sc.fixture.createBucket(acme), metering.NewDirectory(sc.parts), sc.clock()
	sc.quotas = allowance.NewQuotas(allowance.Options{
		Table: sc.parts.Table, Now: sc.clock, Random: storetest.Random(t),
		Log: slog.New(slog.DiscardHandler),
	})
	for range 2 {
		sc.addPlan(rt)
	}
	sc.addSubscription(rt)
	return sc
}

// maxCloseDelay is the maximum time between two runs of the hourly job. It is shorter than the 40 days for which
// counters are kept.
const maxCloseDelay = 20 * 24 * time.Hour

// advanceClock sets the clock: to a later time, slightly back, or close to the end of a period or trial.
func (sc *scenario) advanceClock(rt *rapid.T) {
	to := sc.clock()
	switch rapid.IntRange(0, 3).Draw(rt, "kind of step") {
	case 0:
		to = to.Add(rapid.SampledFrom([]time.Duration{
			time.Millisecond, time.Second, 5 * time.Second, 3 * time.Minute,
			10 * time.Minute, time.Hour, 24 * time.Hour, 40 * 24 * time.Hour, 366 * 24 * time.Hour,
		}).Draw(rt, "forward by"))
	case 1:
		to = to.Add(-rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(rt, "back by"))
		// Do not set the clock back across midnight, where periods end.
		if to.UTC().YearDay() != sc.clock().UTC().YearDay() {
			return
		}
	default:
		next := []time.Time{}
		for _, s := range sc.liveSubscriptions() {
			_, end := s.period(sc.clock())
			next = append(next, end, end.Add(metering.SettleTime))
			if s.end != nil && s.end.After(sc.clock()) {
				next = append(next, *s.end)
			}
		}
		if len(next) == 0 {
			return
		}
		to = rapid.SampledFrom(next).Draw(rt, "boundary").Add(rapid.SampledFrom([]time.Duration{
			-time.Millisecond, 0,
			time.Millisecond, time.Minute,
		}).Draw(rt, "after the boundary"))
	}
	to = to.UTC()
	if to.Sub(sc.startedAt) > 5*365*24*time.Hour {
		rt.Skip()
	}
	for to.Sub(sc.lastClose) > maxCloseDelay {
		sc.now.Store(new(sc.lastClose.Add(maxCloseDelay)))
		sc.close()
	}
	sc.now.Store(&to)
}

// close runs the hourly job.
func (sc *scenario) close() {
	sc.closeAll()
	sc.lastClose = sc.clock()
	for _, s := range sc.subs { // ended trials stay ended, even if the clock is set back
		s.status = s.statusAt(sc.clock())
	}
}

func (sc *scenario) liveSubscriptions() []*modelSubscription {
	return slices.DeleteFunc(slices.Clone(sc.subs), func(s *modelSubscription) bool { return s.deleted })
}

var (
	units = rapid.Map(rapid.SampledFrom([]int64{0, 1, 2, 7, 10, 100, metering.MaxUnits}), func(n int64) int64 {
		return n
	})
	meterQuotas      = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), units, 0, 3)
	trialDays        = rapid.SampledFrom([]int{0, 0, 1, 14, 40})
	trialEndStatuses = rapid.SampledFrom([]metering.Status{"", metering.Paused, metering.Canceled})
	statuses         = rapid.SampledFrom([]metering.Status{
		metering.Active, metering.Inactive, metering.Incomplete, metering.IncompleteExpired, metering.Trialing,
		metering.Trialing, metering.Trialing,
		metering.PastDue, metering.Canceled, metering.Unpaid, metering.Paused,
	})
	fractions = rapid.SampledFrom([]string{"0", "0.29", "0.5", "0.75", "1"})
)

func (sc *scenario) addPlan(rt *rapid.T) {
	sc.created++
	t := termsChange{
		since: sc.clock(), meters: meterQuotas.Draw(rt, "meters"), days: trialDays.Draw(rt, "days"),
		trialEndStatus: trialEndStatuses.Draw(rt, "ends as"), externalID: fmt.Sprint("plan_", sc.created),
	}
	p, err := sc.CreatePlan(sc.requestContext(), sc.bucket, metering.Terms{
		Label: "a", ExternalID: t.externalID,
		Meters: toMeters(t.meters), TrialDays: t.days, TrialEndStatus: t.trialEndStatus,
	})
	noError(rt, err)
	sc.plans = append(sc.plans, &modelPlan{id: p.ID, terms: []termsChange{t}})
	sc.lastChange = sc.clock()
}

// maxRemembered limits the number of changes of a plan in a scenario that change its meters. A plan keeps the past
// units of only so many days with a change. Ended subscriptions, whose periods Close does not record, need all of them.
const maxRemembered = 7

func (sc *scenario) drawPlan(rt *rapid.T) *modelPlan {
	return rapid.SampledFrom(sc.livePlans()).Draw(rt, "plan")
}

func (sc *scenario) changeTerms(rt *rapid.T) {
	if len(sc.livePlans()) == 0 {
		rt.Skip()
	}
	p := sc.drawPlan(rt)
	t := p.currentTerms()
	t.since = sc.clock()
	var patch metering.PlanPatch
	if len(p.terms) < maxRemembered && rapid.Bool().Draw(rt, "meters?") {
		t.meters, patch.Meters = meterQuotas.Draw(rt, "meters"), map[string]metering.MeterPatch{}
		for key, n := range t.meters {
			patch.Meters[key] = metering.MeterPatch{Max: &n}
		}
	}
	if rapid.Bool().Draw(rt, "trial?") {
		t.days, t.trialEndStatus = trialDays.Draw(rt, "days"), trialEndStatuses.Draw(rt, "ends as")
		patch.TrialDays, patch.TrialEndStatus = store.PatchTo(t.days), store.PatchTo(t.trialEndStatus)
	}
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		_, err := sc.UpdatePlan(sc.requestContext(), sc.bucket, p.id, patch)
		noError(rt, err)
	}
	p.terms = append(p.terms, t)
	sc.lastChange = sc.clock()
}

func (sc *scenario) deletePlan(rt *rapid.T) {
	if len(sc.livePlans()) < 2 {
		rt.Skip()
	}
	p := sc.drawPlan(rt)
	err := sc.DeletePlan(sc.requestContext(), sc.bucket, p.id)
	if sc.hasSubscriptions(p) {
		if !fault.Is(err, fault.Conflict) {
			rt.Fatalf("DeletePlan(plan with subscriptions) error = %v, want %v", err, fault.Conflict)
		}
		return
	}
	noError(rt, err)
	p.deleted = true
}

func (sc *scenario) drawPlans(rt *rapid.T) []*modelPlan {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(sc.livePlans()), 1, min(3, len(sc.livePlans())),
		func(p *modelPlan) string { return p.id }).Draw(rt, "plans")
}

// timeNear returns a random time around now, in a random time zone.
func (sc *scenario) timeNear(rt *rapid.T, label string) time.Time {
	day := 24 * time.Hour
	offset := rapid.SampledFrom([]time.Duration{
		-800 * day, -90 * day, -31 * day, -day, -time.Hour, 0, time.Millisecond,
		day, 14 * day, 70 * day, 800 * day,
	}).Draw(rt, label)
	zone := rapid.SampledFrom([]int{0, -11, 14}).Draw(rt, "zone")
	return sc.clock().Add(offset).In(time.FixedZone("", zone*3600))
}

func (sc *scenario) addSubscription(rt *rapid.T) {
	if len(sc.subs) > 8 || len(sc.livePlans()) == 0 {
		rt.Skip()
	}
	sc.created++
	s := &modelSubscription{
		externalID: fmt.Sprint("sub_", sc.created), customer: rapid.SampledFrom([]string{"ada", "bob"}).Draw(rt, "customer"),
		createdAt: sc.clock(), anchor: sc.clock(), status: statuses.Draw(rt, "status"),
		renewal: rapid.SampledFrom([]meter.Strategy{meter.Monthly, meter.Monthly, meter.Yearly}).Draw(rt, "renewal"),
	}
	n := metering.NewSubscription{
		Status: s.status, Renewal: s.renewal, Region: "us-east1", CustomerKey: s.customer, ExternalID: s.externalID,
		CustomerExternalID: "cus",
	}
	if rapid.Bool().Draw(rt, "anchor?") {
		s.anchor = sc.timeNear(rt, "anchor")
		n.Anchor = &s.anchor
	}
	if rapid.IntRange(0, 3).Draw(rt, "start?") == 0 {
		n.TrialStart = new(sc.timeNear(rt, "start"))
		s.start = n.TrialStart
	}
	if rapid.IntRange(0, 3).Draw(rt, "end?") == 0 {
		n.TrialEnd = new(sc.timeNear(rt, "end"))
		s.end = n.TrialEnd
	}
	if rapid.IntRange(0, 3).Draw(rt, "ends as?") == 0 {
		s.explicitEndStatus = rapid.SampledFrom([]metering.Status{metering.Active, metering.Paused, metering.PastDue}).Draw(
			rt, "status after the trial")
		n.TrialEndStatus = s.explicitEndStatus
	}
	plans := sc.drawPlans(rt)
	for _, p := range plans {
		n.PlanIDs, n.PlanExternalIDs = append(n.PlanIDs, p.id), append(n.PlanExternalIDs, p.currentTerms().externalID)
	}
	created, err := sc.CreateSubscription(sc.requestContext(), sc.bucket, n)
	if s.start != nil && s.end != nil && s.end.Before(*s.start) {
		if !fault.Is(err, fault.Invalid) {
			rt.Fatalf("CreateSubscription(trial that ends before its start) error = %v, want %v", err, fault.Invalid)
		}
		return
	}
	noError(rt, err)
	if _, err := sc.CreateSubscription(sc.requestContext(), sc.bucket, n); !fault.Is(err, fault.Conflict) {
		rt.Fatalf("second CreateSubscription() error = %v, want %v", err, fault.Conflict)
	}
	s.id = created.ID
	s.planChanges = []planChange{{since: sc.clock(), plans: plans}}
	s.applyTerms(plans)
	sc.subs = append(sc.subs, s)
	sc.lastChange = sc.clock()
}

func (sc *scenario) drawSubscription(rt *rapid.T) *modelSubscription {
	if len(sc.liveSubscriptions()) == 0 {
		rt.Skip()
	}
	return rapid.SampledFrom(sc.liveSubscriptions()).Draw(rt, "subscription")
}

func (sc *scenario) change(rt *rapid.T) {
	s := sc.drawSubscription(rt)
	now := sc.clock()
	latestChange := s.planChanges[len(s.planChanges)-1]
	var patch metering.SubscriptionPatch
	plansChanged := rapid.IntRange(0, 2).Draw(rt, "plans?") == 0 && len(sc.livePlans()) > 0
	if plansChanged {
		latestChange = planChange{since: now, plans: sc.drawPlans(rt)}
		for _, p := range latestChange.plans {
			patch.PlanExternalIDs = append(patch.PlanExternalIDs, p.currentTerms().externalID)
		}
	}
	if rapid.IntRange(0, 2).Draw(rt, "prorate?") == 0 {
		latestChange.since, latestChange.fraction = now, fractions.Draw(rt, "prorate")
		fraction, err := strconv.ParseFloat(latestChange.fraction, 64)
		noError(rt, err)
		patch.Prorate = &fraction
	}
	if rapid.Bool().Draw(rt, "status?") {
		patch.Status = statuses.Draw(rt, "status")
	}
	var end *time.Time
	if rapid.IntRange(0, 2).Draw(rt, "end?") == 0 {
		patch.TrialEnd = store.PatchClear[time.Time]()
		if rapid.IntRange(0, 3).Draw(rt, "an end?") > 0 {
			end = new(sc.timeNear(rt, "end"))
			patch.TrialEnd = store.PatchTo(*end)
		}
	}
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		before := *s
		s.status = s.statusAt(now) // trials that have ended by now stay ended
		if patch.Status != "" {
			s.status = patch.Status
		}
		if patch.TrialEnd.Set {
			s.end = end
		}
		invalid := s.start != nil && s.end != nil && s.end.Before(*s.start)
		// If the new end of the trial has already passed, setting the status to trialing begins a new trial.
		switch trialBegan := s.status == metering.Trialing && before.statusAt(now) != metering.Trialing; {
		case plansChanged || trialBegan:
			s.applyTerms(latestChange.plans)
		case patch.TrialEnd.Set:
			s.setTrialEnd(latestChange.plans)
		}
		s.planChanges = append(slices.Clone(s.planChanges), latestChange)
		_, err := sc.UpdateSubscription(sc.requestContext(), sc.bucket, s.id, patch)
		if invalid {
			if !fault.Is(err, fault.Invalid) {
				rt.Fatalf("UpdateSubscription(trial that ends before its start) error = %v, want %v", err, fault.Invalid)
			}
			*s = before
			return
		}
		noError(rt, err)
	}
	sc.lastChange = now
}

func (sc *scenario) deleteSubscription(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "deletes if 0") > 0 {
		return
	}
	s := sc.drawSubscription(rt)
	noError(rt, sc.DeleteSubscription(sc.requestContext(), sc.bucket, s.id))
	s.deleted = true
	sc.lastChange = sc.clock()
}

// use takes units as a gateway does, with the current limits.
func (sc *scenario) use(rt *rapid.T) {
	s := sc.drawSubscription(rt)
	limits := s.limits(sc.clock(), sc.clock())
	key, n := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "meter"), rapid.Int64Range(1, 5).Draw(rt, "units")
	limit, hasMeter := limits[key]
	// The units that an ended subscription uses are not recorded.
	if status := s.statusAt(sc.clock()); !hasMeter || status == metering.Canceled || status == metering.IncompleteExpired {
		rt.Skip()
	}
	from, to := s.period(sc.clock())
	used := int64(0)
	for _, u := range s.usages {
		if u.meter == key && !u.at.Before(from) && u.at.Before(to) {
			used += u.units
		}
	}
	d, err := sc.quotas.Take(sc.Context(), metering.Counter("a-1", s.id, key, meter.Period{From: from, To: to}, limit), n)
	noError(rt, err)
	noError(rt, sc.quotas.Drain(sc.Context()))
	if want := used+n <= limit; d.Admitted != want {
		rt.Fatalf("Take(%d of %s) with %d of %d used = %t, want %t", n, key, used, limit, d.Admitted, want)
	}
	if d.Admitted {
		s.usages = append(s.usages, usage{sc.clock(), key, n})
	}
}

// compare compares subscriptions, the quotas of one of them, the states of customers, and the meters of plans with the
// model.
func (sc *scenario) compare(rt *rapid.T) {
	now, cold := sc.clock(), metering.NewDirectory(sc.parts)
	listed, total, err := sc.ListSubscriptions(sc.Context(), sc.bucket, store.Page{Limit: 100})
	noError(rt, err)
	if total != len(sc.liveSubscriptions()) || len(listed) != total {
		rt.Fatalf("ListSubscriptions() = %d of %d, want %d", len(listed), total, len(sc.liveSubscriptions()))
	}
	drawn := rapid.IntRange(0, 11).Draw(rt, "subscription with compared quotas")
	for i, s := range slices.Backward(sc.liveSubscriptions()) {
		got := listed[len(listed)-1-i]
		_, to := s.period(now)
		if gotText, want := fmt.Sprint(got.ID, got.Status, got.NextBillingCycle),
			fmt.Sprint(s.id, s.statusAt(now), to); gotText != want {
			rt.Fatalf("at %s: listed subscription = %s, want %s", now, gotText, want)
		}
		if single, err := sc.ReadSubscription(sc.Context(), sc.bucket, s.id); err != nil ||
			fmt.Sprint(single) != fmt.Sprint(got) {
			rt.Fatalf("ReadSubscription() = %v, %v, want %v as listed", single, err, got)
		}
		if i != drawn%len(listed) {
			continue
		}
		instants := map[time.Time]bool{
			now: true, s.createdAt: true, s.createdAt.AddDate(0, 0, -40): true, to: true,
			to.Add(-time.Millisecond): true,
		}
		for _, u := range s.usages {
			instants[u.at] = true
		}
		for _, change := range s.planChanges {
			instants[change.since] = true
			from, _ := s.period(change.since)
			instants[from.Add(-time.Millisecond)] = true
		}
		for _, in := range slices.SortedFunc(maps.Keys(instants), time.Time.Compare) {
			want := s.remaining(in, now)
			q, err := sc.Quotas(sc.Context(), sc.bucket, s.id, &in)
			got := ""
			if err == nil {
				got = fmt.Sprint(q.Remaining, " ", q.Period)
			} else if !fault.Is(err, fault.NotFound) {
				rt.Fatalf("Quotas(%s) error = %v, want none or %v", s.id, err, fault.NotFound)
			}
			if got != want {
				rt.Fatalf("at %s: Quotas(%s) of a subscription of %s, at %s =\n%s, want\n%s", now, s.id, s.createdAt, in, got, want)
			}
		}
	}
	for _, customer := range []string{"ada", "bob"} {
		want := sc.wantState(customer, now)
		if got := stateText(sc.T, cold, sc.bucket, customer); got != want {
			rt.Fatalf("at %s: CustomerState(%s) =\n%s, want\n%s", now, customer, got, want)
		}
		if got := stateText(sc.T, sc.warmDirectory, sc.bucket, customer); got != want &&
			now.Sub(sc.lastChange) >= metering.Staleness {
			rt.Fatalf("at %s, last change at %s: CustomerState(%s) of a gateway =\n%s, want\n%s",
				now, sc.lastChange, customer, got, want)
		}
	}
	for _, p := range sc.livePlans() {
		if got, err := sc.ReadPlan(sc.Context(), sc.bucket, p.id); err != nil ||
			got.HasSubscriptions != sc.hasSubscriptions(p) ||
			!maps.Equal(got.Meters, toMeters(p.currentTerms().meters)) {
			rt.Fatalf("ReadPlan() = %v, %v, want meters %v and subscriptions: %t",
				got, err, toMeters(p.currentTerms().meters), sc.hasSubscriptions(p))
		}
	}
}

func noError(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}
