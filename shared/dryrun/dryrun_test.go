package dryrun_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/gatewright/gatewright/shared/dryrun"
)

func counting(n map[string]int, err error) func(context.Context) (map[string]int, error) {
	return func(context.Context) (map[string]int, error) { return n, err }
}

func TestEffectsAreRefusedInADryRunAlone(t *testing.T) {
	ctx, _ := dryrun.Begin(t.Context())
	for _, c := range []struct {
		name string
		in   func() context.Context
		want error
	}{
		{"no dry run", t.Context, nil},
		{"a dry run", func() context.Context { return ctx }, dryrun.ErrEffect},
		{"outside of it", func() context.Context { return dryrun.Outside(ctx, "it is a test's") }, nil},
		{"what outlives its request", func() context.Context { return context.WithoutCancel(ctx) }, dryrun.ErrEffect},
	} {
		if err := dryrun.Refuse(c.in(), "an effect"); !errors.Is(err, c.want) || dryrun.Active(c.in()) != (c.want != nil) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestWhatIsRemovedIsToldAnew: a decision that is made twice is no second deletion.
func TestWhatIsRemovedIsToldAnew(t *testing.T) {
	ctx, run := dryrun.Begin(t.Context())
	for _, n := range []map[string]int{{"consumers": 1, "apiKeys": 5}, {"apiKeys": 4}} {
		if err := dryrun.Removes(ctx, counting(n, nil)); err != nil {
			t.Fatal(err)
		}
	}
	cause := errors.New("the table is gone")
	if err := dryrun.Removes(ctx, counting(nil, cause)); !errors.Is(err, cause) {
		t.Errorf("a count that fails: %v", err)
	}
	if err := dryrun.Removes(ctx, counting(map[string]int{"apiKeys": 1}, cause)); !errors.Is(err, cause) {
		t.Errorf("a count that fails midway: %v", err)
	}
	run.Removed()["apiKeys"] = 9 // is the caller's
	if got := run.Removed(); !maps.Equal(got, map[string]int{"consumers": 1, "apiKeys": 4}) {
		t.Errorf("removed are %v", got)
	}
	if err := dryrun.Removes(t.Context(), counting(nil, cause)); err != nil {
		t.Errorf("outside of a dry run it counts: %v", err)
	}
}
