package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestReadPartsGroupsPackages checks that each compiled package counts for its part, that cached packages do not count,
// and that the part that took longest is first.
func TestReadPartsGroupsPackages(t *testing.T) {
	const graph = `[
		{"Mode": "build", "Package": "net/http", "CmdUser": 2000000000, "CmdSys": 1000000000},
		{"Mode": "build", "Package": "fmt"},
		{"Mode": "build", "Package": "github.com/gatewright/gatewright/shared/core/store", "CmdUser": 1000000000},
		{"Mode": "build", "Package": "github.com/cockroachdb/pebble/v2/sstable", "CmdUser": 4000000000},
		{"Mode": "build", "Package": "github.com/cockroachdb/pebble/v2", "CmdUser": 4000000000},
		{"Mode": "link", "Package": "github.com/gatewright/gatewright/local", "CmdUser": 500000000}]`
	file := filepath.Join(t.TempDir(), "graph.json")
	if err := os.WriteFile(file, []byte(graph), 0o600); err != nil {
		t.Fatal(err)
	}
	parts, err := readParts(file)
	if err != nil {
		t.Fatal(err)
	}
	want := []part{
		{"github.com/cockroachdb/pebble", 2, 8 * time.Second},
		{"Go's standard library", 1, 3 * time.Second},
		{"Gatewright", 1, time.Second},
		{"linking", 1, time.Second / 2},
		{"all others", 0, 0},
	}
	if len(parts) != len(want) {
		t.Fatalf("readParts() = %v, want %v", parts, want)
	}
	for i := range want {
		if parts[i] != want[i] {
			t.Errorf("readParts()[%d] = %v, want %v", i, parts[i], want[i])
		}
	}
}
