package metering_test

import (
	"testing"

	"github.com/gatewright/gatewright/shared/metering"
)

// TestPeriodIsWrittenDownWhenItHasSettled, and not when Close comes earlier for something else: what
// gateways have not used comes back within that time, and what they count late is in the history.
func TestPeriodIsWrittenDownWhenItHasSettled(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	n := of(w.plan(at, "pro", 10))
	n.Status, n.TrialEnd, n.TrialEndStatus = metering.Trialing, new(instant("2026-02-28T00:05:00Z")), metering.Active
	s := w.subscribe(at, n)
	rows := func(now string, want int) {
		t.Helper()
		w.set(now)
		if w.closeAll(); w.history(s.ID) != want {
			t.Errorf("at %s it has %d periods of history, want %d", now, w.history(s.ID), want)
		}
	}
	rows("2026-02-28T00:05:00Z", 0) // its trial is over
	w.set("2026-02-27T23:59:59Z")   // a gateway's clock
	w.use(s, "requests", 4)
	rows("2026-02-28T00:09:59.999Z", 0)
	w.wantLeft(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:6] "+january)
	rows("2026-02-28T00:10:00Z", 1)
	w.wantLeft(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:6] "+january)
	// Of several, those that have.
	rows("2026-04-30T00:05:00Z", 2)
	rows("2026-04-30T00:10:00Z", 3)
}

// TestLastPeriodsOfAnEndedSubscriptionAreWrittenDown: that in which its trial ended it, and all those that
// passed while nobody closed any. Then nothing is, whoever asks.
func TestLastPeriodsOfAnEndedSubscriptionAreWrittenDown(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	w.plan(at, "basic", 5)
	expired := of(w.plan(at, "short", 1))
	expired.ExternalID, expired.Status = "sub_0", metering.IncompleteExpired
	w.subscribe(at, expired) // which is due no more with the others
	n := of(w.plan(at, "pro", 10))
	n.Status, n.TrialEnd, n.TrialEndStatus = metering.Trialing, new(instant("2026-02-10T00:00:00Z")), metering.Canceled
	trial := w.subscribe(at, n)
	ends := func(s metering.Subscription, over string, periods int) {
		t.Helper()
		keys := w.due()
		w.closeAll()
		w.set(over)
		w.closeAll()
		if w.history(s.ID) != periods {
			t.Errorf("it has %d periods of history, want %d", w.history(s.ID), periods)
		}
		w.set("2030-01-01T00:00:00Z")
		w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
		w.set("2031-01-01T00:00:00Z")
		for _, key := range append(keys, w.due()...) {
			if writes, more, err := w.Close(t.Context(), key, w.at()); len(writes) > 0 || more || err != nil {
				t.Errorf("an ended one has %d writes more, %t, %v", len(writes), more, err)
			}
		}
		if len(w.due()) > 0 {
			t.Errorf("%v is due", w.due())
		}
	}
	w.set("2026-02-10T00:00:00Z")
	if w.closeAll() != 1 || w.history(trial.ID) != 0 {
		t.Errorf("the end of its trial has %d periods of history", w.history(trial.ID))
	}
	w.use(trial, "requests", 3)
	w.set("2026-02-28T00:10:00Z")
	ends(trial, "2026-02-28T00:10:00Z", 1)
	w.wantLeft(at, trial.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:7] "+january)

	w.set("2026-01-31T10:30:00Z")
	n.TrialEnd, n.ExternalID = new(instant("2026-03-10T00:00:00Z")), "sub_3"
	longer := w.subscribe(at, n)
	for _, hour := range []string{"2026-02-28T00:10:00Z", "2026-03-10T00:00:00Z"} {
		w.set(hour)
		w.closeAll()
	}
	ends(longer, "2026-03-31T00:10:00Z", 2)

	w.set("2026-01-31T10:30:00Z")
	n.Status, n.TrialEnd, n.ExternalID = metering.Active, nil, "sub_2"
	late := w.subscribe(at, n)
	w.set("2027-04-20T00:00:00Z")
	w.use(late, "requests", 2)
	w.set("2027-05-10T00:00:00Z")
	w.update(at, late.ID, metering.SubscriptionPatch{Status: metering.Canceled})
	ends(late, "2027-05-31T00:10:00Z", 16) // with the period in which it was canceled
	w.set("2027-05-10T00:00:00Z")
	w.wantLeft(at, late.ID, new(instant("2027-04-20T00:00:00Z")), "map[requests:8] 2027-03-31T00:00:00Z/2027-04-30T00:00:00Z")
}

// TestFirstPeriodIsThatOfItsCreation, of a subscription that is made at the very boundary and a moment before it.
func TestFirstPeriodIsThatOfItsCreation(t *testing.T) {
	for made, first := range map[string]string{"2026-02-28T00:00:00Z": february, "2026-02-27T23:59:59.999Z": january} {
		w := newWorld(t)
		at := w.bucket(acme)
		n := of(w.plan(at, "pro", 10))
		n.Anchor = new(instant("2026-01-31T00:00:00Z"))
		w.set(made)
		s := w.subscribe(at, n)
		w.wantLeft(at, s.ID, nil, "map[requests:10] "+first)
		_, err := w.Quotas(t.Context(), at, s.ID, new(instant("2026-02-27T23:59:59Z")))
		if (err == nil) != (first == january) {
			t.Errorf("made at %s, the period before the boundary is answered %v", made, err)
		}
		w.set("2026-02-28T00:10:00Z")
		want := map[string]int{january: 1, february: 0}[first]
		if w.closeAll(); w.history(s.ID) != want {
			t.Errorf("made at %s, it has %d periods of history, want %d", made, w.history(s.ID), want)
		}
	}
}
