package metering_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/resource/metering"
)

// TestPeriodIsRecordedAfterSettleTime checks that Close records a period only after SettleTime, even if the end of a
// trial makes an earlier Close due. Units that a gateway counts in this time must be in the history.
func TestPeriodIsRecordedAfterSettleTime(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10))
	n.Status, n.TrialEnd, n.TrialEndStatus = metering.Trialing, new(instant("2026-02-28T00:05:00Z")), metering.Active
	s := fx.subscribe(at, n)
	checkRows := func(now string, want int) {
		t.Helper()
		fx.setClock(now)
		if fx.closeAll(); fx.historyRows(s.ID) != want {
			t.Errorf("at %s: history = %d periods, want %d", now, fx.historyRows(s.ID), want)
		}
	}
	checkRows("2026-02-28T00:05:00Z", 0) // the trial of s has ended
	fx.setClock("2026-02-27T23:59:59Z")  // the clock of a gateway is slow
	fx.useUnits(s, "requests", 4)
	checkRows("2026-02-28T00:09:59.999Z", 0)
	fx.checkRemaining(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:6] "+january)
	checkRows("2026-02-28T00:10:00Z", 1)
	fx.checkRemaining(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:6] "+january)
	// Close records only those periods that ended at least SettleTime ago.
	checkRows("2026-04-30T00:05:00Z", 2)
	checkRows("2026-04-30T00:10:00Z", 3)
}

// TestLastPeriodsOfEndedSubscriptionAreRecorded checks that the periods up to the end of a subscription are recorded,
// and no later ones. The subscriptions end with their trial, or after many periods without Close.
func TestLastPeriodsOfEndedSubscriptionAreRecorded(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	fx.createPlan(at, "basic", 5)
	expired := newSubscription(fx.createPlan(at, "short", 1))
	expired.ExternalID, expired.Status = "sub_0", metering.IncompleteExpired
	fx.subscribe(at, expired) // it has ended, so it is due only once, after its first period
	n := newSubscription(fx.createPlan(at, "pro", 10))
	n.Status, n.TrialEnd, n.TrialEndStatus = metering.Trialing, new(instant("2026-02-10T00:00:00Z")), metering.Canceled
	trial := fx.subscribe(at, n)
	// checkEnd runs Close now and at closedAt, and then checks the number of recorded periods. Even after a later change
	// of the plans, Close must record nothing more.
	checkEnd := func(s metering.Subscription, closedAt string, periods int) {
		t.Helper()
		keys := fx.dueKeys()
		fx.closeAll()
		fx.setClock(closedAt)
		fx.closeAll()
		if fx.historyRows(s.ID) != periods {
			t.Errorf("history of %s = %d periods, want %d", s.ExternalID, fx.historyRows(s.ID), periods)
		}
		fx.setClock("2030-01-01T00:00:00Z")
		fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
		fx.setClock("2031-01-01T00:00:00Z")
		for _, key := range append(keys, fx.dueKeys()...) {
			if writes, more, err := fx.Close(t.Context(), key, fx.clock()); len(writes) > 0 || more || err != nil {
				t.Errorf("Close(ended subscription %s) = %d writes, more %t, %v, want 0, false and no error",
					s.ExternalID, len(writes), more, err)
			}
		}
		if len(fx.dueKeys()) > 0 {
			t.Errorf("due subscriptions after the end of %s = %v, want none", s.ExternalID, fx.dueKeys())
		}
	}
	fx.setClock("2026-02-10T00:00:00Z")
	if commits, rows := fx.closeAll(), fx.historyRows(trial.ID); commits != 1 || rows != 0 {
		t.Errorf("closing the ended trial takes %d commits and leaves %d periods of history, want 1 and 0", commits, rows)
	}
	fx.useUnits(trial, "requests", 3)
	fx.setClock("2026-02-28T00:10:00Z")
	checkEnd(trial, "2026-02-28T00:10:00Z", 1)
	fx.checkRemaining(at, trial.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:7] "+january)

	fx.setClock("2026-01-31T10:30:00Z")
	n.TrialEnd, n.ExternalID = new(instant("2026-03-10T00:00:00Z")), "sub_3"
	longer := fx.subscribe(at, n)
	for _, now := range []string{"2026-02-28T00:10:00Z", "2026-03-10T00:00:00Z"} {
		fx.setClock(now)
		fx.closeAll()
	}
	checkEnd(longer, "2026-03-31T00:10:00Z", 2)

	fx.setClock("2026-01-31T10:30:00Z")
	n.Status, n.TrialEnd, n.ExternalID = metering.Active, nil, "sub_2"
	longRunning := fx.subscribe(at, n)
	fx.setClock("2027-04-20T00:00:00Z")
	fx.useUnits(longRunning, "requests", 2)
	fx.setClock("2027-05-10T00:00:00Z")
	fx.update(at, longRunning.ID, metering.SubscriptionPatch{Status: metering.Canceled})
	checkEnd(longRunning, "2027-05-31T00:10:00Z", 16) // including the period of the cancellation
	fx.setClock("2027-05-10T00:00:00Z")
	fx.checkRemaining(at, longRunning.ID, new(instant("2027-04-20T00:00:00Z")),
		"map[requests:8] 2027-03-31T00:00:00Z/2027-04-30T00:00:00Z")
}

// TestFirstPeriodContainsCreation checks that the first period is that of the creation, for subscriptions
// that are created exactly at the beginning of a period and just before it.
func TestFirstPeriodContainsCreation(t *testing.T) {
	for createdOn, first := range map[string]string{
		"2026-02-28T00:00:00Z":     february,
		"2026-02-27T23:59:59.999Z": january,
	} {
		fx := newFixture(t)
		at := fx.createBucket(acme)
		n := newSubscription(fx.createPlan(at, "pro", 10))
		n.Anchor = new(instant("2026-01-31T00:00:00Z"))
		fx.setClock(createdOn)
		s := fx.subscribe(at, n)
		fx.checkRemaining(at, s.ID, nil, "map[requests:10] "+first)
		_, err := fx.Quotas(t.Context(), at, s.ID, new(instant("2026-02-27T23:59:59Z")))
		if (err == nil) != (first == january) {
			t.Errorf("created at %s: Quotas() before the boundary: error = %v, want success %t",
				createdOn, err, first == january)
		}
		fx.setClock("2026-02-28T00:10:00Z")
		want := map[string]int{january: 1, february: 0}[first]
		if fx.closeAll(); fx.historyRows(s.ID) != want {
			t.Errorf("created at %s: history = %d periods, want %d", createdOn, fx.historyRows(s.ID), want)
		}
	}
}
