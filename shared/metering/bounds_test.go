package metering_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
)

// TestLastPlaceIsOnes: of two who ask for the last one at once, one gets it, and who asks later none.
func TestLastPlaceIsOnes(t *testing.T) {
	for counter, tt := range map[string]struct {
		most int
		make func(w *world, at metering.BucketAt, pro metering.Plan, externalID string) error
	}{
		"plans": {metering.MaxPlans, func(w *world, at metering.BucketAt, _ metering.Plan, externalID string) error {
			_, err := w.CreatePlan(w.request(), at, metering.Terms{Label: externalID, ExternalID: externalID})
			return err
		}},
		"subscriptions": {metering.MaxSubscriptions, func(w *world, at metering.BucketAt, pro metering.Plan, externalID string) error {
			n := of(pro)
			n.ExternalID = externalID
			_, err := w.CreateSubscription(w.request(), at, n)
			return err
		}},
	} {
		for _, places := range []int{2, 1, 0} {
			w := newWorld(t)
			m := &meddling{Backend: w.items}
			w.over(m)
			at := w.bucket(acme)
			pro := w.plan(at, "pro", 10)
			for key := range w.items.Items() {
				if strings.HasPrefix(key.PK, "metering-bucket#") {
					w.must(w.parts.Table.Commit(t.Context(), store.Update(key, store.Set(store.At(counter), tt.most-places))))
				}
			}
			var other error
			m.do = func() {
				m.do = nil
				other = tt.make(w, at, pro, "other")
			}
			mine := tt.make(w, at, pro, "mine")
			if m.do != nil { // nothing was written, so that the other one did not ask
				other = tt.make(w, at, pro, "other")
			}
			got := 0
			for _, err := range []error{mine, other} {
				if err == nil {
					got++
				} else {
					faulttest.Want(t, err, fault.Invalid, fmt.Sprintf("%d %s", tt.most, counter))
				}
			}
			if got != places {
				t.Errorf("of %d places for %s two have got %d", places, counter, got)
			}
		}
	}
}

// TestBucketThatTwoDeleteIsDeletedOnce, and counted once less.
func TestBucketThatTwoDeleteIsDeletedOnce(t *testing.T) {
	w := newWorld(t)
	m := &meddling{Backend: w.items}
	w.over(m)
	at := w.bucket(acme)
	m.do = func() {
		m.do = nil
		w.must(w.DeleteBucket(w.request(), at))
	}
	faulttest.Want(t, w.DeleteBucket(w.request(), at), fault.NotFound, "metering bucket")
	for range limits.MeteringBuckets.Default {
		w.bucket(acme)
	}
	_, err := w.CreateBucket(w.request(), acme)
	faulttest.Want(t, err, fault.Forbidden, "its limit metering-buckets is 100")
}

// TestPlanThatGoesLeavesItsPlace and its name to another.
func TestPlanThatGoesLeavesItsPlace(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	for range metering.MaxPlans + 1 {
		w.must(w.DeletePlan(w.request(), at, w.plan(at, "pro", 1).ID))
	}
	pro := w.plan(at, "pro", 1)
	if _, err := w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{ExternalID: new("basic")}); err != nil {
		t.Fatal(err)
	}
	w.plan(at, "pro", 1) // a name that was left
	_, err := w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{ExternalID: new("pro")})
	faulttest.Want(t, err, fault.Conflict, "planExternalId")
}

// TestChangesOfAPlanAtOnce: each holds, and no subscription is without its plan.
func TestChangesOfAPlanAtOnce(t *testing.T) {
	type change = func(w *world, at metering.BucketAt, pro metering.Plan) error
	label := func(w *world, at metering.BucketAt, pro metering.Plan) error {
		_, err := w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{Label: new("Pro")})
		return err
	}
	more := func(w *world, at metering.BucketAt, pro metering.Plan) error {
		_, err := w.UpdatePlan(w.request(), at, pro.ID, metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: new(int64(20))}}})
		return err
	}
	subscribe := func(w *world, at metering.BucketAt, pro metering.Plan) error {
		_, err := w.CreateSubscription(w.request(), at, of(pro))
		return err
	}
	remove := func(w *world, at metering.BucketAt, pro metering.Plan) error {
		return w.DeletePlan(w.request(), at, pro.ID)
	}
	for name, tt := range map[string]struct {
		mine, other change
		refused     fault.Kind
		because     string
		want        string
	}{
		"a label and a quota":            {label, more, 0, "", "Pro 20 false"},
		"a quota and a label":            {more, label, 0, "", "Pro 20 false"},
		"a label and a subscription":     {label, subscribe, 0, "", "Pro 10 true"},
		"a subscription and a label":     {subscribe, label, 0, "", "Pro 10 true"},
		"a deletion and a subscription":  {remove, subscribe, fault.Conflict, "has subscriptions", "pro 10 true"},
		"a subscription and a deletion":  {subscribe, remove, fault.Invalid, "is no plan", "gone"},
		"a label and a deletion":         {label, remove, fault.NotFound, "metering plan", "gone"},
		"a deletion and another of them": {remove, remove, fault.NotFound, "metering plan", "gone"},
	} {
		w := newWorld(t)
		m := &meddling{Backend: w.items}
		w.over(m)
		at := w.bucket(acme)
		pro := w.plan(at, "pro", 10)
		m.do = func() {
			m.do = nil
			w.must(tt.other(w, at, pro))
		}
		if err := tt.mine(w, at, pro); tt.because != "" {
			faulttest.Want(t, err, tt.refused, tt.because)
		} else if err != nil {
			t.Errorf("%s: the first is answered %v", name, err)
		}
		got := "gone"
		if p, err := w.ReadPlan(t.Context(), at, pro.ID); err == nil {
			got = fmt.Sprint(p.Label, " ", p.Meters["requests"].Max, " ", p.HasSubscriptions)
		}
		if got != tt.want {
			t.Errorf("after %s the plan is %s, want %s", name, got, tt.want)
		}
	}
}

// TestPlansChangeAfterManyPeriods in which nobody closed any: a transaction has its bound.
func TestPlansChangeAfterManyPeriods(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	w.plan(at, "basic", 1)
	s := w.subscribe(at, of(w.plan(at, "pro", 10)))
	w.set("2046-01-31T10:30:00Z")
	w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
	w.wantLeft(at, s.ID, nil, "map[requests:1] 2046-01-31T00:00:00Z/2046-02-28T00:00:00Z")
}
