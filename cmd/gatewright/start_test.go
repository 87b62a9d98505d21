package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestClientPackagesAllocateLittleAtInit measures how many bytes each package of the client allocates before main.
// Every command waits for these initializations. Unlike a time, the number of bytes is the same in every run. gojq
// allocates most (200 kB). The metaschemas of the JSON Schema library allocated 1.7 MB before the library was changed.
// The test starts its own binary, which contains all packages of the client, and selects no test.
func TestClientPackagesAllocateLittleAtInit(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list -deps error = %v, want none", err)
	}
	packages := strings.Fields(string(list))
	const maxBytes = 256 << 10
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("start with no test: %v: %s", err, trace.String())
	}
	measured := 0
	for _, line := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(
		trace.String(), -1) {
		if !slices.Contains(packages, line[1]) {
			continue // only a test imports it
		}
		measured++
		if bytes, err := strconv.Atoi(line[2]); err != nil || bytes > maxBytes {
			t.Errorf("package %s allocates %s bytes when it is imported, want at most %d: every command of the client "+
				"waits for it", line[1], line[2], maxBytes)
		}
	}
	if measured < 50 {
		t.Errorf("the trace lists %d packages of the client, want 50 or more:\n%s", measured, trace.String())
	}
}
