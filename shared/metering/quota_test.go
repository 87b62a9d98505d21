package metering_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
)

const (
	january  = "2026-01-31T00:00:00Z/2026-02-28T00:00:00Z"
	february = "2026-02-28T00:00:00Z/2026-03-31T00:00:00Z"
	march    = "2026-03-31T00:00:00Z/2026-04-30T00:00:00Z"
)

func TestQuotasAreOfAllPlansTogether(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	more := func(t *metering.Terms) { t.Meters["computeUnits"] = metering.Meter{Max: 7} }
	s := w.subscribe(at, of(w.plan(at, "pro", 10), w.plan(at, "extra", 5, more)))
	w.wantLeft(at, s.ID, nil, "map[computeUnits:7 requests:15] "+january)
	w.use(s, "requests", 11)
	w.wantLeft(at, s.ID, nil, "map[computeUnits:7 requests:4] "+january)
	w.use(s, "requests", 9) // more than there is, as a gateway that lets it happen does
	w.wantLeft(at, s.ID, nil, "map[computeUnits:7 requests:0] "+january)
}

// TestUnitsThatAGatewayHoldsAreLeft: units that the gateway of the same process has leased and not spent count as left at
// once, such as units for a request that a later policy has refused. The history of a period has the table's number.
func TestUnitsThatAGatewayHoldsAreLeft(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "pro", 10)))
	w.use(s, "requests", 4)
	held := int64(3)
	w.parts.Held = func(a allowance.Allowance) int64 {
		if a.Name != metering.Counter("a-1", s.ID, "requests", meter.At(s.Anchor, s.Renewal, w.at()), 0).Name {
			t.Errorf("Held(%s) is asked, want the counter of the subscription", a.Name)
		}
		return held
	}
	w.Service = metering.Open(w.parts)
	w.wantLeft(at, s.ID, nil, "map[requests:9] "+january)
	held = 20 // more than are used, since units were given back meanwhile
	w.wantLeft(at, s.ID, nil, "map[requests:10] "+january)
}

func TestLargestQuotasAreExact(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "a", metering.MaxUnits), w.plan(at, "b", metering.MaxUnits)))
	w.use(s, "requests", 1)
	w.wantLeft(at, s.ID, nil, "map[requests:18014398509481981] "+january)
}

func TestQuotasBeginAnewWithThePeriod(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "pro", 10)))
	w.use(s, "requests", 4)
	for _, moment := range []struct{ now, left, billed string }{
		{"2026-02-27T23:59:59.999Z", "map[requests:6] " + january, "2026-02-28T00:00:00Z"},
		{"2026-02-28T00:00:00Z", "map[requests:10] " + february, "2026-03-31T00:00:00Z"},
		{"2026-03-30T23:59:59Z", "map[requests:10] " + february, "2026-03-31T00:00:00Z"},
		{"2026-03-31T00:00:00Z", "map[requests:10] " + march, "2026-04-30T00:00:00Z"},
	} {
		w.set(moment.now)
		w.wantLeft(at, s.ID, nil, moment.left)
		if got, err := w.ReadSubscription(t.Context(), at, s.ID); err != nil || !got.NextBillingCycle.Equal(instant(moment.billed)) {
			t.Errorf("at %s it is billed on %s, %v", moment.now, got.NextBillingCycle, err)
		}
	}
}

func TestYearlyQuotasComeBackOnLeapDays(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	n := of(w.plan(at, "pro", 10))
	n.Renewal, n.Anchor = meter.Yearly, new(instant("2024-02-29T12:00:00Z"))
	s := w.subscribe(at, n)
	w.wantLeft(at, s.ID, nil, "map[requests:10] 2025-02-28T00:00:00Z/2026-02-28T00:00:00Z")
	w.set("2028-03-01T00:00:00Z")
	w.wantLeft(at, s.ID, nil, "map[requests:10] 2028-02-29T00:00:00Z/2029-02-28T00:00:00Z")
}

// TestQuotasOfPassedPeriods are the same before and after Close has written them down, and whatever became of
// the plans since.
func TestQuotasOfPassedPeriods(t *testing.T) {
	for name, closes := range map[string]bool{"as they are counted": false, "as they are written down": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			at := w.bucket(acme)
			w.plan(at, "basic", 1)
			w.plan(at, "extra", 8)
			s := w.subscribe(at, of(w.plan(at, "pro", 10)))
			w.use(s, "requests", 4)
			w.set("2026-02-28T00:05:00Z")
			w.use(s, "requests", 3)
			w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
			w.set("2026-02-28T00:09:00Z")
			w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"extra"}, Prorate: new(0.5)})
			w.set("2026-03-31T10:30:00Z")
			if closes {
				w.closeAll()
			}
			for in, want := range map[string]string{
				"2026-01-31T00:00:00Z":      "map[requests:6] " + january,
				"2026-02-27T23:59:59Z":      "map[requests:6] " + january,
				"2026-02-27T23:59:59-01:00": "map[requests:1] " + february,
				"2026-03-30T23:59:59Z":      "map[requests:1] " + february,
				"2026-03-31T10:30:00Z":      "map[requests:8] " + march,
				"2026-04-29T23:59:59Z":      "map[requests:8] " + march, // to come, in the current period
			} {
				w.wantLeft(at, s.ID, new(instant(in)), want)
			}
			for _, in := range []string{"2026-01-30T23:59:59Z", "2026-04-30T00:00:00Z", "1999-01-01T00:00:00Z", "9999-12-31T23:59:59Z"} {
				_, err := w.Quotas(t.Context(), at, s.ID, new(instant(in)))
				faulttest.Want(t, err, fault.NotFound, "no such period")
			}
		})
	}
}

func TestProrationIsOfTheCurrentPeriodAlone(t *testing.T) {
	tests := []struct {
		name  string
		units int64
		part  float64
		want  string
	}{
		{"three quarters", 10, 0.75, "7"},
		{"what a binary fraction is not", 100, 0.29, "29"},
		{"a third", 100, 1.0 / 3, "33"},
		{"nothing", 10, 0, "0"},
		{"all", 10, 1, "10"},
		{"almost nothing", 10, 1e-300, "0"},
		{"of many", metering.MaxUnits, 0.1, "900719925474099"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			at := w.bucket(acme)
			w.plan(at, "new", tt.units)
			s := w.subscribe(at, of(w.plan(at, "old", 1)))
			w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"new"}, Prorate: &tt.part})
			w.wantLeft(at, s.ID, nil, "map[requests:"+tt.want+"] "+january)
			w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.PastDue}) // which says nothing of it
			w.wantLeft(at, s.ID, nil, "map[requests:"+tt.want+"] "+january)
			w.set("2026-02-28T00:00:00Z")
			w.wantLeft(at, s.ID, nil, fmt.Sprintf("map[requests:%d] %s", tt.units, february))
			w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"old"}, Prorate: new(0.0)})
			w.wantLeft(at, s.ID, nil, "map[requests:0] "+february)
			w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"old"}})
			w.wantLeft(at, s.ID, nil, "map[requests:1] "+february)
			w.wantLeft(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:"+tt.want+"] "+january)
		})
	}
}

// TestProrationIsOfTheSum: two halves of odd numbers lose one unit, not two.
func TestProrationIsOfTheSum(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "a", 3), w.plan(at, "b", 5)))
	w.update(at, s.ID, metering.SubscriptionPatch{Prorate: new(0.5)})
	w.wantLeft(at, s.ID, nil, "map[requests:4] "+january)
}

func TestPlanThatGrowsCountsAtOnce(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	s := w.subscribe(at, of(pro))
	w.use(s, "requests", 10)
	_, err := w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: new(int64(12))}}})
	w.must(err)
	w.wantLeft(at, s.ID, nil, "map[requests:2] "+january)
}

func TestTrialEndsByTheClock(t *testing.T) {
	days := func(n int, end metering.Status) func(*metering.Terms) {
		return func(t *metering.Terms) { t.TrialDays, t.TrialEndStatus = n, end }
	}
	tests := []struct {
		name   string
		plan   func(*metering.Terms)
		change func(*metering.NewSubscription)
		end    string // "" for none
		status metering.Status
	}{
		{"the plan's days and status", days(14, metering.Paused), nil, "2026-02-14T10:30:00Z", metering.Paused},
		{"days from its start", days(14, ""), func(n *metering.NewSubscription) { n.TrialStart = new(instant("2026-02-01T00:00:00Z")) }, "2026-02-15T00:00:00Z", metering.Canceled},
		{"its own end", days(14, metering.Paused), func(n *metering.NewSubscription) { n.TrialEnd = new(instant("2026-03-01T00:00:00Z")) }, "2026-03-01T00:00:00Z", metering.Paused},
		{"its own status", days(14, metering.Paused), func(n *metering.NewSubscription) { n.TrialEndStatus = metering.Active }, "2026-02-14T10:30:00Z", metering.Active},
		{"no end", days(0, metering.Paused), nil, "", metering.Trialing},
		{"no trial", days(14, metering.Paused), func(n *metering.NewSubscription) { n.Status = metering.Active }, "", metering.Active},
		{"an end that was before", days(0, ""), func(n *metering.NewSubscription) { n.TrialEnd = new(instant("2026-01-01T00:00:00Z")) }, "2026-01-31T10:30:00Z", metering.Canceled},
	}
	for _, tt := range tests {
		for _, closes := range []bool{false, true} {
			t.Run(tt.name+map[bool]string{true: ", written down"}[closes], func(t *testing.T) {
				w := newWorld(t)
				at, gateway := w.bucket(acme), metering.NewDirectory(w.parts)
				n := of(w.plan(at, "pro", 10, tt.plan))
				n.Status = metering.Trialing
				if tt.change != nil {
					tt.change(&n)
				}
				s := w.subscribe(at, n)
				want := func(now string, status metering.Status, updated string) {
					t.Helper()
					w.set(now)
					if closes {
						w.closeAll()
					}
					got, err := w.ReadSubscription(t.Context(), at, s.ID)
					if err != nil || got.Status != status || !got.UpdatedOn.Equal(instant(updated)) {
						t.Errorf("at %s it is %s since %s, %v, want %s since %s", now, got.Status, got.UpdatedOn, err, status, updated)
					}
					listed, _, err := w.ListSubscriptions(t.Context(), at, store.Page{Limit: 1})
					if err != nil || listed[0].Status != status {
						t.Errorf("at %s it is listed as %v, %v", now, listed, err)
					}
					standing, err := gateway.Standing(t.Context(), "a-1", at.Bucket, "ada")
					if err != nil || standing.Status != status {
						t.Errorf("at %s it stands %s, %v, want %s", now, standing.Status, err, status)
					}
				}
				if (s.TrialEnd == nil) != (tt.end == "") {
					t.Errorf("its trial ends %v", s.TrialEnd)
				}
				const made = "2026-01-31T10:30:00Z"
				if tt.end == "" {
					want("2030-01-01T00:00:00Z", tt.status, made)
					return
				}
				if tt.end != made {
					want(instant(tt.end).Add(-1).Format("2006-01-02T15:04:05.999999999Z07:00"), metering.Trialing, made)
				}
				want(tt.end, tt.status, tt.end)
				want("2030-01-01T00:00:00Z", tt.status, tt.end)
			})
		}
	}
}

func TestTrialIsProlonged(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	n := of(w.plan(at, "pro", 10, func(t *metering.Terms) { t.TrialDays = 14 }))
	n.Status = metering.Trialing
	s := w.subscribe(at, n)
	w.update(at, s.ID, metering.SubscriptionPatch{TrialEnd: store.PatchTo(instant("2026-03-01T00:00:00Z"))})
	w.set("2026-02-28T23:59:59Z")
	w.closeAll()
	if got := w.update(at, s.ID, metering.SubscriptionPatch{}); got.Status != metering.Trialing {
		t.Errorf("it is %s", got.Status)
	}
	w.set("2026-03-01T00:00:00Z")
	// Its end has come: another date alone does not begin it again.
	if got := w.update(at, s.ID, metering.SubscriptionPatch{TrialEnd: store.PatchTo(instant("2026-04-01T00:00:00Z"))}); got.Status != metering.Canceled {
		t.Errorf("it is %s", got.Status)
	}
	if got := w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Trialing}); got.Status != metering.Trialing {
		t.Errorf("it is %s", got.Status)
	}
}

// TestTrialThatBeginsLaterEnds, after the days of its plan, which is asked when the trial or the plan changes and
// for nothing else: its status at the end is that of the plan as it was then.
func TestTrialThatBeginsLaterEnds(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10, func(t *metering.Terms) { t.TrialDays, t.TrialEndStatus = 14, metering.Paused })
	s := w.subscribe(at, of(pro))
	got := w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Trialing})
	if got.TrialEnd == nil || !got.TrialEnd.Equal(instant("2026-02-14T10:30:00Z")) || got.Status != metering.Trialing {
		t.Fatalf("its trial ends %v", got.TrialEnd)
	}
	n := of(pro)
	n.ExternalID, n.TrialStart = "sub_2", new(instant("2026-02-02T00:00:00Z"))
	_, err := w.UpdateSubscription(w.request(), at, w.subscribe(at, n).ID, metering.SubscriptionPatch{TrialEnd: store.PatchTo(instant("2026-02-01T23:59:59Z"))})
	faulttest.Want(t, err, fault.Invalid, "trialEndDate")
	_, err = w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{TrialEndStatus: store.PatchTo(metering.Canceled), TrialDays: store.PatchTo(90)})
	w.must(err)
	w.update(at, s.ID, metering.SubscriptionPatch{Metadata: store.PatchTo(json.RawMessage(`{"a":1}`)), Prorate: new(0.5)})
	w.set("2026-02-14T10:30:00Z")
	if got, err := w.ReadSubscription(t.Context(), at, s.ID); err != nil || got.Status != metering.Paused {
		t.Errorf("it is %s, %v", got.Status, err)
	}
}
