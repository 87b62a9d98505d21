package operation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

type item struct {
	SK string `dynamodbav:"sk"`
}

func itemKey(n int) store.Key { return store.Key{PK: "items", SK: fmt.Sprintf("%05d", n)} }

func allItems(context.Context, operation.Step) (store.Query, error) {
	return store.Query{PK: "items"}, nil
}

// fill stores n items.
func (fx *fixture) fill(n int) {
	fx.t.Helper()
	for from := 0; from < n; from += store.MaxWrites {
		var writes []store.Write
		for i := from; i < min(n, from+store.MaxWrites); i++ {
			writes = append(writes, store.Put(itemKey(i), struct{}{}))
		}
		fx.commit(writes...)
	}
}

// itemCount returns the number of items that are left.
func (fx *fixture) itemCount() int {
	fx.t.Helper()
	n, err := fx.table.Count(fx.t.Context(), store.Query{PK: "items"})
	if err != nil {
		fx.t.Fatal(err)
	}
	return n
}

// itemTask returns a task that runs the task of newTask for the table of a fixture.
// It calls newTask only when it runs, because the fixture does not exist before.
func itemTask(f **fixture, newTask func(table *store.Table) operation.Task) operation.Task {
	return func(ctx context.Context, s operation.Step) (operation.Result, error) {
		return newTask((*f).table)(ctx, s)
	}
}

func TestDrainFillsTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fx *fixture
		fx = newFixture(t, singleState(operation.State{Task: itemTask(&fx, func(table *store.Table) operation.Task {
			return operation.Items[item]{Table: table, Query: allItems, Change: func(_ context.Context, _ operation.Step, i item,
				write operation.Group,
			) error {
				if err := write(store.Delete(store.Key{PK: "companion", SK: i.SK})); err != nil {
					return err
				}
				return write(store.Delete(store.Key{PK: "items", SK: i.SK}))
			}}.Drain()
		})}))
		fx.fill(5000)
		fx.begin("op", "one")
		meter := &store.Meter{}
		r, err := fx.engine.Run(store.WithMeter(t.Context(), meter), "op")
		if err != nil || r.Status != operation.Success || fx.itemCount() != 0 {
			t.Fatalf("Run() = %+v, %v with %d items left, want success with none", r, err, fx.itemCount())
		}
		if r.Steps != 5 { // each step makes at most 2,000 writes
			t.Errorf("10,000 deletes take %d steps, want 5", r.Steps)
		}
		// The last transaction of a page is not full. One commit is for the first lease, and one for the end of each step.
		if u := meter.Usage(); u.Commits > 10_000/store.MaxWrites*6/5+1+r.Steps {
			t.Errorf("10,000 deletes use %+v in %d steps, want at most %d commits",
				u, r.Steps, 10_000/store.MaxWrites*6/5+1+r.Steps)
		}
	})
}

// TestDrainOfLargeItem checks a Change with more writes for one item than a step may make: further steps continue it.
func TestDrainOfLargeItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fx *fixture
		const childCount = 950
		fx = newFixture(t, singleState(operation.State{Task: itemTask(&fx, func(table *store.Table) operation.Task {
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
		fx.fill(childCount)
		fx.commit(store.Put(store.Key{PK: "parents", SK: "p"}, struct{}{}))
		fx.begin("op", "one")
		if r := fx.run("op"); r.Status != operation.Success || r.Steps < childCount/200 || fx.itemCount() != 0 {
			t.Errorf("Run() = %+v with %d items left, want success after at least %d steps with none",
				r, fx.itemCount(), childCount/200)
		}
		if len(fx.backend.Items()) != 1 { // only the operation's record is left
			t.Errorf("%d items in the table, want only the record of the operation", len(fx.backend.Items()))
		}
	})
}

func TestDrainThatRemovesNothingFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fx *fixture
		fx = newFixture(t, singleState(operation.State{Task: itemTask(&fx, func(table *store.Table) operation.Task {
			return operation.Items[item]{
				Table: table, Query: allItems,
				Change: func(context.Context, operation.Step, item, operation.Group) error { return nil },
			}.Drain()
		})}))
		fx.fill(1)
		fx.begin("op", "one")
		if r := fx.run("op"); r.Status != operation.Failure {
			t.Errorf("record = %+v, want a failure", r)
		}
	})
}

// TestWalkContinuesAfterFailure checks that two walks visit each item, and that a step that failed repeats at most its
// own items.
func TestWalkContinuesAfterFailure(t *testing.T) {
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprintf("failing %v", failing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fx *fixture
				visits := map[string]int{}
				walk := itemTask(&fx, func(table *store.Table) operation.Task {
					return operation.Items[item]{
						Table: table, Query: allItems, WritesPerStep: 150,
						Change: func(_ context.Context, _ operation.Step, i item, write operation.Group) error {
							if visits[i.SK]++; failing && i.SK == itemKey(777).SK && visits[i.SK] == 1 {
								return errors.New("not yet")
							}
							return write(store.Update(store.Key{PK: "items", SK: i.SK}, store.Set(store.At("seen"), true)))
						},
					}.Walk(func(i item) string { return i.SK })
				})
				fx = newFixture(t, operation.Definition{Kind: "walks", First: "first", States: map[string]operation.State{
					"first":  {Task: walk, Next: "second"},
					"second": {Task: walk, Next: operation.Succeed}, // starts at the beginning again
				}})
				fx.fill(1000)
				fx.begin("op", "walks")
				r := fx.untilEnd("op")
				if r.Status != operation.Success || r.Steps < 2*1000/150 {
					t.Fatalf("record = %+v, want success after at least %d steps", r, 2*1000/150)
				}
				repeated := 0
				for n := range 1000 {
					if v := visits[itemKey(n).SK]; v < 2 {
						t.Fatalf("two walks visit item %d %d times, want at least 2", n, v)
					} else if v > 2 {
						repeated++
					}
				}
				if repeated > 150 || failing && repeated == 0 {
					t.Errorf("%d items were visited again, want at most 150, and some after a failure (%t)", repeated, failing)
				}
			})
		})
	}
}

func TestOnlyGroupWithFalseConditionIsSkipped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fx *fixture
		fx = newFixture(t, singleState(operation.State{Task: itemTask(&fx, func(table *store.Table) operation.Task {
			return operation.Items[item]{Table: table, Query: allItems, Change: func(_ context.Context, _ operation.Step, i item,
				write operation.Group,
			) error {
				key := store.Key{PK: "items", SK: i.SK}
				if i.SK == itemKey(3).SK {
					return write(store.Upsert(counterKey("skipped"), store.Add(store.At("n"), 1)),
						store.Update(store.Key{PK: "missing", SK: "."}, store.Set(store.At("x"), 1)))
				}
				return write(store.Update(key, store.Set(store.At("seen"), true)))
			}}.Walk(func(i item) string { return i.SK })
		})}))
		fx.fill(10)
		fx.begin("op", "one")
		if r := fx.run("op"); r.Status != operation.Success {
			t.Fatalf("record = %+v, want success", r)
		}
		changed := 0
		for n := range 10 {
			var i struct {
				Seen bool `dynamodbav:"seen"`
			}
			if err := fx.table.Get(t.Context(), itemKey(n), &i); err != nil {
				t.Fatal(err)
			}
			if i.Seen {
				changed++
			}
		}
		if changed != 9 || fx.counter("skipped") != 0 {
			t.Errorf("%d items were changed, %d writes of the group with the false condition, want 9, 0",
				changed, fx.counter("skipped"))
		}
	})
}
