package billingperiods_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/base/ids"
	"github.com/gatewright/gatewright/shared/core/installation"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
	"github.com/gatewright/gatewright/shared/format/meter"
	"github.com/gatewright/gatewright/shared/resource/billingperiods"
	"github.com/gatewright/gatewright/shared/resource/metering"
)

// runs is the number of seeds of `make test`: with GATEWRIGHT_SIMULATIONS=100 it is 10,000.
const runs = 100

// TestClosingSurvivesFailures checks that runs with failures of the workers and the table have the same result as a run
// without failures. Every period is written once. A counter and the versions of the subscriptions show that each
// subscription is changed equally often. Two calls of the job have begun operations, and a subscription is changed
// during the runs.
func TestClosingSurvivesFailures(t *testing.T) {
	t.Parallel()
	operationtest.Simulate(t, newScenario(t, false), runs)
}

// TestSimulationDetectsSeparateCommit checks that the simulation finds a failing run if the counter is written in a
// separate commit.
func TestSimulationDetectsSeparateCommit(t *testing.T) {
	t.Parallel()
	if operationtest.Explore(t, newScenario(t, true), runs) == nil {
		t.Error("Explore() of a count in a separate commit finds no failing run, want one")
	}
}

// countingSubscriptions counts closed subscriptions, in the same commit or in a separate one.
type countingSubscriptions struct {
	billingperiods.Subscriptions
	table    *store.Table
	separate bool
}

// Close implements billingperiods.Subscriptions.
func (c countingSubscriptions) Close(ctx context.Context, key store.Key, now time.Time) ([]store.Write, bool, error) {
	writes, more, err := c.Subscriptions.Close(ctx, key, now)
	if err != nil || len(writes) == 0 {
		return nil, false, err
	}
	count := store.Upsert(store.Key{PK: "counter", SK: "."}, store.Add(store.At("n"), int64(len(writes))))
	if c.separate {
		return writes, more, c.table.Commit(context.WithoutCancel(ctx), count)
	}
	return append(writes, count), more, nil
}

// newScenario returns a function that creates a scenario. separate is the field of countingSubscriptions.
func newScenario(t *testing.T, separate bool) func() operationtest.Scenario {
	return func() operationtest.Scenario {
		// when the clock of a synctest bubble starts
		clock := func() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }
		source := ids.NewSource(storetest.Random(t), clock)
		parts := func(w *operationtest.Worker) installation.Parts {
			return installation.Parts{Table: w.Table, IDs: source, Now: clock, Log: slog.New(slog.DiscardHandler)}
		}
		var changed store.Key
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				// customer changes a subscription during the runs.
				customer := operation.Definition{Kind: "customer", First: "change", States: map[string]operation.State{
					"change": {
						Next: operation.Succeed, MustSucceed: true,
						Task: func(context.Context, operation.Step) (operation.Result, error) {
							change := store.Update(changed, store.Set(store.At("metadata"), "{}"), store.Add(store.At("version"), 1))
							return operation.Result{Writes: []store.Write{change}}, nil
						},
					},
				}}
				p := parts(w)
				return append(billingperiods.New(p.Table, countingSubscriptions{metering.Open(p), p.Table, separate},
					p.Log).Definitions(), customer)
			},
			Setup: func(ctx context.Context, w *operationtest.Worker) error {
				s, err := openShop(ctx, parts(w))
				if err != nil {
					return err
				}
				for _, sub := range []struct {
					startedOn time.Time
					trial     int
				}{{day(1999, 12, 20), 0}, {day(1999, 12, 25), 5}, {day(1999, 10, 31), 0}} {
					created, err := s.subscribe(ctx, sub.startedOn, meter.Monthly, sub.trial)
					if err != nil {
						return err
					}
					changed = store.KeyIn("metering-subscription#"+s.bucket.Bucket, created.ID)
				}
				for i := range 2 {
					if _, err := billingperiods.Open(parts(w)).Begin(ctx, clock().Add(time.Duration(i)*time.Minute)); err != nil {
						return err
					}
				}
				return w.Table.Commit(ctx, operation.Create(operation.Start{ID: "customer", Kind: "customer"}, clock()))
			},
			Ignore: []string{"createdOn", "updatedOn", "timestamp", "ttl"},
		}
	}
}
