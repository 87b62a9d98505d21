package operation_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

// must is one state that must happen, and does when task has no error any more.
func must(task operation.Task) operation.Definition {
	return one(operation.State{Must: true, Task: task})
}

// TestWhatMustHappenNeverGivesUp: whatever the error is, and however often it
// comes, the effect happens once when it comes no more, and the pauses until then
// are bounded.
func TestWhatMustHappenNeverGivesUp(t *testing.T) {
	for name, failure := range map[string]error{
		"throttled":              fault.New(fault.Throttled, "later"),
		"a store with no answer": store.ErrRepeat,
		"an internal error":      errors.New("cause"),
		"a conflict":             fault.New(fault.Conflict, "no"),
		"an impossible result":   nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const inVain = 90
				attempts, last, longest := 0, time.Now(), time.Duration(0)
				w := newWorld(t, must(func(ctx context.Context, s operation.Step) (operation.Result, error) {
					attempts++
					longest, last = max(longest, time.Since(last)), time.Now()
					if attempts > inVain {
						return add("effect", 1)(ctx, s)
					}
					return operation.Result{Next: "nowhere"}, failure
				}))
				w.begin("op", "one")
				r := w.untilEnd("op")
				if r.Status != operation.Success || attempts != inVain+1 || w.counter("effect") != 1 {
					t.Errorf("status %s after %d attempts, the effect happened %d times", r.Status, attempts, w.counter("effect"))
				}
				if longest > 11*time.Minute || longest < 5*time.Minute {
					t.Errorf("the longest time between attempts is %v", longest)
				}
			})
		})
	}
}

// TestWorkersThatDieOfWhatMustHappenRest: a task that ends its workers is tried
// for ever, too, and does not take one down each minute.
func TestWorkersThatDieOfWhatMustHappenRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deaths = 60
		attempts := 0
		begun := time.Now()
		w := newWorld(t, must(func(ctx context.Context, s operation.Step) (operation.Result, error) {
			if attempts++; attempts <= deaths {
				runtime.Goexit()
			}
			return add("effect", 1)(ctx, s)
		}))
		w.begin("op", "one")
		for range 24 * 60 {
			done := make(chan struct{})
			go func() { // the worker that dies
				defer close(done)
				_, _ = w.engine.Run(t.Context(), "op")
			}()
			<-done
			if w.read("op").Ended() {
				break
			}
			time.Sleep(time.Minute)
		}
		if r := w.read("op"); r.Status != operation.Success || w.counter("effect") != 1 {
			t.Fatalf("after %d attempts: %+v", attempts, r)
		}
		if took := time.Since(begun); took < 4*time.Hour {
			t.Errorf("%d workers died within %v", deaths, took)
		}
	})
}

// TestAlarmRingsWhileAnOperationDoesNotGetOn: not at the first failures, which
// are everyday's, and then with every attempt, under the installation's name.
func TestAlarmRingsWhileAnOperationDoesNotGetOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		w := newWorld(t)
		o := w.options()
		o.Metrics = "the-table"
		engine, err := operation.New(w.table, []operation.Definition{must(func(context.Context, operation.Step) (operation.Result, error) {
			if attempts++; attempts > 13 {
				return operation.Result{}, nil
			}
			return operation.Result{}, fault.New(fault.Throttled, "later")
		})}, o)
		if err != nil {
			t.Fatal(err)
		}
		w.begin("op", "one")
		for !w.read("op").Ended() {
			if err := engine.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}
		rung := 0
		for _, line := range w.log.lines {
			if strings.Contains(line, "does not get on") {
				rung++
				for _, part := range []string{"ERROR", "operation=op", "table=the-table", "stuckOperations=1", "_aws="} {
					if !strings.Contains(line, part) {
						t.Errorf("no %s in %s", part, line)
					}
				}
			}
		}
		if rung != 4 { // attempts 10 to 13
			t.Errorf("the alarm rang %d times", rung)
		}
	})
}

func TestOperationsAreLookedUpAndResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mended := false
		task := func(ctx context.Context, s operation.Step) (operation.Result, error) {
			if !mended {
				return operation.Result{}, fault.New(fault.Throttled, "The table has no time.")
			}
			return add("effect", 1)(ctx, s)
		}
		never := operation.Definition{Kind: "refused", First: "only", States: map[string]operation.State{"only": {
			Next: operation.Succeed, Task: func(context.Context, operation.Step) (operation.Result, error) {
				return operation.Result{}, fault.New(fault.Conflict, "no")
			},
		}}}
		w := newWorld(t, must(task), never)
		w.begin("waiting", "one")
		w.begin("failed", "refused")
		for range 200 {
			w.sweep()
			time.Sleep(time.Minute)
		}
		w.begin("new", "one")
		listed, err := w.engine.List(t.Context())
		if err != nil || len(listed) != 2 || listed[0].ID != "waiting" || listed[1].ID != "new" {
			t.Fatalf("the list is %+v, %v", listed, err)
		}
		if r := listed[0]; r.InVain() < 20 || r.LastFailure() != "The table has no time." || !r.DueOn.After(time.Now().Add(-time.Minute)) {
			t.Errorf("%d attempts in vain, %q, next at %v", r.InVain(), r.LastFailure(), r.DueOn)
		}
		if now := time.Now(); !listed[0].Behind(now) || listed[1].Behind(now) || !listed[1].Behind(now.Add(3*time.Minute)) {
			t.Error("what waits is behind, and what has just begun only when nobody takes it")
		}
		for time.Until(w.read("waiting").DueOn) < time.Minute {
			w.sweep()
			time.Sleep(time.Second)
		}
		mended = true
		w.run("waiting")
		if w.counter("effect") != 0 {
			t.Fatal("it does not wait")
		}
		if r, err := w.engine.Resume(t.Context(), "waiting"); err != nil || r.InVain() != 0 {
			t.Errorf("resume: %v, %+v", err, r)
		}
		if r := w.run("waiting"); r.Status != operation.Success || w.counter("effect") != 1 {
			t.Errorf("once resumed it is %+v", r)
		}
		for id, want := range map[string]string{"waiting": "has succeeded", "failed": "has failed for good", "none": "There is no operation"} {
			if _, err := w.engine.Resume(t.Context(), id); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("resume %s: %v, want %q", id, err, want)
			}
		}
	})
}

// TestWhatAnEarlierReleaseGaveUpIsResumed: it stands where it stopped.
func TestWhatAnEarlierReleaseGaveUpIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		earlier := one(operation.State{Task: func(context.Context, operation.Step) (operation.Result, error) {
			return operation.Result{}, fault.New(fault.Throttled, "later")
		}})
		w := newWorld(t, earlier)
		w.begin("op", "one")
		if r := w.untilEnd("op"); r.Status != operation.Failure {
			t.Fatalf("%+v", r)
		}
		w.engine = w.engineOf(must(add("effect", 1)))
		if _, err := w.engine.Resume(t.Context(), "op"); err != nil {
			t.Fatal(err)
		}
		if r := w.untilEnd("op"); r.Status != operation.Success || r.TTL == 0 || w.counter("effect") != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestResumeLeavesARunningOperationAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var refused error
		w.engine = w.engineOf(must(func(ctx context.Context, s operation.Step) (operation.Result, error) {
			if s.Attempt == 1 && refused == nil {
				if _, refused = w.engine.Resume(ctx, s.ID); refused == nil {
					refused = errors.New("it was resumed")
				}
			}
			return operation.Result{}, nil
		}))
		w.begin("op", "one")
		if r := w.run("op"); r.Status != operation.Success || fault.KindOf(refused) != fault.Conflict {
			t.Errorf("it ended %s, and was resumed meanwhile: %v", r.Status, refused)
		}
	})
}
