package operation_test

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/operation/operationtest"
	"github.com/gatewright/gatewright/shared/core/store"
)

// These are the numbers of seeds that the simulations play in `make test`. `make simulations`
// plays eight times as many. Seeds up to 30, or the runs with a death at each call,
// find all planted defects here and in package operationtest, except a late writer, which seed
// 139 finds. There are more runs with a request, because these are the fastest runs.
const (
	runs        = 250
	cascadeRuns = runs / 4
	batchRuns   = 4 * runs
)

// orderDefinitions returns the definition of an operation with effects in the table, an effect
// outside the table, a state of several steps, a delay, and a failure that is caught.
func orderDefinitions(w *operationtest.Worker, objects *bucket) []operation.Definition {
	return []operation.Definition{{Kind: "order", First: "reserve", States: map[string]operation.State{
		"reserve": {Description: "takes one from the stock", Task: addTask("reserved", 1), Next: "pack"},
		"pack": {
			Description: "packs five parts, one a step",
			Task: func(_ context.Context, s operation.Step) (operation.Result, error) {
				var packed struct{ N int }
				if err := s.Data(&packed); err != nil {
					return operation.Result{}, err
				}
				packed.N++
				return operation.Result{
					Writes: []store.Write{
						store.Upsert(counterKey("packed"), store.Add(store.At("n"), 1)),
						store.Create(store.Key{PK: "part#" + s.ID, SK: strconv.Itoa(s.Number)}, struct{}{}),
					},
					Data: packed, Repeat: packed.N < 5,
				}, nil
			}, Next: "label",
		},
		"label": {
			Description: "stores the label",
			Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
				return operation.Result{Delay: 90e9}, w.Call(ctx, "put label", func() error {
					objects.put("label/" + s.ID)
					return nil
				})
			}, Next: "pay",
		},
		"pay": {
			Description: "charges, or finds that nobody pays",
			Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
				var in struct{ Poor bool }
				if err := s.Input(&in); err != nil {
					return operation.Result{}, err
				}
				if in.Poor {
					return operation.Result{}, fault.New(fault.Conflict, "There is no money.")
				}
				return operation.Result{Writes: []store.Write{store.Upsert(counterKey("paid"), store.Add(store.At("n"), 1))}}, nil
			}, Next: operation.Succeed, Catch: "return",
		},
		"return": {Description: "puts it back", Task: addTask("reserved", -1), Next: operation.Fail},
	}}}
}

// bucket is an object store outside the table.
type bucket struct {
	mu      sync.Mutex
	objects map[string]bool
}

func (b *bucket) put(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.objects == nil {
		b.objects = map[string]bool{}
	}
	b.objects[name] = true
}

func (b *bucket) all() any {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.objects)
}

func orderScenario() operationtest.Scenario {
	objects := &bucket{}
	return operationtest.Scenario{
		Definitions: func(w *operationtest.Worker) []operation.Definition { return orderDefinitions(w, objects) },
		External:    objects.all,
		Setup: func(ctx context.Context, w *operationtest.Worker) error {
			type input struct{ Poor bool }
			return w.Table.Commit(ctx,
				operation.Create(operation.Start{ID: "rich", Kind: "order", Input: input{}}, w.Now()),
				operation.Create(operation.Start{ID: "poor", Kind: "order", Input: input{Poor: true}}, w.Now()),
			)
		},
	}
}

func TestSimulatorOrders(t *testing.T) { operationtest.Simulate(t, orderScenario, runs) }

// shopScenario is a cascade that notifies 60 customers, and then deletes them with three things each.
func shopScenario() operationtest.Scenario {
	type customer struct {
		Name string `dynamodbav:"name"`
	}
	const customers, things = 60, 3
	thingKey := func(name string, n int) store.Key {
		return store.Key{PK: "things#" + name, SK: fmt.Sprint(n)}
	}
	key := func(name string) store.Key { return store.Key{PK: "customers", SK: name} }
	query := func(context.Context, operation.Step) (store.Query, error) {
		return store.Query{PK: "customers"}, nil
	}
	return operationtest.Scenario{
		Definitions: func(w *operationtest.Worker) []operation.Definition {
			notify := operation.Items[customer]{
				Table: w.Table, Query: query, WritesPerStep: 25,
				Change: func(_ context.Context, _ operation.Step, c customer, write operation.Group) error {
					return write(store.Update(key(c.Name), store.Set(store.At("notified"), true)))
				},
			}
			empty := operation.Items[customer]{
				Table: w.Table, Query: query, WritesPerStep: 100,
				Change: func(_ context.Context, _ operation.Step, c customer, write operation.Group) error {
					for n := range things {
						if err := write(store.Delete(thingKey(c.Name, n))); err != nil {
							return err
						}
					}
					return write(store.Delete(key(c.Name)),
						store.Upsert(store.Key{PK: "deleted", SK: c.Name}, store.Set(store.At("deleted"), true)))
				},
			}
			return []operation.Definition{{Kind: "close", First: "notify", States: map[string]operation.State{
				"notify": {Task: notify.Walk(func(c customer) string { return c.Name }), Next: "empty"},
				"empty":  {Task: empty.Drain(), Next: "count"},
				"count":  {Task: addTask("closed", 1), Next: operation.Succeed},
			}}}
		},
		Setup: func(ctx context.Context, w *operationtest.Worker) error {
			for n := range customers {
				c := customer{fmt.Sprintf("c%03d", n)}
				writes := []store.Write{store.Create(key(c.Name), c)}
				for i := range things {
					writes = append(writes, store.Create(thingKey(c.Name, i), struct{}{}))
				}
				if err := w.Table.Commit(ctx, writes...); err != nil {
					return err
				}
			}
			return w.Table.Commit(ctx, operation.Create(operation.Start{ID: "close", Kind: "close"}, w.Now()))
		},
	}
}

func TestSimulatorCascade(t *testing.T) { operationtest.Simulate(t, shopScenario, cascadeRuns) }

// batchScenario returns a scenario with a request that makes more writes than fit into one transaction, all or none.
// The operation of a Claim undoes the writes if the request does not complete. If unguarded is true, that
// operation does not first prevent a late writer from writing items that the operation has just removed.
func batchScenario(unguarded bool) func() operationtest.Scenario {
	type part struct {
		SK string `dynamodbav:"sk"`
	}
	const parts, perCommit = 30, 10
	marker := store.Key{PK: "batch", SK: "."}
	key := func(sk string) store.Key { return store.Key{PK: "parts", SK: sk} }
	isOn := store.Equal(store.At("on"), true)
	undo := func(w *operationtest.Worker) operation.Definition {
		remove := operation.Items[part]{
			Table: w.Table,
			Query: func(context.Context, operation.Step) (store.Query, error) { return store.Query{PK: "parts"}, nil },
			Change: func(_ context.Context, _ operation.Step, p part, write operation.Group) error {
				return write(store.Delete(key(p.SK)))
			},
		}
		write := func(w store.Write) operation.Task {
			return func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{Writes: []store.Write{w}}, nil
			}
		}
		d := operation.Definition{Kind: "undo", First: "refuse", States: map[string]operation.State{
			"refuse": {Task: write(store.Update(marker, store.Set(store.At("on"), false))), Next: "remove"},
			"remove": {Task: remove.Drain(), Next: "unmark"},
			"unmark": {Task: write(store.Delete(marker)), Next: operation.Succeed},
		}}
		if unguarded {
			d.First = "remove"
			delete(d.States, "refuse")
		}
		return d
	}
	return func() operationtest.Scenario {
		return operationtest.Scenario{
			Definitions: func(w *operationtest.Worker) []operation.Definition { return []operation.Definition{undo(w)} },
			Setup:       func(context.Context, *operationtest.Worker) error { return nil },
			Request: func(ctx context.Context, w *operationtest.Worker) error {
				claim := w.Engine.Claim(operation.Start{ID: "undo", Kind: "undo"}, 0)
				if err := w.Table.Commit(ctx, claim.Begin(), store.Create(marker, map[string]bool{"on": true})); err != nil {
					return err
				}
				for n := 0; n < parts; n += perCommit {
					writes := []store.Write{store.Check(marker, isOn)}
					for i := range perCommit {
						writes = append(writes, store.Create(key(fmt.Sprintf("%03d", n+i)), struct{}{}))
					}
					if err := w.Table.Commit(ctx, writes...); err != nil {
						return err
					}
				}
				return w.Table.Commit(ctx, claim.Succeed(), store.Delete(marker))
			},
		}
	}
}

func TestSimulatorBatchIsAllOrNothing(t *testing.T) {
	operationtest.Simulate(t, batchScenario(false), batchRuns)
}

func TestSimulatorDetectsLateWriters(t *testing.T) {
	failure := operationtest.Explore(t, batchScenario(true), batchRuns)
	if failure == nil {
		t.Fatal("Explore() of an unguarded rollback = nil, want a failure that a late writer causes")
	}
	t.Logf("found by -seed=%s", failure.Seed)
}
