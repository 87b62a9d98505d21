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

// TestClientPackagesInitializeLittle measures what each package of the client allocates before main, which every command
// waits for. The number of bytes is the same on every run, unlike times. gojq needs most, 200 kB; the metaschemas of an
// unchanged JSON Schema library need 1.7 MB. This test binary contains all packages of the client and runs no test here.
func TestClientPackagesInitializeLittle(t *testing.T) {
	t.Parallel()
	list, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	ofClient := strings.Fields(string(list))
	const maxBytes = 256 << 10
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace strings.Builder
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatalf("start with no test: %v: %s", err, trace.String())
	}
	measured := 0
	for _, line := range regexp.MustCompile(`(?m)^init (\S+) @.* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(trace.String(), -1) {
		if !slices.Contains(ofClient, line[1]) {
			continue // a test imports it
		}
		measured++
		if bytes, err := strconv.Atoi(line[2]); err != nil || bytes > maxBytes {
			t.Errorf("package %s allocates %s bytes when it is imported, want at most %d: every command of the client waits for it", line[1], line[2], maxBytes)
		}
	}
	if measured < 50 {
		t.Errorf("the trace lists %d packages of the client, want 50 or more:\n%s", measured, trace.String())
	}
}
