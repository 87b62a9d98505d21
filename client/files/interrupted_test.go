package files_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/gatewright/gatewright/client/files"
)

// TestApplyResumesAfterEachLostRequest applies a plan with the product's own handlers, and loses the requests from one
// change on, or their responses, so that the apply stops there. The same command must then continue, with the same
// result as an apply without losses.
func TestApplyResumesAfterEachLostRequest(t *testing.T) {
	t.Parallel()
	first := newProduct(t)
	plan, err := first.compare(writeTemp(t, fullYAML), false)
	if err != nil {
		t.Fatal(errorText(err))
	}
	undisturbed := first.clone(t)
	if err := undisturbed.apply(plan, ""); err != nil {
		t.Fatal(err)
	}
	want, changes := undisturbed.snapshot().flatten(map[string]string{}, nil), len(undisturbed.changes)
	if changes < len(plan.Changes) {
		t.Fatalf("Apply() sends %d changes, want at least the %d of the plan", changes, len(plan.Changes))
	}
	for failAt := 1; failAt <= changes; failAt++ {
		for _, handled := range []bool{false, true} {
			p, path := first.clone(t), filepath.Join(t.TempDir(), "plan")
			if err := plan.Write(path); err != nil {
				t.Fatal(err)
			}
			sent := 0
			p.lose = func(_ int, r *http.Request) (before, after bool) {
				if r.Method != http.MethodGet {
					sent++
				}
				return sent >= failAt && !handled, sent >= failAt && handled
			}
			description := fmt.Sprintf("request %d, handled %v", failAt, handled)
			loaded, err := files.Load(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.apply(loaded, path); err == nil {
				t.Errorf("%s: Apply() with lost requests succeeds, want an error", description)
			}
			p.lose = nil
			if err := p.apply(loaded, path); err != nil {
				t.Errorf("%s: second Apply() error = %v, want none", description, err)
			}
			checkEqual(t, description, p.snapshot().flatten(map[string]string{}, nil), want)
		}
	}
}
