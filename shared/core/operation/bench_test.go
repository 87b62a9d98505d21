package operation_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// withRandomTokens makes a table's transactions use tokens that no earlier run has
// used, because the emulator at GATEWRIGHT_DYNAMODB_ENDPOINT remembers tokens.
func withRandomTokens(o *store.Options) { o.Random = rand.Reader }

// BenchmarkDrain deletes a partition of consumers, each with five
// dependent items, over the emulator, as after the deletion of a bucket.
func BenchmarkDrain(b *testing.B) {
	const companions = 5
	table, _, _ := storetest.NewDynamoDB(b, storetest.Clock(time.Now), withRandomTokens)
	drain := operation.Items[item]{
		Table: table, Query: allItems,
		Change: func(_ context.Context, _ operation.Step, i item, write operation.Group) error {
			group := []store.Write{store.Delete(store.Key{PK: "items", SK: i.SK})}
			for c := range companions {
				group = append(group, store.Delete(store.Key{PK: fmt.Sprint("companion", c), SK: i.SK}))
			}
			return write(group...)
		},
	}
	engine, err := operation.New(table, []operation.Definition{singleState(operation.State{Task: drain.Drain()})},
		operation.Options{Now: time.Now, Random: storetest.Random(b), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	fx := &fixture{t: b, table: table, engine: engine}
	fx.fill(b.N)
	for c := range companions {
		for from := 0; from < b.N; from += store.MaxWrites {
			var writes []store.Write
			for n := from; n < min(b.N, from+store.MaxWrites); n++ {
				writes = append(writes, store.Put(store.Key{PK: fmt.Sprint("companion", c), SK: itemKey(n).SK}, struct{}{}))
			}
			fx.commit(writes...)
		}
	}
	fx.begin("drain", "one")
	b.ResetTimer()
	if r := fx.run("drain"); r.Status != operation.Success {
		b.Fatalf("Run(drain) = %+v, want success", r)
	}
}

// BenchmarkStep runs a chain of steps with one effect each. It measures the overhead of the engine compared with a commit.
func BenchmarkStep(b *testing.B) {
	for name, table := range map[string]func(*testing.B) *store.Table{
		"memory": func(b *testing.B) *store.Table { return storetest.New(b, storetest.Clock(time.Now)) },
		"dynoxide": func(b *testing.B) *store.Table {
			table, _, _ := storetest.NewDynamoDB(b, storetest.Clock(time.Now), withRandomTokens)
			return table
		},
	} {
		b.Run(name, func(b *testing.B) {
			table := table(b)
			engine, err := operation.New(table, []operation.Definition{singleState(operation.State{
				Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
					r, err := addTask("n", 1)(ctx, s)
					r.Repeat = s.Number+1 < b.N
					return r, err
				},
			})}, operation.Options{Now: time.Now, Random: storetest.Random(b), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			fx := &fixture{t: b, table: table, engine: engine}
			fx.begin("op", "one")
			b.ResetTimer()
			if r := fx.run("op"); r.Status != operation.Success || fx.counter("n") != b.N {
				b.Fatalf("Run(op) = %+v with %d effects, want success with %d", r, fx.counter("n"), b.N)
			}
		})
	}
}
