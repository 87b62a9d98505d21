package transfer_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gatewright/gatewright/local/transfer"
	"github.com/gatewright/gatewright/shared/base/processes/processestest"
)

// helperVariable is the environment variable that makes this test
// binary import an export, in a process that the test kills.
const helperVariable = "TRANSFER_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		processestest.SignalStart()
		if _, err := transfer.ImportDirectory(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilledImportLeavesNothingOrAll checks that a killed import leaves
// either no data directory or a complete one, and can be repeated.
func TestKilledImportLeavesNothingOrAll(t *testing.T) {
	const rounds = 10
	fx := newFilled(t)
	file, key := export(t, fx.source())
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	start := time.Now()
	if _, err := transfer.ImportDirectory(t.Context(), file, key, dir); err != nil {
		t.Fatal(err)
	}
	elapsed := time.Since(start)
	found := 0
	for round := range rounds {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		processestest.RunAndKill(t, helperVariable+"=import", time.Duration(rand.Int64N(int64(elapsed*3/2))), file, key, dir)
		if _, err := os.Stat(dir); err == nil {
			found++
			d := openDirectory(t, dir)
			if diff := cmp.Diff(fx.table.Items(), d.items(t), sameItems); diff != "" {
				t.Errorf("round %d: items differ (-want +got):\n%s", round, diff)
			}
			if diff := cmp.Diff(objectsOf(t, fx.objects, false), objectsOf(t, d.objects, false)); diff != "" {
				t.Errorf("round %d: objects differ (-want +got):\n%s", round, diff)
			}
			if err := d.engine.Close(); err != nil {
				t.Errorf("round %d: Close() = %v, want nil", round, err)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.ImportDirectory(t.Context(), file, key, dir); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("entries = %v, %v, want the directory and no leftovers", entries, err)
	}
	t.Logf("of %d killed processes %d had imported", rounds, found)
}
