package boundaries_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/boundaries"
	"github.com/gatewright/gatewright/shared/ids"
	"github.com/gatewright/gatewright/shared/installation"
	"github.com/gatewright/gatewright/shared/meter"
	"github.com/gatewright/gatewright/shared/metering"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// runs is how many seeds `make test` plays: GATEWRIGHT_SIMULATIONS=100 are 10,000.
const runs = 100

// TestBoundariesSurviveEverything has each run end as the undisturbed one does,
// whatever happens to the workers and the table: with every period written once and
// every subscription changed as often, which a counter and its version tell. Two calls
// of the job have begun operations, and somebody changes a subscription meanwhile.
func TestBoundariesSurviveEverything(t *testing.T) {
	t.Parallel()
	operationtest.Simulate(t, fresh(t, false), runs)
}

// TestEffectApartFromTheCommitIsNoticed is the test of the test.
func TestEffectApartFromTheCommitIsNoticed(t *testing.T) {
	t.Parallel()
	if operationtest.Explore(t, fresh(t, true), runs) == nil {
		t.Error("what is closed is counted in a commit of its own, and no run shows it")
	}
}

// counted counts what is closed: with it, or apart from it.
type counted struct {
	boundaries.Subscriptions
	table *store.Table
	apart bool
}

// Close implements boundaries.Subscriptions.
func (c counted) Close(ctx context.Context, key store.Key, now time.Time) ([]store.Write, bool, error) {
	writes, more, err := c.Subscriptions.Close(ctx, key, now)
	if err != nil || len(writes) == 0 {
		return nil, false, err
	}
	count := store.Upsert(store.Key{PK: "counter", SK: "."}, store.Add(store.At("n"), int64(len(writes))))
	if c.apart {
		return writes, more, c.table.Commit(context.WithoutCancel(ctx), count)
	}
	return append(writes, count), more, nil
}

func fresh(t *testing.T, apart bool) func() operationtest.Scenario {
	return func() operationtest.Scenario {
		clock := func() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) } // when a bubble begins
		source := ids.NewSource(storetest.Random(t), clock)
		parts := func(w *operationtest.Worker) installation.Parts {
			return installation.Parts{Table: w.Table, IDs: source, Now: clock, Log: slog.New(slog.DiscardHandler)}
		}
		var changed store.Key
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition {
				customer := operation.Definition{Kind: "customer", First: "change", States: map[string]operation.State{
					"change": {Next: operation.Succeed, Must: true, Task: func(context.Context, operation.Step) (operation.Result, error) {
						change := store.Update(changed, store.Set(store.At("metadata"), "{}"), store.Add(store.At("version"), 1))
						return operation.Result{Writes: []store.Write{change}}, nil
					}},
				}}
				p := parts(w)
				return append(boundaries.New(p.Table, counted{metering.Open(p), p.Table, apart}, p.Log).Definitions(), customer)
			},
			Arrange: func(ctx context.Context, w *operationtest.Worker) error {
				s, err := openShop(ctx, parts(w))
				if err != nil {
					return err
				}
				for _, of := range []struct {
					on    time.Time
					trial int
				}{{day(1999, 12, 20), 0}, {day(1999, 12, 25), 5}, {day(1999, 10, 31), 0}} {
					made, err := s.subscribe(ctx, of.on, meter.Monthly, of.trial)
					if err != nil {
						return err
					}
					changed = store.In("metering-subscription#"+s.at.Bucket, made.ID)
				}
				for i := range 2 {
					if _, err := boundaries.Open(parts(w)).Begin(ctx, clock().Add(time.Duration(i)*time.Minute)); err != nil {
						return err
					}
				}
				return w.Table.Commit(ctx, operation.Begin(operation.Start{ID: "customer", Kind: "customer"}, clock()))
			},
			Ignore: []string{"createdOn", "updatedOn", "timestamp", "ttl"},
		}
	}
}
