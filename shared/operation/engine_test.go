package operation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

// one is a definition with one state.
func one(s operation.State) operation.Definition {
	if s.Next == "" {
		s.Next = operation.Succeed
	}
	return operation.Definition{Kind: "one", First: "only", States: map[string]operation.State{"only": s}}
}

// steps is a definition whose states follow each other, each with its effect.
func steps(names ...string) operation.Definition {
	d := operation.Definition{Kind: "steps", First: names[0], States: map[string]operation.State{}}
	for i, name := range names {
		next := operation.Succeed
		if i+1 < len(names) {
			next = names[i+1]
		}
		d.States[name] = operation.State{Task: add(name, 1), Next: next}
	}
	return d
}

func TestOperationRunsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a", "b"))
		w.begin("op", "steps")
		r := w.run("op")
		if r.Status != operation.Success || r.Steps != 2 || r.Lease != nil || r.FinishedOn == nil || r.DuePK != "" || r.DueSK != "" {
			t.Errorf("record is %+v", r)
		}
		if a, b := w.counter("a"), w.counter("b"); a != 1 || b != 1 {
			t.Errorf("effects are a=%d b=%d, want 1 each", a, b)
		}
		var states []string
		for _, e := range r.History {
			states = append(states, e.State)
			if e.FinishedOn == nil || e.Steps != 1 || e.Attempts != 1 {
				t.Errorf("entry is %+v", e)
			}
		}
		if !slices.Equal(states, []string{"a", "b"}) {
			t.Errorf("history is %v", states)
		}
	})
}

func TestEndedOperationIsNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		w.begin("op", "steps")
		first := w.run("op")
		if second := w.run("op"); second.Version != first.Version || w.counter("a") != 1 {
			t.Errorf("version went from %d to %d, the effect happened %d times", first.Version, second.Version, w.counter("a"))
		}
	})
}

func TestStartOfAnIdInUseIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		start := operation.Start{ID: "op", Kind: "steps"}
		w.commit(operation.Begin(start, time.Now()))
		taken := errors.New("taken")
		if err := w.table.Commit(t.Context(), operation.Begin(start, time.Now()).Else(taken)); !errors.Is(err, taken) {
			t.Errorf("second start answers %v", err)
		}
	})
}

func TestStartThatCannotBeStoredFailsItsCommit(t *testing.T) {
	big := make([]byte, 200<<10)
	tests := map[string]operation.Start{
		"no id":                 {Kind: "k"},
		"no kind":               {ID: "op"},
		"input that is no JSON": {ID: "op", Kind: "k", Input: func() {}},
		"input over its bound":  {ID: "op", Kind: "k", Input: big},
	}
	for name, start := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, steps("a"))
			effect := store.Upsert(counterKey("x"), store.Add(store.At("n"), 1))
			if err := w.table.Commit(t.Context(), effect, operation.Begin(start, time.Now())); err == nil {
				t.Error("the commit succeeds")
			}
			if w.counter("x") != 0 {
				t.Error("the rest of the commit has happened")
			}
		})
	}
}

func TestInputAndDataReachEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type numbers struct{ In, Sum int }
		w := newWorld(t, operation.Definition{Kind: "sum", First: "loop", States: map[string]operation.State{
			"loop": {Next: operation.Succeed, Task: func(_ context.Context, s operation.Step) (operation.Result, error) {
				var in, data numbers
				if err := errors.Join(s.Input(&in), s.Data(&data)); err != nil {
					return operation.Result{}, err
				}
				data.Sum += in.In
				return operation.Result{Data: data, Again: data.Sum < 10, Message: fmt.Sprintf("The sum is %d.", data.Sum)}, nil
			}},
		}})
		w.commit(operation.Begin(operation.Start{ID: "op", Kind: "sum", Input: numbers{In: 4}}, time.Now()))
		r := w.run("op")
		var data numbers
		if err := r.DecodeData(&data); err != nil || data.Sum != 12 {
			t.Errorf("data is %+v, %v", data, err)
		}
		if r.Message != "The sum is 12." || r.Steps != 3 || len(r.History) != 1 || r.History[0].Steps != 3 {
			t.Errorf("record is %+v", r)
		}
	})
}

func TestResultMayChooseAmongTheStatesListed(t *testing.T) {
	choose := func(next string) operation.Task {
		return func(context.Context, operation.Step) (operation.Result, error) {
			return operation.Result{Next: next}, nil
		}
	}
	tests := []struct {
		name, next string
		want       operation.Status
		effect     int
	}{
		{"the next one", operation.Succeed, operation.Success, 0},
		{"another", "other", operation.Success, 1},
		{"failure", operation.Fail, operation.Failure, 0},
		{"one that is not listed", "only", operation.Failure, 0},
		{"one that is not there", "nowhere", operation.Failure, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, operation.Definition{Kind: "choice", First: "only", States: map[string]operation.State{
					"only":  {Task: choose(test.next), Next: operation.Succeed, Or: []string{"other", operation.Fail}},
					"other": {Task: add("other", 1), Next: operation.Succeed},
				}})
				w.begin("op", "choice")
				if r := w.run("op"); r.Status != test.want || w.counter("other") != test.effect {
					t.Errorf("status is %s, want %s; the other state ran %d times", r.Status, test.want, w.counter("other"))
				}
			})
		})
	}
}

func TestWritesHappenWithTheAdvanceOrNotAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := fault.New(fault.Conflict, "It is taken.")
		w := newWorld(t, one(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
			return operation.Result{Writes: []store.Write{
				store.Upsert(counterKey("effect"), store.Add(store.At("n"), 1)),
				store.Check(counterKey("absent"), store.Exists()).Else(refused),
			}}, nil
		}}))
		w.begin("op", "one")
		r := w.run("op")
		if r.Status != operation.Failure || r.Message != refused.Public || w.counter("effect") != 0 {
			t.Errorf("status %s, message %q, effect happened %d times", r.Status, r.Message, w.counter("effect"))
		}
	})
}

func TestImpossibleResultFailsWithoutRepeats(t *testing.T) {
	writes := func(n int) []store.Write {
		var out []store.Write
		for i := range n {
			out = append(out, store.Put(store.Key{PK: "x", SK: fmt.Sprint(i)}, struct{}{}))
		}
		return out
	}
	tests := []struct {
		name   string
		result operation.Result
		want   operation.Status
	}{
		{"as many writes as are possible", operation.Result{Writes: writes(operation.MaxWrites)}, operation.Success},
		{"one write more", operation.Result{Writes: writes(operation.MaxWrites + 1)}, operation.Failure},
		{"data that is no JSON", operation.Result{Data: func() {}}, operation.Failure},
		{"data over its bound", operation.Result{Data: make([]byte, 200<<10)}, operation.Failure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				w := newWorld(t, one(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
					attempts++
					return test.result, nil
				}}))
				w.begin("op", "one")
				if r := w.run("op"); r.Status != test.want || attempts != 1 {
					t.Errorf("status %s after %d attempts, want %s after 1", r.Status, attempts, test.want)
				}
			})
		})
	}
}

func TestShortWaitIsWaitedOutAndALongOneLeftToASweep(t *testing.T) {
	tests := []struct {
		after time.Duration
		want  operation.Status
	}{
		{time.Second, operation.Success},
		{time.Minute, operation.InProgress},
	}
	for _, test := range tests {
		t.Run(test.after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, operation.Definition{Kind: "wait", First: "a", States: map[string]operation.State{
					"a": {Next: "b", Task: func(context.Context, operation.Step) (operation.Result, error) {
						return operation.Result{After: test.after}, nil
					}},
					"b": {Task: add("b", 1), Next: operation.Succeed},
				}})
				w.begin("op", "wait")
				begun := time.Now()
				r := w.run("op")
				if r.Status != test.want {
					t.Fatalf("status is %s, want %s", r.Status, test.want)
				}
				if test.want == operation.Success {
					if waited := time.Since(begun); waited != test.after {
						t.Errorf("it waited %v", waited)
					}
					return
				}
				if want := begun.Add(test.after); !r.DueOn.Equal(want) || r.Lease != nil {
					t.Errorf("it is due on %v, want %v; lease %v", r.DueOn, want, r.Lease)
				}
				time.Sleep(test.after - time.Millisecond)
				w.sweep()
				if w.counter("b") != 0 {
					t.Error("a sweep did not heed the wait")
				}
				time.Sleep(time.Millisecond)
				w.sweep()
				if w.counter("b") != 1 {
					t.Error("the sweep after the wait did not go on")
				}
			})
		})
	}
}

func TestOperationOfAnUnknownReleaseIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		w.begin("kind", "of a newer release")
		w.begin("state", "steps")
		newer := w.engineOf(operation.Definition{Kind: "steps", First: "new", States: map[string]operation.State{
			"new": {Next: operation.Succeed, Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{After: time.Hour, Again: true}, nil
			}},
		}})
		if _, err := newer.Run(t.Context(), "state"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		for _, id := range []string{"kind", "state"} {
			before := w.read(id)
			after := w.run(id)
			if after.Version != before.Version || after.Status != operation.InProgress {
				t.Errorf("operation %s was changed: %+v", id, after)
			}
		}
		if n := len(w.log.messages()); n != 2 {
			t.Errorf("the log has %d lines, want 2", n)
		}
	})
}

func TestLeaseKeepsASecondWorkerOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		w := newWorld(t, one(operation.State{Timeout: time.Minute, Task: func(context.Context, operation.Step) (operation.Result, error) {
			if running.Add(1) > 1 {
				t.Error("two workers run the step at the same time")
			}
			time.Sleep(50 * time.Second)
			running.Add(-1)
			return operation.Result{}, nil
		}}))
		w.begin("op", "one")
		go func() { _, _ = w.engine.Run(t.Context(), "op") }()
		for range 9 {
			time.Sleep(5 * time.Second)
			if r := w.run("op"); r.Lease == nil {
				t.Errorf("the first worker's lease is gone: %+v", r)
			}
			w.sweep()
		}
		time.Sleep(time.Minute)
		if r := w.read("op"); r.Status != operation.Success || r.Attempt != 0 || r.History[0].Attempts != 1 {
			t.Errorf("record is %+v", r)
		}
	})
}

func TestExpiredLeaseIsTakenOverAndTheLateWorkerLoses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		w := newWorld(t, operation.Definition{Kind: "slow", First: "a", States: map[string]operation.State{
			"a": {Next: "b", Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
				if runs.Add(1) == 1 { // deaf to its context, as a suspended process is
					time.Sleep(10 * time.Minute)
				}
				return add("a", 1)(ctx, s)
			}},
			"b": {Task: add("b", 1), Next: operation.Succeed},
		}})
		w.begin("op", "slow")
		done := make(chan operation.Record)
		go func() {
			r, err := w.engine.Run(t.Context(), "op")
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		time.Sleep(39 * time.Second) // the timeout is 30 s, the margin 10 s
		w.sweep()
		if w.counter("a") != 0 {
			t.Error("the lease was broken before its end")
		}
		time.Sleep(time.Second)
		w.sweep()
		taken := w.read("op")
		if taken.Status != operation.Success || taken.History[0].Attempts != 2 {
			t.Errorf("after the lease's end: %+v", taken)
		}
		if late := <-done; late.Version != taken.Version {
			t.Errorf("the late worker ends with %+v", late)
		}
		if a, b := w.counter("a"), w.counter("b"); a != 1 || b != 1 {
			t.Errorf("effects are a=%d b=%d, want 1 each", a, b)
		}
	})
}

func TestRunGivesTheOperationBackBeforeItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, one(operation.State{Task: func(_ context.Context, s operation.Step) (operation.Result, error) {
			time.Sleep(3 * time.Second)
			return operation.Result{Again: s.Number < 9}, nil
		}}))
		w.begin("op", "one")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, err := w.engine.Run(ctx, "op")
		if err != nil || ctx.Err() != nil {
			t.Fatalf("Run answers %v, the context %v", err, ctx.Err())
		}
		if r.Ended() || r.Lease != nil || r.Steps == 0 || r.Attempt != 0 {
			t.Errorf("record is %+v", r)
		}
		if r = w.run("op"); r.Status != operation.Success || r.Steps != 10 || r.History[0].Attempts != 10 {
			t.Errorf("in the end: %+v", r)
		}
	})
}

func TestEndedRecordIsKeptForItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		w.begin("op", "steps")
		w.run("op")
		time.Sleep(30*24*time.Hour - time.Second)
		w.read("op")
		time.Sleep(2 * time.Second)
		if _, err := w.engine.Read(t.Context(), "op"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("after 30 days Read answers %v", err)
		}
	})
}

// overtaken has another worker come before the first commit.
type overtaken struct {
	store.Backend
	once  sync.Once
	other func()
}

func (o *overtaken) Transact(ctx context.Context, token string, writes []store.Write) error {
	o.once.Do(o.other)
	return o.Backend.Transact(ctx, token, writes)
}

func TestEndIsToldOnceByWhoMadeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		w.begin("op", "steps")
		fast := w.engine
		w.table = storetest.Over(t, &overtaken{Backend: w.backend, other: func() {
			if _, err := fast.Run(t.Context(), "op"); err != nil {
				t.Error(err)
			}
		}}, storetest.Clock(time.Now))
		w.engine = w.engineOf(w.kinds...)
		if r := w.run("op"); r.Status != operation.Success {
			t.Errorf("record is %+v", r)
		}
		told := slices.DeleteFunc(w.log.messages(), func(line string) bool { return !strings.Contains(line, "an operation has ended") })
		if len(told) != 1 {
			t.Errorf("the end is told %d times", len(told))
		}
	})
}
