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

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation/simulations"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// TestRandomHistoriesAreAnsweredAsTheTextsSay plays lives of plans and subscriptions at instants around the
// boundaries of the calendar, with the hourly job in time and late, and compares all that
// can be read with the model.
func TestRandomHistoriesAreAnsweredAsTheTextsSay(t *testing.T) {
	simulations.Sequential(t)
	rapid.Check(t, func(rt *rapid.T) {
		l := newLife(t, rt)
		rt.Repeat(map[string]func(*rapid.T){
			"time":         l.time,
			"plan":         l.plan,
			"terms":        l.terms,
			"plan goes":    l.planGoes,
			"subscription": l.subscription,
			"change":       l.change,
			"goes":         l.goes,
			"use":          l.use,
			"close":        func(*rapid.T) { l.close() },
			"":             l.compare,
		})
	})
}

// life is an installation beside its model.
type life struct {
	*world
	model
	bucket metering.BucketAt
	warm   *metering.Directory
	quotas *allowance.Quotas
	// changed is when anything was changed last, closed when the job ran.
	changed, closed, began time.Time
	made                   int
}

func newLife(t *testing.T, rt *rapid.T) *life {
	l := &life{world: newWorld(t)}
	l.now.Store(new(rapid.SampledFrom([]time.Time{instant("2026-01-31T10:30:00Z"), instant("2023-12-31T23:59:59.999Z"), instant("2024-02-29T00:00:00Z"), instant("2026-04-30T00:00:00Z")}).Draw(rt, "begin")))
	l.began = l.at()
	l.bucket, l.warm, l.closed = l.world.bucket(acme), metering.NewDirectory(l.parts), l.at()
	l.quotas = allowance.NewQuotas(allowance.Options{Table: l.parts.Table, Now: l.at, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	for range 2 {
		l.plan(rt)
	}
	l.subscription(rt)
	return l
}

// latest is how late the job comes: what is counted is kept for 40 days.
const latest = 20 * 24 * time.Hour

// time passes: a while, or until just before, at or after a boundary.
func (l *life) time(rt *rapid.T) {
	to := l.at()
	switch rapid.IntRange(0, 3).Draw(rt, "how") {
	case 0:
		to = to.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 5 * time.Second, 3 * time.Minute, 10 * time.Minute, time.Hour, 24 * time.Hour, 40 * 24 * time.Hour, 366 * 24 * time.Hour}).Draw(rt, "while"))
	case 1: // a clock that is set back a little
		to = to.Add(-rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second}).Draw(rt, "back"))
		if to.UTC().YearDay() != l.at().UTC().YearDay() { // a boundary of some subscription, which another clock may see later
			return
		}
	default:
		next := []time.Time{}
		for _, s := range l.alive() {
			_, end := s.period(l.at())
			next = append(next, end, end.Add(metering.Settle))
			if s.end != nil && s.end.After(l.at()) {
				next = append(next, *s.end)
			}
		}
		if len(next) == 0 {
			return
		}
		to = rapid.SampledFrom(next).Draw(rt, "boundary").Add(rapid.SampledFrom([]time.Duration{-time.Millisecond, 0, time.Millisecond, time.Minute}).Draw(rt, "about"))
	}
	to = to.UTC()
	if to.Sub(l.began) > 5*365*24*time.Hour {
		rt.Skip()
	}
	for to.Sub(l.closed) > latest {
		l.now.Store(new(l.closed.Add(latest)))
		l.close()
	}
	l.now.Store(&to)
}

// close has the hourly job come.
func (l *life) close() {
	l.closeAll()
	l.closed = l.at()
	for _, s := range l.subs { // what has come stays, though the clock is set back
		s.status = s.at(l.at())
	}
}

func (l *life) alive() []*soldSubscription {
	return slices.DeleteFunc(slices.Clone(l.subs), func(s *soldSubscription) bool { return s.gone })
}

var (
	units    = rapid.Map(rapid.SampledFrom([]int64{0, 1, 2, 7, 10, 100, metering.MaxUnits}), func(n int64) int64 { return n })
	maxima   = rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), units, 0, 3)
	days     = rapid.SampledFrom([]int{0, 0, 1, 14, 40})
	planEnds = rapid.SampledFrom([]metering.Status{"", metering.Paused, metering.Canceled})
	statuses = rapid.SampledFrom([]metering.Status{
		metering.Active, metering.Inactive, metering.Incomplete, metering.IncompleteExpired, metering.Trialing, metering.Trialing, metering.Trialing,
		metering.PastDue, metering.Canceled, metering.Unpaid, metering.Paused,
	})
	parts = rapid.SampledFrom([]string{"0", "0.29", "0.5", "0.75", "1"})
)

func (l *life) plan(rt *rapid.T) {
	l.made++
	t := termsSince{since: l.at(), meters: maxima.Draw(rt, "meters"), days: days.Draw(rt, "days"), endsAs: planEnds.Draw(rt, "ends as"), external: fmt.Sprint("plan_", l.made)}
	p, err := l.CreatePlan(l.request(), l.bucket, metering.Terms{Label: "a", ExternalID: t.external, Meters: metersOf(t.meters), TrialDays: t.days, TrialEndStatus: t.endsAs})
	ok(rt, err)
	l.plans = append(l.plans, &soldPlan{id: p.ID, terms: []termsSince{t}})
	l.changed = l.at()
}

// remembered is how many changes of its meters a plan has in a life: as many as it remembers days of them, for
// subscriptions that have ended and are written down no more.
const remembered = 7

func (l *life) aPlan(rt *rapid.T) *soldPlan { return rapid.SampledFrom(l.live()).Draw(rt, "plan") }

func (l *life) terms(rt *rapid.T) {
	if len(l.live()) == 0 {
		rt.Skip()
	}
	p := l.aPlan(rt)
	t := p.now()
	t.since = l.at()
	var patch metering.PlanPatch
	if len(p.terms) < remembered && rapid.Bool().Draw(rt, "meters?") {
		t.meters, patch.Meters = maxima.Draw(rt, "meters"), map[string]metering.MeterPatch{}
		for key, n := range t.meters {
			patch.Meters[key] = metering.MeterPatch{Max: &n}
		}
	}
	if rapid.Bool().Draw(rt, "trial?") {
		t.days, t.endsAs = days.Draw(rt, "days"), planEnds.Draw(rt, "ends as")
		patch.TrialDays, patch.TrialEndStatus = store.PatchTo(t.days), store.PatchTo(t.endsAs)
	}
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		_, err := l.UpdatePlan(l.request(), l.bucket, p.id, patch)
		ok(rt, err)
	}
	p.terms = append(p.terms, t)
	l.changed = l.at()
}

func (l *life) planGoes(rt *rapid.T) {
	if len(l.live()) < 2 {
		rt.Skip()
	}
	p := l.aPlan(rt)
	err := l.DeletePlan(l.request(), l.bucket, p.id)
	if l.has(p) {
		if !fault.Is(err, fault.Conflict) {
			rt.Fatalf("a plan with subscriptions is deleted: %v", err)
		}
		return
	}
	ok(rt, err)
	p.gone = true
}

func (l *life) somePlans(rt *rapid.T) []*soldPlan {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(l.live()), 1, min(3, len(l.live())), func(p *soldPlan) string { return p.id }).Draw(rt, "plans")
}

// about is an instant near now, in any zone.
func (l *life) about(rt *rapid.T, what string) time.Time {
	day := 24 * time.Hour
	by := rapid.SampledFrom([]time.Duration{-800 * day, -90 * day, -31 * day, -day, -time.Hour, 0, time.Millisecond, day, 14 * day, 70 * day, 800 * day}).Draw(rt, what)
	zone := rapid.SampledFrom([]int{0, -11, 14}).Draw(rt, "zone")
	return l.at().Add(by).In(time.FixedZone("", zone*3600))
}

func (l *life) subscription(rt *rapid.T) {
	if len(l.subs) > 8 || len(l.live()) == 0 {
		rt.Skip()
	}
	l.made++
	s := &soldSubscription{
		external: fmt.Sprint("sub_", l.made), customer: rapid.SampledFrom([]string{"ada", "bob"}).Draw(rt, "customer"),
		made: l.at(), anchor: l.at(), status: statuses.Draw(rt, "status"), renewal: rapid.SampledFrom([]meter.Strategy{meter.Monthly, meter.Monthly, meter.Yearly}).Draw(rt, "renewal"),
	}
	n := metering.NewSubscription{
		Status: s.status, Renewal: s.renewal, Region: "us-east1", CustomerKey: s.customer, ExternalID: s.external, CustomerExternalID: "cus",
	}
	if rapid.Bool().Draw(rt, "anchor?") {
		s.anchor = l.about(rt, "anchor")
		n.Anchor = &s.anchor
	}
	if rapid.IntRange(0, 3).Draw(rt, "start?") == 0 {
		n.TrialStart = new(l.about(rt, "start"))
		s.start = n.TrialStart
	}
	if rapid.IntRange(0, 3).Draw(rt, "end?") == 0 {
		n.TrialEnd = new(l.about(rt, "end"))
		s.end = n.TrialEnd
	}
	if rapid.IntRange(0, 3).Draw(rt, "ends as?") == 0 {
		s.ownEndsAs = rapid.SampledFrom([]metering.Status{metering.Active, metering.Paused, metering.PastDue}).Draw(rt, "own")
		n.TrialEndStatus = s.ownEndsAs
	}
	plans := l.somePlans(rt)
	for _, p := range plans {
		n.PlanIDs, n.PlanExternalIDs = append(n.PlanIDs, p.id), append(n.PlanExternalIDs, p.now().external)
	}
	made, err := l.CreateSubscription(l.request(), l.bucket, n)
	if s.start != nil && s.end != nil && s.end.Before(*s.start) {
		if !fault.Is(err, fault.Invalid) {
			rt.Fatalf("a trial that ends before it begins is answered %v", err)
		}
		return
	}
	ok(rt, err)
	if _, err := l.CreateSubscription(l.request(), l.bucket, n); !fault.Is(err, fault.Conflict) {
		rt.Fatalf("told twice, it is answered %v", err)
	}
	s.id = made.ID
	s.sold = []soldSince{{since: l.at(), plans: plans}}
	s.takes(plans)
	l.subs = append(l.subs, s)
	l.changed = l.at()
}

func (l *life) one(rt *rapid.T) *soldSubscription {
	if len(l.alive()) == 0 {
		rt.Skip()
	}
	return rapid.SampledFrom(l.alive()).Draw(rt, "subscription")
}

func (l *life) change(rt *rapid.T) {
	s := l.one(rt)
	now := l.at()
	sold := s.sold[len(s.sold)-1]
	var patch metering.SubscriptionPatch
	moved := rapid.IntRange(0, 2).Draw(rt, "plans?") == 0 && len(l.live()) > 0
	if moved {
		sold = soldSince{since: now, plans: l.somePlans(rt)}
		for _, p := range sold.plans {
			patch.PlanExternalIDs = append(patch.PlanExternalIDs, p.now().external)
		}
	}
	if rapid.IntRange(0, 2).Draw(rt, "prorate?") == 0 {
		sold.since, sold.part = now, parts.Draw(rt, "prorate")
		part, err := strconv.ParseFloat(sold.part, 64)
		ok(rt, err)
		patch.Prorate = &part
	}
	if rapid.Bool().Draw(rt, "status?") {
		patch.Status = statuses.Draw(rt, "status")
	}
	var end *time.Time
	if rapid.IntRange(0, 2).Draw(rt, "end?") == 0 {
		patch.TrialEnd = store.PatchClear[time.Time]()
		if rapid.IntRange(0, 3).Draw(rt, "an end?") > 0 {
			end = new(l.about(rt, "end"))
			patch.TrialEnd = store.PatchTo(*end)
		}
	}
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		before := *s
		s.status = s.at(now) // what has come by now stays
		if patch.Status != "" {
			s.status = patch.Status
		}
		if patch.TrialEnd.Set {
			s.end = end
		}
		wrong := s.start != nil && s.end != nil && s.end.Before(*s.start)
		// A trial that is over by its new end, at once, begins again when it is asked for once more.
		switch began := s.status == metering.Trialing && before.at(now) != metering.Trialing; {
		case moved || began:
			s.takes(sold.plans)
		case patch.TrialEnd.Set:
			s.ends(sold.plans)
		}
		s.sold = append(slices.Clone(s.sold), sold)
		_, err := l.UpdateSubscription(l.request(), l.bucket, s.id, patch)
		if wrong {
			if !fault.Is(err, fault.Invalid) {
				rt.Fatalf("a trial that ends before it begins is answered %v", err)
			}
			*s = before
			return
		}
		ok(rt, err)
	}
	l.changed = now
}

func (l *life) goes(rt *rapid.T) {
	if rapid.IntRange(0, 3).Draw(rt, "goes?") > 0 {
		return
	}
	s := l.one(rt)
	ok(rt, l.DeleteSubscription(l.request(), l.bucket, s.id))
	s.gone = true
	l.changed = l.at()
}

// use takes units as a gateway does that goes by the limits of now.
func (l *life) use(rt *rapid.T) {
	s := l.one(rt)
	limits := s.limits(l.at(), l.at())
	key, n := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "meter"), rapid.Int64Range(1, 5).Draw(rt, "units")
	limit, sold := limits[key]
	if now := s.at(l.at()); !sold || now == metering.Canceled || now == metering.IncompleteExpired { // what these use is not kept
		rt.Skip()
	}
	from, to := s.period(l.at())
	used := int64(0)
	for _, u := range s.used {
		if u.meter == key && !u.at.Before(from) && u.at.Before(to) {
			used += u.units
		}
	}
	d, err := l.quotas.Take(l.Context(), metering.Counter("a-1", s.id, key, meter.Period{From: from, To: to}, limit), n)
	ok(rt, err)
	ok(rt, l.quotas.Drain(l.Context()))
	if want := used+n <= limit; d.Admitted != want {
		rt.Fatalf("%d more of %s of %d, of which %d are used, are admitted: %t", n, key, limit, used, d.Admitted)
	}
	if d.Admitted {
		s.used = append(s.used, usedAt{l.at(), key, n})
	}
}

// compare reads all that can be read.
func (l *life) compare(rt *rapid.T) {
	now, cold := l.at(), metering.NewDirectory(l.parts)
	listed, total, err := l.ListSubscriptions(l.Context(), l.bucket, store.Page{Limit: 100})
	ok(rt, err)
	if total != len(l.alive()) || len(listed) != total {
		rt.Fatalf("%d of %d are listed, want %d", len(listed), total, len(l.alive()))
	}
	asked := rapid.IntRange(0, 11).Draw(rt, "asked")
	for i, s := range slices.Backward(l.alive()) {
		got := listed[len(listed)-1-i]
		_, to := s.period(now)
		if shown, want := fmt.Sprint(got.ID, got.Status, got.NextBillingCycle), fmt.Sprint(s.id, s.at(now), to); shown != want {
			rt.Fatalf("at %s a subscription is shown as %s, want %s", now, shown, want)
		}
		if one, err := l.ReadSubscription(l.Context(), l.bucket, s.id); err != nil || fmt.Sprint(one) != fmt.Sprint(got) {
			rt.Fatalf("it is shown as %v, %v, and listed as %v", one, err, got)
		}
		if i != asked%len(listed) {
			continue
		}
		instants := map[time.Time]bool{now: true, s.made: true, s.made.AddDate(0, 0, -40): true, to: true, to.Add(-time.Millisecond): true}
		for _, u := range s.used {
			instants[u.at] = true
		}
		for _, sold := range s.sold {
			instants[sold.since] = true
			from, _ := s.period(sold.since)
			instants[from.Add(-time.Millisecond)] = true
		}
		for _, in := range slices.SortedFunc(maps.Keys(instants), time.Time.Compare) {
			want := s.left(in, now)
			q, err := l.Quotas(l.Context(), l.bucket, s.id, &in)
			got := ""
			if err == nil {
				got = fmt.Sprint(q.Left, " ", q.Period)
			} else if !fault.Is(err, fault.NotFound) {
				rt.Fatal(err)
			}
			if got != want {
				rt.Fatalf("at %s are left of %s, made at %s, at %s\n%s, want\n%s", now, s.id, s.made, in, got, want)
			}
		}
	}
	for _, customer := range []string{"ada", "bob"} {
		want := l.standing(customer, now)
		if got := standing(l.T, cold, l.bucket, customer); got != want {
			rt.Fatalf("at %s %s stands\n%s, want\n%s", now, customer, got, want)
		}
		if got := standing(l.T, l.warm, l.bucket, customer); got != want && now.Sub(l.changed) >= metering.Staleness {
			rt.Fatalf("at %s, changed last at %s, %s stands for a gateway\n%s, want\n%s", now, l.changed, customer, got, want)
		}
	}
	for _, p := range l.live() {
		if got, err := l.ReadPlan(l.Context(), l.bucket, p.id); err != nil || got.HasSubscriptions != l.has(p) || !maps.Equal(got.Meters, metersOf(p.now().meters)) {
			rt.Fatalf("a plan is %v, %v", got, err)
		}
	}
}

func ok(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}
