package product

import (
	"bytes"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
)

// TestOperationsAreListedAndResumedWhileTheProductIsStopped: one that waits for
// its next attempt in an hour is due at once, and one that is late is told without
// being asked for.
func TestOperationsAreListedAndResumedWhileTheProductIsStopped(t *testing.T) {
	t.Setenv("GATEWRIGHT_DATA_DIR", t.TempDir())
	begun := time.Now()
	if err := Laptop.withDatabase(t.Context(), []string{"a", "test"}, io.Discard, io.Discard, func(d *database) error {
		account, _, err := d.accounts().Create(t.Context(), "acme")
		if err != nil {
			return err
		}
		return d.table.Commit(t.Context(), operation.Begin(operation.Start{
			ID: "kop_1", Kind: "consumer-roll-key", Subject: "csmr_1", AccountID: account.ID, Input: "the-input", NotBefore: begun.Add(time.Hour),
		}, begun))
	}); err != nil {
		t.Fatal(err)
	}
	local := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := Laptop.command(administration{program: Laptop})
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	next := func() time.Time {
		t.Helper()
		listed, err := local("operation", "list", "--all")
		line := regexp.MustCompile(`(?m)^kop_1 +consumer-roll-key +acme +- +0 +\S+ +(\S+) +-$`).FindStringSubmatch(listed)
		if err != nil || line == nil || strings.Contains(listed, "the-input") {
			t.Fatalf("the list is %q, %v", listed, err)
		}
		at, err := time.Parse(time.RFC3339, line[1])
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if said, err := local("operation", "list"); err != nil || said != "All operations get on: 1 under way or planned. --all lists them.\n" {
		t.Errorf("the list of what does not get on is %q, %v", said, err)
	}
	if at := next(); at.Before(begun.Add(50 * time.Minute)) {
		t.Errorf("it is due at %v, begun at %v", at, begun)
	}
	if said, err := local("operation", "resume", "kop_1"); err != nil || said != "Operation kop_1 (consumer-roll-key) is due now.\n" {
		t.Errorf("resume says %q, %v", said, err)
	}
	if at := next(); at.After(time.Now().Add(time.Second)) {
		t.Errorf("once resumed it is due at %v", at)
	}
	// A second time, which changes nothing, and one that nobody has picked up.
	if said, err := local("operation", "resume", "kop_1"); err != nil || said != "Operation kop_1 (consumer-roll-key) is due now.\n" {
		t.Errorf("resumed again it says %q, %v", said, err)
	}
	if err := Laptop.withDatabase(t.Context(), []string{"a", "test"}, io.Discard, io.Discard, func(d *database) error {
		return d.table.Commit(t.Context(), operation.Begin(operation.Start{
			ID: "kop_2", Kind: "consumer-roll-key", AccountID: "an-account-that-is-gone", NotBefore: begun.Add(-time.Hour),
		}, begun.Add(-2*time.Hour)))
	}); err != nil {
		t.Fatal(err)
	}
	if said, err := local("operation", "list"); err != nil || !strings.Contains(said, "\nkop_2 ") || strings.Contains(said, "kop_1") || !strings.Contains(said, "an-account-that-is-gone") {
		t.Errorf("the list of what does not get on is %q, %v", said, err)
	}
}

// TestProductTakesCommandsOnItsDataAlone: what makes data, or is a process of its own,
// has no business in the one that runs the product.
func TestProductTakesCommandsOnItsDataAlone(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range Laptop.command(administration{program: Laptop, own: new(database)}).Commands() {
		names = append(names, c.Name())
	}
	slices.Sort(names)
	if want := []string{"account", "audit", "backup", "check", "export-data", "key", "operation", "rewrap-root-key", "rotate-root-key"}; !slices.Equal(names, want) {
		t.Errorf("it takes %v, want %v", names, want)
	}
}
