package metering_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

const (
	january  = "2026-01-31T00:00:00Z/2026-02-28T00:00:00Z"
	february = "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z"
	march    = "2026-03-31T00:00:00Z/2026-04-30T00:00:00Z"
)

func TestQuotasAreSumOfPlans(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	withComputeUnits := func(t *metering.Terms) { t.Meters["computeUnits"] = metering.Meter{Max: 7} }
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10), fx.createPlan(at, "extra", 5, withComputeUnits)))
	fx.checkRemaining(at, s.ID, nil, "map[computeUnits:7 requests:15] "+january)
	fx.useUnits(s, "requests", 11)
	fx.checkRemaining(at, s.ID, nil, "map[computeUnits:7 requests:4] "+january)
	fx.useUnits(s, "requests", 9) // more than the limit: some gateways allow that
	fx.checkRemaining(at, s.ID, nil, "map[computeUnits:7 requests:0] "+january)
}

// TestUnspentLeasedUnitsAreRemaining checks that units count as remaining while a gateway in the same process has
// leased them and not spent them.
func TestUnspentLeasedUnitsAreRemaining(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	fx.useUnits(s, "requests", 4)
	unspent := int64(3)
	fx.parts.UnspentUnits = func(a allowance.Allowance) int64 {
		if a.Name != metering.Counter("a-1", s.ID, "requests", meter.At(s.Anchor, s.Renewal, fx.clock()), 0).Name {
			t.Errorf("UnspentUnits(%s) is called, want the counter of the subscription", a.Name)
		}
		return unspent
	}
	fx.Service = metering.Open(fx.parts)
	fx.checkRemaining(at, s.ID, nil, "map[requests:9] "+january)
	unspent = 20 // more than the used units, because units were returned meanwhile
	fx.checkRemaining(at, s.ID, nil, "map[requests:10] "+january)
}

func TestLargestQuotasAreExact(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "a", metering.MaxUnits),
		fx.createPlan(at, "b", metering.MaxUnits)))
	fx.useUnits(s, "requests", 1)
	fx.checkRemaining(at, s.ID, nil, "map[requests:18014398509481981] "+january)
}

func TestQuotasResetEachPeriod(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	fx.useUnits(s, "requests", 4)
	for _, moment := range []struct{ now, remaining, nextBilling string }{
		{"2026-02-27T23:59:59.999Z", "map[requests:6] " + january, "2026-02-28T00:00:00Z"},
		{"2026-02-28T00:00:00Z", "map[requests:10] " + february, "2026-03-31T00:00:00Z"},
		{"2026-03-30T23:59:59Z", "map[requests:10] " + february, "2026-03-31T00:00:00Z"},
		{"2026-03-31T00:00:00Z", "map[requests:10] " + march, "2026-04-30T00:00:00Z"},
	} {
		fx.setClock(moment.now)
		fx.checkRemaining(at, s.ID, nil, moment.remaining)
		if got, err := fx.ReadSubscription(t.Context(), at, s.ID); err != nil ||
			!got.NextBillingCycle.Equal(instant(moment.nextBilling)) {
			t.Errorf("at %s: next billing on %s, %v, want %s", moment.now, got.NextBillingCycle, err, moment.nextBilling)
		}
	}
}

func TestYearlyQuotasWithLeapDayAnchor(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10))
	n.Renewal, n.Anchor = meter.Yearly, new(instant("2024-02-29T12:00:00Z"))
	s := fx.subscribe(at, n)
	fx.checkRemaining(at, s.ID, nil, "map[requests:10] 2025-02-28T00:00:00Z/2026-02-28T00:00:00Z")
	fx.setClock("2028-03-01T00:00:00Z")
	fx.checkRemaining(at, s.ID, nil, "map[requests:10] 2028-02-29T00:00:00Z/2029-02-28T00:00:00Z")
}

// TestQuotasOfPassedPeriods checks that the quotas of passed periods are the same before
// and after Close has recorded the periods, and after later changes of the plans.
func TestQuotasOfPassedPeriods(t *testing.T) {
	for name, runClose := range map[string]bool{"before Close": false, "after Close": true} {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t)
			at := fx.createBucket(acme)
			fx.createPlan(at, "basic", 1)
			fx.createPlan(at, "extra", 8)
			s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
			fx.useUnits(s, "requests", 4)
			fx.setClock("2026-02-28T00:05:00Z")
			fx.useUnits(s, "requests", 3)
			fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
			fx.setClock("2026-02-28T00:09:00Z")
			fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"extra"}, Prorate: new(0.5)})
			fx.setClock("2026-03-31T10:30:00Z")
			if runClose {
				fx.closeAll()
			}
			for in, want := range map[string]string{
				"2026-01-31T00:00:00Z":      "map[requests:6] " + january,
				"2026-02-27T23:59:59Z":      "map[requests:6] " + january,
				"2026-02-27T23:59:59-01:00": "map[requests:1] " + february,
				"2026-03-30T23:59:59Z":      "map[requests:1] " + february,
				"2026-03-31T10:30:00Z":      "map[requests:8] " + march,
				"2026-04-29T23:59:59Z":      "map[requests:8] " + march, // in the future, but in the current period
			} {
				fx.checkRemaining(at, s.ID, new(instant(in)), want)
			}
			for _, in := range []string{
				"2026-01-30T23:59:59Z", "2026-04-30T00:00:00Z", "1999-01-01T00:00:00Z",
				"9999-12-31T23:59:59Z",
			} {
				_, err := fx.Quotas(t.Context(), at, s.ID, new(instant(in)))
				faulttest.Check(t, err, fault.NotFound, "no such period")
			}
		})
	}
}

func TestProrationAppliesToCurrentPeriodOnly(t *testing.T) {
	tests := []struct {
		name     string
		units    int64
		fraction float64
		want     string
	}{
		{"three quarters", 10, 0.75, "7"},
		{"a fraction that is not binary", 100, 0.29, "29"},
		{"a third", 100, 1.0 / 3, "33"},
		{"nothing", 10, 0, "0"},
		{"all", 10, 1, "10"},
		{"almost nothing", 10, 1e-300, "0"},
		{"a tenth of the largest quota", metering.MaxUnits, 0.1, "900719925474099"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fx := newFixture(t)
			at := fx.createBucket(acme)
			fx.createPlan(at, "new", tt.units)
			s := fx.subscribe(at, newSubscription(fx.createPlan(at, "old", 1)))
			fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"new"}, Prorate: &tt.fraction})
			fx.checkRemaining(at, s.ID, nil, "map[requests:"+tt.want+"] "+january)
			fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.PastDue}) // does not change the quotas
			fx.checkRemaining(at, s.ID, nil, "map[requests:"+tt.want+"] "+january)
			fx.setClock("2026-02-28T00:00:00Z")
			fx.checkRemaining(at, s.ID, nil, fmt.Sprintf("map[requests:%d] %s", tt.units, february))
			fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"old"}, Prorate: new(0.0)})
			fx.checkRemaining(at, s.ID, nil, "map[requests:0] "+february)
			fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"old"}})
			fx.checkRemaining(at, s.ID, nil, "map[requests:1] "+february)
			fx.checkRemaining(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:"+tt.want+"] "+january)
		})
	}
}

// TestProrationAppliesToSumOfPlans checks that the sum over the plans is prorated and rounded, and not each plan.
func TestProrationAppliesToSumOfPlans(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "a", 3), fx.createPlan(at, "b", 5)))
	fx.update(at, s.ID, metering.SubscriptionPatch{Prorate: new(0.5)})
	fx.checkRemaining(at, s.ID, nil, "map[requests:4] "+january)
}

func TestIncreasedQuotaAppliesImmediately(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	s := fx.subscribe(at, newSubscription(pro))
	fx.useUnits(s, "requests", 10)
	_, err := fx.UpdatePlan(fx.requestContext(), at, pro.ID,
		metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: new(int64(12))}}})
	fx.noError(err)
	fx.checkRemaining(at, s.ID, nil, "map[requests:2] "+january)
}

func TestTrialEndsAtTrialEnd(t *testing.T) {
	days := func(n int, end metering.Status) func(*metering.Terms) {
		return func(t *metering.Terms) { t.TrialDays, t.TrialEndStatus = n, end }
	}
	tests := []struct {
		name   string
		plan   func(*metering.Terms)
		change func(*metering.NewSubscription)
		end    string // the time when status begins to apply, or "" if it applies from the creation on
		status metering.Status
	}{
		{"the plan's days and status", days(14, metering.Paused), nil, "2026-02-14T10:30:00Z", metering.Paused},
		{"days from the subscription's start", days(14, ""), func(n *metering.NewSubscription) {
			n.TrialStart = new(instant("2026-02-01T00:00:00Z"))
		}, "2026-02-15T00:00:00Z", metering.Canceled},
		{"the subscription's own end", days(14, metering.Paused), func(n *metering.NewSubscription) {
			n.TrialEnd = new(instant("2026-03-01T00:00:00Z"))
		}, "2026-03-01T00:00:00Z", metering.Paused},
		{"the subscription's own status", days(14, metering.Paused), func(n *metering.NewSubscription) {
			n.TrialEndStatus = metering.Active
		}, "2026-02-14T10:30:00Z", metering.Active},
		{"no end", days(0, metering.Paused), nil, "", metering.Trialing},
		{"no trial", days(14, metering.Paused), func(n *metering.NewSubscription) {
			n.Status = metering.Active
		}, "", metering.Active},
		{"an end before the creation", days(0, ""), func(n *metering.NewSubscription) {
			n.TrialEnd = new(instant("2026-01-01T00:00:00Z"))
		}, "2026-01-31T10:30:00Z", metering.Canceled},
	}
	for _, tt := range tests {
		for _, runClose := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", after Close"}[runClose], func(t *testing.T) {
				fx := newFixture(t)
				at, gateway := fx.createBucket(acme), metering.NewDirectory(fx.parts)
				n := newSubscription(fx.createPlan(at, "pro", 10, tt.plan))
				n.Status = metering.Trialing
				if tt.change != nil {
					tt.change(&n)
				}
				s := fx.subscribe(at, n)
				check := func(now string, status metering.Status, updated string) {
					t.Helper()
					fx.setClock(now)
					if runClose {
						fx.closeAll()
					}
					got, err := fx.ReadSubscription(t.Context(), at, s.ID)
					if err != nil || got.Status != status || !got.UpdatedOn.Equal(instant(updated)) {
						t.Errorf("at %s: ReadSubscription() = %s since %s, %v, want %s since %s",
							now, got.Status, got.UpdatedOn, err, status, updated)
					}
					listed, _, err := fx.ListSubscriptions(t.Context(), at, store.Page{Limit: 1})
					if err != nil || listed[0].Status != status {
						t.Errorf("at %s: ListSubscriptions() = %v, %v, want status %s", now, listed, err, status)
					}
					state, err := gateway.CustomerState(t.Context(), "a-1", at.Bucket, "ada")
					if err != nil || state.Status != status {
						t.Errorf("at %s: CustomerState() = %s, %v, want %s", now, state.Status, err, status)
					}
				}
				if (s.TrialEnd == nil) != (tt.end == "") {
					t.Errorf("trial end = %v, want one: %t", s.TrialEnd, tt.end != "")
				}
				const createdOn = "2026-01-31T10:30:00Z"
				if tt.end == "" {
					check("2030-01-01T00:00:00Z", tt.status, createdOn)
					return
				}
				if tt.end != createdOn {
					check(instant(tt.end).Add(-1).Format("2006-01-02T15:04:05.999999999Z07:00"), metering.Trialing, createdOn)
				}
				check(tt.end, tt.status, tt.end)
				check("2030-01-01T00:00:00Z", tt.status, tt.end)
			})
		}
	}
}

func TestTrialCanBeExtended(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10, func(t *metering.Terms) { t.TrialDays = 14 }))
	n.Status = metering.Trialing
	s := fx.subscribe(at, n)
	fx.update(at, s.ID, metering.SubscriptionPatch{TrialEnd: store.PatchTo(instant("2026-03-01T00:00:00Z"))})
	fx.setClock("2026-02-28T23:59:59Z")
	fx.closeAll()
	if got := fx.update(at, s.ID, metering.SubscriptionPatch{}); got.Status != metering.Trialing {
		t.Errorf("status in the extended trial = %s, want %s", got.Status, metering.Trialing)
	}
	fx.setClock("2026-03-01T00:00:00Z")
	// The trial has ended. A change of its end alone does not restart it.
	if got := fx.update(at, s.ID,
		metering.SubscriptionPatch{
			TrialEnd: store.PatchTo(instant("2026-04-01T00:00:00Z")),
		}); got.Status != metering.Canceled {
		t.Errorf("status after another date for the ended trial = %s, want %s", got.Status, metering.Canceled)
	}
	if got := fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Trialing}); got.Status != metering.Trialing {
		t.Errorf("status after it is set to trialing = %s, want %s", got.Status, metering.Trialing)
	}
}

// TestLaterTrialEndsAfterPlanDays checks that a trial that an update begins also ends after the plan's TrialDays. The
// trial keeps the plan's terms from the time when the trial began or the plans were set.
func TestLaterTrialEndsAfterPlanDays(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10, func(t *metering.Terms) { t.TrialDays, t.TrialEndStatus = 14, metering.Paused })
	s := fx.subscribe(at, newSubscription(pro))
	got := fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Trialing})
	if got.TrialEnd == nil || !got.TrialEnd.Equal(instant("2026-02-14T10:30:00Z")) || got.Status != metering.Trialing {
		t.Fatalf("trial end = %v with status %s, want 2026-02-14T10:30:00Z, %s",
			got.TrialEnd, got.Status, metering.Trialing)
	}
	n := newSubscription(pro)
	n.ExternalID, n.TrialStart = "sub_2", new(instant("2026-02-02T00:00:00Z"))
	_, err := fx.UpdateSubscription(fx.requestContext(), at, fx.subscribe(at, n).ID,
		metering.SubscriptionPatch{TrialEnd: store.PatchTo(instant("2026-02-01T23:59:59Z"))})
	faulttest.Check(t, err, fault.Invalid, "trialEndDate")
	_, err = fx.UpdatePlan(fx.requestContext(), at, pro.ID, metering.PlanPatch{
		TrialEndStatus: store.PatchTo(metering.Canceled),
		TrialDays:      store.PatchTo(90),
	})
	fx.noError(err)
	fx.update(at, s.ID, metering.SubscriptionPatch{Metadata: store.PatchTo(json.RawMessage(`{"a":1}`)), Prorate: new(0.5)})
	fx.setClock("2026-02-14T10:30:00Z")
	if got, err := fx.ReadSubscription(t.Context(), at, s.ID); err != nil || got.Status != metering.Paused {
		t.Errorf("ReadSubscription() = %s, %v, want %s and no error", got.Status, err, metering.Paused)
	}
}
