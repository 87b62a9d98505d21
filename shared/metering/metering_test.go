package metering_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/environment"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/limits"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
)

func TestBadTermsAreRefused(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	w.plan(at, "pro", 10)
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
		{"a label that begins with one", func(t *metering.Terms) { t.Label = "\nb" }, "label"},
		{"no external id", func(t *metering.Terms) { t.ExternalID = "" }, "planExternalId"},
		{"a negative max", func(t *metering.Terms) { t.Meters = map[string]metering.Meter{"m": {Max: -1}} }, "meters.m.max"},
		{"a max that JSON does not keep", func(t *metering.Terms) { t.Meters = map[string]metering.Meter{"m": {Max: 1 << 53}} }, "meters.m.max"},
		{"the largest number", func(t *metering.Terms) { t.Meters = map[string]metering.Meter{"m": {Max: math.MaxInt64}} }, "meters.m.max"},
		{"a meter without a name", func(t *metering.Terms) { t.Meters = map[string]metering.Meter{"": {}} }, "meters: a key"},
		{"a meter with a path for a name", func(t *metering.Terms) { t.Meters = map[string]metering.Meter{"a/b": {}} }, "meters: a key"},
		{"a meter with a long label", func(t *metering.Terms) {
			t.Meters = map[string]metering.Meter{"m": {Label: strings.Repeat("a", metering.MaxLabelChars+1)}}
		}, "meters.m.label"},
		{"too many meters", func(t *metering.Terms) { t.Meters = many }, "meters: has more than 50"},
		{"negative days", func(t *metering.Terms) { t.TrialDays = -1 }, "trialDays"},
		{"too many days", func(t *metering.Terms) { t.TrialDays = metering.MaxTrialDays + 1 }, "trialDays"},
		{"an end that is none", func(t *metering.Terms) { t.TrialEndStatus = metering.Active }, "trialEndStatus"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			terms := metering.Terms{Label: "Basic", ExternalID: "basic", Meters: map[string]metering.Meter{"m": {Max: metering.MaxUnits}}}
			tt.change(&terms)
			_, err := w.CreatePlan(w.request(), at, terms)
			faulttest.Want(t, err, fault.Invalid, tt.field)
		})
	}
	_, err := w.CreatePlan(w.request(), at, metering.Terms{Label: "Other", ExternalID: "pro"})
	faulttest.Want(t, err, fault.Conflict, "planExternalId")
}

// shown is what a plan's meters say.
func shown(meters map[string]metering.Meter) map[string]string {
	out := map[string]string{}
	for key, m := range meters {
		out[key] = fmt.Sprintf("{%s %d}", m.Label, m.Max)
	}
	return out
}

func TestPlanIsChangedFieldByField(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	made := w.plan(at, "pro", 10, func(t *metering.Terms) {
		t.Meters["requests"] = metering.Meter{Label: "Requests", Max: 10}
		t.Meters["gone"] = metering.Meter{Max: 1}
		t.TrialDays, t.TrialEndStatus, t.TrialCollectPayment = 14, metering.Paused, new(true)
	})
	w.plan(at, "basic", 1)
	change := func(p metering.PlanPatch) (metering.Plan, error) { return w.UpdatePlan(w.request(), at, made.ID, p) }
	want := func(p metering.Plan, err error, text string) {
		t.Helper()
		if got := fmt.Sprintf("%s %s %v %d %q", p.Label, p.ExternalID, shown(p.Meters), p.TrialDays, p.TrialEndStatus); err != nil || got != text {
			t.Errorf("it is %s, %v, want %s", got, err, text)
		}
	}
	w.set("2026-02-01T00:00:00Z")
	p, err := change(metering.PlanPatch{})
	want(p, err, `pro pro map[gone:{ 1} requests:{Requests 10}] 14 "paused"`)
	if !p.UpdatedOn.Equal(w.at()) || p.CreatedOn.Equal(w.at()) {
		t.Errorf("it was made on %s and changed on %s", p.CreatedOn, p.UpdatedOn)
	}
	// Meters are replaced as a whole; one that stays keeps what is not said of it.
	p, err = change(metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {}, "new": {Max: new(int64(0))}}})
	want(p, err, `pro pro map[new:{ 0} requests:{Requests 10}] 14 "paused"`)
	p, err = change(metering.PlanPatch{Meters: map[string]metering.MeterPatch{"requests": {Max: new(int64(20)), Label: store.PatchClear[string]()}}})
	want(p, err, `pro pro map[requests:{ 20}] 14 "paused"`)
	p, err = change(metering.PlanPatch{Label: new("Pro"), ExternalID: new("pro-2"), TrialDays: store.PatchClear[int](), TrialEndStatus: store.PatchTo(metering.Canceled)})
	want(p, err, `Pro pro-2 map[requests:{ 20}] 0 "canceled"`)
	_, err = change(metering.PlanPatch{Meters: map[string]metering.MeterPatch{"other": {}}})
	faulttest.Want(t, err, fault.Invalid, "meters.other.max: is needed")
	_, err = change(metering.PlanPatch{ExternalID: new("basic")})
	faulttest.Want(t, err, fault.Conflict, "planExternalId")
	_, err = change(metering.PlanPatch{Label: new("")})
	faulttest.Want(t, err, fault.Invalid, "label")
	w.plan(at, "pro", 1) // the name that it had is free
	p, err = w.ReadPlan(t.Context(), at, made.ID)
	want(p, err, `Pro pro-2 map[requests:{ 20}] 0 "canceled"`)
}

func TestPlanWithSubscriptionsStays(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro, basic := w.plan(at, "pro", 10), w.plan(at, "basic", 1)
	s := w.subscribe(at, of(pro))
	has := func(p metering.Plan, want bool) {
		t.Helper()
		if got, err := w.ReadPlan(t.Context(), at, p.ID); err != nil || got.HasSubscriptions != want {
			t.Errorf("%s has subscriptions: %t, %v", p.Label, got.HasSubscriptions, err)
		}
	}
	has(pro, true)
	has(basic, false)
	faulttest.Want(t, w.DeletePlan(w.request(), at, pro.ID), fault.Conflict, "has subscriptions")
	w.update(at, s.ID, metering.SubscriptionPatch{PlanExternalIDs: []string{"basic"}})
	has(pro, false)
	has(basic, true)
	w.must(w.DeletePlan(w.request(), at, pro.ID))
	faulttest.Want(t, w.DeletePlan(w.request(), at, pro.ID), fault.NotFound, "metering plan")
	w.must(w.DeleteSubscription(w.request(), at, s.ID))
	has(basic, false)
	w.must(w.DeletePlan(w.request(), at, basic.ID))
	if all, err := w.ListPlans(t.Context(), at); err != nil || len(all) > 0 {
		t.Errorf("there are %v, %v", all, err)
	}
}

func TestBadSubscriptionIsRefused(t *testing.T) {
	w := newWorld(t)
	at, other := w.bucket(acme), w.bucket(acme)
	pro, basic, elsewhere := w.plan(at, "pro", 10), w.plan(at, "basic", 1), w.plan(other, "pro", 10)
	type subscription = metering.NewSubscription
	tests := []struct {
		name   string
		change func(*subscription)
		field  string
	}{
		{"no plan", func(n *subscription) { n.PlanIDs, n.PlanExternalIDs = nil, nil }, "planIds: has to have 1 to 10"},
		{"more plan ids", func(n *subscription) { n.PlanExternalIDs = n.PlanExternalIDs[:1] }, "planExternalIds: has to have the planExternalId of each"},
		{"more external ids", func(n *subscription) { n.PlanIDs = n.PlanIDs[:1] }, "planExternalIds: has to have the planExternalId of each"},
		{"another order", func(n *subscription) { n.PlanExternalIDs = []string{"basic", "pro"} }, "planExternalIds[0]: is not the planExternalId of"},
		{"a plan twice", func(n *subscription) { n.PlanIDs = []string{pro.ID, pro.ID} }, "planIds: names a plan twice"},
		{"an unknown plan", func(n *subscription) { n.PlanIDs[1] = "plan_0" }, "planIds[1]: is no plan"},
		{"a plan of another bucket", func(n *subscription) { n.PlanIDs[0] = elsewhere.ID }, "planIds[0]: is no plan"},
		{"a status that is none", func(n *subscription) { n.Status = "gone" }, "status"},
		{"a renewal that is none", func(n *subscription) { n.Renewal = "weekly" }, "renewalStrategy"},
		{"no customer", func(n *subscription) { n.CustomerKey = "" }, "customerKey"},
		{"a long id", func(n *subscription) { n.ExternalID = strings.Repeat("a", 256) }, "subscriptionExternalId"},
		{"an id that is no text", func(n *subscription) { n.CustomerExternalID = "\xff" }, "customerExternalId"},
		{"an anchor of the Romans", func(n *subscription) { n.Anchor = new(instant("0001-01-01T00:00:00Z")) }, "quotaResetAnchor"},
		{"an anchor beyond the calendar", func(n *subscription) { n.Anchor = new(instant("9999-12-31T23:59:59-12:00")) }, "quotaResetAnchor"},
		{"a trial that ends before", func(n *subscription) {
			n.TrialStart, n.TrialEnd = new(instant("2026-02-02T00:00:00Z")), new(instant("2026-02-01T00:00:00Z"))
		}, "trialEndDate"},
		{"a trial without end", func(n *subscription) { n.TrialEndStatus = metering.Trialing }, "trialEndStatus"},
		{"a trial after a trial", func(n *subscription) {
			n.TrialEndStatus, n.TrialEnd = metering.Trialing, new(instant("2026-03-01T00:00:00Z"))
		}, "trialEndStatus"},
		{"too many plans", func(n *subscription) {
			n.PlanIDs = strings.Split(strings.Repeat("plan_0 ", metering.MaxPlansOfOne+1), " ")[:metering.MaxPlansOfOne+1]
			n.PlanExternalIDs = n.PlanIDs
		}, "planIds: has to have 1 to 10"},
		{"metadata that are no text", func(n *subscription) { n.Metadata = json.RawMessage("{\"a\":\"\xff\"}") }, "metadata"},
		{"metadata that is a list", func(n *subscription) { n.Metadata = json.RawMessage(`[]`) }, "metadata"},
		{"much metadata", func(n *subscription) { n.Metadata = json.RawMessage(`{"a":"` + strings.Repeat("a", 1017) + `"}`) }, "metadata"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := of(pro, basic)
			tt.change(&n)
			_, err := w.CreateSubscription(w.request(), at, n)
			faulttest.Want(t, err, fault.Invalid, tt.field)
		})
	}
	// A plan of another account's bucket is unknown too, and so is the bucket.
	n := of(w.plan(w.bucket(evil), "pro", 10))
	_, err := w.CreateSubscription(w.request(), at, n)
	faulttest.Want(t, err, fault.Invalid, "planIds[0]: is no plan")
	n = of(pro, basic)
	n.Metadata = json.RawMessage(`{"a" : "` + strings.Repeat("a", 1016) + `"}` + strings.Repeat(" ", 100)) // space is not counted
	made := w.subscribe(at, n)
	for field, p := range map[string]metering.SubscriptionPatch{
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
		_, err := w.UpdateSubscription(w.request(), at, made.ID, p)
		faulttest.Want(t, err, fault.Invalid, field)
	}
}

func TestPurchaseThatIsToldTwiceIsOneSubscription(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	made := w.subscribe(at, of(pro))
	_, err := w.CreateSubscription(w.request(), at, of(pro))
	faulttest.Want(t, err, fault.Conflict, "subscriptionExternalId")
	if all, total, err := w.ListSubscriptions(t.Context(), at, store.Page{Limit: 10}); err != nil || len(all) != 1 || total != 1 {
		t.Errorf("there are %v, %d, %v", all, total, err)
	}
	other := w.bucket(acme)
	w.subscribe(other, of(w.plan(other, "pro", 10))) // it is another's there
	w.must(w.DeleteSubscription(w.request(), at, made.ID))
	w.subscribe(at, of(pro))
}

func TestSubscriptionsAreListedInPages(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	var want []string
	for i := range 5 {
		n := of(pro)
		n.ExternalID = fmt.Sprint(i)
		want = append([]string{w.subscribe(at, n).ID}, want...)
	}
	for offset := range 5 {
		got, total, err := w.ListSubscriptions(t.Context(), at, store.Page{Limit: 2, Offset: offset})
		if err != nil || total != 5 || got[0].ID != want[offset] || len(got) != min(2, 5-offset) || got[0].PlanExternalIDs[0] != "pro" {
			t.Errorf("from %d on it lists %v, %d, %v", offset, got, total, err)
		}
	}
}

func TestBoundsOfAnAccount(t *testing.T) {
	w := newWorld(t)
	var last metering.BucketAt
	for range limits.MeteringBuckets.Default {
		last = w.bucket(acme)
	}
	_, err := w.CreateBucket(w.request(), acme)
	faulttest.Want(t, err, fault.Forbidden, "its limit metering-buckets is 100")
	w.must(w.DeleteBucket(w.request(), last))
	at := w.bucket(acme)
	for i := range metering.MaxPlans {
		w.plan(at, fmt.Sprint(i), 1)
	}
	_, err = w.CreatePlan(w.request(), at, metering.Terms{Label: "a", ExternalID: "a"})
	faulttest.Want(t, err, fault.Invalid, "100 plans")
}

func TestStrangersSeeNothing(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	s := w.subscribe(at, of(pro))
	kinds := owner("a-1", func(p *auth.Permissions) { p.Environments = []environment.Kind{environment.Production} })
	project := owner("a-1", func(p *auth.Permissions) { p.Projects = []string{"shop"} })
	gone := at
	gone.Bucket = "mtr_0"
	for name, who := range map[string]metering.BucketAt{
		"another account": {Owner: evil, Bucket: at.Bucket}, "a key of environments": {Owner: kinds, Bucket: at.Bucket},
		"a key of a project": {Owner: project, Bucket: at.Bucket}, "no bucket": gone,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.ReadBucket(t.Context(), who)
			faulttest.Want(t, err, fault.NotFound, "metering bucket")
			for _, ask := range []func() error{
				func() error { return w.DeleteBucket(w.request(), who) },
				func() error { _, err := w.ListPlans(t.Context(), who); return err },
				func() error { _, err := w.ReadPlan(t.Context(), who, pro.ID); return err },
				func() error {
					_, err := w.CreatePlan(w.request(), who, metering.Terms{Label: "a", ExternalID: "a"})
					return err
				},
				func() error { _, err := w.UpdatePlan(w.request(), who, pro.ID, metering.PlanPatch{}); return err },
				func() error { return w.DeletePlan(w.request(), who, pro.ID) },
				func() error { _, _, err := w.ListSubscriptions(t.Context(), who, store.Page{Limit: 1}); return err },
				func() error { _, err := w.ReadSubscription(t.Context(), who, s.ID); return err },
				func() error {
					n := of(pro)
					n.ExternalID = "other"
					_, err := w.CreateSubscription(w.request(), who, n)
					return err
				},
				func() error {
					_, err := w.UpdateSubscription(w.request(), who, s.ID, metering.SubscriptionPatch{})
					return err
				},
				func() error { return w.DeleteSubscription(w.request(), who, s.ID) },
				func() error { _, err := w.Quotas(t.Context(), who, s.ID, nil); return err },
			} {
				if err := ask(); !fault.Is(err, fault.NotFound) || strings.Contains(err.Error(), "subscription") {
					t.Errorf("it is answered %v", err)
				}
			}
		})
	}
	for _, o := range []auth.Owner{kinds, project} {
		if all, err := w.ListBuckets(t.Context(), o); err != nil || len(all) > 0 {
			t.Errorf("it sees %v, %v", all, err)
		}
		_, err := w.CreateBucket(w.request(), o)
		faulttest.Want(t, err, fault.NotFound, "limited")
	}
	if all, err := w.ListBuckets(t.Context(), acme); err != nil || len(all) != 1 || all[0].Account != "of a-1" {
		t.Errorf("its own are %v, %v", all, err)
	}
}

func TestInstantsAreKeptToTheMillisecond(t *testing.T) {
	w := newWorld(t)
	w.set("2026-01-31T10:30:00.123456789Z")
	at := w.bucket(acme)
	n := of(w.plan(at, "pro", 10))
	n.Anchor = new(instant("2026-01-31T22:00:00.5-05:00"))
	s := w.subscribe(at, n)
	read, err := w.ReadSubscription(t.Context(), at, s.ID)
	w.must(err)
	if want := instant("2026-01-31T10:30:00.123Z"); !read.CreatedOn.Equal(want) || !s.UpdatedOn.Equal(want) || read.CreatedOn.Location() != time.UTC {
		t.Errorf("it was made on %s", read.CreatedOn)
	}
	// The anchor's date in UTC is the first of February.
	if want := instant("2026-02-01T00:00:00Z"); !read.NextBillingCycle.Equal(want) || !read.Anchor.Equal(instant("2026-02-01T03:00:00.5Z")) {
		t.Errorf("it has the anchor %s and is billed on %s", read.Anchor, read.NextBillingCycle)
	}
}
