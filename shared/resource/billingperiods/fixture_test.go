package billingperiods_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/auth"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/memory"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/billingperiods"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

var acme = auth.Owner{
	AccountID: "a-1", Account: "acme",
	Viewer: auth.Principal{AccountID: "a-1", Permissions: auth.Full()},
}

// request returns the context of an API request with this ID, which changes need.
func request(ctx context.Context, id string) context.Context {
	return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
		AccountID: "a-1", Time: storetest.Epoch,
		RequestID: id,
	}))
}

// shop is a bucket with a plan. Its method subscribe creates subscriptions to the plan.
type shop struct {
	parts   installation.Parts
	bucket  metering.BucketLocator
	plan    metering.Plan
	created int
}

// openShop creates the bucket and the plan of a shop.
func openShop(ctx context.Context, p installation.Parts) (*shop, error) {
	s := &shop{parts: p}
	b, err := metering.Open(p).CreateBucket(request(ctx, "bucket"), acme)
	if err != nil {
		return nil, err
	}
	s.bucket = metering.BucketLocator{Owner: acme, Bucket: b.ID}
	s.plan, err = metering.Open(p).CreatePlan(request(ctx, "plan"), s.bucket, metering.Terms{
		Label: "pro", ExternalID: "pro", Meters: map[string]metering.Meter{"requests": {Max: 10}},
		TrialEndStatus: metering.Paused,
	})
	return s, err
}

// subscribe creates a subscription at a time, with a trial of trialDays days, 0 for none.
func (s *shop) subscribe(
	ctx context.Context, createdOn time.Time, renewal meter.Strategy, trialDays int,
) (metering.Subscription, error) {
	s.created++
	p := s.parts
	p.Now = func() time.Time { return createdOn }
	n := metering.NewSubscription{
		PlanIDs: []string{s.plan.ID}, PlanExternalIDs: []string{"pro"}, Status: metering.Active, Renewal: renewal,
		Region:      "us-east1",
		CustomerKey: "ada", ExternalID: fmt.Sprint("s-", s.created), CustomerExternalID: "c",
	}
	if trialDays > 0 {
		n.Status, n.TrialEnd = metering.Trialing, new(createdOn.AddDate(0, 0, trialDays))
	}
	return metering.Open(p).CreateSubscription(request(ctx, "subscription-"+n.ExternalID), s.bucket, n)
}

// fixture is an installation at storetest.Epoch, unless its clock is set.
type fixture struct {
	*testing.T
	*shop
	items *memory.Backend
	now   time.Time
	log   bytes.Buffer
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	fx := &fixture{T: t, items: memory.New(), now: storetest.Epoch}
	shop, err := openShop(t.Context(), fx.partsOver(fx.items))
	fx.noError(err)
	fx.shop = shop
	return fx
}

// partsOver returns the parts of the installation with another backend.
func (fx *fixture) partsOver(b store.Backend) installation.Parts {
	clock := func() time.Time { return fx.now }
	return installation.Parts{
		Table: storetest.NewWithBackend(fx.T, b, storetest.Clock(clock)), Now: clock, Random: storetest.Random(fx.T),
		IDs: ids.NewSource(storetest.Random(fx.T), clock), Log: slog.New(slog.NewTextHandler(&fx.log, nil)),
	}
}

// noError fails the test if err is not nil.
func (fx *fixture) noError(err error) {
	fx.Helper()
	if err != nil {
		fx.Fatalf("error = %v, want none", err)
	}
}

func (fx *fixture) mustSubscribe(createdOn time.Time, renewal meter.Strategy, trialDays int) metering.Subscription {
	fx.Helper()
	s, err := fx.subscribe(fx.Context(), createdOn, renewal, trialDays)
	fx.noError(err)
	return s
}

// run calls the hourly job and runs the operations that it begins. It returns their number.
func (fx *fixture) run(p installation.Parts) (started int) {
	fx.Helper()
	started, err := billingperiods.Open(p).Begin(fx.Context(), p.Now())
	fx.noError(err)
	fx.sweep(p)
	return started
}

// sweep continues the operations that have not ended.
func (fx *fixture) sweep(p installation.Parts) {
	fx.Helper()
	fx.noError(fx.engine(p).Sweep(fx.Context()))
}

// engine returns an engine for the operations of the package.
func (fx *fixture) engine(p installation.Parts) *operation.Engine {
	fx.Helper()
	e, err := operation.New(p.Table, billingperiods.Open(p).Definitions(), operation.Options{
		Now: p.Now, Random: p.Random, Log: p.Log, Jitter: func(time.Duration) time.Duration { return 10 * time.Minute },
	})
	fx.noError(err)
	return e
}

// recordedPeriods returns the first days of the recorded periods of a subscription.
func (fx *fixture) recordedPeriods(s metering.Subscription) (out []string) {
	for key := range fx.items.Items() {
		if from, ok := strings.CutPrefix(key.PK, "metering-history#"); ok && from == s.ID {
			out = append(out, key.SK)
		}
	}
	slices.Sort(out)
	return out
}

// table returns the decoded items of the table by their keys, without operations.
func (fx *fixture) table() map[string]any {
	fx.Helper()
	out := map[string]any{}
	for key, item := range fx.items.Items() {
		if _, ok := operation.IDOf(key); ok {
			continue
		}
		var content map[string]any
		fx.noError(store.Decode(item, &content))
		out[key.PK+" "+key.SK] = content
	}
	return out
}

// status returns the status in the table, independent of the clock.
func (fx *fixture) status(s metering.Subscription) metering.Status {
	fx.Helper()
	var record struct {
		Status metering.Status `dynamodbav:"status"`
	}
	fx.noError(store.Decode(fx.items.Items()[fx.keyOf(s)], &record))
	return record.Status
}

// due returns the due subscriptions.
func (fx *fixture) due() (out []store.Key) {
	fx.Helper()
	for shard := range metering.DueShards {
		keys, err := fx.parts.Table.Keys(fx.Context(), metering.DueQuery(shard, fx.now))
		fx.noError(err)
		out = append(out, keys...)
	}
	return out
}

// keyOf returns the table key of a subscription.
func (fx *fixture) keyOf(s metering.Subscription) store.Key {
	fx.Helper()
	for key := range fx.items.Items() {
		if key.SK == s.ID && strings.HasPrefix(key.PK, "metering-subscription#") {
			return key
		}
	}
	fx.Fatalf("no item of subscription %s, want one", s.ID)
	return store.Key{}
}
