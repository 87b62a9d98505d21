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

	"github.com/gatewright/gatewright/local/processes/processestest"
	"github.com/gatewright/gatewright/local/transfer"
)

// helperVariable makes this test binary a process that imports, and is killed.
const helperVariable = "TRANSFER_TEST_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helperVariable) != "" {
		processestest.Begin()
		if _, err := transfer.ImportDirectory(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestKilledImportLeavesNothingOrAll: however a process that makes a data directory ends, there is none or
// a whole one, and it can be done again.
func TestKilledImportLeavesNothingOrAll(t *testing.T) {
	const rounds = 10
	w := made(t)
	file, key := export(t, w.source())
	place := t.TempDir()
	dir := filepath.Join(place, "data")
	begun := time.Now()
	if _, err := transfer.ImportDirectory(t.Context(), file, key, dir); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	found := 0
	for round := range rounds {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		processestest.Killed(t, helperVariable+"=import", time.Duration(rand.Int64N(int64(took*3/2))), file, key, dir)
		if _, err := os.Stat(dir); err == nil {
			found++
			d := opened(t, dir)
			if diff := cmp.Diff(w.table.Items(), d.items(t), sameItems); diff != "" {
				t.Errorf("round %d: %s", round, diff)
			}
			if err := d.engine.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := transfer.ImportDirectory(t.Context(), file, key, dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(place); err != nil || len(left) != 1 {
		t.Errorf("what killed ones made is left: %v (%v)", left, err)
	}
	t.Logf("of %d killed processes %d had imported", rounds, found)
}
