package operation_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
)

func TestOperationRunsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, operation.Definition{Kind: "count", First: "one", States: map[string]operation.State{
			"one": {Task: add("a", 1), Next: "two"},
			"two": {Task: add("b", 2), Next: operation.Succeed},
		}})
		w.commit(operation.Begin(operation.Start{ID: "op1", Kind: "count", Subject: "a thing", AccountID: "acc"}, time.Now()))
		r, err := w.engine.Run(t.Context(), "op1")
		if err != nil {
			t.Fatal(err)
		}
		if r.Status != operation.Success || r.Steps != 2 || r.Lease != nil || r.FinishedOn == nil {
			t.Errorf("record is %+v", r)
		}
		if a, b := w.counter("a"), w.counter("b"); a != 1 || b != 2 {
			t.Errorf("effects are a=%d b=%d, want 1 and 2", a, b)
		}
	})
}
