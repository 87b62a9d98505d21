package operation_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
)

// TestExpireLeases checks that the first Sweep after ExpireLeases resumes the operations of a killed
// process. The effect of a step must happen once, even if the other process is still alive.
func TestExpireLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang, runs := make(chan struct{}), 0
		effect := addTask("done", 1)
		fx := newFixture(t, operation.Definition{Kind: "build", First: "compile", States: map[string]operation.State{
			"compile": {
				Description: "compiles", Next: operation.Succeed, Timeout: time.Hour,
				Task: func(ctx context.Context, s operation.Step) (operation.Result, error) {
					if runs++; runs == 1 {
						<-hang
					}
					return effect(ctx, s)
				},
			},
		}})
		fx.begin("build-1", "build")
		fx.begin("build-2", "build")
		firstEnded := make(chan struct{})
		go func() {
			defer close(firstEnded)
			_, _ = fx.engine.Run(context.WithoutCancel(t.Context()), "build-1")
		}()
		synctest.Wait()
		planned := fx.read("build-2")

		next := fx.engineOf(fx.definitions...)
		if expired, err := next.ExpireLeases(t.Context()); err != nil || expired != 1 {
			t.Fatalf("ExpireLeases() = %d, %v, want 1 expired lease", expired, err)
		}
		if got := fx.read("build-2"); got.Version != planned.Version {
			t.Errorf("ExpireLeases() has written an operation without a lease: version = %d, want %d", got.Version,
				planned.Version)
		}
		if err := next.Sweep(t.Context()); err != nil {
			t.Fatalf("Sweep() after ExpireLeases() = %v, want success", err)
		}
		for _, id := range []string{"build-1", "build-2"} {
			if r := fx.read(id); r.Status != operation.Success {
				t.Errorf("status of %s after ExpireLeases() and Sweep() = %s, want %s", id, r.Status, operation.Success)
			}
		}
		close(hang)
		<-firstEnded
		if n := fx.counter("done"); n != 2 {
			t.Errorf("the steps of two operations took effect %d times, want 2", n)
		}
		if expired, err := next.ExpireLeases(t.Context()); err != nil || expired != 0 {
			t.Errorf("ExpireLeases() of ended operations = %d, %v, want 0", expired, err)
		}
	})
}

// TestExpiredLeaseCountsAsDeath checks that a step that kills its process fails
// after MaxDeaths deaths, although the process restarts immediately each time.
func TestExpiredLeaseCountsAsDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deaths = 3
		hang := make(chan struct{})
		fx := newFixture(t, operation.Definition{Kind: "build", First: "compile", States: map[string]operation.State{
			"compile": {
				Description: "compiles", Next: operation.Succeed, Timeout: time.Hour, MaxDeaths: deaths,
				Task: func(context.Context, operation.Step) (operation.Result, error) {
					<-hang
					return operation.Result{}, nil
				},
			},
		}})
		fx.begin("build-1", "build")
		for range deaths {
			go func() { _, _ = fx.engine.Run(context.WithoutCancel(t.Context()), "build-1") }()
			synctest.Wait()
			if expired, err := fx.engine.ExpireLeases(t.Context()); err != nil || expired != 1 {
				t.Fatalf("ExpireLeases() = %d, %v, want 1 expired lease", expired, err)
			}
		}
		fx.sweep()
		if r := fx.read("build-1"); r.Status != operation.Failure {
			t.Errorf("after %d deaths: status = %s, want %s", deaths, r.Status, operation.Failure)
		}
		close(hang)
	})
}
