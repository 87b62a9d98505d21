package metering_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/limits"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/format/environment"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

func TestInvalidTermsAreRefused(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	fx.createPlan(at, "pro", 10)
	many := map[string]metering.Meter{}
	for i := range metering.MaxMeters + 1 {
		many[fmt.Sprint("m", i)] = metering.Meter{}
	}
	tests := []struct {
		name   string
		change func(*metering.Terms)
		field  string
	}{
		{"no label", func(t *metering.Terms) { t.Label = "" }, "label"},
		{"a long label", func(t *metering.Terms) { t.Label = strings.Repeat("é", metering.MaxLabelChars+1) }, "label"},
		{"a label with a line break", func(t *metering.Terms) { t.Label = "a\nb" }, "label"},
		{"a label that begins with a line break", func(t *metering.Terms) { t.Label = "\nb" }, "label"},
		{"no external id", func(t *metering.Terms) { t.ExternalID = "" }, "planExternalId"},
		{"a negative max", func(t *metering.Terms) { t.Meters = map[string]metering.Meter{"m": {Max: -1}} }, "meters.m.max"},
		{"a max that JSON cannot represent", func(t *metering.Terms) {
			t.Meters = map[string]metering.Meter{"m": {Max: 1 << 53}}
		}, "meters.m.max"},
		{"the largest number", func(t *metering.Terms) {
			t.Meters = map[string]metering.Meter{"m": {Max: math.MaxInt64}}
		}, "meters.m.max"},
		{"a meter without a name", func(t *metering.Terms) { t.Meters = map[string]metering.Meter{"": {}} }, "meters: a key"},
		{"a meter with a path for a name", func(t *metering.Terms) {
			t.Meters = map[string]metering.Meter{"a/b": {}}
		}, "meters: a key"},
		{"a meter with a long label", func(t *metering.Terms) {
			t.Meters = map[string]metering.Meter{"m": {Label: strings.Repeat("a", metering.MaxLabelChars+1)}}
		}, "meters.m.label"},
		{"too many meters", func(t *metering.Terms) { t.Meters = many }, "meters: has more than 50"},
		{"negative days", func(t *metering.Terms) { t.TrialDays = -1 }, "trialDays"},
		{"too many days", func(t *metering.Terms) { t.TrialDays = metering.MaxTrialDays + 1 }, "trialDays"},
		{
			"an invalid status after the trial",
			func(t *metering.Terms) { t.TrialEndStatus = metering.Active }, "trialEndStatus",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			terms := metering.Terms{
				Label: "Basic", ExternalID: "basic",
				Meters: map[string]metering.Meter{"m": {Max: metering.MaxUnits}},
			}
			tt.change(&terms)
			_, err := fx.CreatePlan(fx.requestContext(), at, terms)
			faulttest.Check(t, err, fault.Invalid, tt.field)
		})
	}
	_, err := fx.CreatePlan(fx.requestContext(), at, metering.Terms{Label: "Other", ExternalID: "pro"})
	faulttest.Check(t, err, fault.Conflict, "planExternalId")
}

// formatMeters returns a plan's meters as text.
func formatMeters(meters map[string]metering.Meter) map[string]string {
	out := map[string]string{}
	for key, m := range meters {
		out[key] = fmt.Sprintf("{%s %d}", m.Label, m.Max)
	}
	return out
}

func TestUpdatePlanChangesFields(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	created := fx.createPlan(at, "pro", 10, func(t *metering.Terms) {
		t.Meters["requests"] = metering.Meter{Label: "Requests", Max: 10}
		t.Meters["gone"] = metering.Meter{Max: 1}
		t.TrialDays, t.TrialEndStatus, t.TrialCollectPayment = 14, metering.Paused, new(true)
	})
	fx.createPlan(at, "basic", 1)
	change := func(p metering.PlanPatch) (metering.Plan, error) {
		return fx.UpdatePlan(fx.requestContext(), at, created.ID, p)
	}
	check := func(p metering.Plan, err error, want string) {
		t.Helper()
		if got := fmt.Sprintf("%s %s %v %d %q", p.Label, p.ExternalID, formatMeters(p.Meters), p.TrialDays,
			p.TrialEndStatus); err != nil || got != want {
			t.Errorf("plan = %s, %v, want %s", got, err, want)
		}
	}
	fx.setClock("2026-02-01T00:00:00Z")
	p, err := change(metering.PlanPatch{})
	check(p, err, `pro pro map[gone:{ 1} requests:{Requests 10}] 14 "paused"`)
	if !p.UpdatedOn.Equal(fx.clock()) || p.CreatedOn.Equal(fx.clock()) {
		t.Errorf("plan is created on %s and updated on %s, want it created earlier and updated on %s",
			p.CreatedOn, p.UpdatedOn, fx.clock())
	}
	// An update replaces the set of meters. A meter that remains keeps its unspecified fields.
	p, err = change(metering.PlanPatch{Meters: map[string]metering.MeterPatch{
		"requests": {},
		"new":      {Max: new(int64(0))},
	}})
	check(p, err, `pro pro map[new:{ 0} requests:{Requests 10}] 14 "paused"`)
	p, err = change(metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {
		Max:   new(int64(20)),
		Label: store.PatchClear[string](),
	}}})
	check(p, err, `pro pro map[requests:{ 20}] 14 "paused"`)
	p, err = change(metering.PlanPatch{
		Label: new("Pro"), ExternalID: new("pro-2"), TrialDays: store.PatchClear[int](),
		TrialEndStatus: store.PatchTo(metering.Canceled),
	})
	check(p, err, `Pro pro-2 map[requests:{ 20}] 0 "canceled"`)
	_, err = change(metering.PlanPatch{Meters: map[string]metering.MeterPatch{"other": {}}})
	faulttest.Check(t, err, fault.Invalid, "meters.other.max: is needed")
	_, err = change(metering.PlanPatch{ExternalID: new("basic")})
	faulttest.Check(t, err, fault.Conflict, "planExternalId")
	_, err = change(metering.PlanPatch{Label: new("")})
	faulttest.Check(t, err, fault.Invalid, "label")
	fx.createPlan(at, "pro", 1) // the previous external id of the first plan is free
	p, err = fx.ReadPlan(t.Context(), at, created.ID)
	check(p, err, `Pro pro-2 map[requests:{ 20}] 0 "canceled"`)
}

func TestPlanWithSubscriptionsCannotBeDeleted(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro, basic := fx.createPlan(at, "pro", 10), fx.createPlan(at, "basic", 1)
	s := fx.subscribe(at, newSubscription(pro))
	checkHasSubscriptions := func(p metering.Plan, want bool) {
		t.Helper()
		if got, err := fx.ReadPlan(t.Context(), at, p.ID); err != nil || got.HasSubscriptions != want {
			t.Errorf("ReadPlan(%s).HasSubscriptions = %t, %v, want %t and no error", p.Label, got.HasSubscriptions, err, want)
		}
	}
	checkHasSubscriptions(pro, true)
	checkHasSubscriptions(basic, false)
	faulttest.Check(t, fx.DeletePlan(fx.requestContext(), at, pro.ID), fault.Conflict, "has subscriptions")
	fx.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
	checkHasSubscriptions(pro, false)
	checkHasSubscriptions(basic, true)
	fx.noError(fx.DeletePlan(fx.requestContext(), at, pro.ID))
	faulttest.Check(t, fx.DeletePlan(fx.requestContext(), at, pro.ID), fault.NotFound, "metering plan")
	fx.noError(fx.DeleteSubscription(fx.requestContext(), at, s.ID))
	checkHasSubscriptions(basic, false)
	fx.noError(fx.DeletePlan(fx.requestContext(), at, basic.ID))
	if all, err := fx.ListPlans(t.Context(), at); err != nil || len(all) > 0 {
		t.Errorf("ListPlans() = %v, %v, want none and no error", all, err)
	}
}

func TestInvalidSubscriptionsAreRefused(t *testing.T) {
	fx := newFixture(t)
	at, otherBucket := fx.createBucket(acme), fx.createBucket(acme)
	pro, basic := fx.createPlan(at, "pro", 10), fx.createPlan(at, "basic", 1)
	otherBucketPlan := fx.createPlan(otherBucket, "pro", 10)
	type subscription = metering.NewSubscription
	tests := []struct {
		name   string
		change func(*subscription)
		field  string
	}{
		{"no plan", func(n *subscription) { n.PlanIDs, n.PlanExternalIDs = nil, nil }, "planIds: has to have 1 to 10"},
		{"more plan ids than external ids", func(n *subscription) {
			n.PlanExternalIDs = n.PlanExternalIDs[:1]
		}, "planExternalIds: has to have the planExternalId of each"},
		{"more external ids than plan ids", func(n *subscription) {
			n.PlanIDs = n.PlanIDs[:1]
		}, "planExternalIds: has to have the planExternalId of each"},
		{"external ids in another order", func(n *subscription) {
			n.PlanExternalIDs = []string{"basic", "pro"}
		}, "planExternalIds[0]: is not the planExternalId of"},
		{"a plan twice", func(n *subscription) { n.PlanIDs = []string{pro.ID, pro.ID} }, "planIds: names a plan twice"},
		{"an unknown plan", func(n *subscription) { n.PlanIDs[1] = "plan_0" }, "planIds[1]: is no plan"},
		{"a plan of another bucket", func(n *subscription) { n.PlanIDs[0] = otherBucketPlan.ID }, "planIds[0]: is no plan"},
		{"an unknown status", func(n *subscription) { n.Status = "gone" }, "status"},
		{"an unknown renewal strategy", func(n *subscription) { n.Renewal = "weekly" }, "renewalStrategy"},
		{"no customer", func(n *subscription) { n.CustomerKey = "" }, "customerKey"},
		{"a long id", func(n *subscription) { n.ExternalID = strings.Repeat("a", 256) }, "subscriptionExternalId"},
		{"an id that is not valid UTF-8", func(n *subscription) { n.CustomerExternalID = "\xff" }, "customerExternalId"},
		{"an anchor in the year 1", func(n *subscription) {
			n.Anchor = new(instant("0001-01-01T00:00:00Z"))
		}, "quotaResetAnchor"},
		{"an anchor after the year 9999", func(n *subscription) {
			n.Anchor = new(instant("9999-12-31T23:59:59-12:00"))
		}, "quotaResetAnchor"},
		{"a trial that ends before its start", func(n *subscription) {
			n.TrialStart, n.TrialEnd = new(instant("2026-02-02T00:00:00Z")), new(instant("2026-02-01T00:00:00Z"))
		}, "trialEndDate"},
		{
			"trialing as the status after a trial without an end",
			func(n *subscription) { n.TrialEndStatus = metering.Trialing }, "trialEndStatus",
		},
		{"trialing as the status after a trial", func(n *subscription) {
			n.TrialEndStatus, n.TrialEnd = metering.Trialing, new(instant("2026-03-01T00:00:00Z"))
		}, "trialEndStatus"},
		{"too many plans", func(n *subscription) {
			n.PlanIDs = slices.Repeat([]string{"plan_0"}, metering.MaxPlansPerSubscription+1)
			n.PlanExternalIDs = n.PlanIDs
		}, "planIds: has to have 1 to 10"},
		{
			"metadata that is not valid UTF-8",
			func(n *subscription) { n.Metadata = json.RawMessage("{\"a\":\"\xff\"}") }, "metadata",
		},
		{"metadata that is a list", func(n *subscription) { n.Metadata = json.RawMessage(`[]`) }, "metadata"},
		{"metadata that is too long", func(n *subscription) {
			n.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("a", 1017) + `"}`)
		}, "metadata"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newSubscription(pro, basic)
			tt.change(&n)
			_, err := fx.CreateSubscription(fx.requestContext(), at, n)
			faulttest.Check(t, err, fault.Invalid, tt.field)
		})
	}
	// A plan in a bucket of another account cannot be found.
	n := newSubscription(fx.createPlan(fx.createBucket(otherAccount), "pro", 10))
	_, err := fx.CreateSubscription(fx.requestContext(), at, n)
	faulttest.Check(t, err, fault.Invalid, "planIds[0]: is no plan")
}

func TestInvalidSubscriptionPatchesAreRefused(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10), fx.createPlan(at, "basic", 1))
	// White space does not count toward the limit.
	n.Metadata = json.RawMessage(`{"a" : "` + strings.Repeat("a", 1016) + `"}` + strings.Repeat(" ", 100))
	created := fx.subscribe(at, n)
	for message, p := range map[string]metering.SubscriptionPatch{
		"planExternalIds: has to have 1": {PlanExternalIDs: []string{}},
		"planExternalIds: has to":        {PlanExternalIDs: strings.Split("abcdefghijk", "")},
		"planExternalIds: names a plan":  {PlanExternalIDs: []string{"pro", "pro"}},
		"planExternalIds[1]: is the":     {PlanExternalIDs: []string{"pro", "none"}},
		"planExternalIds[0]: is the":     {PlanExternalIDs: []string{strings.Repeat("a", 5000)}},
		"status":                         {Status: "gone"},
		"prorate":                        {Prorate: new(1.01)},
		"prorate: ":                      {Prorate: new(-0.01)},
		"prorate: has":                   {Prorate: new(math.NaN())},
		"metadata":                       {Metadata: store.PatchTo(json.RawMessage(`"a"`))},
		"trialEndDate":                   {TrialEnd: store.PatchTo(instant("3000-01-01T00:00:00Z"))},
	} {
		_, err := fx.UpdateSubscription(fx.requestContext(), at, created.ID, p)
		faulttest.Check(t, err, fault.Invalid, message)
	}
}

func TestSubscriptionExternalIDIsUniqueInItsBucket(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	created := fx.subscribe(at, newSubscription(pro))
	_, err := fx.CreateSubscription(fx.requestContext(), at, newSubscription(pro))
	faulttest.Check(t, err, fault.Conflict, "subscriptionExternalId")
	if all, total, err := fx.ListSubscriptions(t.Context(), at, store.Page{Limit: 10}); err != nil || len(all) != 1 ||
		total != 1 {
		t.Errorf("ListSubscriptions() = %v, total %d, %v, want 1 subscription", all, total, err)
	}
	other := fx.createBucket(acme)
	fx.subscribe(other, newSubscription(fx.createPlan(other, "pro", 10))) // the external id is free in this bucket
	fx.noError(fx.DeleteSubscription(fx.requestContext(), at, created.ID))
	fx.subscribe(at, newSubscription(pro))
}

func TestSubscriptionsAreListedInPages(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	var want []string
	for i := range 5 {
		n := newSubscription(pro)
		n.ExternalID = fmt.Sprint(i)
		want = append([]string{fx.subscribe(at, n).ID}, want...)
	}
	for offset := range 5 {
		got, total, err := fx.ListSubscriptions(t.Context(), at, store.Page{Limit: 2, Offset: offset})
		if err != nil || total != 5 || len(got) != min(2, 5-offset) {
			t.Fatalf("ListSubscriptions(offset %d) = %v, total %d, %v, want %d of 5",
				offset, got, total, err, min(2, 5-offset))
		}
		if got[0].ID != want[offset] || got[0].PlanExternalIDs[0] != "pro" {
			t.Errorf("ListSubscriptions(offset %d) = %v, want %s with plan pro first", offset, got, want[offset])
		}
	}
}

func TestBucketAndPlanLimits(t *testing.T) {
	fx := newFixture(t)
	var last metering.BucketLocator
	for range limits.MeteringBuckets.Default {
		last = fx.createBucket(acme)
	}
	_, err := fx.CreateBucket(fx.requestContext(), acme)
	faulttest.Check(t, err, fault.Forbidden, "its limit metering-buckets is 100")
	fx.noError(fx.DeleteBucket(fx.requestContext(), last))
	at := fx.createBucket(acme)
	for i := range metering.MaxPlans {
		fx.createPlan(at, fmt.Sprint(i), 1)
	}
	_, err = fx.CreatePlan(fx.requestContext(), at, metering.Terms{Label: "a", ExternalID: "a"})
	faulttest.Check(t, err, fault.Invalid, "100 plans")
}

func TestOtherAccountsAndRestrictedKeysSeeNothing(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	s := fx.subscribe(at, newSubscription(pro))
	environmentKey := owner("a-1", func(p *auth.Permissions) {
		p.Environments = []environment.Kind{environment.Production}
	})
	projectKey := owner("a-1", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	missing := at
	missing.Bucket = "mtr_0"
	for name, ref := range map[string]metering.BucketLocator{
		"another account":       {Owner: otherAccount, Bucket: at.Bucket},
		"a key of environments": {Owner: environmentKey, Bucket: at.Bucket},
		"a key of a project":    {Owner: projectKey, Bucket: at.Bucket}, "no bucket": missing,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := fx.ReadBucket(t.Context(), ref)
			faulttest.Check(t, err, fault.NotFound, "metering bucket")
			for method, call := range map[string]func() error{
				"DeleteBucket": func() error { return fx.DeleteBucket(fx.requestContext(), ref) },
				"ListPlans":    func() error { _, err := fx.ListPlans(t.Context(), ref); return err },
				"ReadPlan":     func() error { _, err := fx.ReadPlan(t.Context(), ref, pro.ID); return err },
				"CreatePlan": func() error {
					_, err := fx.CreatePlan(fx.requestContext(), ref, metering.Terms{Label: "a", ExternalID: "a"})
					return err
				},
				"UpdatePlan": func() error {
					_, err := fx.UpdatePlan(fx.requestContext(), ref, pro.ID, metering.PlanPatch{})
					return err
				},
				"DeletePlan": func() error { return fx.DeletePlan(fx.requestContext(), ref, pro.ID) },
				"ListSubscriptions": func() error {
					_, _, err := fx.ListSubscriptions(t.Context(), ref, store.Page{Limit: 1})
					return err
				},
				"ReadSubscription": func() error { _, err := fx.ReadSubscription(t.Context(), ref, s.ID); return err },
				"CreateSubscription": func() error {
					n := newSubscription(pro)
					n.ExternalID = "other"
					_, err := fx.CreateSubscription(fx.requestContext(), ref, n)
					return err
				},
				"UpdateSubscription": func() error {
					_, err := fx.UpdateSubscription(fx.requestContext(), ref, s.ID, metering.SubscriptionPatch{})
					return err
				},
				"DeleteSubscription": func() error { return fx.DeleteSubscription(fx.requestContext(), ref, s.ID) },
				"Quotas":             func() error { _, err := fx.Quotas(t.Context(), ref, s.ID, nil); return err },
			} {
				if err := call(); !fault.Is(err, fault.NotFound) || strings.Contains(err.Error(), "subscription") {
					t.Errorf("%s() with %s: error = %v, want %v that does not mention a subscription",
						method, name, err, fault.NotFound)
				}
			}
		})
	}
	for _, o := range []auth.Owner{environmentKey, projectKey} {
		if all, err := fx.ListBuckets(t.Context(), o); err != nil || len(all) > 0 {
			t.Errorf("ListBuckets(restricted key) = %v, %v, want none and no error", all, err)
		}
		_, err := fx.CreateBucket(fx.requestContext(), o)
		faulttest.Check(t, err, fault.NotFound, "limited")
	}
	if all, err := fx.ListBuckets(t.Context(), acme); err != nil || len(all) != 1 || all[0].Account != "of a-1" {
		t.Errorf("ListBuckets(owner) = %v, %v, want its own bucket only", all, err)
	}
}

func TestTimesHaveMillisecondPrecision(t *testing.T) {
	fx := newFixture(t)
	fx.setClock("2026-01-31T10:30:00.123456789Z")
	at := fx.createBucket(acme)
	n := newSubscription(fx.createPlan(at, "pro", 10))
	n.Anchor = new(instant("2026-01-31T22:00:00.5-05:00"))
	s := fx.subscribe(at, n)
	read, err := fx.ReadSubscription(t.Context(), at, s.ID)
	fx.noError(err)
	if want := instant("2026-01-31T10:30:00.123Z"); !read.CreatedOn.Equal(want) || !s.UpdatedOn.Equal(want) ||
		read.CreatedOn.Location() != time.UTC {
		t.Errorf("subscription is created on %s and updated on %s, want %s in UTC", read.CreatedOn, s.UpdatedOn, want)
	}
	// The anchor's date in UTC is February 1.
	if want := instant("2026-02-01T00:00:00Z"); !read.NextBillingCycle.Equal(want) ||
		!read.Anchor.Equal(instant("2026-02-01T03:00:00.5Z")) {
		t.Errorf("anchor = %s, next billing on %s, want 2026-02-01T03:00:00.5Z, %s",
			read.Anchor, read.NextBillingCycle, want)
	}
}
