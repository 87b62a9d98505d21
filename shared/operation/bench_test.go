package operation_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// unrepeated gives a table's transactions tokens that no run before had: the
// emulator at GATEWRIGHT_DYNAMODB_ENDPOINT remembers them.
func unrepeated(o *store.Options) { o.Random = rand.Reader }

// BenchmarkDrain empties a partition of consumers with five companions each
// over the emulator: what follows the deletion of a bucket.
func BenchmarkDrain(b *testing.B) {
	const companions = 5
	table, _, _ := storetest.NewDynamoDB(b, storetest.Clock(time.Now), unrepeated)
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
	engine, err := operation.New(table, []operation.Definition{one(operation.State{Task: drain.Drain()})},
		operation.Options{Now: time.Now, Random: storetest.Random(b), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	w := &world{t: b, table: table, engine: engine}
	w.fill(b.N)
	for c := range companions {
		for from := 0; from < b.N; from += store.MaxWrites {
			var writes []store.Write
			for n := from; n < min(b.N, from+store.MaxWrites); n++ {
				writes = append(writes, store.Put(store.Key{PK: fmt.Sprint("companion", c), SK: itemKey(n).SK}, struct{}{}))
			}
			w.commit(writes...)
		}
	}
	w.begin("drain", "one")
	b.ResetTimer()
	if r := w.run("drain"); r.Status != operation.Success {
		b.Fatalf("record is %+v", r)
	}
}

// BenchmarkStep is a chain of steps with one effect each: what the engine adds
// to a commit.
func BenchmarkStep(b *testing.B) {
	for name, table := range map[string]func(*testing.B) *store.Table{
		"memory": func(b *testing.B) *store.Table { return storetest.New(b, storetest.Clock(time.Now)) },
		"dynoxide": func(b *testing.B) *store.Table {
			table, _, _ := storetest.NewDynamoDB(b, storetest.Clock(time.Now), unrepeated)
			return table
		},
	} {
		b.Run(name, func(b *testing.B) {
			table := table(b)
			engine, err := operation.New(table, []operation.Definition{one(operation.State{
				Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
					r, err := add("n", 1)(ctx, s)
					r.Again = s.Number+1 < b.N
					return r, err
				},
			})}, operation.Options{Now: time.Now, Random: storetest.Random(b), Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				b.Fatal(err)
			}
			w := &world{t: b, table: table, engine: engine}
			w.begin("op", "one")
			b.ResetTimer()
			if r := w.run("op"); r.Status != operation.Success || w.counter("n") != b.N {
				b.Fatalf("record is %+v", r)
			}
		})
	}
}
