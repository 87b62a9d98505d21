package files_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/client/files"
)

// TestApplyIsCutOffAtEachRequest has each request of an apply be lost, or its answer, so that the apply ends there, against the product's own handlers:
// the same command goes on, and the account is as one of which nothing was lost.
func TestApplyIsCutOffAtEachRequest(t *testing.T) {
	t.Parallel()
	first := newProduct(t)
	plan, err := first.compared(written(t, whole), false)
	if err != nil {
		t.Fatal(told(err))
	}
	calm := first.copied(t)
	if err := calm.applied(plan, ""); err != nil {
		t.Fatal(err)
	}
	want, changes := calm.world().told(map[string]string{}, nil), len(calm.changes)
	if changes < len(plan.Changes) {
		t.Fatalf("%d requests for %d changes", changes, len(plan.Changes))
	}
	for at := 1; at <= changes; at++ {
		for _, answered := range []bool{false, true} {
			p, path := first.copied(t), filepath.Join(t.TempDir(), "plan")
			if err := plan.Write(path); err != nil {
				t.Fatal(err)
			}
			sent := 0
			p.cut = func(_ int, r *http.Request) (before, after bool) {
				if r.Method != http.MethodGet {
					sent++
				}
				return sent >= at && !answered, sent >= at && answered
			}
			what := fmt.Sprintf("request %d, handled %v", at, answered)
			loaded, err := files.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.applied(loaded, path); err == nil {
				t.Errorf("%s: it is applied", what)
			}
			p.cut = nil
			if err := p.applied(loaded, path); err != nil {
				t.Errorf("%s: it does not go on: %v", what, err)
			}
			difference(t, what, p.world().told(map[string]string{}, nil), want)
		}
	}
}
