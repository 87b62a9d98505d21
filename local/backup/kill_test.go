package backup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gatewright/gatewright/local/backup"
	"github.com/gatewright/gatewright/local/processes/processestest"
)

// helperVariable makes this test binary a process that is killed.
const helperVariable = "BACKUP_TEST_HELPER"

func TestMain(m *testing.M) {
	if do := os.Getenv(helperVariable); do != "" {
		if err := help(do, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// help backs a data directory up under writers, again and again, or restores it
// once. It says when it begins.
func help(do, dir, file string) error {
	ctx := context.Background()
	if do == "restore" {
		processestest.Begin()
		_, err := backup.Restore(ctx, file, dir)
		return err
	}
	i, err := start(ctx, dir)
	if err != nil {
		return err
	}
	i.begin(ctx, 4, func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	})
	for {
		processestest.Begin()
		if err := backup.Create(file, dir, func(to io.Writer) error { return i.write(ctx, to) }); err != nil {
			return err
		}
	}
}

// However a process that backs up ends, there is no file or a whole one, and the
// installation goes on and can be backed up again.
func TestKilledBackupLeavesNothingOrAll(t *testing.T) {
	const rounds = 12
	dir, place := t.TempDir(), t.TempDir()
	file := filepath.Join(place, "file.backup")
	found := 0
	for round := range rounds {
		processestest.Killed(t, helperVariable+"=backup", time.Duration(rand.Int64N(int64(150*time.Millisecond))), dir, file)
		if _, err := os.Stat(file); err == nil {
			found++
			elsewhere := filepath.Join(t.TempDir(), "data")
			if _, err := backup.Restore(t.Context(), file, elsewhere); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			restored := started(t, elsewhere)
			for n := range 4 {
				if _, err := restored.last(t.Context(), n); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			}
			if err := errors.Join(restored.stop(), os.Remove(file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	i := started(t, dir)
	for n := range 4 {
		if _, err := i.last(t.Context(), n); err != nil {
			t.Error(err)
		}
	}
	if err := backup.Create(file, dir, func(to io.Writer) error { return i.write(t.Context(), to) }); err != nil {
		t.Error(err)
	}
	if got := names(t, place); len(got) != 1 || slices.Contains(names(t, dir), "backup") {
		t.Errorf("what killed ones copied is left: %v, %v", got, names(t, dir))
	}
	t.Logf("of %d killed processes %d had made a backup", rounds, found)
}

// However a process that restores ends, there is no directory or a whole one, and
// it can be done again.
func TestKilledRestoreLeavesNothingOrAll(t *testing.T) {
	const rounds = 12
	_, file := made(t)
	begun := time.Now()
	place := t.TempDir()
	dir := filepath.Join(place, "data")
	if _, err := backup.Restore(t.Context(), file, dir); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begun)
	found := 0
	for round := range rounds {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		processestest.Killed(t, helperVariable+"=restore", time.Duration(rand.Int64N(int64(4*took))), dir, file)
		if _, err := os.Stat(dir); err == nil {
			found++
			if err := whole(t.Context(), dir); err != nil {
				t.Errorf("round %d: %v", round, err)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), file, dir); err != nil {
		t.Fatal(err)
	}
	if got := names(t, place); len(got) != 1 {
		t.Errorf("what killed ones made is left: %v", got)
	}
	t.Logf("of %d killed processes %d had restored", rounds, found)
}
