package operation_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
	"github.com/gatewright/gatewright/shared/store"
)

func TestClaimedOperationRunsWithoutALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a", "b", "c"))
		claim := w.engine.Claim(operation.Start{ID: "op", Kind: "steps"}, 0)
		meter := &store.Meter{}
		ctx := store.WithMeter(t.Context(), meter)
		if err := w.table.Commit(ctx, claim.Begin()); err != nil {
			t.Fatal(err)
		}
		r, err := claim.Run(ctx)
		if err != nil || r.Status != operation.Success {
			t.Fatalf("Run answers %+v, %v", r, err)
		}
		if u := meter.Usage(); u.Reads != 0 || u.Queries != 0 || u.Commits != 1+3 {
			t.Errorf("three steps use %+v, want one commit each and one to begin", u)
		}
	})
}

func TestClaimKeepsWorkersOutUntilItsHoldIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("undo"))
		claim := w.engine.Claim(operation.Start{ID: "op", Kind: "steps"}, time.Minute)
		w.commit(claim.Begin())
		time.Sleep(time.Minute - time.Millisecond)
		w.sweep()
		w.run("op")
		if w.counter("undo") != 0 {
			t.Error("a worker broke the hold")
		}
		time.Sleep(time.Millisecond)
		w.sweep()
		if w.counter("undo") != 1 {
			t.Error("nobody undid what was left")
		}
		effect := store.Upsert(counterKey("done"), store.Add(store.At("n"), 1))
		if err := w.table.Commit(t.Context(), effect, claim.Succeed()); !errors.Is(err, operation.ErrLost) {
			t.Errorf("the late last commit answers %v", err)
		}
		if w.counter("done") != 0 {
			t.Error("the late last commit had an effect")
		}
	})
}

func TestClaimThatSucceedsLeavesNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("undo"))
		claim := w.engine.Claim(operation.Start{ID: "op", Kind: "steps"}, time.Minute)
		w.commit(claim.Begin())
		w.commit(claim.Succeed())
		time.Sleep(time.Hour)
		w.sweep()
		if r := w.run("op"); r.Status != operation.Success || w.counter("undo") != 0 {
			t.Errorf("status %s, undone %d times", r.Status, w.counter("undo"))
		}
	})
}

func TestClaimThatCannotBeStoredFailsItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		for name, start := range map[string]operation.Start{
			"unknown kind": {ID: "op", Kind: "unknown"},
			"no id":        {Kind: "steps"},
			"bad input":    {ID: "op", Kind: "steps", Input: func() {}},
		} {
			claim := w.engine.Claim(start, 0)
			if w.table.Commit(t.Context(), claim.Begin()) == nil || w.table.Commit(t.Context(), claim.Succeed()) == nil {
				t.Errorf("%s: a commit succeeds", name)
			}
			if _, err := claim.Run(t.Context()); err == nil {
				t.Errorf("%s: Run succeeds", name)
			}
		}
	})
}

func TestEndedOperationIsReadAndNeverRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, steps("a"))
		w.commit(operation.Ended(operation.Start{ID: "op", Kind: "steps", Subject: "it"}, "There was nothing to do.", time.Now()))
		w.sweep()
		r := w.run("op")
		if r.Status != operation.Success || r.Message != "There was nothing to do." || r.Subject != "it" || r.FinishedOn == nil || w.counter("a") != 0 {
			t.Errorf("it is %+v", r)
		}
		if left := time.Until(time.Unix(r.TTL, 0)); left < 29*24*time.Hour {
			t.Errorf("it is kept for %s", left)
		}
		if listed, err := w.engine.List(t.Context()); err != nil || len(listed) > 0 {
			t.Errorf("listed %+v, %v", listed, err)
		}
	})
}
