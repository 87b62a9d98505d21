package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReportEndsWithItsSum(t *testing.T) {
	var out strings.Builder
	through := report(&out, []result{{"paths", "a", "400", "400"}, {"paths", "b", "200", "400"}, {"headers", "c", "400", "400"}})
	if !strings.HasSuffix(out.String(), "\n3 attempts, 1 got through\n") || through != 1 {
		t.Errorf("%d, and it prints\n%s", through, &out)
	}
}

func TestNothingGetsThrough(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "gatewright-local")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "github.com/gatewright/gatewright/local").CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v: %s", err, output)
	}
	results, err := attack(t.Context(), binary, flood{connections: 400, http2: 3, streams: 100, fast: 32, hold: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	through := report(&table, results)
	t.Logf("\n%s", &table)
	if through > 0 {
		t.Errorf("%d of %d got through", through, len(results))
	}
}
