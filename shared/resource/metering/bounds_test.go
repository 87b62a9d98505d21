package metering_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// TestConcurrentCreatesRespectLimits makes two concurrent requests while the limit allows two, one or no further
// resources, and checks how many requests succeed.
func TestConcurrentCreatesRespectLimits(t *testing.T) {
	for counter, tt := range map[string]struct {
		limit  int
		create func(f *fixture, at metering.BucketLocator, pro metering.Plan, externalID string) error
	}{
		"plans": {metering.MaxPlans, func(fx *fixture, at metering.BucketLocator, _ metering.Plan, externalID string) error {
			_, err := fx.CreatePlan(fx.requestContext(), at, metering.Terms{Label: externalID, ExternalID: externalID})
			return err
		}},
		"subscriptions": {metering.MaxSubscriptions, func(fx *fixture, at metering.BucketLocator, pro metering.Plan,
			externalID string,
		) error {
			n := newSubscription(pro)
			n.ExternalID = externalID
			_, err := fx.CreateSubscription(fx.requestContext(), at, n)
			return err
		}},
	} {
		for _, remaining := range []int{2, 1, 0} {
			fx := newFixture(t)
			backend := &interruptedBackend{Backend: fx.items}
			fx.useBackend(backend)
			at := fx.createBucket(acme)
			pro := fx.createPlan(at, "pro", 10)
			for key := range fx.items.Items() {
				if strings.HasPrefix(key.PK, "metering-bucket#") {
					fx.noError(fx.parts.Table.Commit(t.Context(), store.Update(key, store.Set(store.At(counter), tt.limit-remaining))))
				}
			}
			var otherErr error
			backend.beforeCommit = func() {
				backend.beforeCommit = nil
				otherErr = tt.create(fx, at, pro, "other")
			}
			firstErr := tt.create(fx, at, pro, "mine")
			if backend.beforeCommit != nil { // the first request failed before its commit, so the other was not made
				otherErr = tt.create(fx, at, pro, "other")
			}
			got := 0
			for _, err := range []error{firstErr, otherErr} {
				if err == nil {
					got++
				} else {
					faulttest.Check(t, err, fault.Invalid, fmt.Sprintf("%d %s", tt.limit, counter))
				}
			}
			if got != remaining {
				t.Errorf("%d of 2 concurrent creations of %s with capacity for %d succeed, want %[3]d", got, counter, remaining)
			}
		}
	}
}

// TestConcurrentBucketDeletesCountOnce deletes a bucket twice concurrently, and checks that the second deletion fails
// and the account's number of buckets is decremented only once.
func TestConcurrentBucketDeletesCountOnce(t *testing.T) {
	fx := newFixture(t)
	backend := &interruptedBackend{Backend: fx.items}
	fx.useBackend(backend)
	at := fx.createBucket(acme)
	backend.beforeCommit = func() {
		backend.beforeCommit = nil
		fx.noError(fx.DeleteBucket(fx.requestContext(), at))
	}
	faulttest.Check(t, fx.DeleteBucket(fx.requestContext(), at), fault.NotFound, "metering bucket")
	for range limits.MeteringBuckets.Default {
		fx.createBucket(acme)
	}
	_, err := fx.CreateBucket(fx.requestContext(), acme)
	faulttest.Check(t, err, fault.Forbidden, "its limit metering-buckets is 100")
}

// TestDeletedPlanFreesCapacityAndName checks that a deleted plan does not count toward MaxPlans, and that its external
// id can be used again. An external id that UpdatePlan has replaced can also be used again.
func TestDeletedPlanFreesCapacityAndName(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	for range metering.MaxPlans + 1 {
		fx.noError(fx.DeletePlan(fx.requestContext(), at, fx.createPlan(at, "pro", 1).ID))
	}
	pro := fx.createPlan(at, "pro", 1)
	if _, err := fx.UpdatePlan(fx.requestContext(), at, pro.ID, metering.PlanPatch{ExternalID: new("basic")}); err != nil {
		t.Fatal(err)
	}
	fx.createPlan(at, "pro", 1) // UpdatePlan has freed the external id
	_, err := fx.UpdatePlan(fx.requestContext(), at, pro.ID, metering.PlanPatch{ExternalID: new("pro")})
	faulttest.Check(t, err, fault.Conflict, "planExternalId")
}

// TestConcurrentPlanChanges runs pairs of concurrent changes, and checks that no change is lost and that no plan with a
// subscription is deleted.
func TestConcurrentPlanChanges(t *testing.T) {
	type change = func(f *fixture, at metering.BucketLocator, pro metering.Plan) error
	label := func(fx *fixture, at metering.BucketLocator, pro metering.Plan) error {
		_, err := fx.UpdatePlan(fx.requestContext(), at, pro.ID, metering.PlanPatch{Label: new("Pro")})
		return err
	}
	increaseQuota := func(fx *fixture, at metering.BucketLocator, pro metering.Plan) error {
		_, err := fx.UpdatePlan(fx.requestContext(), at, pro.ID,
			metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: new(int64(20))}}})
		return err
	}
	subscribe := func(fx *fixture, at metering.BucketLocator, pro metering.Plan) error {
		_, err := fx.CreateSubscription(fx.requestContext(), at, newSubscription(pro))
		return err
	}
	remove := func(fx *fixture, at metering.BucketLocator, pro metering.Plan) error {
		return fx.DeletePlan(fx.requestContext(), at, pro.ID)
	}
	for name, tt := range map[string]struct {
		first, concurrent change
		wantKind          fault.Kind
		wantMessage       string // of the first change, or "" if it succeeds
		want              string // the plan's label, quota and HasSubscriptions after both changes, or "deleted"
	}{
		"a label and a quota":           {label, increaseQuota, 0, "", "Pro 20 false"},
		"a quota and a label":           {increaseQuota, label, 0, "", "Pro 20 false"},
		"a label and a subscription":    {label, subscribe, 0, "", "Pro 10 true"},
		"a subscription and a label":    {subscribe, label, 0, "", "Pro 10 true"},
		"a deletion and a subscription": {remove, subscribe, fault.Conflict, "has subscriptions", "pro 10 true"},
		"a subscription and a deletion": {subscribe, remove, fault.Invalid, "is no plan", "deleted"},
		"a label and a deletion":        {label, remove, fault.NotFound, "metering plan", "deleted"},
		"two deletions":                 {remove, remove, fault.NotFound, "metering plan", "deleted"},
	} {
		fx := newFixture(t)
		backend := &interruptedBackend{Backend: fx.items}
		fx.useBackend(backend)
		at := fx.createBucket(acme)
		pro := fx.createPlan(at, "pro", 10)
		backend.beforeCommit = func() {
			backend.beforeCommit = nil
			fx.noError(tt.concurrent(fx, at, pro))
		}
		if err := tt.first(fx, at, pro); tt.wantMessage != "" {
			faulttest.Check(t, err, tt.wantKind, tt.wantMessage)
		} else if err != nil {
			t.Errorf("%s: first change: error = %v, want none", name, err)
		}
		got := "deleted"
		if p, err := fx.ReadPlan(t.Context(), at, pro.ID); err == nil {
			got = fmt.Sprint(p.Label, " ", p.Meters["requests"].Max, " ", p.HasSubscriptions)
		}
		if got != tt.want {
			t.Errorf("plan after %s = %s, want %s", name, got, tt.want)
		}
	}
}

// TestPlansChangeAfterManyPeriods changes plans after many periods without Close, and checks that the change fits into
// one transaction.
func TestPlansChangeAfterManyPeriods(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	fx.createPlan(at, "basic", 1)
	s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
	fx.setClock("2046-01-31T10:30:00Z")
	fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
	fx.checkRemaining(at, s.ID, nil, "map[requests:1] 2046-01-31T00:00:00Z/2046-02-28T00:00:00Z")
}
