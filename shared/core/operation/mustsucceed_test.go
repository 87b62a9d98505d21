package operation_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

// mustSucceedDefinition returns a definition with one state with MustSucceed, which ends when task returns no error.
func mustSucceedDefinition(task operation.Task) operation.Definition {
	return singleState(operation.State{MustSucceed: true, Task: task})
}

// TestMustSucceedRetriesForever makes a task fail 90 times, with each kind of error. Then the task's
// effect must happen once. The longest pause between two attempts must be about ten minutes.
func TestMustSucceedRetriesForever(t *testing.T) {
	for name, failure := range map[string]error{
		"throttled":                      fault.New(fault.Throttled, "later"),
		"a retryable error of the store": store.ErrRetryable,
		"an internal error":              errors.New("cause"),
		"a conflict":                     fault.New(fault.Conflict, "no"),
		"an invalid result":              nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const failures = 90
				attempts, previous, longest := 0, time.Now(), time.Duration(0)
				fx := newFixture(t, mustSucceedDefinition(func(ctx context.Context, s operation.Step) (operation.Result, error) {
					attempts++
					longest, previous = max(longest, time.Since(previous)), time.Now()
					if attempts > failures {
						return addTask("effect", 1)(ctx, s)
					}
					return operation.Result{Next: "nowhere"}, failure
				}))
				fx.begin("op", "one")
				r := fx.untilEnd("op")
				if r.Status != operation.Success || attempts != failures+1 || fx.counter("effect") != 1 {
					t.Errorf("status %s after %d attempts with %d effects, want %s after %d with 1",
						r.Status, attempts, fx.counter("effect"), operation.Success, failures+1)
				}
				if longest > 11*time.Minute || longest < 5*time.Minute {
					t.Errorf("longest time between attempts = %v, want 5m to 11m", longest)
				}
			})
		})
	}
}

// TestMustSucceedDelaysAfterDeaths checks that a task that kills its workers is also
// repeated forever, with growing pauses, so that it does not kill a worker each minute.
func TestMustSucceedDelaysAfterDeaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deaths = 60
		attempts := 0
		start := time.Now()
		fx := newFixture(t, mustSucceedDefinition(func(ctx context.Context, s operation.Step) (operation.Result, error) {
			if attempts++; attempts <= deaths {
				runtime.Goexit()
			}
			return addTask("effect", 1)(ctx, s)
		}))
		fx.begin("op", "one")
		for range 24 * 60 {
			done := make(chan struct{})
			go func() { // the worker that dies
				defer close(done)
				_, _ = fx.engine.Run(t.Context(), "op")
			}()
			<-done
			if fx.read("op").Ended() {
				break
			}
			time.Sleep(time.Minute)
		}
		if r := fx.read("op"); r.Status != operation.Success || fx.counter("effect") != 1 {
			t.Fatalf("record after %d attempts = %+v with %d effects, want success with 1", attempts, r, fx.counter("effect"))
		}
		if elapsed := time.Since(start); elapsed < 4*time.Hour {
			t.Errorf("%d workers died within %v, want at least 4h", deaths, elapsed)
		}
	})
}

// TestStuckOperationRaisesAlarm checks that the first failures, which are normal, raise
// no alarm. Each later failure must raise the alarm, with the table's name.
func TestStuckOperationRaisesAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		fx := newFixture(t)
		o := fx.options()
		o.MetricsTable = "the-table"
		engine, err := operation.New(fx.table,
			[]operation.Definition{mustSucceedDefinition(func(context.Context, operation.Step) (operation.Result, error) {
				if attempts++; attempts > 13 {
					return operation.Result{}, nil
				}
				return operation.Result{}, fault.New(fault.Throttled, "later")
			})}, o)
		if err != nil {
			t.Fatal(err)
		}
		fx.begin("op", "one")
		for !fx.read("op").Ended() {
			if err := engine.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		alarms := 0
		for _, line := range fx.log.lines {
			if strings.Contains(line, "does not get on") {
				alarms++
				for _, part := range []string{"ERROR", "operation=op", "table=the-table", "stuckOperations=1", "_aws="} {
					if !strings.Contains(line, part) {
						t.Errorf("log line %s: want %s in it", line, part)
					}
				}
			}
		}
		if alarms != 4 {
			t.Errorf("%d alarms after 13 failed attempts, want 4, for the attempts 10 to 13", alarms)
		}
	})
}

// TestListAndResume checks that List returns the operations that have not ended, and that Resume makes a waiting
// operation due immediately. Resume must refuse operations that have ended or do not exist.
func TestListAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fixed := false
		task := func(ctx context.Context, s operation.Step) (operation.Result, error) {
			if !fixed {
				return operation.Result{}, fault.New(fault.Throttled, "The table has no time.")
			}
			return addTask("effect", 1)(ctx, s)
		}
		refusing := operation.Definition{Kind: "refused", First: "only", States: map[string]operation.State{"only": {
			Next: operation.Succeed, Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, fault.New(fault.Conflict, "no")
			},
		}}}
		fx := newFixture(t, mustSucceedDefinition(task), refusing)
		fx.begin("waiting", "one")
		fx.begin("failed", "refused")
		for range 200 {
			fx.sweep()
			time.Sleep(time.Minute)
		}
		fx.begin("new", "one")
		listed, err := fx.engine.List(t.Context())
		if err != nil || len(listed) != 2 || listed[0].ID != "waiting" || listed[1].ID != "new" {
			t.Fatalf("List() = %+v, %v, want waiting and new", listed, err)
		}
		if r := listed[0]; r.FailedAttempts() < 20 || r.LastFailure() != "The table has no time." ||
			!r.DueOn.After(time.Now().Add(-time.Minute)) {
			t.Errorf("first listed: %d failed attempts, last failure %q, due on %v, want at least 20, %q, at most 1m before %v",
				r.FailedAttempts(), r.LastFailure(), r.DueOn, "The table has no time.", time.Now())
		}
		if now := time.Now(); !listed[0].IsLate(now) || listed[1].IsLate(now) || !listed[1].IsLate(now.Add(3*time.Minute)) {
			t.Errorf("IsLate() of waiting, new, and new in 3 minutes = %t, %t, %t, want true, false, true",
				listed[0].IsLate(now), listed[1].IsLate(now), listed[1].IsLate(now.Add(3*time.Minute)))
		}
		// Continue until the next attempt is so far away that Run does not make it.
		for time.Until(fx.read("waiting").DueOn) < time.Minute {
			fx.sweep()
			time.Sleep(time.Second)
		}
		fixed = true
		fx.run("waiting")
		if fx.counter("effect") != 0 {
			t.Fatal("Run(waiting) before Resume() had an effect, want none")
		}
		if r, err := fx.engine.Resume(t.Context(), "waiting"); err != nil || r.FailedAttempts() != 0 {
			t.Errorf("Resume(waiting) = %+v, %v, want 0 failed attempts", r, err)
		}
		if r := fx.run("waiting"); r.Status != operation.Success || fx.counter("effect") != 1 {
			t.Errorf("Run(waiting) after Resume() = %+v with %d effects, want success with 1", r, fx.counter("effect"))
		}
		for id, want := range map[string]string{
			"waiting": "has succeeded", "failed": "has failed for good",
			"none": "There is no operation",
		} {
			if _, err := fx.engine.Resume(t.Context(), id); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("Resume(%s) = %v, want %q in the error", id, err, want)
			}
		}
	})
}

// TestResumeOfFailedOperation checks that Resume continues an operation that has failed in an
// older release, if the operation's state has MustSucceed in this release.
func TestResumeOfFailedOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		older := singleState(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
			return operation.Result{}, fault.New(fault.Throttled, "later")
		}})
		fx := newFixture(t, older)
		fx.begin("op", "one")
		if r := fx.untilEnd("op"); r.Status != operation.Failure {
			t.Fatalf("record = %+v, want a failure", r)
		}
		fx.engine = fx.engineOf(mustSucceedDefinition(addTask("effect", 1)))
		if _, err := fx.engine.Resume(t.Context(), "op"); err != nil {
			t.Fatalf("Resume() of a failed operation = %v, want no error", err)
		}
		if r := fx.untilEnd("op"); r.Status != operation.Success || r.TTL == 0 || fx.counter("effect") != 1 {
			t.Errorf("record after Resume() = %+v with %d effects, want success with a TTL and 1 effect", r,
				fx.counter("effect"))
		}
	})
}

func TestResumeRefusesRunningOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t)
		var refused error
		fx.engine = fx.engineOf(mustSucceedDefinition(func(ctx context.Context, s operation.Step) (operation.Result, error) {
			if s.Attempt == 1 && refused == nil {
				if _, refused = fx.engine.Resume(ctx, s.ID); refused == nil {
					refused = errors.New("it was resumed")
				}
			}
			return operation.Result{}, nil
		}))
		fx.begin("op", "one")
		if r := fx.run("op"); r.Status != operation.Success || fault.KindOf(refused) != fault.Conflict {
			t.Errorf("status %s, Resume() meanwhile = %v, want %s and a conflict", r.Status, refused, operation.Success)
		}
	})
}
