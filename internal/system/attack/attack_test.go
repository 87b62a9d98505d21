package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReportEndsWithTheSum(t *testing.T) {
	var out strings.Builder
	succeeded := report(&out, []result{
		{"paths", "a", "400", "400"},
		{"paths", "b", "200", "400"},
		{"headers", "c", "400", "400"},
	})
	if !strings.HasSuffix(out.String(), "\n3 attempts, 1 got through\n") || succeeded != 1 {
		t.Errorf("report() = %d successful attacks, want 1; printed, want \"3 attempts, 1 got through\" at the end:\n%s",
			succeeded, &out)
	}
}

func TestNoAttackSucceeds(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "gatewright-local")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary,
		"github.com/gatewright/gatewright/local").CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v: %s", err, output)
	}
	results, err := attack(t.Context(), binary, flood{
		connections: 400, http2: 3, streams: 100, fast: 32,
		duration: 2 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	succeeded := report(&table, results)
	t.Logf("\n%s", &table)
	if succeeded > 0 {
		t.Errorf("%d of %d attacks succeeded, want none", succeeded, len(results))
	}
}
