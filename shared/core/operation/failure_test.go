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

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

func TestRetryDelaysDouble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var attempts []time.Duration
		start := time.Now()
		fx := newFixture(t, singleState(operation.State{
			Retry: operation.Retry{Attempts: 6, InitialDelay: 100 * time.Millisecond, MaxDelay: time.Second},
			Task: func(context.Context, operation.Step) (operation.Result, error) {
				attempts = append(attempts, time.Since(start))
				return operation.Result{}, errors.New("no luck")
			},
		}))
		fx.begin("op", "one")
		r := fx.run("op")
		const ms = time.Millisecond
		want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1500 * ms, 2500 * ms}
		if fmt.Sprint(attempts) != fmt.Sprint(want) {
			t.Errorf("attempts at %v, want %v", attempts, want)
		}
		if r.Status != operation.Failure || !strings.Contains(r.Details, `"only", after 6 attempts`) ||
			r.History[0].Attempts != 6 {
			t.Errorf("record = %+v, want a failure of the state \"only\" after 6 attempts", r)
		}
	})
}

func TestRetryDelayIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		start := time.Now()
		fx := newFixture(t, singleState(operation.State{
			Retry: operation.Retry{Attempts: 20, InitialDelay: day, MaxDelay: 30 * day},
			Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, errors.New("no luck")
			},
		}))
		fx.begin("op", "one")
		for range 19 {
			fx.run("op")
			if wait := time.Until(fx.read("op").DueOn); wait < day || wait > 30*day {
				t.Fatalf("delay after %v = %v, want %v to %v", time.Since(start), wait, day, 30*day)
			}
			time.Sleep(30 * day)
		}
		if r := fx.run("op"); r.Status != operation.Failure {
			t.Errorf("record = %+v, want a failure", r)
		}
	})
}

func TestRetryDependsOnError(t *testing.T) {
	public := "Say something else."
	tests := []struct {
		name     string
		err      error
		attempts int
		message  string
	}{
		{"an error that is no fault", errors.New("cause"), 5, "internal error"},
		{"an internal fault", fault.New(fault.Internal, "%s", public), 5, public},
		{"a wrapped fault", fmt.Errorf("cause: %w", fault.New(fault.Conflict, "%s", public)), 1, public},
		{"invalid", fault.New(fault.Invalid, "%s", public), 1, public},
		{"unauthenticated", fault.New(fault.Unauthenticated, "%s", public), 1, public},
		{"forbidden", fault.New(fault.Forbidden, "%s", public), 1, public},
		{"not found", fault.New(fault.NotFound, "%s", public), 1, public},
		{"unprocessable", fault.New(fault.Unprocessable, "%s", public), 1, public},
		{"too large", fault.New(fault.TooLarge, "%s", public), 1, public},
		{"a failed condition of a store write", store.ErrCondition, 5, "internal error"},
		{"throttled", fault.New(fault.Throttled, "%s", public), 50, public},
		{"unavailable", fault.New(fault.Unavailable, "%s", public), 50, public},
		{"a retryable error of the store", store.ErrRetryable, 50, "internal error"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				attempts := 0
				fx := newFixture(t,
					singleState(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
						attempts++
						return operation.Result{}, test.err
					}}))
				fx.begin("op", "one")
				r := fx.untilEnd("op")
				if r.Status != operation.Failure || attempts != test.attempts {
					t.Errorf("status %s after %d attempts, want %s after %d", r.Status, attempts, operation.Failure, test.attempts)
				}
				if !strings.Contains(r.Message, test.message) {
					t.Errorf("message = %q, want %q in it", r.Message, test.message)
				}
			})
		})
	}
}

func TestCauseIsLoggedOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const cause = "the secret cause"
		for name, task := range map[string]operation.Task{
			"error": func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, fault.New(fault.Conflict, "It is taken.").WithCause(errors.New(cause))
			},
			"panic": func(context.Context, operation.Step) (operation.Result, error) { panic(cause) },
		} {
			fx := newFixture(t, singleState(operation.State{Task: task, Retry: operation.Retry{Attempts: 1}}))
			fx.begin("op", "one")
			fx.run("op")
			for key, item := range fx.backend.Items() {
				if text, err := json.Marshal(item); err != nil || strings.Contains(string(text), cause) {
					t.Errorf("%s: item %s = %s, %v, want it without the cause", name, key.PK, text, err)
				}
			}
			if !strings.Contains(strings.Join(fx.log.messages(), "\n"), cause) {
				t.Errorf("%s: the log lacks the cause, want %q in it", name, cause)
			}
		}
	})
}

func TestPanicIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		fx := newFixture(t,
			singleState(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
				if attempts++; attempts < 3 {
					panic("boom")
				}
				return operation.Result{}, nil
			}}))
		fx.begin("op", "one")
		if r := fx.untilEnd("op"); r.Status != operation.Success || attempts != 3 {
			t.Errorf("status %s after %d attempts, want %s after 3", r.Status, attempts, operation.Success)
		}
	})
}

func TestCaughtFailureIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caught := ""
		fx := newFixture(t, operation.Definition{Kind: "undo", First: "take", States: map[string]operation.State{
			"take": {Task: addTask("taken", 1), Next: "pay"},
			"pay": {
				Next: operation.Succeed, Catch: "return",
				Task: func(context.Context, operation.Step) (operation.Result, error) {
					return operation.Result{}, fault.New(fault.Conflict, "There is no money.")
				},
			},
			"return": {Next: operation.Fail, Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
				caught = s.CaughtMessage
				return addTask("taken", -1)(ctx, s)
			}},
		}})
		fx.begin("op", "undo")
		r := fx.run("op")
		if r.Status != operation.Failure || r.Message != "There is no money." || !strings.Contains(r.Details, `"pay"`) {
			t.Errorf("record = %+v, want a failure of the state \"pay\" with the message \"There is no money.\"", r)
		}
		if fx.counter("taken") != 0 || caught != "There is no money." {
			t.Errorf("counter %d, message in the catching state %q, want 0, \"There is no money.\"", fx.counter("taken"), caught)
		}
	})
}

func TestRepairedFailureIsNotShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, operation.Definition{Kind: "detour", First: "a", States: map[string]operation.State{
			"a": {Next: operation.Succeed, Catch: "b", Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, fault.New(fault.NotFound, "It is not there.")
			}},
			"b": {Task: addTask("b", 1), Next: operation.Succeed},
		}})
		fx.begin("op", "detour")
		r := fx.run("op")
		if r.Status != operation.Success || r.Message != "" || r.Details != "" || r.History[0].Message != "It is not there." {
			t.Errorf("record = %+v, want success without a message or details, and the failure in the history", r)
		}
	})
}

func TestStepTimeoutIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		fx := newFixture(t, singleState(operation.State{
			Timeout: 10 * time.Second, Retry: operation.Retry{Attempts: 2},
			Task: func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				attempts++
				start := time.Now()
				<-ctx.Done()
				if elapsed := time.Since(start); elapsed != 10*time.Second {
					t.Errorf("the step's context ended after %v, want 10s", elapsed)
				}
				return operation.Result{}, ctx.Err()
			},
		}))
		fx.begin("op", "one")
		if r := fx.untilEnd("op"); r.Status != operation.Failure || attempts != 2 || !strings.Contains(r.Message, "longer") {
			t.Errorf("record after %d attempts = %+v, want a failure after 2, with \"longer\" in the message", attempts, r)
		}
	})
}

func TestStoppedWorkerIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		long := true
		fx := newFixture(t, singleState(operation.State{
			Timeout: 5 * time.Minute, Retry: operation.Retry{Attempts: 1},
			Task: func(ctx context.Context, _ operation.Step) (operation.Result, error) {
				if long {
					<-ctx.Done()
					return operation.Result{}, ctx.Err()
				}
				return operation.Result{}, nil
			},
		}))
		fx.begin("op", "one")
		for name, newContext := range map[string]func() (context.Context, context.CancelFunc){
			"the worker's deadline": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), time.Minute)
			},
			"the worker's cancellation": func() (context.Context, context.CancelFunc) {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				return ctx, cancel
			},
		} {
			ctx, cancel := newContext()
			r, err := fx.engine.Run(ctx, "op")
			cancel()
			if err != nil || r.Ended() || r.Lease != nil {
				t.Errorf("%s: Run() = %+v, %v, want an operation in progress without a lease", name, r, err)
			}
			if r.Failures != 0 || r.DueOn.After(time.Now()) {
				t.Errorf("%s: %d failures, due on %v, want 0, due now", name, r.Failures, r.DueOn)
			}
		}
		long = false
		if r := fx.run("op"); r.Status != operation.Success {
			t.Errorf("record in the end = %+v, want success", r)
		}
	})
}

// TestStepThatKillsWorkersFails checks a step that kills its worker every time. Such a step returns no error: it only
// leaves leases that were not released. The step fails after State.MaxDeaths deaths or, if MaxDeaths is 0, after 50
// interruptions (maxInterruptions).
func TestStepThatKillsWorkersFails(t *testing.T) {
	checkDeaths(t, 0, 50, "interrupted")
	checkDeaths(t, 3, 3, "memory or time")
}

// checkDeaths checks that a step with this State.MaxDeaths fails after want deaths, and that message is a part of the
// operation's message.
func checkDeaths(t *testing.T, maxDeaths, want int, message string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		deaths := 0
		fx := newFixture(t, operation.Definition{Kind: "poison", First: "eat", States: map[string]operation.State{
			"eat": {
				Next: operation.Succeed, Catch: "bury", MaxDeaths: maxDeaths,
				Task: func(context.Context, operation.Step) (operation.Result, error) {
					deaths++
					runtime.Goexit() // simulates a killed process: nothing more happens
					return operation.Result{}, nil
				},
			},
			"bury": {Task: addTask("buried", 1), Next: operation.Fail},
		}})
		fx.begin("op", "poison")
		for range 100 {
			process := make(chan struct{})
			go func() {
				defer close(process)
				_, _ = fx.engine.Run(t.Context(), "op")
			}()
			<-process
			time.Sleep(time.Minute)
		}
		r := fx.read("op")
		if r.Status != operation.Failure || fx.counter("buried") != 1 || deaths != want ||
			!strings.Contains(r.Message, message) {
			t.Errorf("record after %d deaths, caught %d times = %+v, want a failure after %d, caught once, with the message %q",
				deaths, fx.counter("buried"), r, want, message)
		}
	})
}
