package metering_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// dueKeys returns the keys of the subscriptions that are due for Close now.
func (fx *fixture) dueKeys() (out []store.Key) {
	fx.Helper()
	for shard := range metering.DueShards {
		keys, err := fx.parts.Table.Keys(fx.Context(), metering.DueQuery(shard, fx.clock()))
		fx.noError(err)
		out = append(out, keys...)
	}
	return out
}

// closeAll calls Close for all due subscriptions until none is due, like the hourly job. It returns the number of
// commits.
func (fx *fixture) closeAll() (commits int) {
	fx.Helper()
	for range 1000 {
		keys := fx.dueKeys()
		if len(keys) == 0 {
			return commits
		}
		for _, key := range keys {
			writes, _, err := fx.Close(fx.Context(), key, fx.clock())
			fx.noError(err)
			if len(writes) == 0 {
				fx.Fatalf("Close(due %s) = no writes, want some", key.SK)
			}
			fx.noError(fx.parts.Table.Commit(fx.Context(), writes...))
			commits++
		}
	}
	fx.Fatal("a subscription is still due after 1000 rounds of Close, want none")
	return commits
}

// TestSubscriptionIsDueAtItsNextBoundary checks that a subscription is due SettleTime (10 minutes) after the end of
// each period, and exactly at the end of its trial.
func TestSubscriptionIsDueAtItsNextBoundary(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10))
	s := fx.subscribe(at, n)
	n.ExternalID, n.Status, n.TrialEnd = "trial", metering.Trialing, new(instant("2026-02-03T04:05:06.789Z"))
	n.TrialEndStatus = metering.Active
	trial := fx.subscribe(at, n)
	for _, moment := range []struct {
		now  string
		want []string
	}{
		{"2026-01-31T10:30:00Z", nil},
		{"2026-02-03T04:05:06.788Z", nil},
		{"2026-02-03T04:05:06.789Z", []string{trial.ID}},
		{"2026-02-28T00:09:59.999Z", nil},
		{"2026-02-28T00:10:00Z", []string{s.ID, trial.ID}},
		{"2026-03-31T00:09:59.999Z", nil},
		{"2026-03-31T00:10:00Z", []string{s.ID, trial.ID}},
	} {
		fx.setClock(moment.now)
		found := map[string]bool{}
		for _, k := range fx.dueKeys() {
			found[k.SK] = true
		}
		isMissing := func(id string) bool { return !found[id] }
		if len(found) != len(moment.want) || slices.ContainsFunc(moment.want, isMissing) {
			t.Errorf("at %s: due subscriptions = %v, want %v", moment.now, slices.Collect(maps.Keys(found)), moment.want)
		}
		fx.closeAll()
	}
}

func TestCloseIsSafeToRepeat(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	fx.useUnits(s, "requests", 4)
	fx.setClock("2026-02-28T00:10:00Z")
	key := fx.dueKeys()[0]
	first, more, err := fx.Close(t.Context(), key, fx.clock())
	second, _, secondErr := fx.Close(t.Context(), key, fx.clock())
	fx.noError(err)
	fx.noError(secondErr)
	if more || len(first) != 2 || len(second) != 2 {
		t.Fatalf("Close() = %d writes, more %t, then %d writes, want 2, false, 2", len(first), more, len(second))
	}
	fx.noError(fx.parts.Table.Commit(t.Context(), first...))
	if err := fx.parts.Table.Commit(t.Context(), second...); !errors.Is(err, store.ErrStale) {
		t.Errorf("Commit(second of two equal batches) error = %v, want %v", err, store.ErrStale)
	}
	before := fx.items.Items()
	if third, more, err := fx.Close(t.Context(), key, fx.clock()); len(third) > 0 || more || err != nil {
		t.Errorf("Close(closed) = %d writes, more %t, %v, want 0, false and no error", len(third), more, err)
	}
	if !maps.EqualFunc(fx.items.Items(), before, store.EqualItems) {
		t.Error("Close(closed) changes items, want no change")
	}
	// A change between Close and its commit is not lost.
	fx.setClock("2026-03-31T00:10:00Z")
	writes, _, err := fx.Close(t.Context(), key, fx.clock())
	fx.noError(err)
	fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Paused})
	if err := fx.parts.Table.Commit(t.Context(), writes...); !errors.Is(err, store.ErrStale) {
		t.Errorf("Commit() after an update: error = %v, want %v", err, store.ErrStale)
	}
	fx.closeAll()
	if got, err := fx.ReadSubscription(t.Context(), at, s.ID); err != nil || got.Status != metering.Paused {
		t.Errorf("ReadSubscription() = %s, %v, want %s and no error", got.Status, err, metering.Paused)
	}
}

// TestCloseCatchesUpAfterStop checks that Close records 25 passed periods in batches.
func TestCloseCatchesUpAfterStop(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	fx.useUnits(s, "requests", 4)
	fx.setClock("2028-03-01T00:00:00Z") // 25 periods later
	if n := fx.closeAll(); n != 3 {
		t.Errorf("closing 25 periods takes %d commits, want 3", n)
	}
	fx.checkRemaining(at, s.ID, new(instant("2028-02-01T00:00:00Z")),
		"map[requests:10] 2028-01-31T00:00:00Z/2028-02-29T00:00:00Z")
	if rows := fx.historyRows(s.ID); rows != 25 {
		t.Errorf("history = %d periods, want 25", rows)
	}
}

// historyRows returns the number of rows of a subscription's history.
func (fx *fixture) historyRows(id string) int {
	fx.Helper()
	n, err := fx.parts.Table.Count(fx.Context(), store.Query{PK: store.KeyPrefix("metering-history").Partition(id)})
	fx.noError(err)
	return n
}

// TestEndedSubscriptionIsNotDue checks that an ended subscription is not due after its period, until it is reactivated.
func TestEndedSubscriptionIsNotDue(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	fx.useUnits(s, "requests", 4)
	fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Canceled})
	fx.setClock("2026-02-28T00:10:00Z")
	if n := fx.closeAll(); n != 1 {
		t.Errorf("closing the last period takes %d commits, want 1", n)
	}
	fx.checkRemaining(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:6] "+january)
	fx.setClock("2027-01-01T00:00:00Z")
	if keys := fx.dueKeys(); len(keys) > 0 {
		t.Errorf("due subscriptions = %v, want none", keys)
	}
	fx.update(at, s.ID, metering.SubscriptionPatch{Metadata: store.PatchClear[json.RawMessage]()})
	if keys := fx.dueKeys(); len(keys) > 0 {
		t.Errorf("due subscriptions after a change = %v, want none", keys)
	}
	fx.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Active})
	fx.checkRemaining(at, s.ID, nil, "map[requests:10] 2026-12-31T00:00:00Z/2027-01-31T00:00:00Z")
	fx.setClock("2027-01-31T00:10:00Z")
	if n := fx.closeAll(); n != 1 {
		t.Errorf("closing the period of the reactivated subscription takes %d commits, want 1", n)
	}
	// The two closed periods, and the ten periods in between, whose limits were stored at the reactivation.
	if rows := fx.historyRows(s.ID); rows != 12 {
		t.Errorf("history = %d periods, want 12", rows)
	}
}

// TestResultsDoNotDependOnCloseTime runs the same history of a subscription three times: with Close every hour, with a
// late Close, and without Close.
func TestResultsDoNotDependOnCloseTime(t *testing.T) {
	runHistory := func(interval time.Duration) (out []string) {
		fx := newFixture(t)
		at := fx.createBucket(acme)
		n := newSubscription(fx.createPlan(at, "pro", 100))
		n.Status, n.TrialEnd, n.TrialEndStatus = metering.Trialing, new(instant("2026-03-05T06:00:00Z")), metering.Active
		fx.createPlan(at, "basic", 9)
		s := fx.subscribe(at, n)
		var lastClose time.Time
		for hour := range 24 * 100 {
			fx.now.Store(new(instant("2026-01-31T10:30:00Z").Add(time.Duration(hour) * time.Hour)))
			if interval > 0 && fx.clock().Sub(lastClose) >= interval {
				lastClose = fx.clock()
				fx.closeAll()
			}
			switch hour {
			case 50, 800, 1500, 2100:
				fx.useUnits(s, "requests", int64(hour%7)+1)
			case 900:
				fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}, Prorate: new(0.75)})
			}
			if hour%20 == 0 {
				got, err := fx.ReadSubscription(t.Context(), at, s.ID)
				fx.noError(err)
				out = append(out, fmt.Sprint(got, fx.remaining(at, s.ID, nil),
					fx.remaining(at, s.ID, new(fx.clock().AddDate(0, -1, 0)))))
			}
		}
		return out
	}
	never := runHistory(0)
	for _, interval := range []time.Duration{time.Hour, 100 * time.Hour} {
		for i, got := range runHistory(interval) {
			if got != never[i] {
				t.Fatalf("with Close each %s, after %d hours: subscription =\n%s\nwant\n%s", interval, 20*i, got, never[i])
			}
		}
	}
}
