package operation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

type item struct {
	SK string `dynamodbav:"sk"`
}

func itemKey(n int) store.Key { return store.Key{PK: "items", SK: fmt.Sprintf("%05d", n)} }

func allItems(context.Context, operation.Step) (store.Query, error) {
	return store.Query{PK: "items"}, nil
}

func (w *world) fill(n int) {
	w.t.Helper()
	for from := 0; from < n; from += store.MaxWrites {
		var writes []store.Write
		for i := from; i < min(n, from+store.MaxWrites); i++ {
			writes = append(writes, store.Put(itemKey(i), struct{}{}))
		}
		w.commit(writes...)
	}
}

func (w *world) items() int {
	w.t.Helper()
	n, err := w.table.Count(w.t.Context(), store.Query{PK: "items"})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// itemTask makes a task of Items over a world's table, once there is one.
func itemTask(w **world, over func(table *store.Table) operation.Task) operation.Task {
	return func(ctx context.Context, s operation.Step) (operation.Result, error) {
		return over((*w).table)(ctx, s)
	}
}

func TestDrainFillsItsTransactionsAndAdvancesOnceAPortion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, one(operation.State{Task: itemTask(&w, func(table *store.Table) operation.Task {
			return operation.Items[item]{Table: table, Query: allItems, Change: func(_ context.Context, _ operation.Step, i item, write operation.Group) error {
				if err := write(store.Delete(store.Key{PK: "companion", SK: i.SK})); err != nil {
					return err
				}
				return write(store.Delete(store.Key{PK: "items", SK: i.SK}))
			}}.Drain()
		})}))
		w.fill(5000)
		w.begin("op", "one")
		meter := &store.Meter{}
		r, err := w.engine.Run(store.WithMeter(t.Context(), meter), "op")
		if err != nil || r.Status != operation.Success || w.items() != 0 {
			t.Fatalf("%d items are left: %+v, %v", w.items(), r, err)
		}
		if r.Steps != 5 { // portions of 2,000 writes
			t.Errorf("%d steps", r.Steps)
		}
		if u := meter.Usage(); u.Commits > 10_000/store.MaxWrites*6/5+1+r.Steps {
			t.Errorf("10,000 deletes use %+v in %d steps", u, r.Steps)
		}
	})
}

func TestDrainOfAnItemLargerThanItsPortionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		const below = 950
		w = newWorld(t, one(operation.State{Task: itemTask(&w, func(table *store.Table) operation.Task {
			return operation.Items[item]{
				Table: table, WritesPerStep: 200,
				Query: func(context.Context, operation.Step) (store.Query, error) { return store.Query{PK: "parents"}, nil },
				Change: func(ctx context.Context, _ operation.Step, parent item, write operation.Group) error {
					children, err := table.Keys(ctx, store.Query{PK: "items"})
					if err != nil {
						return err
					}
					for _, child := range children {
						if err := write(store.Delete(child)); err != nil {
							return fmt.Errorf("delete a child: %w", err)
						}
					}
					return write(store.Delete(store.Key{PK: "parents", SK: parent.SK}))
				},
			}.Drain()
		})}))
		w.fill(below)
		w.commit(store.Put(store.Key{PK: "parents", SK: "p"}, struct{}{}))
		w.begin("op", "one")
		if r := w.run("op"); r.Status != operation.Success || r.Steps < below/200 || w.items() != 0 {
			t.Errorf("%d items are left: %+v", w.items(), r)
		}
		if len(w.backend.Items()) != 1 { // the operation's record
			t.Errorf("%d items in all", len(w.backend.Items()))
		}
	})
}

func TestDrainThatRemovesNothingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, one(operation.State{Task: itemTask(&w, func(table *store.Table) operation.Task {
			return operation.Items[item]{
				Table: table, Query: allItems,
				Change: func(context.Context, operation.Step, item, operation.Group) error { return nil },
			}.Drain()
		})}))
		w.fill(1)
		w.begin("op", "one")
		if r := w.run("op"); r.Status != operation.Failure {
			t.Errorf("record is %+v", r)
		}
	})
}

func TestWalkVisitsEachItemAndGoesOnWhereItWas(t *testing.T) {
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprintf("failing %v", failing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w *world
				visits := map[string]int{}
				walk := itemTask(&w, func(table *store.Table) operation.Task {
					return operation.Items[item]{Table: table, Query: allItems, WritesPerStep: 150, Change: func(_ context.Context, _ operation.Step, i item, write operation.Group) error {
						if visits[i.SK]++; failing && i.SK == itemKey(777).SK && visits[i.SK] == 1 {
							return errors.New("not yet")
						}
						return write(store.Update(store.Key{PK: "items", SK: i.SK}, store.Set(store.At("seen"), true)))
					}}.Walk(func(i item) string { return i.SK })
				})
				w = newWorld(t, operation.Definition{Kind: "walks", First: "first", States: map[string]operation.State{
					"first":  {Task: walk, Next: "second"},
					"second": {Task: walk, Next: operation.Succeed}, // begins at the beginning again
				}})
				w.fill(1000)
				w.begin("op", "walks")
				r := w.untilEnd("op")
				if r.Status != operation.Success || r.Steps < 2*1000/150 {
					t.Fatalf("record is %+v", r)
				}
				again := 0
				for n := range 1000 {
					if v := visits[itemKey(n).SK]; v < 2 {
						t.Fatalf("item %d was visited %d times in two walks", n, v)
					} else if v > 2 {
						again++
					}
				}
				if again > 150 || failing && again == 0 {
					t.Errorf("%d items were visited again", again)
				}
			})
		})
	}
}

func TestGroupWhoseConditionIsFalseIsLeftOutAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w *world
		w = newWorld(t, one(operation.State{Task: itemTask(&w, func(table *store.Table) operation.Task {
			return operation.Items[item]{Table: table, Query: allItems, Change: func(_ context.Context, _ operation.Step, i item, write operation.Group) error {
				key := store.Key{PK: "items", SK: i.SK}
				if i.SK == itemKey(3).SK {
					return write(store.Upsert(counterKey("skipped"), store.Add(store.At("n"), 1)), store.Update(store.Key{PK: "gone", SK: "."}, store.Set(store.At("x"), 1)))
				}
				return write(store.Update(key, store.Set(store.At("seen"), true)))
			}}.Walk(func(i item) string { return i.SK })
		})}))
		w.fill(10)
		w.begin("op", "one")
		if r := w.run("op"); r.Status != operation.Success {
			t.Fatalf("record is %+v", r)
		}
		seen := 0
		for n := range 10 {
			var i struct {
				Seen bool `dynamodbav:"seen"`
			}
			if err := w.table.Get(t.Context(), itemKey(n), &i); err != nil {
				t.Fatal(err)
			}
			if i.Seen {
				seen++
			}
		}
		if seen != 9 || w.counter("skipped") != 0 {
			t.Errorf("%d of 9 were changed, %d of the group with the false condition", seen, w.counter("skipped"))
		}
	})
}
