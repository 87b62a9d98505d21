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

	"github.com/gatewright/gatewright/shared/resource/deployments"
)

// newFakeAWS returns an AWS with three functions and the corrupted table "damaged". One function has reserved
// concurrency.
func newFakeAWS() *fakeAWS {
	seven := 7
	return &fakeAWS{
		keyState: "Enabled",
		functions: map[string]*fakeFunction{
			"gatewright-dev-accounts": {tags: map[string]string{"stage": "dev"}},
			"gatewright-dev-builder":  {tags: map[string]string{}, reserved: &seven},
			"gatewright-dev-gateway":  {tags: map[string]string{}},
		},
		tables: map[string]*fakeTable{"damaged": {Stream: true, TTL: true, PITR: true, Tags: map[string]string{}}},
	}
}

// testPlan returns the plan of a restore of the table "damaged" into the table "restored".
func testPlan() plan {
	return plan{
		stack: stack{
			name: "gatewright-dev", table: "damaged",
			functions: []string{"gatewright-dev-accounts", "gatewright-dev-builder"}, gateway: "gatewright-dev-gateway",
		},
		source: "damaged", sourceExists: true, target: "restored", moment: time.Date(2026, 11, 25, 14, 2, 0, 0, time.UTC),
	}
}

// runTableSteps runs the steps of a restore that change AWS before the tables are read.
func runTableSteps(ctx context.Context, w *work) error {
	p := testPlan()
	if err := w.checkTarget(ctx, &p); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return w.protectSource(ctx, p) },
		func() error { return w.stopFunctions(ctx, w.functionsToStop(p.stack), restoreTag) },
		func() error { return w.startTableRestore(ctx, p) },
		func() error { _, err := w.configureTable(ctx, p); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// TestTransientFailuresAreRetried checks that one failed request does not end a restore, which takes hours.
func TestTransientFailuresAreRetried(t *testing.T) {
	baseline := newFakeAWS()
	if err := runTableSteps(t.Context(), newWork(t, baseline, request{})); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup // the runs are concurrent, because the SDK waits before each retry
	for n := 1; n <= baseline.requests; n++ {
		wg.Go(func() {
			s := newFakeAWS()
			s.transientFailure = n
			if err := runTableSteps(t.Context(), newWork(t, s, request{})); err != nil {
				t.Errorf("runTableSteps() with a failure of request %d = %v, want no error", n, err)
			}
		})
	}
	wg.Wait()
}

// TestInterruptedRestoreContinues interrupts the table steps of a restore at each request, before or after the request
// takes effect, and runs them again. The tables and functions must be the same as after a restore without an
// interruption.
func TestInterruptedRestoreContinues(t *testing.T) {
	want := newFakeAWS()
	if err := runTableSteps(t.Context(), newWork(t, want, request{})); err != nil {
		t.Fatal(err)
	}
	if !want.tables["damaged"].Protected {
		t.Fatal("the source table is not protected after the restore, want it protected")
	}
	restored := want.tables["restored"]
	if !restored.Stream || !restored.TTL || !restored.PITR || !restored.Protected {
		t.Fatalf("restored table = %+v, want a stream, a TTL, point-in-time recovery and protection", restored)
	}
	if restored.Tags["stage"] != "dev" || restored.Tags[restoredTag] != "damaged@2026-11-25T14:02:00Z" {
		t.Fatalf("tags of the restored table = %v, want the stage dev and the source with its moment", restored.Tags)
	}
	requests := want.requests
	for _, afterEffect := range []bool{false, true} {
		for n := 1; n <= requests; n++ {
			s := newFakeAWS()
			s.failFrom, s.failAfterEffect = n, afterEffect
			w := newWork(t, s, request{})
			err := runTableSteps(t.Context(), w)
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("runTableSteps() killed at request %d (after it: %t) = %v, want an error of one line", n, afterEffect, err)
			}
			s.failFrom = 0
			if s.tables["restored"] != nil && s.tables["restored"].Tags[restoredTag] == "" {
				// AWS would return the source of the restored table, but this fake does not: the tag replaces it.
				s.tables["restored"].Tags[restoredTag] = "damaged@2026-11-25T14:02:00Z"
			}
			if err := runTableSteps(t.Context(), w); err != nil {
				t.Fatalf("killed at request %d (after it: %t) and repeated: runTableSteps() = %v, want no error", n,
					afterEffect, err)
			}
			if len(s.tables) != len(want.tables) {
				t.Errorf("killed at request %d (after it: %t) and repeated: %d tables, want %d", n, afterEffect, len(s.tables),
					len(want.tables))
			}
			for name, table := range want.tables {
				if !reflect.DeepEqual(s.tables[name], table) {
					t.Errorf("killed at request %d (after it: %t) and repeated: table %s = %+v, want %+v", n, afterEffect, name,
						s.tables[name], table)
				}
			}
			for name, f := range s.functions {
				if f.state() != want.functions[name].state() {
					t.Errorf("killed at request %d (after it: %t) and repeated: function %s is %s, want %s", n, afterEffect, name,
						f.state(), want.functions[name].state())
				}
			}
		}
	}
	for name, wantStopped := range map[string]bool{
		"gatewright-dev-accounts": true, "gatewright-dev-builder": true,
		"gatewright-dev-gateway": false,
	} {
		if f := want.functions[name]; (f.reserved != nil && *f.reserved == 0) != wantStopped {
			t.Errorf("%s is %s, want it stopped: %v", name, f.state(), wantStopped)
		}
	}
}

// TestStartRestoresReservedConcurrency interrupts the start of functions at each request, before or after the request
// takes effect. Two more runs must give the functions their earlier concurrency.
func TestStartRestoresReservedConcurrency(t *testing.T) {
	before := newFakeAWS()
	for _, gatewayToo := range []bool{false, true} {
		for _, afterEffect := range []bool{false, true} {
			for n := 1; n < 20; n++ {
				s := newFakeAWS()
				w := newWork(t, s, request{gatewayToo: gatewayToo})
				if err := w.stopFunctions(t.Context(), w.functionsToStop(testPlan().stack), restoreTag); err != nil {
					t.Fatal(err)
				}
				if gateway := s.functions["gatewright-dev-gateway"]; (gateway.reserved != nil) != gatewayToo {
					t.Fatalf("the gateway is %s, want it stopped: %v", gateway.state(), gatewayToo)
				}
				s.requests, s.failFrom, s.failAfterEffect = 0, n, afterEffect
				_, _ = w.startFunctions(t.Context(), testPlan().stack, restoreTag)
				s.failFrom = 0
				for range 2 {
					if _, err := w.startFunctions(t.Context(), testPlan().stack, restoreTag); err != nil {
						t.Fatal(err)
					}
				}
				for name, f := range s.functions {
					if f.state() != before.functions[name].state() {
						t.Errorf("killed at request %d (after it: %t, with the gateway: %t): function %s is %s, want %s as before", n,
							afterEffect, gatewayToo, name, f.state(), before.functions[name].state())
					}
				}
			}
		}
	}
}

// TestRestoreWaitsForIndexCreation checks that waitActive waits for an index in creation, but not for an index
// without a state. An emulator's CloudFormation creates such indexes, and the command once waited for them forever.
func TestRestoreWaitsForIndexCreation(t *testing.T) {
	for state, wantWait := range map[string]bool{"CREATING": true, "ACTIVE": false, "": false} {
		s := newFakeAWS()
		s.tables["damaged"].IndexState = state
		var logs strings.Builder
		w := newWork(t, s, request{})
		w.console = console{strings.NewReader(""), io.Discard, &logs}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := w.waitActive(ctx, "damaged")
		cancel()
		if (err != nil) != wantWait || strings.Contains(logs.String(), "waiting for the table damaged") != wantWait {
			t.Errorf("waitActive() with an index %q = %v, want it to wait: %v; log %q", state, err, wantWait, logs.String())
		}
	}
}

// TestNothingIsRestoredOverAnotherTable checks that an existing target table is refused if it is not the table of this
// restore, or if it lacks an index.
func TestNothingIsRestoredOverAnotherTable(t *testing.T) {
	for name, tags := range map[string]map[string]string{
		"table without a restore's tag": {},
		"table of another moment":       {restoredTag: "damaged@2026-11-25T14:03:00Z"},
		"restore of another table":      {restoredTag: "other@2026-11-25T14:02:00Z"},
		"table of the latest moment":    {restoredTag: "damaged"},
	} {
		s := newFakeAWS()
		s.tables["restored"] = &fakeTable{Tags: tags}
		err := runTableSteps(t.Context(), newWork(t, s, request{}))
		if err == nil || !strings.Contains(err.Error(), "nothing is restored over it") {
			t.Errorf("runTableSteps(a target %s) = %v, want an error with \"nothing is restored over it\"", name, err)
		}
		if s.tables["restored"].Stream || s.tables["damaged"].Protected ||
			s.functions["gatewright-dev-accounts"].reserved != nil {
			t.Errorf("runTableSteps(a target %s) leaves the tables %+v and %+v and the function %s, want no change", name,
				s.tables["restored"], s.tables["damaged"], s.functions["gatewright-dev-accounts"].state())
		}
	}
	s := newFakeAWS()
	s.tables["restored"] = &fakeTable{NoIndex: true, Tags: map[string]string{restoredTag: "damaged@2026-11-25T14:02:00Z"}}
	if err := runTableSteps(t.Context(), newWork(t, s, request{})); err == nil ||
		!strings.Contains(err.Error(), "without the index due") {
		t.Errorf("runTableSteps(a target without the index) = %v, want an error about the index due", err)
	}
}

// TestUnusableKMSKeyIsRefused checks that each state of the KMS key except Enabled is an error of one line that says
// what to do.
func TestUnusableKMSKeyIsRefused(t *testing.T) {
	for state, want := range map[string]string{
		"Enabled":         "",
		"PendingDeletion": "aws kms cancel-key-deletion --key-id key",
		"Disabled":        "aws kms enable-key --key-id key",
		"PendingImport":   "its state is PendingImport",
		"":                "KMS has no key key in eu-west-1",
	} {
		s := newFakeAWS()
		s.keyState = state
		err := newWork(t, s, request{}).checkKMSKey(t.Context(), "key")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "\n")) {
			t.Errorf("checkKMSKey(state %q) = %v, want one line with %q, or no error if it is empty", state, err, want)
		}
	}
}

// TestFutureMomentIsRefused checks that the error for a moment in the future has one line.
func TestFutureMomentIsRefused(t *testing.T) {
	w := newWork(t, newFakeAWS(), request{at: time.Now().Add(time.Hour)})
	p := testPlan()
	if err := w.chooseMoment(t.Context(), &p); err == nil || strings.Contains(fmt.Sprint(err), "\n") ||
		!strings.Contains(err.Error(), "yet to come") {
		t.Errorf("chooseMoment(a moment in the future) = %v, want one line with \"yet to come\"", err)
	}
}

// TestFunctionsStartOnlyWithTheRestoredTable checks that functions stay stopped while one of them still uses the old
// table, or is not called by the restored table's stream.
func TestFunctionsStartOnlyWithTheRestoredTable(t *testing.T) {
	const stream = "arn:aws:dynamodb:eu-west-1:000000000000:table/restored/stream/2026-11-25T14:02:00.000"
	for name, c := range map[string]struct{ accounts, gateway, streamARN, mapping, want string }{
		"function that is not released": {
			"damaged", "restored", stream, "Enabled",
			"the function gatewright-dev-accounts does not work on restored",
		},
		"gateway that is not released": {
			"restored", "damaged", stream, "Enabled",
			"the function gatewright-dev-gateway does not work on restored",
		},
		"function with another stream":    {"restored", "restored", stream + "1", "Enabled", "does not call the function"},
		"function that is not called yet": {"restored", "restored", stream, "Creating", "does not call the function"},
	} {
		s := newFakeAWS()
		w := newWork(t, s, request{})
		if err := runTableSteps(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		s.streamARN, s.mappingState = c.streamARN, c.mapping
		for name, f := range s.functions {
			f.table = "restored"
			switch name {
			case "gatewright-dev-accounts":
				f.table = c.accounts
			case "gatewright-dev-gateway":
				f.table = c.gateway
			}
		}
		p := testPlan()
		p.deployed = true
		err := w.finishRestore(t.Context(), p)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: finishRestore() = %v, want an error with %q", name, err, c.want)
		}
		if f := s.functions["gatewright-dev-accounts"]; f.reserved == nil || *f.reserved != 0 {
			t.Errorf("%s: function accounts is %s, want it stopped", name, f.state())
		}
	}
}

// TestLostBuildsAreReportedWithTheRemedy checks the messages for one deployment with each kind of loss, and for one
// without a loss. The first build of a deployment is the served one.
func TestLostBuildsAreReportedWithTheRemedy(t *testing.T) {
	served := func(n string) deployments.Served {
		return deployments.Served{BuildID: "b" + n, Artifact: "a" + n, Source: "s" + n}
	}
	s := survey{builds: map[string][]deployments.Served{
		"complete": {served("1")},
		"rebuilt":  {served("2")},
		"uploaded": {served("3")},
		"earlier":  {served("4"), served("5")},
	}}
	var out strings.Builder
	w := &work{console: console{out: &out}}
	w.reportLost(s, map[string]bool{"artifacts/a1": true, "sources/s2": true, "artifacts/a4": true, "sources/s5": true})
	want := `deployment earlier: an earlier build is lost, and cannot be returned to (build b5)
deployment rebuilt: its artifact is lost: POST /v1/deployments/rebuilt/deploy builds it again from its source (build b2)
deployment uploaded: its artifact and its source are lost: upload the project again (build b3)
`
	if out.String() != want {
		t.Errorf("output =\n%s\nwant\n%s", out.String(), want)
	}
	if n := len(s.objectKeys()); n != 10 {
		t.Errorf("objectKeys() has %d keys, want 10", n)
	}
}
