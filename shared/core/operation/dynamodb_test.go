package operation_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// TestEngineRunsOverDynamoDB checks that the conditions, the encoding of records and
// the due index also work on DynamoDB, and not only in the memory of the simulator.
func TestEngineRunsOverDynamoDB(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	table, _, _ := storetest.NewDynamoDB(t, storetest.Clock(now), withRandomTokens)
	drain := singleState(operation.State{Task: operation.Items[item]{
		Table: table, Query: allItems, WritesPerStep: 150,
		Change: func(_ context.Context, _ operation.Step, i item, write operation.Group) error {
			return write(store.Delete(store.Key{PK: "items", SK: i.SK}), store.Delete(store.Key{PK: "companion", SK: i.SK}))
		},
	}.Drain()})
	objects := &bucket{}
	definitions := append(orderDefinitions(&operationtest.Worker{}, objects), drain)
	engine, err := operation.New(table, definitions, operation.Options{
		Now: now, Random: storetest.Random(t),
		Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	fx := &fixture{t: t, table: table, engine: engine}
	fx.fill(300)
	type input struct{ Poor bool }
	fx.commit(
		operation.Create(operation.Start{ID: "rich", Kind: "order", Input: input{}}, now()),
		operation.Create(operation.Start{ID: "poor", Kind: "order", Input: input{Poor: true}}, now()),
		operation.Create(operation.Start{ID: "drain", Kind: "one"}, now()),
	)
	claim := engine.Claim(operation.Start{ID: "claimed", Kind: "order", Input: input{}}, 0)
	fx.commit(claim.Begin())
	if r, err := claim.Run(t.Context()); err != nil || r.State != "pay" {
		t.Errorf("Run() of the claim = %+v, %v, want the state pay", r, err)
	}
	fx.sweep()
	if r := fx.read("rich"); r.Ended() || r.State != "pay" {
		t.Errorf("order before its delay has passed = %+v, want it in the state pay", r)
	}
	ahead.Store(int64(100 * time.Second))
	fx.sweep()
	for id, want := range map[string]operation.Status{
		"rich": operation.Success, "poor": operation.Failure, "claimed": operation.Success, "drain": operation.Success,
	} {
		if r := fx.read(id); r.Status != want {
			t.Errorf("operation %s = %+v, want status %s", id, r, want)
		}
	}
	got := fmt.Sprint(fx.counter("reserved"), fx.counter("packed"), fx.counter("paid"), fx.itemCount())
	if want := "2 15 2 0"; got != want {
		t.Errorf("reserved, packed, paid, items are %s, want %s", got, want)
	}
	meter := &store.Meter{}
	if err := engine.Sweep(store.WithMeter(t.Context(), meter)); err != nil || meter.Usage().Reads != 0 {
		t.Errorf("Sweep() with nothing due uses %+v, %v, want no reads", meter.Usage(), err)
	}
}
