package operationtest

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// three counts to three, one step each, so that every step that happens twice
// or not at all shows.
func three() Scenario {
	return Scenario{
		Definitions: func(*Worker) []operation.Definition { return []operation.Definition{counting(inResult)} },
		Arrange: func(ctx context.Context, w *Worker) error {
			return w.Table.Commit(ctx, operation.Begin(operation.Start{ID: "op", Kind: "three"}, w.Now()))
		},
	}
}

var counter = store.Upsert(store.Key{PK: "counter", SK: "."}, store.Add(store.At("n"), 1))

func inResult(context.Context, operation.Step) (operation.Result, error) {
	return operation.Result{Writes: []store.Write{counter}}, nil
}

func counting(task operation.Task) operation.Definition {
	return operation.Definition{Kind: "three", First: "one", States: map[string]operation.State{
		"one":   {Task: task, Next: "two"},
		"two":   {Task: task, Next: "three"},
		"three": {Task: task, Next: operation.Succeed},
	}}
}

func TestCorrectEnginePasses(t *testing.T) { Simulate(t, three, 300) }

// TestWhatMustHappenOutlastsAnyOutage: hours in which nothing but the operations'
// own records can be written change nothing of what comes out.
func TestWhatMustHappenOutlastsAnyOutage(t *testing.T) { Simulate(t, lasting, 300) }

// lasting is three, with effects that must happen.
func lasting() Scenario {
	s := three()
	s.Definitions = func(*Worker) []operation.Definition {
		d := counting(inResult)
		for name, state := range d.States {
			state.Must = true
			d.States[name] = state
		}
		return []operation.Definition{d}
	}
	return s
}

// A simulator that finds nothing proves nothing: each of these breaks one rule
// that the engine rests on, and has to be found.
func TestBrokenRuleIsNoticed(t *testing.T) {
	tests := map[string]func(*Scenario){
		"a record is replaced whatever its version": func(s *Scenario) {
			s.Sabotage = func(b store.Backend) store.Backend { return unconditional{b} }
		},
		"effects are committed before the record": func(s *Scenario) {
			s.Sabotage = func(b store.Backend) store.Backend { return split{Backend: b, effectsFirst: true} }
		},
		"effects are committed after the record": func(s *Scenario) {
			s.Sabotage = func(b store.Backend) store.Backend { return split{Backend: b} }
		},
		"a task has its effect by itself": func(s *Scenario) {
			s.Definitions = func(w *Worker) []operation.Definition {
				return []operation.Definition{counting(func(ctx context.Context, _ operation.Step) (operation.Result, error) {
					return operation.Result{}, w.Table.Commit(ctx, counter)
				})}
			}
		},
		"nothing sweeps": func(s *Scenario) {
			s.Stop = func(e Event) bool { return e == Sweeping }
		},
		"a task gives up when it is interrupted": func(s *Scenario) {
			s.Definitions = func(*Worker) []operation.Definition {
				return []operation.Definition{counting(func(ctx context.Context, step operation.Step) (operation.Result, error) {
					if step.Attempt > 1 {
						return operation.Result{}, nil
					}
					return inResult(ctx, step)
				})}
			}
		},
		"a task takes two records for a snapshot": func(s *Scenario) {
			other := store.Key{PK: "other", SK: "."}
			s.Definitions = func(w *Worker) []operation.Definition {
				return []operation.Definition{counting(func(ctx context.Context, _ operation.Step) (operation.Result, error) {
					var a, b struct {
						N int `dynamodbav:"n"`
					}
					err := w.Table.Load(ctx, store.Want(counter.Key, &a), store.Want(other, &b))
					writes := []store.Write{counter, store.Upsert(other, store.Add(store.At("n"), 1))}
					if a.N != b.N { // never, since they are counted together
						writes = append(writes, store.Upsert(store.Key{PK: "torn", SK: "."}, store.Add(store.At("n"), 1)))
					}
					return operation.Result{Writes: writes}, err
				})}
			}
			s.Arrange = func(ctx context.Context, w *Worker) error {
				return w.Table.Commit(ctx,
					operation.Begin(operation.Start{ID: "op", Kind: "three"}, w.Now()),
					operation.Begin(operation.Start{ID: "op2", Kind: "three"}, w.Now()))
			}
		},
		"a request that was carried out is answered as refused": func(s *Scenario) {
			s.Arrange = func(context.Context, *Worker) error { return nil }
			s.Act = func(ctx context.Context, w *Worker) error {
				err := w.Table.Commit(ctx, operation.Begin(operation.Start{ID: "op", Kind: "three"}, w.Now()))
				if fault.Is(err, fault.Unanswered) {
					return fault.New(fault.Throttled, "Repeat it.")
				}
				return err
			}
		},
		"a failed call is not tried again": func(s *Scenario) {
			s.Definitions = func(w *Worker) []operation.Definition {
				d := counting(func(ctx context.Context, step operation.Step) (operation.Result, error) {
					asked := w.Call(ctx, "ask", func() error { return nil }) == nil
					if !asked {
						return operation.Result{}, nil // as if there were nothing to do
					}
					return inResult(ctx, step)
				})
				return []operation.Definition{d}
			}
		},
	}
	for name, sabotage := range tests {
		t.Run(name, func(t *testing.T) {
			failure := Explore(t, func() Scenario {
				s := three()
				sabotage(&s)
				return s
			}, 2000)
			if failure == nil {
				t.Fatal("it passes")
			}
			t.Logf("found by -seed=%s", failure.Seed)
			if text := failure.Error(); !strings.Contains(text, "-seed="+failure.Seed) || len(failure.Trace) == 0 {
				t.Errorf("the failure does not say how to repeat it: %s", text)
			}
		})
	}
}

// unconditional forgets the conditions of the operations' records.
type unconditional struct{ store.Backend }

func (u unconditional) Transact(ctx context.Context, token string, writes []store.Write) error {
	writes = slices.Clone(writes)
	for i, w := range writes {
		if _, ok := operation.IDOf(w.Key); ok {
			writes[i].Condition = nil
		}
	}
	return u.Backend.Transact(ctx, token, writes)
}

// split makes two transactions of a step's one.
type split struct {
	store.Backend
	effectsFirst bool
}

func (s split) Transact(ctx context.Context, token string, writes []store.Write) error {
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

func TestRunIsTheSameEachTime(t *testing.T) {
	for seed := range uint64(100) {
		p := plan{seed: seed, calls: 20}
		first, second := play(t, three(), p), play(t, three(), p)
		if !slices.Equal(first.trace, second.trace) {
			t.Fatalf("seed %d went two ways:\n%s\n\n%s", seed, strings.Join(first.trace, "\n"), strings.Join(second.trace, "\n"))
		}
	}
}

// A seed that stands for nothing but calm would prove nothing either.
func TestRunsAreDisturbedInEveryWay(t *testing.T) {
	all := strings.Builder{}
	for seed := range uint64(300) {
		all.WriteString(strings.Join(play(t, three(), plan{seed: seed, calls: 20}).trace, "\n"))
	}
	for _, what := range []string{
		"refused", "call lost", "reply lost", "dies before", "dies after", "freezes", "is lost", "again", "sweep", "pass",
	} {
		if !strings.Contains(all.String(), what) {
			t.Errorf("in 300 runs nothing ever %q", what)
		}
	}
}
