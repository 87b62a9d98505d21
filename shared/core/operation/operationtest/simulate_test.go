package operationtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// threeStepsScenario returns a scenario that counts to three, one step for
// each number. So the test sees if a step happens twice or not at all.
func threeStepsScenario() Scenario {
	return Scenario{
		Definitions: func(*Worker) []operation.Definition { return []operation.Definition{countingDefinition(inResult)} },
		Setup: func(ctx context.Context, w *Worker) error {
			return w.Table.Commit(ctx, operation.Create(operation.Start{ID: "op", Kind: "three"}, w.Now()))
		},
	}
}

var counter = store.Upsert(store.Key{PK: "counter", SK: "."}, store.Add(store.At("n"), 1))

func inResult(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{Writes: []store.Write{counter}}, nil
}

func countingDefinition(task operation.Task) operation.Definition {
	return operation.Definition{Kind: "three", First: "one", States: map[string]operation.State{
		"one":   {Task: task, Next: "two"},
		"two":   {Task: task, Next: "three"},
		"three": {Task: task, Next: operation.Succeed},
	}}
}

func TestCorrectEnginePasses(t *testing.T) { Simulate(t, threeStepsScenario, 300) }

// TestMustSucceedSurvivesOutage checks that the outcome is the same if
// all calls except those for the operations' own records fail for hours.
func TestMustSucceedSurvivesOutage(t *testing.T) { Simulate(t, mustSucceedScenario, 300) }

// mustSucceedScenario is threeStepsScenario with states that have MustSucceed.
func mustSucceedScenario() Scenario {
	s := threeStepsScenario()
	s.Definitions = func(*Worker) []operation.Definition {
		d := countingDefinition(inResult)
		for name, state := range d.States {
			state.MustSucceed = true
			d.States[name] = state
		}
		return []operation.Definition{d}
	}
	return s
}

// corruptions returns changes of a scenario. Each change breaks one rule that the engine depends on.
func corruptions() map[string]func(*Scenario) {
	return map[string]func(*Scenario){
		"a record replaced without a condition on its version": func(s *Scenario) {
			s.Corrupt = func(b store.Backend) store.Backend { return unconditionalBackend{b} }
		},
		"effects are committed before the record": func(s *Scenario) {
			s.Corrupt = func(b store.Backend) store.Backend { return splittingBackend{Backend: b, effectsFirst: true} }
		},
		"effects are committed after the record": func(s *Scenario) {
			s.Corrupt = func(b store.Backend) store.Backend { return splittingBackend{Backend: b} }
		},
		"a task with an immediate effect": func(s *Scenario) {
			s.Definitions = func(w *Worker) []operation.Definition {
				return []operation.Definition{
					countingDefinition(func(ctx context.Context, _ operation.Step) (operation.Result, error) {
						return operation.Result{}, w.Table.Commit(ctx, counter)
					}),
				}
			}
		},
		"no sweep": func(s *Scenario) {
			s.Suppress = func(e Event) bool { return e == Sweeping }
		},
		"a task that skips its effect in its second attempt": func(s *Scenario) {
			s.Definitions = func(*Worker) []operation.Definition {
				return []operation.Definition{
					countingDefinition(func(ctx context.Context, step operation.Step) (operation.Result, error) {
						if step.Attempt > 1 {
							return operation.Result{}, nil
						}
						return inResult(ctx, step)
					}),
				}
			}
		},
		"a task treats two reads as a snapshot": assumeSnapshot,
		"a request that took effect is reported as refused": func(s *Scenario) {
			s.Setup = func(context.Context, *Worker) error { return nil }
			s.Request = func(ctx context.Context, w *Worker) error {
				err := w.Table.Commit(ctx, operation.Create(operation.Start{ID: "op", Kind: "three"}, w.Now()))
				if fault.Is(err, fault.DatabaseUnavailable) {
					return fault.New(fault.Throttled, "Repeat it.")
				}
				return err
			}
		},
		"a task that ignores a failed call": func(s *Scenario) {
			s.Definitions = func(w *Worker) []operation.Definition {
				d := countingDefinition(func(ctx context.Context, step operation.Step) (operation.Result, error) {
					reached := w.Call(ctx, "ask", func() error { return nil }) == nil
					if !reached {
						return operation.Result{}, nil // as if there were nothing to do
					}
					return inResult(ctx, step)
				})
				return []operation.Definition{d}
			}
		},
	}
}

// assumeSnapshot changes the scenario to two operations. Their task reads two records
// that are always incremented together, and increments a third record if the two differ.
func assumeSnapshot(s *Scenario) {
	other := store.Key{PK: "other", SK: "."}
	s.Definitions = func(w *Worker) []operation.Definition {
		return []operation.Definition{
			countingDefinition(func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				var a, b struct {
					N int `dynamodbav:"n"`
				}
				err := w.Table.Load(ctx, store.Get(counter.Key, &a), store.Get(other, &b))
				writes := []store.Write{counter, store.Upsert(other, store.Add(store.At("n"), 1))}
				if a.N != b.N { // never true in a snapshot, because the two are incremented together
					writes = append(writes, store.Upsert(store.Key{PK: "torn", SK: "."}, store.Add(store.At("n"), 1)))
				}
				return operation.Result{Writes: writes}, err
			}),
		}
	}
	s.Setup = func(ctx context.Context, w *Worker) error {
		return w.Table.Commit(ctx,
			operation.Create(operation.Start{ID: "op", Kind: "three"}, w.Now()),
			operation.Create(operation.Start{ID: "op2", Kind: "three"}, w.Now()))
	}
}

// TestBrokenRuleIsDetected checks that the simulation detects each broken
// rule that the engine depends on. Otherwise simulations would prove nothing.
func TestBrokenRuleIsDetected(t *testing.T) {
	for name, corrupt := range corruptions() {
		t.Run(name, func(t *testing.T) {
			failure := Explore(t, func() Scenario {
				s := threeStepsScenario()
				corrupt(&s)
				return s
			}, 2000)
			if failure == nil {
				t.Fatal("the simulation with a broken rule succeeds, want a failure")
			}
			t.Logf("found by -seed=%s", failure.Seed)
			if text := failure.Error(); !strings.Contains(text, "-seed="+failure.Seed) || len(failure.Trace) == 0 {
				t.Errorf("failure = %s, want the seed to repeat it and a trace", text)
			}
		})
	}
}

// unconditionalBackend removes the conditions from writes of operations' records.
type unconditionalBackend struct{ store.Backend }

func (u unconditionalBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	writes = slices.Clone(writes)
	for i, w := range writes {
		if _, ok := operation.IDOf(w.Key); ok {
			writes[i].Condition = nil
		}
	}
	return u.Backend.Transact(ctx, token, writes)
}

// splittingBackend splits a step's transaction into two.
type splittingBackend struct {
	store.Backend
	effectsFirst bool
}

func (s splittingBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	if _, ok := operation.IDOf(writes[0].Key); !ok || len(writes) == 1 {
		return s.Backend.Transact(ctx, token, writes)
	}
	parts := [][]store.Write{writes[:1], writes[1:]}
	if s.effectsFirst {
		slices.Reverse(parts)
	}
	if err := s.Backend.Transact(ctx, token+"1", parts[0]); err != nil {
		return err
	}
	return s.Backend.Transact(ctx, token+"2", parts[1])
}

func TestRunIsDeterministic(t *testing.T) {
	for seed := range uint64(100) {
		p := plan{seed: seed, calls: 20}
		first, second := play(t, threeStepsScenario(), p), play(t, threeStepsScenario(), p)
		if !slices.Equal(first.trace, second.trace) {
			t.Fatalf("seed %d: traces\n%s\n\n%s\nwant the same twice",
				seed, strings.Join(first.trace, "\n"), strings.Join(second.trace, "\n"))
		}
	}
}

// TestRunsHaveAllDisturbances checks that the traces show every kind of failed call, lost and repeated
// stream records, sweeps and pauses. Otherwise the runs would prove nothing.
func TestRunsHaveAllDisturbances(t *testing.T) {
	all := strings.Builder{}
	for seed := range uint64(300) {
		all.WriteString(strings.Join(play(t, threeStepsScenario(), plan{seed: seed, calls: 20}).trace, "\n"))
	}
	for _, disturbance := range []string{
		"refused", "call lost", "reply lost", "dies before", "dies after", "freezes", "is lost", "again", "sweep", "pass",
	} {
		if !strings.Contains(all.String(), disturbance) {
			t.Errorf("the traces of 300 runs lack %q, want each disturbance", disturbance)
		}
	}
}
