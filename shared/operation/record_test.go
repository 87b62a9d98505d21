package operation_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/operation"
)

// The worst that definitions can do to a record: the largest documents, and two
// states that take turns hundreds of times, each failing with a long text.
func TestRecordOfAnyLengthFitsIntoItsItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("ä", 5000)
		document := strings.Repeat("x", 127<<10)
		var failed bool
		turn := func(next string) operation.Task {
			return func(_ context.Context, s operation.Step) (operation.Result, error) {
				if failed = !failed; failed {
					return operation.Result{}, fault.New(fault.Internal, "%s", text)
				}
				if s.Number > 300 {
					next = operation.Succeed
				}
				return operation.Result{Next: next, Data: document, Message: text}, nil
			}
		}
		retry := operation.Retry{First: time.Microsecond, Longest: time.Microsecond}
		w := newWorld(t, operation.Definition{Kind: "turns", First: "ping", States: map[string]operation.State{
			"ping": {Task: turn("pong"), Next: "pong", Or: []string{operation.Succeed}, Retry: retry},
			"pong": {Task: turn("ping"), Next: "ping", Or: []string{operation.Succeed}, Retry: retry},
		}})
		w.commit(operation.Begin(operation.Start{ID: "op", Kind: "turns", Input: document}, time.Now()))
		r, err := w.engine.Run(t.Context(), "op")
		if err != nil || r.Status != operation.Success {
			t.Fatalf("status %s, message %.100s: %v", r.Status, r.Message, err)
		}
		if r.Steps != 302 || len(r.History) != 64 {
			t.Errorf("%d steps in a history of %d", r.Steps, len(r.History))
		}
		omitted := 0
		for i, e := range r.History {
			omitted += e.Omitted
			if i > 0 && e.StartedOn.Before(*r.History[i-1].FinishedOn) {
				t.Errorf("entry %d is out of order", i)
			}
		}
		if omitted != r.Steps-len(r.History) {
			t.Errorf("%d entries omitted, want %d", omitted, r.Steps-len(r.History))
		}
		if !strings.HasPrefix(r.Message, "äää") || len(r.Message) > 1010 || strings.ContainsRune(r.Message, '\uFFFD') {
			t.Errorf("the message has %d bytes", len(r.Message))
		}
	})
}
