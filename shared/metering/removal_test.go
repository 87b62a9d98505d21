package metering_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/audit"
	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// run carries out the operations that were begun.
func (w *world) run() {
	w.Helper()
	engine, err := operation.New(w.parts.Table, metering.NewRemover(w.parts).Definitions(),
		operation.Options{Now: w.at, Random: storetest.Random(w.T), Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	all, err := engine.List(w.Context())
	w.must(err)
	for _, r := range all {
		if r, err := engine.Run(w.Context(), r.ID); err != nil || r.Status != operation.Success {
			w.Fatalf("%s: %+v, %v", r.Kind, r, err)
		}
	}
}

// rows lists what of metering is in the table, without counters.
func (w *world) rows() (out []string) {
	for key := range w.items.Items() {
		if strings.HasPrefix(key.PK, "metering-") && !strings.HasPrefix(key.PK, "metering-bucket-count") {
			out = append(out, key.PK+" "+key.SK)
		}
	}
	return out
}

func TestDeletedBucketIsGoneAtOnceAndLeavesNothing(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	s := w.subscribe(at, of(pro))
	for i := range 30 {
		n := of(pro)
		n.ExternalID = fmt.Sprint(i)
		w.subscribe(at, n)
	}
	w.set("2026-12-31T00:10:00Z")
	w.closeAll()
	gateway := metering.NewDirectory(w.parts)
	w.must(w.DeleteBucket(w.request(), at))
	_, err := w.ReadSubscription(t.Context(), at, s.ID)
	faulttest.Want(t, err, fault.NotFound, "metering bucket")
	_, err = gateway.Standing(t.Context(), "a-1", at.Bucket, "ada")
	faulttest.Want(t, err, fault.NotFound, "no subscription")
	faulttest.Want(t, w.DeleteBucket(w.request(), at), fault.NotFound, "metering bucket")
	w.run()
	if rows := w.rows(); len(rows) > 0 {
		t.Errorf("there is left: %q", rows)
	}
}

func TestDeletedSubscriptionLeavesNothing(t *testing.T) {
	w := newWorld(t)
	at := w.bucket(acme)
	pro := w.plan(at, "pro", 10)
	before := len(w.rows())
	s := w.subscribe(at, of(pro))
	w.set("2026-12-31T00:10:00Z")
	w.closeAll()
	w.must(w.DeleteSubscription(w.request(), at, s.ID))
	_, err := w.ReadSubscription(t.Context(), at, s.ID)
	faulttest.Want(t, err, fault.NotFound, "metering subscription")
	if _, total, err := w.ListSubscriptions(t.Context(), at, store.Page{Limit: 1}); total != 0 || err != nil {
		t.Errorf("there are %d, %v", total, err)
	}
	w.run()
	if rows := w.rows(); len(rows) != before {
		t.Errorf("there is left: %q", rows)
	}
}

// TestPeriodThatIsWrittenDownMeanwhileGoesToo, whenever it is while a bucket is emptied.
func TestPeriodThatIsWrittenDownMeanwhileGoesToo(t *testing.T) {
	for nth := range 12 {
		w := newWorld(t)
		m := &meddling{Backend: w.items}
		w.over(m)
		at := w.bucket(acme)
		w.subscribe(at, of(w.plan(at, "pro", 10)))
		w.set("2026-02-28T00:10:00Z")
		key := w.due()[0]
		w.must(w.DeleteBucket(w.request(), at))
		commits := 0
		m.do = func() {
			if commits++; commits > nth {
				m.do = nil
				writes, _, err := w.Close(t.Context(), key, w.at())
				w.must(err)
				if len(writes) > 0 {
					w.must(w.parts.Table.Commit(t.Context(), writes...))
				}
			}
		}
		w.run()
		if rows := w.rows(); len(rows) > 0 {
			t.Errorf("written down before commit %d, there is left: %q", nth, rows)
		}
	}
}

// TestNothingIsMadeInABucketThatGoes: what is asked for while the bucket is deleted is refused, or goes
// with it.
func TestNothingIsMadeInABucketThatGoes(t *testing.T) {
	for name, ask := range map[string]func(w *world, at metering.BucketAt, s metering.Subscription) error{
		"a plan": func(w *world, at metering.BucketAt, _ metering.Subscription) error {
			_, err := w.CreatePlan(w.request(), at, metering.Terms{Label: "a", ExternalID: "a"})
			return err
		},
		"a change of a plan": func(w *world, at metering.BucketAt, s metering.Subscription) error {
			_, err := w.UpdatePlan(w.request(), at, s.PlanIDs[0], metering.PlanPatch{ExternalID: new("b")})
			return err
		},
		"a subscription": func(w *world, at metering.BucketAt, s metering.Subscription) error {
			n := of()
			n.PlanIDs, n.PlanExternalIDs, n.ExternalID = s.PlanIDs, s.PlanExternalIDs, "other"
			_, err := w.CreateSubscription(w.request(), at, n)
			return err
		},
		"a change of a subscription": func(w *world, at metering.BucketAt, s metering.Subscription) error {
			_, err := w.UpdateSubscription(w.request(), at, s.ID, metering.SubscriptionPatch{Status: metering.Paused})
			return err
		},
	} {
		for _, emptied := range []bool{false, true} { // already, when it is asked for
			t.Run(fmt.Sprint(name, ", emptied ", emptied), func(t *testing.T) {
				w := newWorld(t)
				at := w.bucket(acme)
				s := w.subscribe(at, of(w.plan(at, "pro", 10)))
				m := &meddling{Backend: w.items}
				w.over(m)
				m.do = func() {
					m.do = nil
					w.must(w.DeleteBucket(w.request(), at))
					if emptied {
						w.run()
					}
				}
				faulttest.Want(t, ask(w, at, s), fault.NotFound, "metering bucket")
				if !emptied {
					w.run()
				}
				if rows := w.rows(); len(rows) > 0 {
					t.Errorf("there is left: %q", rows)
				}
			})
		}
	}
}

// meddling has something happen before the next commit.
type meddling struct {
	store.Backend
	do func()
}

// Transact implements store.Backend.
func (m *meddling) Transact(ctx context.Context, token string, writes []store.Write) error {
	if m.do != nil {
		m.do()
	}
	return m.Backend.Transact(ctx, token, writes)
}

// runs is how many seeds `make test` plays.
const runs = 60

// TestRemovalSurvivesEverything has each run end as the undisturbed one does, whatever happens to the
// workers and the table.
func TestRemovalSurvivesEverything(t *testing.T) {
	t.Parallel()
	clock := func() time.Time { return storetest.Epoch }
	operationtest.Simulate(t, func() operationtest.Scenario {
		source := ids.NewSource(storetest.Random(t), clock)
		parts := func(w *operationtest.Worker) installation.Parts {
			return installation.Parts{Table: w.Table, IDs: source, Now: w.Now}
		}
		n := 0
		request := func(ctx context.Context) context.Context {
			n++
			return store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", Time: storetest.Epoch, RequestID: fmt.Sprint("r-", n)}))
		}
		var at metering.BucketAt
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				return metering.NewRemover(parts(w)).Definitions()
			},
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				s := metering.Open(parts(w))
				b, err := s.CreateBucket(request(ctx), acme)
				if err != nil {
					return err
				}
				at = metering.BucketAt{Owner: acme, Bucket: b.ID}
				pro, err := s.CreatePlan(request(ctx), at, metering.Terms{Label: "pro", ExternalID: "pro"})
				for i := range 3 {
					subscription := of(pro)
					subscription.ExternalID = fmt.Sprint(i)
					if err == nil {
						_, err = s.CreateSubscription(request(ctx), at, subscription)
					}
				}
				return err
			},
			Act: func(ctx context.Context, w *operationtest.Worker) error {
				ctx = store.Decide(audit.With(ctx, &audit.Request{AccountID: "a-1", Time: storetest.Epoch, RequestID: "delete"}))
				return metering.Open(parts(w)).DeleteBucket(ctx, at)
			},
			Ignore: []string{"createdOn", "updatedOn", "timestamp", "ttl"},
		}
	}, runs)
}
