package main

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/deployments"
)

// deployed is a stack with three functions, of which one has a concurrency of its own, and a spoilt table.
func deployed() *services {
	seven := 7
	return &services{
		keyState: "Enabled",
		functions: map[string]*fakeFunction{
			"gatewright-dev-accounts": {tags: map[string]string{"stage": "dev"}},
			"gatewright-dev-builder":  {tags: map[string]string{}, reserved: &seven},
			"gatewright-dev-gateway":  {tags: map[string]string{}},
		},
		tables: map[string]*fakeTable{"spoilt": {Stream: true, TTL: true, PITR: true, Tags: map[string]string{}}},
	}
}

func planned() plan {
	return plan{
		stack:  stack{name: "gatewright-dev", table: "spoilt", functions: []string{"gatewright-dev-accounts", "gatewright-dev-builder"}, gateway: "gatewright-dev-gateway"},
		source: "spoilt", there: true, target: "restored", moment: time.Date(2026, 11, 25, 14, 2, 0, 0, time.UTC),
	}
}

// part is what of a restore changes AWS before anything is read.
func part(ctx context.Context, w *work) error {
	p := planned()
	if err := w.targetIsOurs(ctx, &p); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return w.protect(ctx, p) },
		func() error { return w.fence(ctx, w.closed(p.stack), closedTag) },
		func() error { return w.restore(ctx, p) },
		func() error { _, err := w.settle(ctx, p); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// TestWhatAWSStumblesOverIsAskedAgain: one answer that fails is no end of a restore, which takes hours.
func TestWhatAWSStumblesOverIsAskedAgain(t *testing.T) {
	whole := deployed()
	if err := part(t.Context(), newWork(t, whole, request{})); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup // the SDK pauses before it asks again
	for n := 1; n <= whole.asked; n++ {
		all.Go(func() {
			s := deployed()
			s.stumbles = n
			if err := part(t.Context(), newWork(t, s, request{})); err != nil {
				t.Errorf("request %d: %v", n, err)
			}
		})
	}
	all.Wait()
}

// TestRestoreGoesOnWhereverItWasKilled: at each request of it, before that had its effect and after, and what was
// reserved for functions is what it was when it is opened, which is killed everywhere as well.
func TestRestoreGoesOnWhereverItWasKilled(t *testing.T) {
	want := deployed()
	if err := part(t.Context(), newWork(t, want, request{})); err != nil {
		t.Fatal(err)
	}
	if !want.tables["spoilt"].Protected {
		t.Fatal("the table of before is not protected")
	}
	got := want.tables["restored"]
	if !got.Stream || !got.TTL || !got.PITR || !got.Protected || got.Tags["stage"] != "dev" || got.Tags[restoredTag] != "spoilt@2026-11-25T14:02:00Z" {
		t.Fatalf("the table is restored as %+v", got)
	}
	requests := want.asked
	for _, after := range []bool{false, true} {
		for n := 1; n <= requests; n++ {
			s := deployed()
			s.fails, s.after = n, after
			w := newWork(t, s, request{})
			err := part(t.Context(), w)
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("killed at request %d it answers %v", n, err)
			}
			s.fails = 0
			if s.tables["restored"] != nil && s.tables["restored"].Tags[restoredTag] == "" {
				// AWS says itself of what a table was restored, and the services here do not.
				s.tables["restored"].Tags[restoredTag] = "spoilt@2026-11-25T14:02:00Z"
			}
			if err := part(t.Context(), w); err != nil {
				t.Fatalf("killed at request %d (after it: %t) and run again it answers %v", n, after, err)
			}
			if !reflect.DeepEqual(s.tables, want.tables) {
				t.Errorf("killed at request %d and run again the tables are %+v", n, s.tables["restored"])
			}
			for name, f := range s.functions {
				if f.state() != want.functions[name].state() {
					t.Errorf("killed at request %d the function %s is %s, want %s", n, name, f.state(), want.functions[name].state())
				}
			}
		}
	}
	for name, closed := range map[string]bool{"gatewright-dev-accounts": true, "gatewright-dev-builder": true, "gatewright-dev-gateway": false} {
		if f := want.functions[name]; (f.reserved != nil && *f.reserved == 0) != closed {
			t.Errorf("%s is %s", name, f.state())
		}
	}
}

// TestWhatWasStoppedIsOpenedAsItWas wherever that was killed, and a second time nothing is changed.
func TestWhatWasStoppedIsOpenedAsItWas(t *testing.T) {
	before := deployed()
	for _, all := range []bool{false, true} {
		for _, after := range []bool{false, true} {
			for n := 1; n < 20; n++ {
				s := deployed()
				w := newWork(t, s, request{gatewayToo: all})
				if err := w.fence(t.Context(), w.closed(planned().stack), closedTag); err != nil {
					t.Fatal(err)
				}
				if gateway := s.functions["gatewright-dev-gateway"]; (gateway.reserved != nil) != all {
					t.Fatalf("the gateway is %s", gateway.state())
				}
				s.asked, s.fails, s.after = 0, n, after
				_, _ = w.open(t.Context(), planned().stack, closedTag)
				s.fails = 0
				for range 2 {
					if _, err := w.open(t.Context(), planned().stack, closedTag); err != nil {
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
}

// TestIndexIsWaitedForThatIsBeingMade, and none that tells no state: an emulator's CloudFormation makes such, and it was waited for without an end.
func TestIndexIsWaitedForThatIsBeingMade(t *testing.T) {
	for state, waits := range map[string]bool{"CREATING": true, "ACTIVE": false, "": false} {
		s := deployed()
		s.tables["spoilt"].IndexState = state
		var said strings.Builder
		w := newWork(t, s, request{})
		w.console = console{strings.NewReader(""), io.Discard, &said}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := w.active(ctx, "spoilt")
		cancel()
		if (err != nil) != waits || strings.Contains(said.String(), "waiting for the table spoilt") != waits {
			t.Errorf("an index that is %q is answered with %v and %q", state, err, said.String())
		}
	}
}

// TestNothingIsRestoredOverAnotherTable, whatever it is.
func TestNothingIsRestoredOverAnotherTable(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"somebody's":           {},
		"of another moment":    {restoredTag: "spoilt@2026-11-25T14:03:00Z"},
		"of another table":     {restoredTag: "other@2026-11-25T14:02:00Z"},
		"of the latest moment": {restoredTag: "spoilt"},
	} {
		s := deployed()
		s.tables["restored"] = &fakeTable{Tags: tags}
		err := part(t.Context(), newWork(t, s, request{}))
		if err == nil || !strings.Contains(err.Error(), "nothing is restored over it") {
			t.Errorf("a table %s is answered with %v", name, err)
		}
		if s.tables["restored"].Stream || s.tables["spoilt"].Protected || s.functions["gatewright-dev-accounts"].reserved != nil {
			t.Errorf("a table %s: something was changed", name)
		}
	}
	s := deployed()
	s.tables["restored"] = &fakeTable{NoIndex: true, Tags: map[string]string{restoredTag: "spoilt@2026-11-25T14:02:00Z"}}
	if err := part(t.Context(), newWork(t, s, request{})); err == nil || !strings.Contains(err.Error(), "without the index due") {
		t.Errorf("a table without the index is answered with %v", err)
	}
}

// TestKeyThatOpensNothingIsRefusedBeforeAnythingIsDone, with what to do about it.
func TestKeyThatOpensNothingIsRefusedBeforeAnythingIsDone(t *testing.T) {
	for state, want := range map[string]string{
		"Enabled":         "",
		"PendingDeletion": "aws kms cancel-key-deletion --key-id key",
		"Disabled":        "aws kms enable-key --key-id key",
		"PendingImport":   "its state is PendingImport",
		"":                "KMS has no key key in eu-west-1",
	} {
		s := deployed()
		s.keyState = state
		err := newWork(t, s, request{}).keyStands(t.Context(), "key")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("a key that is %q is answered with %v", state, err)
		}
	}
}

// TestNoAnswerSaysMoreThanALine: an operator in a hurry reads one.
func TestNoAnswerSaysMoreThanALine(t *testing.T) {
	w := newWork(t, deployed(), request{at: time.Now().Add(time.Hour)})
	p := planned()
	if err := w.chooseMoment(t.Context(), &p); err == nil || strings.Contains(fmt.Sprint(err), "\n") || !strings.Contains(err.Error(), "yet to come") {
		t.Errorf("a moment to come is answered with %v", err)
	}
}

// TestNothingIsOpenedBeforeAllWorksOnTheRestoredTable: a function that was not released, or that nobody tells of
// changes, would go on with the table of before.
func TestNothingIsOpenedBeforeAllWorksOnTheRestoredTable(t *testing.T) {
	const stream = "arn:aws:dynamodb:eu-west-1:000000000000:table/restored/stream/2026-11-25T14:02:00.000"
	for name, c := range map[string]struct{ accounts, gateway, told, mapping, want string }{
		"one is not released":         {"spoilt", "restored", stream, "Enabled", "the function gatewright-dev-accounts does not work on restored"},
		"the gateway is not released": {"restored", "spoilt", stream, "Enabled", "the function gatewright-dev-gateway does not work on restored"},
		"of another stream":           {"restored", "restored", stream + "1", "Enabled", "does not call the function"},
		"not called yet":              {"restored", "restored", stream, "Creating", "does not call the function"},
	} {
		s := deployed()
		w := newWork(t, s, request{})
		if err := part(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		s.told, s.mapping = c.told, c.mapping
		for name, f := range s.functions {
			f.table = "restored"
			switch name {
			case "gatewright-dev-accounts":
				f.table = c.accounts
			case "gatewright-dev-gateway":
				f.table = c.gateway
			}
		}
		p := planned()
		p.adopted = true
		err := w.after(t.Context(), p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: it answers %v", name, err)
		}
		if f := s.functions["gatewright-dev-accounts"]; f.reserved == nil || *f.reserved != 0 {
			t.Errorf("%s: what was stopped is open", name)
		}
	}
}

// TestWhatIsLostIsSaidWithTheWayBack: of a build that is served first of all.
func TestWhatIsLostIsSaidWithTheWayBack(t *testing.T) {
	built := func(n string) deployments.Served {
		return deployments.Served{BuildID: "b" + n, Artifact: "a" + n, Source: "s" + n}
	}
	s := survey{builds: map[string][]deployments.Served{
		"well":     {built("1")},
		"rebuilt":  {built("2")},
		"uploaded": {built("3")},
		"earlier":  {built("4"), built("5")},
	}}
	var out strings.Builder
	w := &work{console: console{out: &out}}
	w.lost(s, map[string]bool{"artifacts/a1": true, "sources/s2": true, "artifacts/a4": true, "sources/s5": true})
	want := `deployment earlier: an earlier build is lost, and cannot be returned to (build b5)
deployment rebuilt: its artifact is lost: POST /v1/deployments/rebuilt/deploy builds it again from its source (build b2)
deployment uploaded: its artifact and its source are lost: upload the project again (build b3)
`
	if out.String() != want {
		t.Errorf("it says\n%s", out.String())
	}
	if n := len(s.objects()); n != 10 {
		t.Errorf("%d objects are looked for", n)
	}
}
