package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatewright/gatewright/shared/operation"
)

// TestOperationsAreListedAndResumedWhileTheProductIsStopped: one that waits for
// its next attempt in an hour is due at once.
func TestOperationsAreListedAndResumedWhileTheProductIsStopped(t *testing.T) {
	t.Setenv("GATEWRIGHT_DYNOXIDE", dynoxide(t))
	t.Setenv("GATEWRIGHT_DATA_DIR", t.TempDir())
	begun := time.Now()
	if err := withDatabase(t.Context(), "a test", func(ctx context.Context, d *database) error {
		return d.table.Commit(ctx, operation.Begin(operation.Start{
			ID: "kop_1", Kind: "consumer-roll-key", Subject: "csmr_1", AccountID: "acme", Input: "the-input", NotBefore: begun.Add(time.Hour),
		}, begun))
	}); err != nil {
		t.Fatal(err)
	}
	local := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := command()
		root.SetArgs(args)
		root.SetOut(&out)
		root.SetErr(&out)
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	next := func() time.Time {
		t.Helper()
		listed, err := local("operation", "list")
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
	if at := next(); at.Before(begun.Add(50 * time.Minute)) {
		t.Errorf("it is due at %v, begun at %v", at, begun)
	}
	if said, err := local("operation", "resume", "kop_1"); err != nil || said != "Operation kop_1 (consumer-roll-key) is due now.\n" {
		t.Errorf("resume says %q, %v", said, err)
	}
	if at := next(); at.After(time.Now().Add(time.Second)) {
		t.Errorf("once resumed it is due at %v", at)
	}
}
