package metering_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
)

// units changes what a plan has of requests, and drops its other meters.
func (w *world) units(at metering.BucketAt, p metering.Plan, n int64) {
	w.Helper()
	_, err := w.UpdatePlan(w.request(), at, p.ID, metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: &n}}})
	w.must(err)
}

// TestPlanThatChangesLeavesPassedPeriodsAsTheyWere: before and after they are written down.
func TestPlanThatChangesLeavesPassedPeriodsAsTheyWere(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10, func(t *metering.Terms) { t.Meters["gone"] = metering.Meter{Max: 5} })
	s := w.subscribe(at, of(pro))
	w.use(s, "requests", 4)
	w.use(s, "gone", 2)
	w.set("2026-02-27T23:59:59.999Z")
	w.units(at, pro, 20)
	w.units(at, pro, 9)
	want := func(in, want string) {
		t.Helper()
		w.wantLeft(at, s.ID, new(instant(in)), want)
	}
	want("2026-02-01T00:00:00Z", "map[requests:5] "+january)
	w.set("2026-02-28T00:00:00Z")
	w.units(at, pro, 30)
	w.set("2026-02-28T00:05:00Z")
	w.units(at, pro, 40)
	for _, now := range []string{"2026-02-28T00:06:00Z", "2026-02-28T01:11:00Z"} {
		w.set(now)
		w.closeAll()
		want("2026-02-01T00:00:00Z", "map[requests:5] "+january)
		want(now, "map[requests:40] "+february)
	}
	w.set("2026-03-31T00:00:00Z")
	w.units(at, pro, 50)
	want("2026-03-30T00:00:00Z", "map[requests:40] "+february)
	want("2026-03-31T00:00:00Z", "map[requests:50] "+march)
}

// TestPlanRemembersTheLatestOfItsChanges: it grows no further than that.
func TestPlanRemembersTheLatestOfItsChanges(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	for day := range 100 {
		w.now.Store(new(instant("2026-02-01T12:00:00Z").AddDate(0, 0, day)))
		w.units(at, pro, int64(day))
		w.units(at, pro, int64(day)+1000)
	}
	var plan struct {
		Former []struct {
			Units map[string]int64 `dynamodbav:"units"`
		} `dynamodbav:"former"`
	}
	w.must(w.parts.Table.Get(t.Context(), store.In(store.Space("metering-plan").Partition(at.Bucket), pro.ID), &plan))
	if got, want := fmt.Sprint(plan.Former), "[{map[requests:1092]} {map[requests:1093]} {map[requests:1094]} {map[requests:1095]} {map[requests:1096]} {map[requests:1097]} {map[requests:1098]}]"; got != want {
		t.Errorf("it remembers %s, want %s", got, want)
	}
}

// TestPeriodInWhichASubscriptionEndsIsWrittenDown, also where it ends before the one before it is.
func TestPeriodInWhichASubscriptionEndsIsWrittenDown(t *testing.T) {
	trial := func(n *metering.NewSubscription) {
		n.Status, n.TrialEnd = metering.Trialing, new(instant("2026-02-28T00:05:00Z"))
	}
	for name, begins := range map[string]func(*metering.NewSubscription){"it is canceled": func(*metering.NewSubscription) {}, "its trial ends": trial} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			at := w.bucket(acme)
			n := of(w.plan(at, "pro", 10))
			begins(&n)
			s := w.subscribe(at, n)
			w.set("2026-02-28T00:04:00Z")
			w.use(s, "requests", 3)
			w.set("2026-02-28T00:05:00Z")
			if n.Status == metering.Active {
				w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Canceled})
			}
			w.set("2026-02-28T01:11:00Z")
			w.closeAll()
			w.set("2026-03-31T01:11:00Z")
			w.closeAll()
			if keys := w.due(); len(keys) > 0 || w.history(s.ID) != 2 {
				t.Errorf("%d periods are written down, and it is due: %v", w.history(s.ID), keys)
			}
			w.set("2026-06-30T00:00:00Z") // when counters are gone
			w.wantLeft(at, s.ID, new(instant("2026-03-01T00:00:00Z")), "map[requests:7] "+february)
			if keys := w.due(); len(keys) > 0 {
				t.Errorf("it is due: %v", keys)
			}
		})
	}
}

// TestPeriodsAfterTheEndKeepTheirPlans, whether it is brought back before its plans change or not.
func TestPeriodsAfterTheEndKeepTheirPlans(t *testing.T) {
	for _, revived := range []bool{false, true} {
		w := newWorld(t)
		at := w.bucket(acme)
		w.plan(at, "basic", 1)
		s := w.subscribe(at, of(w.plan(at, "pro", 10)))
		w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Canceled})
		for _, now := range []string{"2026-02-28T01:11:00Z", "2026-03-31T01:11:00Z", "2026-07-01T00:00:00Z"} {
			w.set(now)
			w.closeAll()
		}
		if revived {
			w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Active})
		}
		w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
		w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Active, Metadata: store.PatchClear[json.RawMessage]()})
		w.wantLeft(at, s.ID, new(instant("2026-04-15T00:00:00Z")), "map[requests:10] "+march)
		w.wantLeft(at, s.ID, nil, "map[requests:1] 2026-06-30T00:00:00Z/2026-07-31T00:00:00Z")
	}
}

// TestTrialThatIsProlongedEndsAsItWould: the plan's terms of today are for those that begin one.
func TestTrialThatIsProlongedEndsAsItWould(t *testing.T) {
	tests := []struct {
		name   string
		change metering.SubscriptionPatch
		want   metering.Status
	}{
		{"another end", metering.SubscriptionPatch{TrialEnd: store.PatchTo(instant("2026-03-01T00:00:00Z"))}, metering.Paused},
		{"the same status", metering.SubscriptionPatch{Status: metering.Trialing}, metering.Paused},
		{"the plan anew", metering.SubscriptionPatch{PlanExternalIDs: []string{"pro"}}, metering.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			at := w.bucket(acme)
			pro := w.plan(at, "pro", 10, func(t *metering.Terms) { t.TrialDays, t.TrialEndStatus = 14, metering.Paused })
			n := of(pro)
			n.Status = metering.Trialing
			s := w.subscribe(at, n)
			_, err := w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{TrialEndStatus: store.PatchTo(metering.Canceled)})
			w.must(err)
			w.update(at, s.ID, tt.change)
			w.now.Store(new(w.at().Add(60 * 24 * time.Hour)))
			if got, err := w.ReadSubscription(t.Context(), at, s.ID); err != nil || got.Status != tt.want {
				t.Errorf("it is %s, %v, want %s", got.Status, err, tt.want)
			}
		})
	}
}
