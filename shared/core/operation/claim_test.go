package operation_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
	"github.com/gatewright/gatewright/shared/core/store"
)

func TestClaimRunsWithoutRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a", "b", "c"))
		claim := fx.engine.Claim(operation.Start{ID: "op", Kind: "steps"}, 0)
		meter := &store.Meter{}
		ctx := store.WithMeter(t.Context(), meter)
		if err := fx.table.Commit(ctx, claim.Begin()); err != nil {
			t.Fatalf("commit of Begin() = %v, want success", err)
		}
		r, err := claim.Run(ctx)
		if err != nil || r.Status != operation.Success {
			t.Fatalf("Run() of a claim = %+v, %v, want success", r, err)
		}
		if u := meter.Usage(); u.Reads != 0 || u.Queries != 0 || u.Commits != 1+3 {
			t.Errorf("Begin() and Run() of three steps use %+v, want 4 commits and no reads", u)
		}
	})
}

// TestClaimHoldsLeaseUntilExpiry checks that no worker runs the operation of a claim before its lease expires, and that
// Succeed fails after a worker has run it.
func TestClaimHoldsLeaseUntilExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("undo"))
		claim := fx.engine.Claim(operation.Start{ID: "op", Kind: "steps"}, time.Minute)
		fx.commit(claim.Begin())
		time.Sleep(time.Minute - time.Millisecond)
		fx.sweep()
		fx.run("op")
		if fx.counter("undo") != 0 {
			t.Error("a worker ran the operation while the claim held its lease, want no effect")
		}
		time.Sleep(time.Millisecond)
		fx.sweep()
		if fx.counter("undo") != 1 {
			t.Errorf("the sweep after the lease's end ran the step %d times, want once", fx.counter("undo"))
		}
		effect := store.Upsert(counterKey("done"), store.Add(store.At("n"), 1))
		if err := fx.table.Commit(t.Context(), effect, claim.Succeed()); !errors.Is(err, operation.ErrLost) {
			t.Errorf("late commit of Succeed() = %v, want %v", err, operation.ErrLost)
		}
		if fx.counter("done") != 0 {
			t.Error("the late commit had an effect, want none")
		}
	})
}

func TestSucceededClaimIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("undo"))
		claim := fx.engine.Claim(operation.Start{ID: "op", Kind: "steps"}, time.Minute)
		fx.commit(claim.Begin())
		fx.commit(claim.Succeed())
		time.Sleep(time.Hour)
		fx.sweep()
		if r := fx.run("op"); r.Status != operation.Success || fx.counter("undo") != 0 {
			t.Errorf("status of a succeeded claim = %s, %d steps run, want %s, 0",
				r.Status, fx.counter("undo"), operation.Success)
		}
	})
}

func TestClaimThatCannotBeStoredFailsItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		for name, start := range map[string]operation.Start{
			"unknown kind":           {ID: "op", Kind: "unknown"},
			"no id":                  {Kind: "steps"},
			"input that is not JSON": {ID: "op", Kind: "steps", Input: func() {}},
		} {
			claim := fx.engine.Claim(start, 0)
			if fx.table.Commit(t.Context(), claim.Begin()) == nil {
				t.Errorf("%s: the commit of Begin() succeeds, want an error", name)
			}
			if fx.table.Commit(t.Context(), claim.Succeed()) == nil {
				t.Errorf("%s: the commit of Succeed() succeeds, want an error", name)
			}
			if _, err := claim.Run(t.Context()); err == nil {
				t.Errorf("%s: Run() succeeds, want an error", name)
			}
		}
	})
}

func TestCreateEndedIsNeverRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := newFixture(t, stepsDefinition("a"))
		fx.commit(operation.CreateEnded(operation.Start{ID: "op", Kind: "steps", Subject: "it"}, "There was nothing to do.",
			time.Now()))
		fx.sweep()
		r := fx.run("op")
		if r.Status != operation.Success || r.Message != "There was nothing to do." ||
			r.Subject != "it" || r.FinishedOn == nil {
			t.Errorf("CreateEnded() stores %+v, want a finished success with its message and subject", r)
		}
		if fx.counter("a") != 0 {
			t.Errorf("an ended operation ran %d steps, want 0", fx.counter("a"))
		}
		if remaining := time.Until(time.Unix(r.TTL, 0)); remaining < 29*24*time.Hour {
			t.Errorf("an ended operation expires in %s, want at least 29 days", remaining)
		}
		if listed, err := fx.engine.List(t.Context()); err != nil || len(listed) > 0 {
			t.Errorf("List() = %+v, %v, want no operations", listed, err)
		}
	})
}
