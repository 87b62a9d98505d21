package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestAcknowledgedWritesSurviveKills(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "gatewright-local")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/gatewright/gatewright/local").CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v: %s", err, output)
	}
	result, err := run(t.Context(), config{binary: binary, rounds: 2, writers: 8, seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if result.acknowledged == 0 {
		t.Error("nothing was written")
	}
	t.Logf("%+v", result)
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
	var out report
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
