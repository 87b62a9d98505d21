package metering_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
)

// due gives the keys of the subscriptions that are due now.
func (w *world) due() (out []store.Key) {
	w.Helper()
	for shard := range metering.DueShards {
		keys, err := w.parts.Table.Keys(w.Context(), metering.DueQuery(shard, w.at()))
		w.must(err)
		out = append(out, keys...)
	}
	return out
}

// closeAll has all that has passed be written down, as the hourly job does, and gives the number of commits.
func (w *world) closeAll() (commits int) {
	w.Helper()
	for range 1000 {
		keys := w.due()
		if len(keys) == 0 {
			return commits
		}
		for _, key := range keys {
			writes, _, err := w.Close(w.Context(), key, w.at())
			w.must(err)
			if len(writes) == 0 {
				w.Fatalf("%s is due, and has nothing to do", key.SK)
			}
			w.must(w.parts.Table.Commit(w.Context(), writes...))
			commits++
		}
	}
	w.Fatal("it is due for ever")
	return commits
}

func TestSubscriptionIsDueAtItsNextBoundary(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	n := of(w.plan(at, "pro", 10))
	s := w.subscribe(at, n)
	n.ExternalID, n.Status, n.TrialEnd = "trial", metering.Trialing, new(instant("2026-02-03T04:05:06.789Z"))
	n.TrialEndStatus = metering.Active
	trial := w.subscribe(at, n)
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
		w.set(moment.now)
		found := map[string]bool{}
		for _, k := range w.due() {
			found[k.SK] = true
		}
		if len(found) != len(moment.want) || len(moment.want) > 0 && !found[moment.want[0]] {
			t.Errorf("at %s are due %v, want %v", moment.now, found, moment.want)
		}
		w.closeAll()
	}
}

func TestCloseIsSafeToRepeat(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "pro", 10)))
	w.use(s, "requests", 4)
	w.set("2026-02-28T00:10:00Z")
	key := w.due()[0]
	first, more, err := w.Close(t.Context(), key, w.at())
	second, _, errToo := w.Close(t.Context(), key, w.at())
	if err != nil || errToo != nil || more || len(first) != 2 || len(second) != 2 {
		t.Fatalf("%d writes, %t, %v; %d, %v", len(first), more, err, len(second), errToo)
	}
	w.must(w.parts.Table.Commit(t.Context(), first...))
	if err := w.parts.Table.Commit(t.Context(), second...); !errors.Is(err, store.ErrStale) {
		t.Errorf("the second of two is answered %v", err)
	}
	before := w.items.Items()
	if again, more, err := w.Close(t.Context(), key, w.at()); len(again) > 0 || more || err != nil {
		t.Errorf("asked again it has %d writes, %t, %v", len(again), more, err)
	}
	if !maps.EqualFunc(w.items.Items(), before, store.EqualItems) {
		t.Error("something has changed")
	}
	// A change meanwhile is none that is lost.
	w.set("2026-03-31T00:10:00Z")
	writes, _, err := w.Close(t.Context(), key, w.at())
	w.must(err)
	w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Paused})
	if err := w.parts.Table.Commit(t.Context(), writes...); !errors.Is(err, store.ErrStale) {
		t.Errorf("after a change it is answered %v", err)
	}
	w.closeAll()
	if got, err := w.ReadSubscription(t.Context(), at, s.ID); err != nil || got.Status != metering.Paused {
		t.Errorf("it is %s, %v", got.Status, err)
	}
}

// TestInstallationThatWasStoppedCatchesUp, some periods at a time.
func TestInstallationThatWasStoppedCatchesUp(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "pro", 10)))
	w.use(s, "requests", 4)
	w.set("2028-03-01T00:00:00Z") // 25 periods later
	if n := w.closeAll(); n != 3 {
		t.Errorf("it takes %d commits", n)
	}
	w.wantLeft(at, s.ID, new(instant("2028-02-01T00:00:00Z")), "map[requests:10] 2028-01-31T00:00:00Z/2028-02-29T00:00:00Z")
	if rows := w.history(s.ID); rows != 25 {
		t.Errorf("it has %d periods of history", rows)
	}
}

// history counts the rows of a subscription's history.
func (w *world) history(id string) int {
	w.Helper()
	n, err := w.parts.Table.Count(w.Context(), store.Query{PK: store.Space("metering-history").Partition(id)})
	w.must(err)
	return n
}

// TestEndedSubscriptionIsLookedAtNoMore after its period, until it is brought back.
func TestEndedSubscriptionIsLookedAtNoMore(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	s := w.subscribe(at, of(w.plan(at, "pro", 10)))
	w.use(s, "requests", 4)
	w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Canceled})
	w.set("2026-02-28T00:10:00Z")
	if n := w.closeAll(); n != 1 {
		t.Errorf("its last period takes %d commits", n)
	}
	w.wantLeft(at, s.ID, new(instant("2026-02-01T00:00:00Z")), "map[requests:6] "+january)
	w.set("2027-01-01T00:00:00Z")
	if keys := w.due(); len(keys) > 0 {
		t.Errorf("it is due: %v", keys)
	}
	w.update(at, s.ID, metering.SubscriptionPatch{Metadata: store.PatchClear[json.RawMessage]()})
	if keys := w.due(); len(keys) > 0 {
		t.Errorf("it is due after a change: %v", keys)
	}
	w.update(at, s.ID, metering.SubscriptionPatch{Status: metering.Active})
	w.wantLeft(at, s.ID, nil, "map[requests:10] 2026-12-31T00:00:00Z/2027-01-31T00:00:00Z")
	w.set("2027-01-31T00:10:00Z")
	if n := w.closeAll(); n != 1 {
		t.Errorf("brought back, its period takes %d commits", n)
	}
	// The two, and the limits of the ten between, which are those of the plans that it had then.
	if rows := w.history(s.ID); rows != 12 {
		t.Errorf("it has %d periods of history", rows)
	}
}

// TestNothingDependsOnWhenCloseComes plays a subscription's life with it each hour, late, and never.
func TestNothingDependsOnWhenCloseComes(t *testing.T) {
	life := func(every time.Duration) (out []string) {
		w := newWorld(t)
		at := w.bucket(acme)
		n := of(w.plan(at, "pro", 100))
		n.Status, n.TrialEnd, n.TrialEndStatus = metering.Trialing, new(instant("2026-03-05T06:00:00Z")), metering.Active
		w.plan(at, "basic", 9)
		s := w.subscribe(at, n)
		var last time.Time
		for hour := range 24 * 100 {
			w.now.Store(new(instant("2026-01-31T10:30:00Z").Add(time.Duration(hour) * time.Hour)))
			if every > 0 && w.at().Sub(last) >= every {
				last = w.at()
				w.closeAll()
			}
			switch hour {
			case 50, 800, 1500, 2100:
				w.use(s, "requests", int64(hour%7)+1)
			case 900:
				w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}, Prorate: new(0.75)})
			}
			if hour%20 == 0 {
				got, err := w.ReadSubscription(t.Context(), at, s.ID)
				w.must(err)
				out = append(out, fmt.Sprint(got, w.left(at, s.ID, nil), w.left(at, s.ID, new(w.at().AddDate(0, -1, 0)))))
			}
		}
		return out
	}
	never := life(0)
	for _, every := range []time.Duration{time.Hour, 100 * time.Hour} {
		for i, got := range life(every) {
			if got != never[i] {
				t.Fatalf("with it each %s, after %d hours it is\n%s\nwant\n%s", every, 20*i, got, never[i])
			}
		}
	}
}
