package metering_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// setUnits changes a plan's units of requests, and drops its other meters.
func (fx *fixture) setUnits(at metering.BucketLocator, p metering.Plan, n int64) {
	fx.Helper()
	_, err := fx.UpdatePlan(fx.requestContext(), at, p.ID,
		metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: &n}}})
	fx.noError(err)
}

// TestPlanChangeKeepsPassedPeriods checks that a change of a plan does not affect passed periods, whether they are
// already recorded or not.
func TestPlanChangeKeepsPassedPeriods(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10, func(t *metering.Terms) { t.Meters["gone"] = metering.Meter{Max: 5} })
	s := fx.subscribe(at, newSubscription(pro))
	fx.useUnits(s, "requests", 4)
	fx.useUnits(s, "gone", 2)
	fx.setClock("2026-02-27T23:59:59.999Z")
	fx.setUnits(at, pro, 20)
	fx.setUnits(at, pro, 9)
	check := func(in, want string) {
		t.Helper()
		fx.checkRemaining(at, s.ID, new(instant(in)), want)
	}
	check("2026-02-01T00:00:00Z", "map[requests:5] "+january)
	fx.setClock("2026-02-28T00:00:00Z")
	fx.setUnits(at, pro, 30)
	fx.setClock("2026-02-28T00:05:00Z")
	fx.setUnits(at, pro, 40)
	for _, now := range []string{"2026-02-28T00:06:00Z", "2026-02-28T01:11:00Z"} {
		fx.setClock(now)
		fx.closeAll()
		check("2026-02-01T00:00:00Z", "map[requests:5] "+january)
		check(now, "map[requests:40] "+february)
	}
	fx.setClock("2026-03-31T00:00:00Z")
	fx.setUnits(at, pro, 50)
	check("2026-03-30T00:00:00Z", "map[requests:40] "+february)
	check("2026-03-31T00:00:00Z", "map[requests:50] "+march)
}

// TestPlanKeepsLatestPastUnits checks which earlier units a plan keeps: for each of the seven most recent days with a
// change, the units before the first change of that day.
func TestPlanKeepsLatestPastUnits(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	for day := range 100 {
		fx.now.Store(new(instant("2026-02-01T12:00:00Z").AddDate(0, 0, day)))
		fx.setUnits(at, pro, int64(day))
		fx.setUnits(at, pro, int64(day)+1000)
	}
	var plan struct {
		Former []struct {
			Units map[string]int64 `dynamodbav:"units"`
		} `dynamodbav:"former"`
	}
	fx.noError(fx.parts.Table.Get(t.Context(), store.KeyIn(store.KeyPrefix("metering-plan").Partition(at.Bucket), pro.ID),
		&plan))
	if got, want := fmt.Sprint(plan.Former), "[{map[requests:1092]} {map[requests:1093]} {map[requests:1094]} "+
		"{map[requests:1095]} {map[requests:1096]} {map[requests:1097]} {map[requests:1098]}]"; got != want {
		t.Errorf("past units of the plan = %s, want %s", got, want)
	}
}

// TestLastPeriodIsRecorded checks that the last period of a subscription is recorded, even if the subscription ends
// before the previous period is recorded.
func TestLastPeriodIsRecorded(t *testing.T) {
	trial := func(n *metering.NewSubscription) {
		n.Status, n.TrialEnd = metering.Trialing, new(instant("2026-02-28T00:05:00Z"))
	}
	for name, setup := range map[string]func(*metering.NewSubscription){
		"subscription canceled": func(*metering.NewSubscription) {}, "its trial ends": trial,
	} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			at := fx.createBucket(acme)
			n := newSubscription(fx.createPlan(at, "pro", 10))
			setup(&n)
			s := fx.subscribe(at, n)
			fx.setClock("2026-02-28T00:04:00Z")
			fx.useUnits(s, "requests", 3)
			fx.setClock("2026-02-28T00:05:00Z")
			if n.Status == metering.Active {
				fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Canceled})
			}
			fx.setClock("2026-02-28T01:11:00Z")
			fx.closeAll()
			fx.setClock("2026-03-31T01:11:00Z")
			fx.closeAll()
			if keys := fx.dueKeys(); len(keys) > 0 || fx.historyRows(s.ID) != 2 {
				t.Errorf("history = %d periods, due = %v, want 2 and none", fx.historyRows(s.ID), keys)
			}
			fx.setClock("2026-06-30T00:00:00Z") // the counters have expired
			fx.checkRemaining(at, s.ID, new(instant("2026-03-01T00:00:00Z")), "map[requests:7] "+february)
			if keys := fx.dueKeys(); len(keys) > 0 {
				t.Errorf("due subscriptions = %v, want none", keys)
			}
		})
	}
}

// TestPeriodsAfterEndKeepTheirPlans checks that the periods between the end and the reactivation of a subscription keep
// the old plans, if the plans change before or after the reactivation.
func TestPeriodsAfterEndKeepTheirPlans(t *testing.T) {
	for _, reactivated := range []bool{false, true} {
		t.Run(fmt.Sprintf("reactivated before the change: %t", reactivated), func(t *testing.T) {
			fx := newFixture(t)
			at := fx.createBucket(acme)
			fx.createPlan(at, "basic", 1)
			s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
			fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Canceled})
			for _, now := range []string{"2026-02-28T01:11:00Z", "2026-03-31T01:11:00Z", "2026-07-01T00:00:00Z"} {
				fx.setClock(now)
				fx.closeAll()
			}
			if reactivated {
				fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Active})
			}
			fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
			fx.update(at, s.ID, metering.SubscriptionPatch{
				Status:   metering.Active,
				Metadata: store.PatchClear[json.RawMessage](),
			})
			fx.checkRemaining(at, s.ID, new(instant("2026-04-15T00:00:00Z")), "map[requests:10] "+march)
			fx.checkRemaining(at, s.ID, nil, "map[requests:1] 2026-06-30T00:00:00Z/2026-07-31T00:00:00Z")
		})
	}
}

// TestTrialKeepsEndStatusUntilPlansAreSetAgain checks that changed trial terms of a plan do not apply to an existing
// trial, unless the subscription's plans are set again.
func TestTrialKeepsEndStatusUntilPlansAreSetAgain(t *testing.T) {
	tests := []struct {
		name   string
		change metering.SubscriptionPatch
		want   metering.Status
	}{
		{
			"another end of the trial",
			metering.SubscriptionPatch{TrialEnd: store.PatchTo(instant("2026-03-01T00:00:00Z"))},
			metering.Paused,
		},
		{"the same status", metering.SubscriptionPatch{Status: metering.Trialing}, metering.Paused},
		{"the same plan", metering.SubscriptionPatch{PlanExternalIDs: []string{"pro"}}, metering.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			at := fx.createBucket(acme)
			pro := fx.createPlan(at, "pro", 10, func(t *metering.Terms) { t.TrialDays, t.TrialEndStatus = 14, metering.Paused })
			n := newSubscription(pro)
			n.Status = metering.Trialing
			s := fx.subscribe(at, n)
			_, err := fx.UpdatePlan(fx.requestContext(), at, pro.ID,
				metering.PlanPatch{TrialEndStatus: store.PatchTo(metering.Canceled)})
			fx.noError(err)
			fx.update(at, s.ID, tt.change)
			fx.now.Store(new(fx.clock().Add(60 * 24 * time.Hour)))
			if got, err := fx.ReadSubscription(t.Context(), at, s.ID); err != nil || got.Status != tt.want {
				t.Errorf("ReadSubscription() = %s, %v, want %s and no error", got.Status, err, tt.want)
			}
		})
	}
}
