package metering_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/allowance"
	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// world is an installation with a clock that tests set.
type world struct {
	*testing.T
	*metering.Service
	items    *memory.Backend
	parts    installation.Parts
	now      atomic.Pointer[time.Time]
	requests atomic.Int64
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, items: memory.New()}
	w.set("2026-01-31T10:30:00Z")
	w.over(w.items)
	return w
}

// over has the service use a backend.
func (w *world) over(b store.Backend) {
	w.parts = installation.Parts{
		Table: storetest.Over(w.T, b, storetest.Clock(w.at)), Now: w.at, IDs: ids.NewSource(storetest.Random(w.T), w.at),
	}
	w.Service = metering.Open(w.parts)
}

func (w *world) at() time.Time { return *w.now.Load() }

func (w *world) set(now string) { w.now.Store(new(instant(now))) }

func instant(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func (w *world) request() context.Context {
	return store.Decide(audit.With(w.Context(), &audit.Request{
		AccountID: "a-1", Action: "subscription.update", Time: w.at(), RequestID: fmt.Sprint("request-", w.requests.Add(1)),
	}))
}

func owner(account string, change ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range change {
		c(&p)
	}
	return auth.Owner{AccountID: account, Account: "of " + account, Viewer: auth.Principal{Permissions: p}}
}

var acme, evil = owner("a-1"), owner("a-2")

func (w *world) bucket(o auth.Owner) metering.BucketAt {
	w.Helper()
	b, err := w.CreateBucket(w.request(), o)
	w.must(err)
	return metering.BucketAt{Owner: o, Bucket: b.ID}
}

// plan makes a plan of some units of requests.
func (w *world) plan(at metering.BucketAt, externalID string, units int64, change ...func(*metering.Terms)) metering.Plan {
	w.Helper()
	t := metering.Terms{Label: externalID, ExternalID: externalID, Meters: map[string]metering.Meter{"requests": {Max: units}}}
	for _, c := range change {
		c(&t)
	}
	p, err := w.CreatePlan(w.request(), at, t)
	w.must(err)
	return p
}

func of(plans ...metering.Plan) metering.NewSubscription {
	n := metering.NewSubscription{
		Status: metering.Active, Renewal: meter.Monthly, Region: "us-east1", CustomerKey: "ada", ExternalID: "sub_1", CustomerExternalID: "cus_1",
	}
	for _, p := range plans {
		n.PlanIDs, n.PlanExternalIDs = append(n.PlanIDs, p.ID), append(n.PlanExternalIDs, p.ExternalID)
	}
	return n
}

func (w *world) subscribe(at metering.BucketAt, n metering.NewSubscription) metering.Subscription {
	w.Helper()
	s, err := w.CreateSubscription(w.request(), at, n)
	w.must(err)
	return s
}

func (w *world) update(at metering.BucketAt, id string, p metering.SubscriptionPatch) metering.Subscription {
	w.Helper()
	s, err := w.UpdateSubscription(w.request(), at, id, p)
	w.must(err)
	return s
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// use has units of a meter be used in the current period.
func (w *world) use(s metering.Subscription, key string, n int64) {
	w.Helper()
	pool := allowance.New(allowance.Options{Table: w.parts.Table, Now: w.at, Random: storetest.Random(w.T), Log: slog.New(slog.DiscardHandler)})
	d, err := pool.Take(w.Context(), metering.Counter("a-1", s.ID, key, meter.At(s.Anchor, s.Renewal, w.at()), 1<<40), n)
	if err != nil || !d.Admitted {
		w.Fatal(d, err)
	}
	w.must(pool.Drain(w.Context()))
	// Counters of quotas stay for weeks, those of a Pool for a day.
	for key := range w.items.Items() {
		if strings.HasPrefix(key.PK, "allowance#metering/") && key.SK == "." {
			w.must(w.parts.Table.Commit(w.Context(), store.Update(key, store.Remove(store.At(store.TTLAttribute)))))
		}
	}
}

// left spells what is left of quotas: "requests 10, 2026-01-31T…/2026-02-28T…".
func (w *world) left(at metering.BucketAt, id string, in *time.Time) string {
	w.Helper()
	q, err := w.Quotas(w.Context(), at, id, in)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(q.Left, " ", q.Period)
}

func (w *world) wantLeft(at metering.BucketAt, id string, in *time.Time, want string) {
	w.Helper()
	if got := w.left(at, id, in); got != want {
		w.Errorf("left is %s, want %s", got, want)
	}
}
