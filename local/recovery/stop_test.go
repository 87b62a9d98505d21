package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/shared/store"
)

// stopping is the command over a stack whose table a story has.
func stopping(t *testing.T, s *services, of story, r request) *work {
	t.Helper()
	r.agreed = true
	w, told := newWork(t, s, r), of.over(t, io.Discard, "")
	w.each, w.over = told.each, told.over
	return w
}

func stopped(s *services) (n int) {
	for _, f := range s.functions {
		if f.reserved != nil && *f.reserved == 0 {
			n++
		}
	}
	return n
}

// TestWhatIsStoppedIsAllOfItAndOpensAsItWas, wherever either was killed, and however often it is said.
func TestWhatIsStoppedIsAllOfItAndOpensAsItWas(t *testing.T) {
	before, of := deployed(), tell(t)
	for _, after := range []bool{false, true} {
		for n := 1; n < 24; n++ {
			s := deployed()
			w := stopping(t, s, of, request{stop: true})
			s.fails, s.after = n, after
			_ = w.stopAll(t.Context(), planned().stack)
			s.fails = 0
			for range 2 {
				if err := w.stopAll(t.Context(), planned().stack); err != nil {
					t.Fatal(err)
				}
			}
			if got := stopped(s); got != len(s.functions) {
				t.Fatalf("killed at request %d, %d functions are stopped", n, got)
			}
			s.asked, s.fails = 0, n
			_ = w.startAll(t.Context(), planned().stack)
			s.fails = 0
			for range 2 {
				if err := w.startAll(t.Context(), planned().stack); err != nil {
					t.Fatal(err)
				}
			}
			for name, f := range s.functions {
				if f.state() != before.functions[name].state() {
					t.Errorf("killed at request %d the function %s is %s afterwards, and was %s", n, name, f.state(), before.functions[name].state())
				}
			}
		}
	}
}

// TestNothingIsStoppedUnasked, nor when it is only to be shown.
func TestNothingIsStoppedUnasked(t *testing.T) {
	for name, change := range map[string]func(*work){
		"nobody says yes": func(w *work) { w.agreed = false },
		"a dry run":       func(w *work) { w.dryRun = true },
	} {
		s := deployed()
		w := stopping(t, s, tell(t), request{stop: true})
		change(w)
		_ = w.stopAll(t.Context(), planned().stack)
		if stopped(s) > 0 || len(s.functions["gatewright-dev-accounts"].tags) > 1 {
			t.Errorf("%s, and something is stopped", name)
		}
	}
}

// TestServicesAreSaidToGoOn: no concurrency stops a task of ECS.
func TestServicesAreSaidToGoOn(t *testing.T) {
	var said bytes.Buffer
	w := stopping(t, deployed(), tell(t), request{stop: true})
	w.console = console{strings.NewReader(""), io.Discard, &said}
	its := planned().stack
	its.services = []string{"arn:aws:ecs:eu-west-1:000000000000:service/gatewright-dev-relay/relay", "no ARN"}
	if err := w.stopAll(t.Context(), its); err != nil {
		t.Fatal(err)
	}
	if want := "aws ecs update-service --cluster gatewright-dev-relay --service relay --desired-count"; strings.Count(said.String(), want) != 1 {
		t.Errorf("it says %s", said.String())
	}
}

// TestStopAndRestoreDoNotOpenForOneAnother: giving a restore up would open what is stopped, and what was stopped before a restore stays so after it.
func TestStopAndRestoreDoNotOpenForOneAnother(t *testing.T) {
	s := deployed()
	w := stopping(t, s, tell(t), request{stop: true})
	its := planned().stack
	if err := w.fence(t.Context(), w.closed(its), closedTag); err != nil {
		t.Fatal(err)
	}
	if err := w.stopAll(t.Context(), its); err == nil || !strings.Contains(err.Error(), "make restore-aws LIFT=1") || stopped(s) != 2 {
		t.Errorf("while a restore goes on it answers %v, and %d functions are stopped", err, stopped(s))
	}
	if _, err := w.open(t.Context(), its, closedTag); err != nil {
		t.Fatal(err)
	}
	if err := w.stopAll(t.Context(), its); err != nil {
		t.Fatal(err)
	}
	if err := w.fence(t.Context(), w.closed(its), closedTag); err != nil {
		t.Fatal(err)
	}
	if _, err := w.open(t.Context(), its, closedTag); err != nil || stopped(s) != 3 {
		t.Errorf("a restore has left %d of 3 functions stopped (%v)", stopped(s), err)
	}
}

// TestNothingIsOpenedThatIsNotWhole: an import that has not ended, or a root key that this KMS key does not open.
func TestNothingIsOpenedThatIsNotWhole(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*services, *work)
		want  string
	}{
		"half an import": {func(_ *services, w *work) {
			if err := w.parts(stack{}, planned().source).Table.Commit(t.Context(), store.Create(store.Space("import").Key(), struct {
				Archive string `dynamodbav:"archive"`
			}{"x"})); err != nil {
				t.Fatal(err)
			}
		}, "gatewright-dev stays stopped: an import into it was begun and has not ended"},
		"a key that is disabled": {func(s *services, _ *work) { s.keyState = "Disabled" }, "aws kms enable-key"},
	} {
		s := deployed()
		w := stopping(t, s, tell(t), request{stop: true})
		its := planned().stack
		if err := w.stopAll(t.Context(), its); err != nil {
			t.Fatal(err)
		}
		c.spoil(s, w)
		err := w.startAll(t.Context(), its)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") || stopped(s) != 3 {
			t.Errorf("%s: it answers %v, and %d functions are stopped", name, err, stopped(s))
		}
	}
}
