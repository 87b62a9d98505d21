package operation_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/operation/operationtest"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// What the simulator plays in memory holds on the database as well: the
// conditions, the records' encoding and the due index are those of DynamoDB.
func TestEngineRunsOverDynamoDB(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	table, _, _ := storetest.NewDynamoDB(t, storetest.Clock(now), unrepeated)
	drain := one(operation.State{Task: operation.Items[item]{
		Table: table, Query: allItems, WritesPerStep: 150,
		Change: func(_ context.Context, _ operation.Step, i item, write operation.Group) error {
			return write(store.Delete(store.Key{PK: "items", SK: i.SK}), store.Delete(store.Key{PK: "companion", SK: i.SK}))
		},
	}.Drain()})
	shelf := &bucket{}
	definitions := append(order(&operationtest.Worker{}, shelf), drain)
	engine, err := operation.New(table, definitions, operation.Options{Now: now, Random: storetest.Random(t), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, table: table, engine: engine}
	w.fill(300)
	type input struct{ Poor bool }
	w.commit(
		operation.Begin(operation.Start{ID: "rich", Kind: "order", Input: input{}}, now()),
		operation.Begin(operation.Start{ID: "poor", Kind: "order", Input: input{Poor: true}}, now()),
		operation.Begin(operation.Start{ID: "drain", Kind: "one"}, now()),
	)
	claim := engine.Claim(operation.Start{ID: "claimed", Kind: "order", Input: input{}}, 0)
	w.commit(claim.Begin())
	if r, err := claim.Run(t.Context()); err != nil || r.State != "pay" {
		t.Errorf("the claimed one: %+v, %v", r, err)
	}
	w.sweep()
	if r := w.read("rich"); r.Ended() || r.State != "pay" {
		t.Errorf("an order before its wait is over: %+v", r)
	}
	ahead.Store(int64(100 * time.Second))
	w.sweep()
	for id, want := range map[string]operation.Status{
		"rich": operation.Success, "poor": operation.Failure, "claimed": operation.Success, "drain": operation.Success,
	} {
		if r := w.read(id); r.Status != want {
			t.Errorf("operation %s: %+v", id, r)
		}
	}
	got := fmt.Sprint(w.counter("reserved"), w.counter("packed"), w.counter("paid"), w.items())
	if want := "2 15 2 0"; got != want {
		t.Errorf("reserved, packed, paid, items are %s, want %s", got, want)
	}
	meter := &store.Meter{}
	if err := engine.Sweep(store.WithMeter(t.Context(), meter)); err != nil || meter.Usage().Reads != 0 {
		t.Errorf("with nothing left a sweep uses %+v, %v", meter.Usage(), err)
	}
}
