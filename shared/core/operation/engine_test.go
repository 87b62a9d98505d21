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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

// singleState returns a definition with one state.
func singleState(s operation.State) operation.Definition {
	if s.Next == "" {
		s.Next = operation.Succeed
	}
	return operation.Definition{Kind: "one", First: "only", States: map[string]operation.State{"only": s}}
}

// stepsDefinition returns a definition with a sequence of states, each with its own effect.
func stepsDefinition(names ...string) operation.Definition {
	d := operation.Definition{Kind: "steps", First: names[0], States: map[string]operation.State{}}
	for i, name := range names {
		next := operation.Succeed
		if i+1 < len(names) {
			next = names[i+1]
		}
		d.States[name] = operation.State{Task: addTask(name, 1), Next: next}
	}
	return d
}

func TestOperationRunsToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a", "b"))
		fx.begin("op", "steps")
		r := fx.run("op")
		if r.Status != operation.Success || r.Steps != 2 || r.FinishedOn == nil {
			t.Errorf("record = %+v, want a finished success after 2 steps", r)
		}
		if r.Lease != nil || r.DuePK != "" || r.DueSK != "" {
			t.Errorf("record = %+v, want no lease and no due time", r)
		}
		if a, b := fx.counter("a"), fx.counter("b"); a != 1 || b != 1 {
			t.Errorf("effects are a=%d b=%d, want 1 each", a, b)
		}
		var states []string
		for _, e := range r.History {
			states = append(states, e.State)
			if e.FinishedOn == nil || e.Steps != 1 || e.Attempts != 1 {
				t.Errorf("history entry = %+v, want it finished after one step and one attempt", e)
			}
		}
		if !slices.Equal(states, []string{"a", "b"}) {
			t.Errorf("states in the history = %v, want [a b]", states)
		}
	})
}

func TestEndedOperationIsNotRunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		fx.begin("op", "steps")
		first := fx.run("op")
		if second := fx.run("op"); second.Version != first.Version || fx.counter("a") != 1 {
			t.Errorf("second Run(): version %d, %d effects, want version %d, 1 effect",
				second.Version, fx.counter("a"), first.Version)
		}
	})
}

func TestBeginWithUsedIDIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		start := operation.Start{ID: "op", Kind: "steps"}
		fx.commit(operation.Create(start, time.Now()))
		taken := errors.New("taken")
		if err := fx.table.Commit(t.Context(), operation.Create(start, time.Now()).Else(taken)); !errors.Is(err, taken) {
			t.Errorf("commit of Create() with a used id = %v, want %v", err, taken)
		}
	})
}

func TestStartThatCannotBeStoredFailsItsCommit(t *testing.T) {
	big := make([]byte, 200<<10)
	tests := map[string]operation.Start{
		"no id":                  {Kind: "k"},
		"no kind":                {ID: "op"},
		"input that is not JSON": {ID: "op", Kind: "k", Input: func() {}},
		"input over the limit":   {ID: "op", Kind: "k", Input: big},
	}
	for name, start := range tests {
		t.Run(name, func(t *testing.T) {
			fx := newFixture(t, stepsDefinition("a"))
			effect := store.Upsert(counterKey("x"), store.Add(store.At("n"), 1))
			if err := fx.table.Commit(t.Context(), effect, operation.Create(start, time.Now())); err == nil {
				t.Error("commit of an invalid Create() succeeds, want an error")
			}
			if fx.counter("x") != 0 {
				t.Error("another write of the failed commit had an effect, want none")
			}
		})
	}
}

func TestInputAndDataReachEachStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type numbers struct{ In, Sum int }
		fx := newFixture(t, operation.Definition{Kind: "sum", First: "loop", States: map[string]operation.State{
			"loop": {Next: operation.Succeed, Task: func(_ context.Context, s operation.Step) (operation.Result, error) {
				var in, data numbers
				if err := errors.Join(s.Input(&in), s.Data(&data)); err != nil {
					return operation.Result{}, err
				}
				data.Sum += in.In
				return operation.Result{Data: data, Repeat: data.Sum < 10, Message: fmt.Sprintf("The sum is %d.", data.Sum)}, nil
			}},
		}})
		fx.commit(operation.Create(operation.Start{ID: "op", Kind: "sum", Input: numbers{In: 4}}, time.Now()))
		r := fx.run("op")
		var data numbers
		if err := r.DecodeData(&data); err != nil || data.Sum != 12 {
			t.Errorf("DecodeData() = %+v, %v, want the sum 12", data, err)
		}
		if r.Message != "The sum is 12." || r.Steps != 3 || len(r.History) != 1 || r.History[0].Steps != 3 {
			t.Errorf("record = %+v, want the message \"The sum is 12.\", and 3 steps in one history entry", r)
		}
	})
}

func TestResultNext(t *testing.T) {
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
		{"the next state", operation.Succeed, operation.Success, 0},
		{"an alternative", "other", operation.Success, 1},
		{"the end Fail", operation.Fail, operation.Failure, 0},
		{"an unlisted state", "only", operation.Failure, 0},
		{"an unknown state", "nowhere", operation.Failure, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				fx := newFixture(t, operation.Definition{Kind: "choice", First: "only", States: map[string]operation.State{
					"only":  {Task: choose(test.next), Next: operation.Succeed, Alternatives: []string{"other", operation.Fail}},
					"other": {Task: addTask("other", 1), Next: operation.Succeed},
				}})
				fx.begin("op", "choice")
				if r := fx.run("op"); r.Status != test.want || fx.counter("other") != test.effect {
					t.Errorf("Run() with the Result.Next %s: status = %s, the state other ran %d times, want %s, %d",
						test.next, r.Status, fx.counter("other"), test.want, test.effect)
				}
			})
		})
	}
}

// TestWritesAreAtomicWithRecord checks that a step's writes are committed together, or not at all if the condition of
// one of them is false. The operation must then fail with the error of this condition.
func TestWritesAreAtomicWithRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := fault.New(fault.Conflict, "It is taken.")
		fx := newFixture(t,
			singleState(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{Writes: []store.Write{
					store.Upsert(counterKey("effect"), store.Add(store.At("n"), 1)),
					store.Check(counterKey("absent"), store.Exists()).Else(refused),
				}}, nil
			}}))
		fx.begin("op", "one")
		r := fx.run("op")
		if r.Status != operation.Failure || r.Message != refused.Public || fx.counter("effect") != 0 {
			t.Errorf("record: status %s, message %q, %d effects, want %s, %q, 0",
				r.Status, r.Message, fx.counter("effect"), operation.Failure, refused.Public)
		}
	})
}

func TestInvalidResultIsNotRetried(t *testing.T) {
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
		{"the largest number of writes", operation.Result{Writes: writes(operation.MaxWrites)}, operation.Success},
		{"one write too many", operation.Result{Writes: writes(operation.MaxWrites + 1)}, operation.Failure},
		{"data that is not JSON", operation.Result{Data: func() {}}, operation.Failure},
		{"data over the limit", operation.Result{Data: make([]byte, 200<<10)}, operation.Failure},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				fx := newFixture(t,
					singleState(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
						attempts++
						return test.result, nil
					}}))
				fx.begin("op", "one")
				if r := fx.run("op"); r.Status != test.want || attempts != 1 {
					t.Errorf("status %s after %d attempts, want %s after 1", r.Status, attempts, test.want)
				}
			})
		})
	}
}

func TestLongDelayIsLeftToSweep(t *testing.T) {
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
				fx := newFixture(t, operation.Definition{Kind: "wait", First: "a", States: map[string]operation.State{
					"a": {Next: "b", Task: func(context.Context, operation.Step) (operation.Result, error) {
						return operation.Result{Delay: test.after}, nil
					}},
					"b": {Task: addTask("b", 1), Next: operation.Succeed},
				}})
				fx.begin("op", "wait")
				start := time.Now()
				r := fx.run("op")
				if r.Status != test.want {
					t.Fatalf("Run() with a delay of %v: status = %s, want %s", test.after, r.Status, test.want)
				}
				if test.want == operation.Success {
					if waited := time.Since(start); waited != test.after {
						t.Errorf("Run() with a delay of %v waited %v, want the delay", test.after, waited)
					}
					return
				}
				if want := start.Add(test.after); !r.DueOn.Equal(want) || r.Lease != nil {
					t.Errorf("Run() with a delay of %v: due on %v, lease %v, want %v, no lease", test.after, r.DueOn, r.Lease, want)
				}
				time.Sleep(test.after - time.Millisecond)
				fx.sweep()
				if fx.counter("b") != 0 {
					t.Error("a sweep before the delay has passed ran the next step, want no effect")
				}
				time.Sleep(time.Millisecond)
				fx.sweep()
				if fx.counter("b") != 1 {
					t.Errorf("the sweep after the delay ran the next step %d times, want once", fx.counter("b"))
				}
			})
		})
	}
}

// TestUnknownOperationIsLeftAlone checks that Run does not change an operation whose kind or state only a newer release
// knows, and logs a warning.
func TestUnknownOperationIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		fx.begin("kind", "of a newer release")
		fx.begin("state", "steps")
		newer := fx.engineOf(operation.Definition{Kind: "steps", First: "new", States: map[string]operation.State{
			"new": {Next: operation.Succeed, Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{Delay: time.Hour, Repeat: true}, nil
			}},
		}})
		if _, err := newer.Run(t.Context(), "state"); err != nil {
			t.Fatalf("Run(state) of the newer release = %v, want success", err)
		}
		time.Sleep(2 * time.Hour)
		for _, id := range []string{"kind", "state"} {
			before := fx.read(id)
			after := fx.run(id)
			if after.Version != before.Version || after.Status != operation.InProgress {
				t.Errorf("Run(%s) = %+v, want no change", id, after)
			}
		}
		if n := len(fx.log.messages()); n != 2 {
			t.Errorf("the log has %d lines, want 2: a warning for each operation", n)
		}
	})
}

func TestLeaseExcludesOtherWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running atomic.Int32
		fx := newFixture(t,
			singleState(operation.State{
				Timeout: time.Minute,
				Task: func(context.Context, operation.Step) (operation.Result, error) {
					if running.Add(1) > 1 {
						t.Error("two workers run the step at the same time, want one")
					}
					time.Sleep(50 * time.Second)
					running.Add(-1)
					return operation.Result{}, nil
				},
			}))
		fx.begin("op", "one")
		go func() { _, _ = fx.engine.Run(t.Context(), "op") }()
		for range 9 {
			time.Sleep(5 * time.Second)
			if r := fx.run("op"); r.Lease == nil {
				t.Errorf("record during a step = %+v, want the first worker's lease", r)
			}
			fx.sweep()
		}
		time.Sleep(time.Minute)
		if r := fx.read("op"); r.Status != operation.Success || r.Attempt != 0 || r.History[0].Attempts != 1 {
			t.Errorf("record = %+v, want success after one attempt", r)
		}
	})
}

func TestExpiredLeaseIsTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		fx := newFixture(t, operation.Definition{Kind: "slow", First: "a", States: map[string]operation.State{
			"a": {Next: "b", Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
				if runs.Add(1) == 1 { // the first run ignores its context, as a suspended process does
					time.Sleep(10 * time.Minute)
				}
				return addTask("a", 1)(ctx, s)
			}},
			"b": {Task: addTask("b", 1), Next: operation.Succeed},
		}})
		fx.begin("op", "slow")
		done := make(chan operation.Record)
		go func() {
			r, err := fx.engine.Run(t.Context(), "op")
			if err != nil {
				t.Errorf("Run() of the late worker = %v, want no error", err)
			}
			done <- r
		}()
		time.Sleep(39 * time.Second) // the timeout is 30 s, the margin 10 s
		fx.sweep()
		if fx.counter("a") != 0 {
			t.Error("a sweep before the lease's end ran the step, want no effect")
		}
		time.Sleep(time.Second)
		fx.sweep()
		taken := fx.read("op")
		if taken.Status != operation.Success || taken.History[0].Attempts != 2 {
			t.Errorf("record after the lease's end = %+v, want success after 2 attempts", taken)
		}
		if lateRecord := <-done; lateRecord.Version != taken.Version {
			t.Errorf("Run() of the late worker = %+v, want version %d", lateRecord, taken.Version)
		}
		if a, b := fx.counter("a"), fx.counter("b"); a != 1 || b != 1 {
			t.Errorf("effects are a=%d b=%d, want 1 each", a, b)
		}
	})
}

// TestRunReleasesBeforeDeadline checks that Run returns before the deadline of its context, without a lease, and that a
// later Run continues the operation.
func TestRunReleasesBeforeDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t,
			singleState(operation.State{Task: func(_ context.Context, s operation.Step) (operation.Result, error) {
				time.Sleep(3 * time.Second)
				return operation.Result{Repeat: s.Number < 9}, nil
			}}))
		fx.begin("op", "one")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		r, err := fx.engine.Run(ctx, "op")
		if err != nil || ctx.Err() != nil {
			t.Fatalf("Run() = %v, context error %v, want none: it returns before the deadline", err, ctx.Err())
		}
		if r.Ended() || r.Lease != nil || r.Steps == 0 || r.Attempt != 0 {
			t.Errorf("record after Run() = %+v, want it in progress with steps, without a lease or a failed attempt", r)
		}
		if r = fx.run("op"); r.Status != operation.Success || r.Steps != 10 || r.History[0].Attempts != 10 {
			t.Errorf("record in the end = %+v, want success after 10 steps and 10 attempts", r)
		}
	})
}

func TestEndedRecordIsKeptForItsRetention(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		fx.begin("op", "steps")
		fx.run("op")
		time.Sleep(30*24*time.Hour - time.Second)
		fx.read("op")
		time.Sleep(2 * time.Second)
		if _, err := fx.engine.Read(t.Context(), "op"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Read() after 30 days = %v, want %v", err, store.ErrNotFound)
		}
	})
}

// overtakenBackend lets another worker run the operation before the first commit.
type overtakenBackend struct {
	store.Backend
	once     sync.Once
	takeOver func()
}

func (o *overtakenBackend) Transact(ctx context.Context, token string, writes []store.Write) error {
	o.once.Do(o.takeOver)
	return o.Backend.Transact(ctx, token, writes)
}

// TestEndIsLoggedOnce checks that the end of an operation is logged once if two workers run its last step.
func TestEndIsLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		fx.begin("op", "steps")
		fast := fx.engine
		fx.table = storetest.NewWithBackend(t, &overtakenBackend{Backend: fx.backend, takeOver: func() {
			if _, err := fast.Run(t.Context(), "op"); err != nil {
				t.Errorf("Run() of the other worker = %v, want no error", err)
			}
		}}, storetest.Clock(time.Now))
		fx.engine = fx.engineOf(fx.definitions...)
		if r := fx.run("op"); r.Status != operation.Success {
			t.Errorf("record = %+v, want success", r)
		}
		lines := slices.DeleteFunc(fx.log.messages(), func(line string) bool {
			return !strings.Contains(line, "an operation has ended")
		})
		if len(lines) != 1 {
			t.Errorf("%d log lines of the end, want 1", len(lines))
		}
	})
}
