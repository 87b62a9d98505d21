package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/fixture"
)

func TestAcknowledgedWritesSurviveKills(t *testing.T) {
	binaries := t.TempDir()
	// Use the flags with which the tests were compiled.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(binaries, "local"),
		"github.com/gatewright/gatewright/local")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v: %s", err, output)
	}
	m := &measurement{Env: &fixture.Env{Dir: t.TempDir(), Binaries: binaries}}
	t.Cleanup(m.Close)
	result, err := runRounds(t.Context(), m, []background{noBackground, noBackground, writesTables, makesBackup}, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	if result.acknowledged == 0 {
		t.Errorf("runRounds() acknowledged %d writes, want at least 1", result.acknowledged)
	}
	t.Logf("%+v", result)
}

// TestInconclusiveKillsAreAnError checks that the result is an error if the kills prove nothing. This is the case if no
// write was acknowledged, because then none could be lost, and if no kill came while the engine wrote a table.
func TestInconclusiveKillsAreAnError(t *testing.T) {
	for _, test := range []struct {
		name   string
		result crashResult
		want   string
	}{
		{"kills while the engine writes", crashResult{
			acknowledged: 1, kills: [backgroundCount]int{20, 10, 10},
			hits: [backgroundCount]int{20, 1, 1},
		}, ""},
		{"few kills, none while the engine writes", crashResult{
			acknowledged: 1, kills: [backgroundCount]int{2, 1, 1},
			hits: [backgroundCount]int{2, 0, 0},
		}, ""},
		{
			"no acknowledged write",
			crashResult{kills: [backgroundCount]int{20, 10, 10}, hits: [backgroundCount]int{20, 1, 1}},
			"no write was acknowledged",
		},
		{"no kill while the engine writes tables", crashResult{
			acknowledged: 1, kills: [backgroundCount]int{20, 10, 10},
			hits: [backgroundCount]int{20, 0, 1},
		}, "none of 10 kills came while the engine wrote tables"},
	} {
		if err := test.result.check(); test.want == "" && err != nil || test.want != "" &&
			(err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: check() error = %v, want one with %q, or none if this is empty", test.name, err, test.want)
		}
	}
}

func TestMixedAlternatesBackgroundWork(t *testing.T) {
	want := []background{noBackground, writesTables, noBackground, makesBackup, noBackground, writesTables, noBackground}
	if got := mixed(len(want), []background{writesTables, makesBackup}); !slices.Equal(got, want) {
		t.Errorf("mixed() = %v, want %v", got, want)
	}
}

func TestEngineLogReportsJobsInProgress(t *testing.T) {
	logLine := func(text string) string {
		return `{"level":"DEBUG","msg":"the store's engine","says":"` + text + `"}` + "\n"
	}
	l := &engineLog{openJobs: map[string]bool{}}
	for i, step := range []struct {
		text string
		want bool
	}{
		{logLine("[JOB 3] compacting(default) L0 [000005] (1 K); OverlappingRatio: Single 0.00, Multi 0.00"), true},
		{logLine("[JOB 4] flushing 1 memtable (16 M) to L0"), true},
		{logLine("[JOB 3] compacted(default) L0 [000005] (1 K) -> L6 [000007] (1 K), in 0.0s"), true},
		{logLine("[JOB 4] flushed 1 memtable (16 M) to L0 [000008] (2 M), in 0.1s")[:70], true},
		{logLine("[JOB 4] flushed 1 memtable (16 M) to L0 [000008] (2 M), in 0.1s")[70:], false},
		{logLine("[JOB 5] flushing 1 memtable (16 M) to L0") + logLine("[JOB 5] flush error: no space"), false},
		{`{"msg":"request"}` + "\n" + logLine("all is well"), false},
	} {
		l.parse([]byte(step.text))
		if got := len(l.openJobs) > 0; got != step.want {
			t.Errorf("step %d: parse(%q): job in progress = %v, want %v", i, step.text, got, step.want)
		}
	}
}

// TestLostAndDuplicateWritesAreReported loses and duplicates writes on purpose, to prove that the check can fail.
func TestLostAndDuplicateWritesAreReported(t *testing.T) {
	w := newWriter(0, nil)
	w.apply(attempt{kind: "create", consumer: "a"})
	w.apply(attempt{kind: "key", consumer: "a", key: "k1"})
	w.apply(attempt{kind: "key", consumer: "a", key: "k2"})
	w.apply(attempt{kind: "create", consumer: "b"})
	w.apply(attempt{kind: "create", consumer: "c"})
	w.apply(attempt{kind: "delete", consumer: "c"})
	var out crashResult
	w.compare(map[string]int{"a": 1, "a k1": 2, "c": 1}, &out)
	slices.Sort(out.lost)
	if want := []string{"a k2", "b", "the deletion of c"}; !slices.Equal(out.lost, want) {
		t.Errorf("compare() lost = %q, want %q", out.lost, want)
	}
	if want := []string{"a k1"}; !slices.Equal(out.duplicates, want) {
		t.Errorf("compare() duplicates = %q, want %q", out.duplicates, want)
	}
}

func TestUnacknowledgedWriteMayHaveHappened(t *testing.T) {
	for _, tc := range []struct {
		name    string
		pending attempt
		times   map[string]int
		exists  bool // whether consumer a exists afterwards
	}{
		{"created", attempt{kind: "create", consumer: "a"}, map[string]int{"a": 1}, true},
		{"not created", attempt{kind: "create", consumer: "a"}, nil, false},
	} {
		w := newWriter(0, nil)
		w.pending = &tc.pending
		w.settle(tc.times)
		if _, ok := w.consumers["a"]; ok != tc.exists {
			t.Errorf("%s: settle() recorded the consumer = %v, want %v", tc.name, ok, tc.exists)
		}
	}
	for _, deleted := range []bool{true, false} {
		w := newWriter(0, nil)
		w.apply(attempt{kind: "create", consumer: "a"})
		w.pending = &attempt{kind: "delete", consumer: "a"}
		times := map[string]int{"a": 1}
		if deleted {
			times = nil
		}
		w.settle(times)
		if w.deleted["a"] != deleted {
			t.Errorf("settle() of a pending deletion: deleted = %v, want %v", w.deleted["a"], deleted)
		}
	}
}
