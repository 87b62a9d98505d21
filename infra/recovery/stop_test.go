package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/core/store"
)

// newStopWork returns a run of the command that uses s as AWS and the tables of a scenario.
func newStopWork(t *testing.T, s *fakeAWS, sc scenario, r request) *work {
	t.Helper()
	r.confirmed = true
	w, fixture := newWork(t, s, r), sc.newWork(t, io.Discard, "")
	w.scan, w.openInstallation = fixture.scan, fixture.openInstallation
	return w
}

// stoppedCount returns the number of functions with a reserved concurrency of 0.
func stoppedCount(s *fakeAWS) (n int) {
	for _, f := range s.functions {
		if f.reserved != nil && *f.reserved == 0 {
			n++
		}
	}
	return n
}

// TestStopAndStartRestoreReservedConcurrency interrupts stop and start at each request, and repeats them. Afterwards
// all functions must have their earlier concurrency.
func TestStopAndStartRestoreReservedConcurrency(t *testing.T) {
	before, sc := newFakeAWS(), newScenario(t)
	for _, afterEffect := range []bool{false, true} {
		for n := 1; n < 24; n++ {
			s := newFakeAWS()
			w := newStopWork(t, s, sc, request{stop: true})
			s.failFrom, s.failAfterEffect = n, afterEffect
			_ = w.stopAll(t.Context(), testPlan().stack)
			s.failFrom = 0
			for range 2 {
				if err := w.stopAll(t.Context(), testPlan().stack); err != nil {
					t.Fatal(err)
				}
			}
			if got := stoppedCount(s); got != len(s.functions) {
				t.Fatalf("killed at request %d (after it: %t): %d functions are stopped, want %d", n, afterEffect, got,
					len(s.functions))
			}
			s.requests, s.failFrom = 0, n
			_ = w.startAll(t.Context(), testPlan().stack)
			s.failFrom = 0
			for range 2 {
				if err := w.startAll(t.Context(), testPlan().stack); err != nil {
					t.Fatal(err)
				}
			}
			for name, f := range s.functions {
				if f.state() != before.functions[name].state() {
					t.Errorf("killed at request %d (after it: %t): function %s is %s, want %s as before", n, afterEffect, name,
						f.state(), before.functions[name].state())
				}
			}
		}
	}
}

// TestStopNeedsConfirmation checks that stop changes nothing without a confirmation or in a dry run.
func TestStopNeedsConfirmation(t *testing.T) {
	for name, change := range map[string]func(*work){
		"no confirmation": func(w *work) { w.confirmed = false },
		"dry run":         func(w *work) { w.dryRun = true },
	} {
		s := newFakeAWS()
		w := newStopWork(t, s, newScenario(t), request{stop: true})
		change(w)
		_ = w.stopAll(t.Context(), testPlan().stack)
		if stoppedCount(s) > 0 || len(s.functions["gatewright-dev-accounts"].tags) > 1 {
			t.Errorf("%s: stopAll() leaves %d functions stopped and the tags %v, want 0 and only the stage", name,
				stoppedCount(s), s.functions["gatewright-dev-accounts"].tags)
		}
	}
}

// TestRunningServicesAreReported checks the message about ECS tasks, which reserved concurrency does not stop.
func TestRunningServicesAreReported(t *testing.T) {
	var logs bytes.Buffer
	w := newStopWork(t, newFakeAWS(), newScenario(t), request{stop: true})
	w.console = console{strings.NewReader(""), io.Discard, &logs}
	st := testPlan().stack
	st.services = []string{"arn:aws:ecs:eu-west-1:000000000000:service/gatewright-dev-relay/relay", "no ARN"}
	if err := w.stopAll(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if want := "aws ecs update-service --cluster gatewright-dev-relay --service relay --desired-count"; strings.Count(
		logs.String(), want) != 1 {
		t.Errorf("log of stopAll() = %s, want %q once", logs.String(), want)
	}
}

// TestStopAndRestoreAreIndependent checks that stop-aws and start-aws are refused during a restore, and that functions
// that stop-aws has stopped stay stopped at the end of a later restore.
func TestStopAndRestoreAreIndependent(t *testing.T) {
	s := newFakeAWS()
	w := newStopWork(t, s, newScenario(t), request{stop: true})
	st := testPlan().stack
	if err := w.stopFunctions(t.Context(), w.functionsToStop(st), restoreTag); err != nil {
		t.Fatal(err)
	}
	if err := w.stopAll(t.Context(), st); err == nil || !strings.Contains(err.Error(), "make restore-aws LIFT=1") ||
		stoppedCount(s) != 2 {
		t.Errorf("stopAll() during a restore = %v with %d functions stopped, want an error with LIFT=1 and 2", err,
			stoppedCount(s))
	}
	if err := w.startAll(t.Context(), st); err == nil || !strings.Contains(err.Error(), "make restore-aws LIFT=1") ||
		stoppedCount(s) != 2 {
		t.Errorf("startAll() during a restore = %v with %d functions stopped, want an error with LIFT=1 and 2", err,
			stoppedCount(s))
	}
	if _, err := w.startFunctions(t.Context(), st, restoreTag); err != nil {
		t.Fatal(err)
	}
	if err := w.stopAll(t.Context(), st); err != nil {
		t.Fatal(err)
	}
	if err := w.stopFunctions(t.Context(), w.functionsToStop(st), restoreTag); err != nil {
		t.Fatal(err)
	}
	if _, err := w.startFunctions(t.Context(), st, restoreTag); err != nil || stoppedCount(s) != 3 {
		t.Errorf("startFunctions() after a restore = %v with %d functions stopped, want no error and 3", err,
			stoppedCount(s))
	}
}

// TestStartRefusesIncompleteInstallation checks that an installation is not started after an incomplete import, or with
// a disabled KMS key.
func TestStartRefusesIncompleteInstallation(t *testing.T) {
	for name, c := range map[string]struct {
		corrupt func(*fakeAWS, *work)
		want    string
	}{
		"incomplete import": {func(_ *fakeAWS, w *work) {
			if err := w.parts(stack{}, testPlan().source).Table.Commit(t.Context(), store.Create(store.KeyPrefix("import").Key(),
				struct {
					Archive string `dynamodbav:"archive"`
				}{"x"})); err != nil {
				t.Fatal(err)
			}
		}, "gatewright-dev stays stopped: an import into it was begun and has not ended"},
		"disabled key": {func(s *fakeAWS, _ *work) { s.keyState = "Disabled" }, "aws kms enable-key"},
	} {
		s := newFakeAWS()
		w := newStopWork(t, s, newScenario(t), request{stop: true})
		st := testPlan().stack
		if err := w.stopAll(t.Context(), st); err != nil {
			t.Fatal(err)
		}
		c.corrupt(s, w)
		err := w.startAll(t.Context(), st)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") ||
			stoppedCount(s) != 3 {
			t.Errorf("%s: startAll() = %v with %d functions stopped, want one line with %q and 3", name, err, stoppedCount(s),
				c.want)
		}
	}
}
