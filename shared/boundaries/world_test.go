package boundaries_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/auth"
	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/memory"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

var acme = auth.Owner{AccountID: "a-1", Account: "acme", Viewer: auth.Principal{AccountID: "a-1", Permissions: auth.Full()}}

// request is the context of a change.
func request(ctx context.Context, id string) context.Context {
	return store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", Time: storetest.Epoch, RequestID: id}))
}

// shop is a bucket with a plan, and makes subscriptions to it.
type shop struct {
	parts installation.Parts
	at    metering.BucketAt
	plan  metering.Plan
	made  int
}

func openShop(ctx context.Context, p installation.Parts) (*shop, error) {
	s := &shop{parts: p}
	b, err := metering.Open(p).CreateBucket(request(ctx, "bucket"), acme)
	if err != nil {
		return nil, err
	}
	s.at = metering.BucketAt{Owner: acme, Bucket: b.ID}
	s.plan, err = metering.Open(p).CreatePlan(request(ctx, "plan"), s.at, metering.Terms{
		Label: "pro", ExternalID: "pro", Meters: map[string]metering.Meter{"requests": {Max: 10}}, TrialEndStatus: metering.Paused,
	})
	return s, err
}

// subscribe makes a subscription as it was made at an instant, with a trial of so
// many days, 0 for none.
func (s *shop) subscribe(ctx context.Context, on time.Time, renewal meter.Strategy, trialDays int) (metering.Subscription, error) {
	s.made++
	p := s.parts
	p.Now = func() time.Time { return on }
	n := metering.NewSubscription{
		PlanIDs: []string{s.plan.ID}, PlanExternalIDs: []string{"pro"}, Status: metering.Active, Renewal: renewal, Region: "us-east1",
		CustomerKey: "ada", ExternalID: fmt.Sprint("s-", s.made), CustomerExternalID: "c",
	}
	if trialDays > 0 {
		n.Status, n.TrialEnd = metering.Trialing, new(on.AddDate(0, 0, trialDays))
	}
	return metering.Open(p).CreateSubscription(request(ctx, "subscription-"+n.ExternalID), s.at, n)
}

// world is an installation at storetest.Epoch, unless its clock is set.
type world struct {
	*testing.T
	*shop
	items *memory.Backend
	now   time.Time
	log   bytes.Buffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, items: memory.New(), now: storetest.Epoch}
	shop, err := openShop(t.Context(), w.over(w.items))
	w.must(err)
	w.shop = shop
	return w
}

// over is the installation over a backend.
func (w *world) over(b store.Backend) installation.Parts {
	clock := func() time.Time { return w.now }
	return installation.Parts{
		Table: storetest.Over(w.T, b, storetest.Clock(clock)), Now: clock, Random: storetest.Random(w.T),
		IDs: ids.NewSource(storetest.Random(w.T), clock), Log: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) subscribed(on time.Time, renewal meter.Strategy, trialDays int) metering.Subscription {
	w.Helper()
	s, err := w.subscribe(w.Context(), on, renewal, trialDays)
	w.must(err)
	return s
}

// run calls the hourly job, and has what it begins be carried out.
func (w *world) run(p installation.Parts) (begun int) {
	w.Helper()
	begun, err := boundaries.Open(p).Begin(w.Context(), p.Now())
	w.must(err)
	w.sweep(p)
	return begun
}

// sweep has operations go on that have not ended.
func (w *world) sweep(p installation.Parts) {
	w.Helper()
	w.must(w.engine(p).Sweep(w.Context()))
}

func (w *world) engine(p installation.Parts) *operation.Engine {
	w.Helper()
	e, err := operation.New(p.Table, boundaries.Open(p).Definitions(), operation.Options{
		Now: p.Now, Random: p.Random, Log: p.Log, Jitter: func(time.Duration) time.Duration { return 10 * time.Minute },
	})
	w.must(err)
	return e
}

// rows spells the periods that are written down of a subscription.
func (w *world) rows(s metering.Subscription) (out []string) {
	for key := range w.items.Items() {
		if from, ok := strings.CutPrefix(key.PK, "metering-history#"); ok && from == s.ID {
			out = append(out, key.SK)
		}
	}
	slices.Sort(out)
	return out
}

// table spells all that the table has, without operations.
func (w *world) table() map[string]any {
	w.Helper()
	out := map[string]any{}
	for key, item := range w.items.Items() {
		if _, ok := operation.IDOf(key); ok {
			continue
		}
		var content map[string]any
		w.must(store.Decode(item, &content))
		out[key.PK+" "+key.SK] = content
	}
	return out
}

// status is the one in the table, whatever follows from the clock.
func (w *world) status(s metering.Subscription) metering.Status {
	w.Helper()
	var record struct {
		Status metering.Status `dynamodbav:"status"`
	}
	w.must(store.Decode(w.items.Items()[w.keyOf(s)], &record))
	return record.Status
}

// due gives what is due now.
func (w *world) due() (out []store.Key) {
	w.Helper()
	for shard := range metering.DueShards {
		keys, err := w.parts.Table.Keys(w.Context(), metering.DueQuery(shard, w.now))
		w.must(err)
		out = append(out, keys...)
	}
	return out
}

// keyOf is where a subscription is in the table.
func (w *world) keyOf(s metering.Subscription) store.Key {
	w.Helper()
	for key := range w.items.Items() {
		if key.SK == s.ID && strings.HasPrefix(key.PK, "metering-subscription#") {
			return key
		}
	}
	w.Fatalf("there is no subscription %s", s.ID)
	return store.Key{}
}
