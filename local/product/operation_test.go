package product

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/core/operation"
)

// TestStoppedProductListsAndResumesOperations checks a product that is not running. The next attempt of an operation is
// in an hour, and `operation resume` makes the operation due now. The test also checks that `operation list` without
// flags lists only overdue operations.
func TestStoppedProductListsAndResumesOperations(t *testing.T) {
	t.Setenv("GATEWRIGHT_DATA_DIR", t.TempDir())
	start := time.Now()
	if err := Laptop.withDatabase(t.Context(), []string{"a", "test"}, io.Discard, io.Discard, func(d *database) error {
		account, _, err := d.accounts().Create(t.Context(), "acme")
		if err != nil {
			return err
		}
		return d.table.Commit(t.Context(), operation.Create(operation.Start{
			ID: "kop_1", Kind: "consumer-roll-key", Subject: "csmr_1", AccountID: account.ID, Input: "the-input",
			NotBefore: start.Add(time.Hour),
		}, start))
	}); err != nil {
		t.Fatal(err)
	}
	// combinedOutput runs a command and returns its standard output and standard error together.
	combinedOutput := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := Laptop.command(administration{program: Laptop})
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	nextAttempt := func() time.Time {
		t.Helper()
		output, err := combinedOutput("operation", "list", "--all")
		line := regexp.MustCompile(`(?m)^kop_1 +consumer-roll-key +acme +- +0 +\S+ +(\S+) +-$`).FindStringSubmatch(output)
		if err != nil || line == nil || strings.Contains(output, "the-input") {
			t.Fatalf("operation list --all = %q, %v, want a line of kop_1 with its account, 0 attempts, the next attempt and "+
				"no failure, and without its input", output, err)
		}
		at, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if output, err := combinedOutput("operation", "list"); err != nil ||
		output != "All operations get on: 1 under way or planned. --all lists them.\n" {
		t.Errorf("operation list = %q, %v, want only the line that all operations get on, with 1 under way or planned",
			output, err)
	}
	if at := nextAttempt(); at.Before(start.Add(50 * time.Minute)) {
		t.Errorf("next attempt = %v, want at least 50 minutes after %v", at, start)
	}
	if output, err := combinedOutput("operation", "resume", "kop_1"); err != nil ||
		output != "Operation kop_1 (consumer-roll-key) is due now.\n" {
		t.Errorf("operation resume = %q, %v, want kop_1 due now", output, err)
	}
	if at := nextAttempt(); at.After(time.Now().Add(time.Second)) {
		t.Errorf("next attempt after the resumption = %v, want now", at)
	}
	// A second resume also succeeds.
	if output, err := combinedOutput("operation", "resume", "kop_1"); err != nil ||
		output != "Operation kop_1 (consumer-roll-key) is due now.\n" {
		t.Errorf("second operation resume = %q, %v, want kop_1 due now", output, err)
	}
	if err := Laptop.withDatabase(t.Context(), []string{"a", "test"}, io.Discard, io.Discard, func(d *database) error {
		return d.table.Commit(t.Context(), operation.Create(operation.Start{
			ID: "kop_2", Kind: "consumer-roll-key", AccountID: "an-account-that-is-gone", NotBefore: start.Add(-time.Hour),
		}, start.Add(-2*time.Hour)))
	}); err != nil {
		t.Fatal(err)
	}
	if output, err := combinedOutput("operation", "list"); err != nil || !strings.Contains(output, "\nkop_2 ") ||
		strings.Contains(output, "kop_1") || !strings.Contains(output, "an-account-that-is-gone") {
		t.Errorf("operation list = %q, %v, want kop_2 of a missing account and not kop_1", output, err)
	}
}

// TestCommandsOfRunningProduct checks which commands a running product runs for other processes. Commands that create a
// data directory or need a separate process are not available.
func TestCommandsOfRunningProduct(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range Laptop.command(administration{program: Laptop, running: new(database)}).Commands() {
		names = append(names, c.Name())
	}
	slices.Sort(names)
	if want := []string{
		"account", "audit", "backup", "check", "export-data", "key", "operation", "rewrap-root-key",
		"rotate-root-key",
	}; !slices.Equal(names, want) {
		t.Errorf("commands of the running product = %v, want %v", names, want)
	}
}
