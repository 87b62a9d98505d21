package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gatewright/gatewright/internal/bench/world"
)

func TestAcknowledgedWritesSurviveKills(t *testing.T) {
	binaries := t.TempDir()
	// With the flags that the tests have been compiled with.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(binaries, "local"), "github.com/gatewright/gatewright/local")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v: %s", err, output)
	}
	m := &measurement{World: &world.World{Dir: t.TempDir(), Binaries: binaries}}
	t.Cleanup(m.Close)
	result, err := kills(t.Context(), m, []beside{plain, plain, tables, backups}, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	if result.acknowledged == 0 {
		t.Error("no write was acknowledged")
	}
	t.Logf("%+v", result)
}

// TestKillsThatShowNothingAreAnError: nothing is lost where nothing was written, and no table is damaged that was not being written.
func TestKillsThatShowNothingAreAnError(t *testing.T) {
	for _, test := range []struct {
		name   string
		killed killed
		want   string
	}{
		{"kills at the right moment", killed{acknowledged: 1, kills: [besideCount]int{20, 10, 10}, met: [besideCount]int{20, 1, 1}}, ""},
		{"a few kills at no such moment", killed{acknowledged: 1, kills: [besideCount]int{2, 1, 1}, met: [besideCount]int{2, 0, 0}}, ""},
		{"no acknowledged write", killed{kills: [besideCount]int{20, 10, 10}, met: [besideCount]int{20, 1, 1}}, "no write was acknowledged"},
		{"no table under way", killed{acknowledged: 1, kills: [besideCount]int{20, 10, 10}, met: [besideCount]int{20, 0, 1}}, "none of 10 kills came while the engine wrote tables"},
	} {
		if err := test.killed.meaningful(); test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: meaningful() = %v, want %q", test.name, err, test.want)
		}
	}
}

func TestHalfOfTheRoundsArePlainAndTheOthersTakeTurns(t *testing.T) {
	want := []beside{plain, tables, plain, backups, plain, tables, plain}
	if got := mixed(len(want), []beside{tables, backups}); !slices.Equal(got, want) {
		t.Errorf("rounds %v, want %v", got, want)
	}
}

func TestEngineWorksFromTheBeginningOfAJobToItsEnd(t *testing.T) {
	says := func(text string) string {
		return `{"level":"DEBUG","msg":"the store's engine","says":"` + text + `"}` + "\n"
	}
	l := &engineLog{open: map[string]bool{}}
	for i, step := range []struct {
		text string
		want bool
	}{
		{says("[JOB 3] compacting(default) L0 [000005] (1 K); OverlappingRatio: Single 0.00, Multi 0.00"), true},
		{says("[JOB 4] flushing 1 memtable (16 M) to L0"), true},
		{says("[JOB 3] compacted(default) L0 [000005] (1 K) -> L6 [000007] (1 K), in 0.0s"), true},
		{says("[JOB 4] flushed 1 memtable (16 M) to L0 [000008] (2 M), in 0.1s")[:70], true},
		{says("[JOB 4] flushed 1 memtable (16 M) to L0 [000008] (2 M), in 0.1s")[70:], false},
		{says("[JOB 5] flushing 1 memtable (16 M) to L0") + says("[JOB 5] flush error: no space"), false},
		{`{"msg":"request"}` + "\n" + says("all is well"), false},
	} {
		l.take([]byte(step.text))
		if got := len(l.open) > 0; got != step.want {
			t.Errorf("step %d: works %v", i, got)
		}
	}
}

// A check that cannot fail would be none: here the writes are lost and doubled
// on purpose.
func TestLostAndDoubledWritesAreNoticed(t *testing.T) {
	w := newWriter(0, nil)
	w.apply(attempt{kind: "create", consumer: "a"})
	w.apply(attempt{kind: "key", consumer: "a", key: "k1"})
	w.apply(attempt{kind: "key", consumer: "a", key: "k2"})
	w.apply(attempt{kind: "create", consumer: "b"})
	w.apply(attempt{kind: "create", consumer: "c"})
	w.apply(attempt{kind: "delete", consumer: "c"})
	var out killed
	w.compare(map[string]int{"a": 1, "a k1": 2, "c": 1}, &out)
	slices.Sort(out.lost)
	if want := []string{"a k2", "b", "the deletion of c"}; !slices.Equal(out.lost, want) {
		t.Errorf("lost %q, want %q", out.lost, want)
	}
	if want := []string{"a k1"}; !slices.Equal(out.twice, want) {
		t.Errorf("twice %q, want %q", out.twice, want)
	}
}

func TestUnansweredWriteMayHaveHappenedOrNot(t *testing.T) {
	for _, tc := range []struct {
		name    string
		pending attempt
		times   map[string]int
		there   bool // whether consumer a is known afterwards
	}{
		{"created", attempt{kind: "create", consumer: "a"}, map[string]int{"a": 1}, true},
		{"not created", attempt{kind: "create", consumer: "a"}, nil, false},
	} {
		w := newWriter(0, nil)
		w.pending = &tc.pending
		w.settle(tc.times)
		if _, ok := w.consumers["a"]; ok != tc.there {
			t.Errorf("%s: known %v", tc.name, ok)
		}
	}
	for _, gone := range []bool{true, false} {
		w := newWriter(0, nil)
		w.apply(attempt{kind: "create", consumer: "a"})
		w.pending = &attempt{kind: "delete", consumer: "a"}
		times := map[string]int{"a": 1}
		if gone {
			times = nil
		}
		w.settle(times)
		if w.deleted["a"] != gone {
			t.Errorf("gone %v: deleted %v", gone, w.deleted["a"])
		}
	}
}
