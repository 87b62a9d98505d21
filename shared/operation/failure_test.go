package operation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

func TestFailedStepIsRetriedAfterDoublingPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var at []time.Duration
		begun := time.Now()
		w := newWorld(t, one(operation.State{
			Retry: operation.Retry{Attempts: 6, First: 100 * time.Millisecond, Longest: time.Second},
			Task: func(context.Context, operation.Step) (operation.Result, error) {
				at = append(at, time.Since(begun))
				return operation.Result{}, errors.New("no luck")
			},
		}))
		w.begin("op", "one")
		r := w.run("op")
		const ms = time.Millisecond
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 2500 * ms}
		if fmt.Sprint(at) != fmt.Sprint(want) {
			t.Errorf("attempts at %v, want %v", at, want)
		}
		if r.Status != operation.Failure || !strings.Contains(r.Details, `"only", after 6 attempts`) || r.History[0].Attempts != 6 {
			t.Errorf("record is %+v", r)
		}
	})
}

func TestPausesOfAnyLengthStayWithinTheirBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		begun := time.Now()
		w := newWorld(t, one(operation.State{
			Retry: operation.Retry{Attempts: 20, First: day, Longest: 30 * day},
			Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, errors.New("no luck")
			},
		}))
		w.begin("op", "one")
		for range 19 {
			w.run("op")
			if wait := time.Until(w.read("op").DueOn); wait < day || wait > 30*day {
				t.Fatalf("after %v the pause is %v", time.Since(begun), wait)
			}
			time.Sleep(30 * day)
		}
		if r := w.run("op"); r.Status != operation.Failure {
			t.Errorf("record is %+v", r)
		}
	})
}

func TestErrorDecidesWhetherAStepIsRetried(t *testing.T) {
	public := "Say something else."
	tests := []struct {
		name     string
		err      error
		attempts int
		message  string
	}{
		{"any error", errors.New("cause"), 5, "internal error"},
		{"an internal fault", fault.New(fault.Internal, "%s", public), 5, public},
		{"a wrapped fault", fmt.Errorf("cause: %w", fault.New(fault.Conflict, "%s", public)), 1, public},
		{"invalid", fault.New(fault.Invalid, "%s", public), 1, public},
		{"unauthenticated", fault.New(fault.Unauthenticated, "%s", public), 1, public},
		{"forbidden", fault.New(fault.Forbidden, "%s", public), 1, public},
		{"not found", fault.New(fault.NotFound, "%s", public), 1, public},
		{"unprocessable", fault.New(fault.Unprocessable, "%s", public), 1, public},
		{"too large", fault.New(fault.TooLarge, "%s", public), 1, public},
		{"a condition without a meaning", store.ErrCondition, 5, "internal error"},
		{"throttled", fault.New(fault.Throttled, "%s", public), 50, public},
		{"unavailable", fault.New(fault.Unavailable, "%s", public), 50, public},
		{"a store that wants repeats", store.ErrRepeat, 50, "internal error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				w := newWorld(t, one(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
					attempts++
					return operation.Result{}, test.err
				}}))
				w.begin("op", "one")
				r := w.untilEnd("op")
				if r.Status != operation.Failure || attempts != test.attempts {
					t.Errorf("status %s after %d attempts, want %d", r.Status, attempts, test.attempts)
				}
				if !strings.Contains(r.Message, test.message) {
					t.Errorf("the message is %q", r.Message)
				}
			})
		})
	}
}

func TestCauseIsLoggedAndNeverShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cause = "the cause that nobody may read"
		for name, task := range map[string]operation.Task{
			"error": func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, fault.New(fault.Conflict, "It is taken.").Because(errors.New(cause))
			},
			"panic": func(context.Context, operation.Step) (operation.Result, error) { panic(cause) },
		} {
			w := newWorld(t, one(operation.State{Task: task, Retry: operation.Retry{Attempts: 1}}))
			w.begin("op", "one")
			w.run("op")
			for key, item := range w.backend.Items() {
				if text, err := json.Marshal(item); err != nil || strings.Contains(string(text), cause) {
					t.Errorf("%s: item %s is %s, %v", name, key.PK, text, err)
				}
			}
			if !strings.Contains(strings.Join(w.log.messages(), "\n"), cause) {
				t.Errorf("%s: the log lacks the cause", name)
			}
		}
	})
}

func TestPanicIsAFailureOfItsStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		w := newWorld(t, one(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
			if attempts++; attempts < 3 {
				panic("boom")
			}
			return operation.Result{}, nil
		}}))
		w.begin("op", "one")
		if r := w.untilEnd("op"); r.Status != operation.Success || attempts != 3 {
			t.Errorf("status %s after %d attempts", r.Status, attempts)
		}
	})
}

func TestCaughtFailureIsUndoneAndStillShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caught := ""
		w := newWorld(t, operation.Definition{Kind: "undo", First: "take", States: map[string]operation.State{
			"take": {Task: add("taken", 1), Next: "pay"},
			"pay": {Next: operation.Succeed, Catch: "return", Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, fault.New(fault.Conflict, "There is no money.")
			}},
			"return": {Next: operation.Fail, Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
				caught = s.Caught
				return add("taken", -1)(ctx, s)
			}},
		}})
		w.begin("op", "undo")
		r := w.run("op")
		if r.Status != operation.Failure || r.Message != "There is no money." || !strings.Contains(r.Details, `"pay"`) {
			t.Errorf("record is %+v", r)
		}
		if w.counter("taken") != 0 || caught != "There is no money." {
			t.Errorf("taken %d times, the catching state was told %q", w.counter("taken"), caught)
		}
	})
}

func TestFailureThatIsMadeGoodIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, operation.Definition{Kind: "detour", First: "a", States: map[string]operation.State{
			"a": {Next: operation.Succeed, Catch: "b", Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, fault.New(fault.NotFound, "It is not there.")
			}},
			"b": {Task: add("b", 1), Next: operation.Succeed},
		}})
		w.begin("op", "detour")
		r := w.run("op")
		if r.Status != operation.Success || r.Message != "" || r.Details != "" || r.History[0].Message != "It is not there." {
			t.Errorf("record is %+v", r)
		}
	})
}

func TestStepThatTakesTooLongIsStoppedAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		w := newWorld(t, one(operation.State{Timeout: 10 * time.Second, Retry: operation.Retry{Attempts: 2}, Task: func(ctx context.Context, _ operation.Step) (operation.Result, error) {
			attempts++
			begun := time.Now()
			<-ctx.Done()
			if took := time.Since(begun); took != 10*time.Second {
				t.Errorf("the step's context ended after %v", took)
			}
			return operation.Result{}, ctx.Err()
		}}))
		w.begin("op", "one")
		if r := w.untilEnd("op"); r.Status != operation.Failure || attempts != 2 || !strings.Contains(r.Message, "longer") {
			t.Errorf("after %d attempts: %+v", attempts, r)
		}
	})
}

func TestStepOfAWorkerThatHasToGoIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := true
		w := newWorld(t, one(operation.State{Timeout: 5 * time.Minute, Retry: operation.Retry{Attempts: 1}, Task: func(ctx context.Context, _ operation.Step) (operation.Result, error) {
			if long {
				<-ctx.Done()
				return operation.Result{}, ctx.Err()
			}
			return operation.Result{}, nil
		}}))
		w.begin("op", "one")
		for name, end := range map[string]func() (context.Context, context.CancelFunc){
			"its deadline": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), time.Minute)
			},
			"its cancellation": func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := end()
			r, err := w.engine.Run(ctx, "op")
			cancel()
			if err != nil || r.Ended() || r.Lease != nil || r.Failures != 0 || r.DueOn.After(time.Now()) {
				t.Errorf("%s: %+v, %v", name, r, err)
			}
		}
		long = false
		if r := w.run("op"); r.Status != operation.Success {
			t.Errorf("in the end: %+v", r)
		}
	})
}

// A step that kills its process every time leaves no error behind; only the
// leases that nobody gave back tell. A state may say how many are enough.
func TestStepThatKillsItsWorkersFailsInTheEnd(t *testing.T) {
	killed(t, 0, 50, "interrupted")
	killed(t, 3, 3, "memory or time")
}

func killed(t *testing.T, most, want int, message string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		deaths := 0
		w := newWorld(t, operation.Definition{Kind: "poison", First: "eat", States: map[string]operation.State{
			"eat": {Next: operation.Succeed, Catch: "bury", Deaths: most, Task: func(context.Context, operation.Step) (operation.Result, error) {
				deaths++
				runtime.Goexit() // what is left of a process that is killed: nothing more happens
				return operation.Result{}, nil
			}},
			"bury": {Task: add("buried", 1), Next: operation.Fail},
		}})
		w.begin("op", "poison")
		for range 100 {
			process := make(chan struct{})
			go func() {
				defer close(process)
				_, _ = w.engine.Run(t.Context(), "op")
			}()
			<-process
			time.Sleep(time.Minute)
		}
		r := w.read("op")
		if r.Status != operation.Failure || w.counter("buried") != 1 || deaths != want || !strings.Contains(r.Message, message) {
			t.Errorf("after %d deaths, buried %d times: %+v", deaths, w.counter("buried"), r)
		}
	})
}
