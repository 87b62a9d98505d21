package operation_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
)

// TestLeasesOfADeadProcessAreTakenOver: a process that knows that it is alone resumes at once the operations of a killed
// one. The effect of a step happens once, even if the killed process is not dead after all.
func TestLeasesOfADeadProcessAreTakenOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, runs := make(chan struct{}), 0
		effect := add("done", 1)
		w := newWorld(t, operation.Definition{Kind: "build", First: "compile", States: map[string]operation.State{
			"compile": {
				Does: "compiles", Next: operation.Succeed, Timeout: time.Hour,
				Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
					if runs++; runs == 1 {
						<-hang
					}
					return effect(ctx, s)
				},
			},
		}})
		w.begin("build-1", "build")
		w.begin("build-2", "build")
		killed := make(chan struct{})
		go func() {
			defer close(killed)
			_, _ = w.engine.Run(context.WithoutCancel(t.Context()), "build-1")
		}()
		synctest.Wait()
		planned := w.read("build-2")

		next := w.engineOf(w.kinds...)
		if ended, err := next.TakeOver(t.Context()); err != nil || ended != 1 {
			t.Fatalf("TakeOver() = %d, %v, want 1 lease that is ended", ended, err)
		}
		if got := w.read("build-2"); got.Version != planned.Version {
			t.Errorf("TakeOver() has written an operation without a lease: version = %d, want %d", got.Version, planned.Version)
		}
		if err := next.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"build-1", "build-2"} {
			if r := w.read(id); r.Status != operation.Success {
				t.Errorf("after TakeOver and Sweep at once: status of %s = %s, want %s", id, r.Status, operation.Success)
			}
		}
		close(hang)
		<-killed
		if n := w.counter("done"); n != 2 {
			t.Errorf("the steps of two operations took effect %d times, want 2", n)
		}
		if ended, err := next.TakeOver(t.Context()); err != nil || ended != 0 {
			t.Errorf("TakeOver() of ended operations = %d, %v, want 0", ended, err)
		}
	})
}

// TestTakenOverLeaseIsADeath: a step that kills its process fails in the end, although the process restarts at once.
func TestTakenOverLeaseIsADeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deaths = 3
		hang := make(chan struct{})
		w := newWorld(t, operation.Definition{Kind: "build", First: "compile", States: map[string]operation.State{
			"compile": {
				Does: "compiles", Next: operation.Succeed, Timeout: time.Hour, Deaths: deaths,
				Task: func(context.Context, operation.Step) (operation.Result, error) {
					<-hang
					return operation.Result{}, nil
				},
			},
		}})
		w.begin("build-1", "build")
		for range deaths {
			go func() { _, _ = w.engine.Run(context.WithoutCancel(t.Context()), "build-1") }()
			synctest.Wait()
			if ended, err := w.engine.TakeOver(t.Context()); err != nil || ended != 1 {
				t.Fatalf("TakeOver() = %d, %v, want 1", ended, err)
			}
		}
		w.sweep()
		if r := w.read("build-1"); r.Status != operation.Failure {
			t.Errorf("after %d deaths: status = %s, want %s", deaths, r.Status, operation.Failure)
		}
		close(hang)
	})
}
