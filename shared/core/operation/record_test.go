package operation_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/operation"
)

// TestLargestRecordFitsIntoItem checks the largest record that a definition can cause: the
// largest documents, and two states that alternate hundreds of times, each failing with a long text.
func TestLargestRecordFitsIntoItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("ä", 5000)
		document := strings.Repeat("x", 127<<10)
		var failed bool
		alternate := func(next string) operation.Task {
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
		retry := operation.Retry{InitialDelay: time.Microsecond, MaxDelay: time.Microsecond}
		fx := newFixture(t, operation.Definition{Kind: "turns", First: "ping", States: map[string]operation.State{
			"ping": {Task: alternate("pong"), Next: "pong", Alternatives: []string{operation.Succeed}, Retry: retry},
			"pong": {Task: alternate("ping"), Next: "ping", Alternatives: []string{operation.Succeed}, Retry: retry},
		}})
		fx.commit(operation.Create(operation.Start{ID: "op", Kind: "turns", Input: document}, time.Now()))
		r, err := fx.engine.Run(t.Context(), "op")
		if err != nil || r.Status != operation.Success {
			t.Fatalf("Run(op): status %s, message %.100s, %v, want success", r.Status, r.Message, err)
		}
		if r.Steps != 302 || len(r.History) != 64 {
			t.Errorf("record has %d steps and %d history entries, want 302 and 64", r.Steps, len(r.History))
		}
		omitted := 0
		for i, e := range r.History {
			omitted += e.Omitted
			if i > 0 && e.StartedOn.Before(*r.History[i-1].FinishedOn) {
				t.Errorf("history entry %d starts before the previous one ends, want them in order", i)
			}
		}
		if omitted != r.Steps-len(r.History) {
			t.Errorf("%d entries omitted, want %d", omitted, r.Steps-len(r.History))
		}
		if !strings.HasPrefix(r.Message, "äää") || len(r.Message) > 1010 || strings.ContainsRune(r.Message, '\uFFFD') {
			t.Errorf("message = %.10q with %d bytes, want at most 1010 bytes of valid UTF-8 that begin with \"äää\"",
				r.Message, len(r.Message))
		}
	})
}
