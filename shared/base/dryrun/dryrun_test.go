package dryrun_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/gatewright/gatewright/shared/base/dryrun"
)

// counting returns a function that reports the removals n, or an error, to ReportRemovals.
func counting(n map[string]int, err error) func(context.Context) (map[string]int, error) {
	return func(context.Context) (map[string]int, error) { return n, err }
}

func TestEffectsAreRefusedOnlyInDryRun(t *testing.T) {
	dryCtx, _ := dryrun.Begin(t.Context())
	for _, c := range []struct {
		name string
		ctx  func() context.Context
		want error
	}{
		{"no dry run", t.Context, nil},
		{"a dry run", func() context.Context { return dryCtx }, dryrun.ErrEffect},
		{"an exempt context", func() context.Context { return dryrun.Exempt(dryCtx, "it is a test's") }, nil},
		{"a context without cancellation", func() context.Context { return context.WithoutCancel(dryCtx) }, dryrun.ErrEffect},
	} {
		if err := dryrun.Refuse(c.ctx(), "an effect"); !errors.Is(err, c.want) || dryrun.Active(c.ctx()) != (c.want != nil) {
			t.Errorf("%s: Refuse() = %v, Active() = %v, want %v, %v",
				c.name, err, dryrun.Active(c.ctx()), c.want, c.want != nil)
		}
	}
}

// TestRepeatedReportReplacesRemovals checks that a transaction that runs twice does not count as two deletions.
func TestRepeatedReportReplacesRemovals(t *testing.T) {
	ctx, run := dryrun.Begin(t.Context())
	for _, n := range []map[string]int{{"consumers": 1, "apiKeys": 5}, {"apiKeys": 4}} {
		if err := dryrun.ReportRemovals(ctx, counting(n, nil)); err != nil {
			t.Fatal(err)
		}
	}
	cause := errors.New("the table is gone")
	if err := dryrun.ReportRemovals(ctx, counting(nil, cause)); !errors.Is(err, cause) {
		t.Errorf("ReportRemovals() with a failing count = %v, want %v", err, cause)
	}
	if err := dryrun.ReportRemovals(ctx, counting(map[string]int{"apiKeys": 1}, cause)); !errors.Is(err, cause) {
		t.Errorf("ReportRemovals() with a count that fails midway = %v, want %v", err, cause)
	}
	run.Removals()["apiKeys"] = 9 // the caller owns the map
	if got := run.Removals(); !maps.Equal(got, map[string]int{"consumers": 1, "apiKeys": 4}) {
		t.Errorf("Removals() = %v, want 1 consumer and 4 API keys", got)
	}
	if err := dryrun.ReportRemovals(t.Context(), counting(nil, cause)); err != nil {
		t.Errorf("ReportRemovals() outside of a dry run = %v, want nil without a call of count", err)
	}
}
