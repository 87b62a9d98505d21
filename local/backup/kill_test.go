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
	"github.com/gatewright/gatewright/shared/base/processes/processestest"
)

// helperVariable is the environment variable that makes this
// test binary run runHelper, in a process that the test kills.
const helperVariable = "BACKUP_TEST_HELPER"

func TestMain(m *testing.M) {
	if task := os.Getenv(helperVariable); task != "" {
		if err := runHelper(task, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runHelper creates backups of a data directory repeatedly while writers commit, or restores a backup once. It calls
// SignalStart when a backup or the restore begins.
func runHelper(task, dir, file string) error {
	ctx := context.Background()
	if task == "restore" {
		processestest.SignalStart()
		_, err := backup.Restore(ctx, file, dir)
		return err
	}
	i, err := start(ctx, dir)
	if err != nil {
		return err
	}
	i.startWriters(ctx, 4, func(err error) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	})
	for {
		processestest.SignalStart()
		if err := backup.Create(file, dir, func(to io.Writer) error { return i.write(ctx, to) }); err != nil {
			return err
		}
	}
}

// TestKilledBackupLeavesNothingOrAll checks that a killed backup leaves either no
// file or a complete file. The installation continues and can be backed up again.
func TestKilledBackupLeavesNothingOrAll(t *testing.T) {
	const rounds = 12
	dir, parent := t.TempDir(), t.TempDir()
	file := filepath.Join(parent, "file.backup")
	found := 0
	for round := range rounds {
		processestest.RunAndKill(t, helperVariable+"=backup", time.Duration(rand.Int64N(int64(150*time.Millisecond))), dir,
			file)
		if _, err := os.Stat(file); err == nil {
			found++
			target := filepath.Join(t.TempDir(), "data")
			if _, err := backup.Restore(t.Context(), file, target); err != nil {
				t.Fatalf("round %d: Restore() = %v, want no error", round, err)
			}
			restored := mustStart(t, target)
			for n := range 4 {
				if _, err := restored.lastCommit(t.Context(), n); err != nil {
					t.Errorf("round %d: lastCommit() = %v, want no error", round, err)
				}
			}
			if err := errors.Join(restored.stop(), os.Remove(file)); err != nil {
				t.Fatal(err)
			}
		}
	}
	i := mustStart(t, dir)
	for n := range 4 {
		if _, err := i.lastCommit(t.Context(), n); err != nil {
			t.Errorf("lastCommit(%d) after all kills = %v, want no error", n, err)
		}
	}
	if err := backup.Create(file, dir, func(to io.Writer) error { return i.write(t.Context(), to) }); err != nil {
		t.Errorf("Create() after all kills = %v, want no error", err)
	}
	if got := fileNames(t, parent); len(got) != 1 || slices.Contains(fileNames(t, dir), "backup") {
		t.Errorf("files = %v, in the directory %v, want the backup and no leftovers", got, fileNames(t, dir))
	}
	t.Logf("of %d killed processes %d had made a backup", rounds, found)
}

// TestKilledRestoreLeavesNothingOrAll checks that a killed restore leaves
// either no directory or a complete directory, and can be repeated.
func TestKilledRestoreLeavesNothingOrAll(t *testing.T) {
	const rounds = 12
	_, file := newBackup(t)
	startedAt := time.Now()
	parent := t.TempDir()
	dir := filepath.Join(parent, "data")
	if _, err := backup.Restore(t.Context(), file, dir); err != nil {
		t.Fatal(err)
	}
	elapsed := time.Since(startedAt)
	found := 0
	for round := range rounds {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		processestest.RunAndKill(t, helperVariable+"=restore", time.Duration(rand.Int64N(int64(4*elapsed))), dir, file)
		if _, err := os.Stat(dir); err == nil {
			found++
			if err := checkContent(t.Context(), dir); err != nil {
				t.Errorf("round %d: checkContent() = %v, want no error", round, err)
			}
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), file, dir); err != nil {
		t.Fatal(err)
	}
	if got := fileNames(t, parent); len(got) != 1 {
		t.Errorf("files = %v, want the directory and no leftovers", got)
	}
	t.Logf("of %d killed processes %d had restored", rounds, found)
}
