package metering_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/audit"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// runOperations runs the operations that were begun.
func (fx *fixture) runOperations() {
	fx.Helper()
	engine, err := operation.New(fx.parts.Table, metering.NewRemover(fx.parts).Definitions(),
		operation.Options{Now: fx.clock, Random: storetest.Random(fx.T), Log: slog.New(slog.DiscardHandler)})
	fx.noError(err)
	all, err := engine.List(fx.Context())
	fx.noError(err)
	for _, r := range all {
		if r, err := engine.Run(fx.Context(), r.ID); err != nil || r.Status != operation.Success {
			fx.Fatalf("Run(%s) = %+v, %v, want %s", r.Kind, r, err, operation.Success)
		}
	}
}

// meteringRows returns the table keys of all metering records, except for the number of an account's buckets.
func (fx *fixture) meteringRows() (out []string) {
	for key := range fx.items.Items() {
		if strings.HasPrefix(key.PK, "metering-") && !strings.HasPrefix(key.PK, "metering-bucket-count") {
			out = append(out, key.PK+" "+key.SK)
		}
	}
	return out
}

func TestDeletedBucketLeavesNoRows(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	s := fx.subscribe(at, newSubscription(pro))
	for i := range 30 {
		n := newSubscription(pro)
		n.ExternalID = fmt.Sprint(i)
		fx.subscribe(at, n)
	}
	fx.setClock("2026-12-31T00:10:00Z")
	fx.closeAll()
	gateway := metering.NewDirectory(fx.parts)
	fx.noError(fx.DeleteBucket(fx.requestContext(), at))
	_, err := fx.ReadSubscription(t.Context(), at, s.ID)
	faulttest.Check(t, err, fault.NotFound, "metering bucket")
	_, err = gateway.CustomerState(t.Context(), "a-1", at.Bucket, "ada")
	faulttest.Check(t, err, fault.NotFound, "no subscription")
	faulttest.Check(t, fx.DeleteBucket(fx.requestContext(), at), fault.NotFound, "metering bucket")
	fx.runOperations()
	if rows := fx.meteringRows(); len(rows) > 0 {
		t.Errorf("remaining items = %q, want none", rows)
	}
}

func TestDeletedSubscriptionLeavesNoRows(t *testing.T) {
	fx := newFixture(t)
	at := fx.createBucket(acme)
	pro := fx.createPlan(at, "pro", 10)
	before := len(fx.meteringRows())
	s := fx.subscribe(at, newSubscription(pro))
	fx.setClock("2026-12-31T00:10:00Z")
	fx.closeAll()
	fx.noError(fx.DeleteSubscription(fx.requestContext(), at, s.ID))
	_, err := fx.ReadSubscription(t.Context(), at, s.ID)
	faulttest.Check(t, err, fault.NotFound, "metering subscription")
	if _, total, err := fx.ListSubscriptions(t.Context(), at, store.Page{Limit: 1}); total != 0 || err != nil {
		t.Errorf("ListSubscriptions() = %d, %v, want 0 and no error", total, err)
	}
	fx.runOperations()
	if rows := fx.meteringRows(); len(rows) != before {
		t.Errorf("%d items remain, want %d: %q", len(rows), before, rows)
	}
}

// TestConcurrentlyRecordedPeriodIsRemoved records a period before one commit of the operation that deletes a bucket's
// contents, for each of its first 12 commits, and checks that nothing remains.
func TestConcurrentlyRecordedPeriodIsRemoved(t *testing.T) {
	for nth := range 12 {
		fx := newFixture(t)
		backend := &interruptedBackend{Backend: fx.items}
		fx.useBackend(backend)
		at := fx.createBucket(acme)
		fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
		fx.setClock("2026-02-28T00:10:00Z")
		key := fx.dueKeys()[0]
		fx.noError(fx.DeleteBucket(fx.requestContext(), at))
		commits := 0
		backend.beforeCommit = func() {
			if commits++; commits > nth {
				backend.beforeCommit = nil
				writes, _, err := fx.Close(t.Context(), key, fx.clock())
				fx.noError(err)
				if len(writes) > 0 {
					fx.noError(fx.parts.Table.Commit(t.Context(), writes...))
				}
			}
		}
		fx.runOperations()
		if rows := fx.meteringRows(); len(rows) > 0 {
			t.Errorf("period recorded before commit %d: remaining items = %q, want none", nth+1, rows)
		}
	}
}

// TestNothingIsCreatedInDeletedBucket checks that requests fail if the bucket is deleted before their commit, and that
// nothing remains.
func TestNothingIsCreatedInDeletedBucket(t *testing.T) {
	for name, request := range map[string]func(f *fixture, at metering.BucketLocator, s metering.Subscription) error{
		"a plan": func(fx *fixture, at metering.BucketLocator, _ metering.Subscription) error {
			_, err := fx.CreatePlan(fx.requestContext(), at, metering.Terms{Label: "a", ExternalID: "a"})
			return err
		},
		"a change of a plan": func(fx *fixture, at metering.BucketLocator, s metering.Subscription) error {
			_, err := fx.UpdatePlan(fx.requestContext(), at, s.PlanIDs[0], metering.PlanPatch{ExternalID: new("b")})
			return err
		},
		"a subscription": func(fx *fixture, at metering.BucketLocator, s metering.Subscription) error {
			n := newSubscription()
			n.PlanIDs, n.PlanExternalIDs, n.ExternalID = s.PlanIDs, s.PlanExternalIDs, "other"
			_, err := fx.CreateSubscription(fx.requestContext(), at, n)
			return err
		},
		"a change of a subscription": func(fx *fixture, at metering.BucketLocator, s metering.Subscription) error {
			_, err := fx.UpdateSubscription(fx.requestContext(), at, s.ID, metering.SubscriptionPatch{Status: metering.Paused})
			return err
		},
	} {
		for _, emptied := range []bool{false, true} { // whether the operation ends before the request commits
			t.Run(fmt.Sprint(name, ", emptied ", emptied), func(t *testing.T) {
				fx := newFixture(t)
				at := fx.createBucket(acme)
				s := fx.subscribe(at, newSubscription(fx.createPlan(at, "pro", 10)))
				backend := &interruptedBackend{Backend: fx.items}
				fx.useBackend(backend)
				backend.beforeCommit = func() {
					backend.beforeCommit = nil
					fx.noError(fx.DeleteBucket(fx.requestContext(), at))
					if emptied {
						fx.runOperations()
					}
				}
				faulttest.Check(t, request(fx, at, s), fault.NotFound, "metering bucket")
				if !emptied {
					fx.runOperations()
				}
				if rows := fx.meteringRows(); len(rows) > 0 {
					t.Errorf("remaining items = %q, want none", rows)
				}
			})
		}
	}
}

// interruptedBackend calls beforeCommit, unless it is nil, before each commit.
type interruptedBackend struct {
	store.Backend
	beforeCommit func()
}

// Transact implements store.Backend.
func (b *interruptedBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if b.beforeCommit != nil {
		b.beforeCommit()
	}
	return b.Backend.Transact(ctx, token, writes)
}

// runs is the number of random runs in `make test`.
const runs = 60

// TestRemovalSurvivesFailures runs the deletion with failures of the workers and the table, and checks that it has the
// same result as without failures.
func TestRemovalSurvivesFailures(t *testing.T) {
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
			return store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
				AccountID: "a-1", Time: storetest.Epoch,
				RequestID: fmt.Sprint("r-", n),
			}))
		}
		var at metering.BucketLocator
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				return metering.NewRemover(parts(w)).Definitions()
			},
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				s := metering.Open(parts(w))
				b, err := s.CreateBucket(request(ctx), acme)
				if err != nil {
					return err
				}
				at = metering.BucketLocator{Owner: acme, Bucket: b.ID}
				pro, err := s.CreatePlan(request(ctx), at, metering.Terms{Label: "pro", ExternalID: "pro"})
				for i := range 3 {
					subscription := newSubscription(pro)
					subscription.ExternalID = fmt.Sprint(i)
					if err == nil {
						_, err = s.CreateSubscription(request(ctx), at, subscription)
					}
				}
				return err
			},
			Request: func(ctx context.Context, w *operationtest.Worker) error {
				ctx = store.WithReadSet(audit.WithRequest(ctx, &audit.Request{
					AccountID: "a-1", Time: storetest.Epoch,
					RequestID: "delete",
				}))
				return metering.Open(parts(w)).DeleteBucket(ctx, at)
			},
			Ignore: []string{"createdOn", "updatedOn", "timestamp", "ttl"},
		}
	}, runs)
}
