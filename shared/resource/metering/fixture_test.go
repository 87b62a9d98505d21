package metering_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/allowance"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// fixture is an installation with a clock that tests set.
type fixture struct {
	*testing.T
	*metering.Service
	items    *memory.Backend
	parts    installation.Parts
	now      atomic.Pointer[time.Time]
	requests atomic.Int64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New()}
	fx.setClock("2026-01-31T10:30:00Z")
	fx.useBackend(fx.items)
	return fx
}

// useBackend makes the service store its data in b.
func (fx *fixture) useBackend(b store.Backend) {
	fx.parts = installation.Parts{
		Table: storetest.NewWithBackend(fx.T, b, storetest.Clock(fx.clock)), Now: fx.clock,
		IDs: ids.NewSource(storetest.Random(fx.T), fx.clock),
	}
	fx.Service = metering.Open(fx.parts)
}

func (fx *fixture) clock() time.Time { return *fx.now.Load() }

func (fx *fixture) setClock(now string) { fx.now.Store(new(instant(now))) }

func instant(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func (fx *fixture) requestContext() context.Context {
	return store.WithReadSet(audit.WithRequest(fx.Context(), &audit.Request{
		AccountID: "a-1", Action: "subscription.update", Time: fx.clock(),
		RequestID: fmt.Sprint("request-", fx.requests.Add(1)),
	}))
}

// owner returns the owner of an account. The caller has full permissions, which changes can restrict.
func owner(account string, changes ...func(*auth.Permissions)) auth.Owner {
	p := auth.Full()
	for _, c := range changes {
		c(&p)
	}
	return auth.Owner{AccountID: account, Account: "of " + account, Viewer: auth.Principal{Permissions: p}}
}

var acme, otherAccount = owner("a-1"), owner("a-2")

func (fx *fixture) createBucket(o auth.Owner) metering.BucketLocator {
	fx.Helper()
	b, err := fx.CreateBucket(fx.requestContext(), o)
	fx.noError(err)
	return metering.BucketLocator{Owner: o, Bucket: b.ID}
}

// createPlan creates a plan with some units of requests.
func (fx *fixture) createPlan(
	at metering.BucketLocator, externalID string, units int64, changes ...func(*metering.Terms),
) metering.Plan {
	fx.Helper()
	t := metering.Terms{
		Label: externalID, ExternalID: externalID,
		Meters: map[string]metering.Meter{"requests": {Max: units}},
	}
	for _, c := range changes {
		c(&t)
	}
	p, err := fx.CreatePlan(fx.requestContext(), at, t)
	fx.noError(err)
	return p
}

func newSubscription(plans ...metering.Plan) metering.NewSubscription {
	n := metering.NewSubscription{
		Status: metering.Active, Renewal: meter.Monthly, Region: "us-east1", CustomerKey: "ada", ExternalID: "sub_1",
		CustomerExternalID: "cus_1",
	}
	for _, p := range plans {
		n.PlanIDs, n.PlanExternalIDs = append(n.PlanIDs, p.ID), append(n.PlanExternalIDs, p.ExternalID)
	}
	return n
}

func (fx *fixture) subscribe(at metering.BucketLocator, n metering.NewSubscription) metering.Subscription {
	fx.Helper()
	s, err := fx.CreateSubscription(fx.requestContext(), at, n)
	fx.noError(err)
	return s
}

func (fx *fixture) update(at metering.BucketLocator, id string, p metering.SubscriptionPatch) metering.Subscription {
	fx.Helper()
	s, err := fx.UpdateSubscription(fx.requestContext(), at, id, p)
	fx.noError(err)
	return s
}

func (fx *fixture) noError(err error) {
	fx.Helper()
	if err != nil {
		fx.Fatal(err)
	}
}

// useUnits uses units of a meter in the current period.
func (fx *fixture) useUnits(s metering.Subscription, key string, n int64) {
	fx.Helper()
	pool := allowance.New(allowance.Options{
		Table: fx.parts.Table, Now: fx.clock, Random: storetest.Random(fx.T),
		Log: slog.New(slog.DiscardHandler),
	})
	counter := metering.Counter("a-1", s.ID, key, meter.At(s.Anchor, s.Renewal, fx.clock()), 1<<40)
	d, err := pool.Take(fx.Context(), counter, n)
	if err != nil || !d.Admitted {
		fx.Fatalf("Take(%d of %s) = %+v, %v, want admitted and no error", n, key, d, err)
	}
	fx.noError(pool.Drain(fx.Context()))
	// The counters of quotas are kept for weeks, but this Pool's only for a day: remove their expiry.
	for key := range fx.items.Items() {
		if strings.HasPrefix(key.PK, "allowance#metering/") && key.SK == "." {
			fx.noError(fx.parts.Table.Commit(fx.Context(), store.Update(key, store.Remove(store.At(store.TTLAttribute)))))
		}
	}
}

// remaining formats the remaining units and the period: "map[requests:10] 2026-01-31T…/2026-02-28T…". It returns the
// error text if Quotas fails.
func (fx *fixture) remaining(at metering.BucketLocator, id string, in *time.Time) string {
	fx.Helper()
	q, err := fx.Quotas(fx.Context(), at, id, in)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(q.Remaining, " ", q.Period)
}

func (fx *fixture) checkRemaining(at metering.BucketLocator, id string, in *time.Time, want string) {
	fx.Helper()
	if got := fx.remaining(at, id, in); got != want {
		fx.Errorf("Quotas() = %s, want %s", got, want)
	}
}
