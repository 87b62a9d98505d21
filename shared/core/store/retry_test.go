package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/core/store"
	"github.com/gatewright/gatewright/shared/core/store/storetest"
)

func TestRunInTxRetriesStaleChanges(t *testing.T) {
	errBroken := errors.New("broken")
	for _, c := range []struct {
		name      string
		conflicts int // the number of attempts that conflict with another change
		result    error
		attempts  int
		want      string // what check requires
		check     func(error) bool
	}{
		{"no stale attempt", 0, nil, 1, "success", func(err error) bool { return err == nil }},
		{"three stale attempts", 3, nil, 4, "success", func(err error) bool { return err == nil }},
		{
			"a failure after a stale attempt", 1, errBroken, 2, "the failure",
			func(err error) bool { return errors.Is(err, errBroken) },
		},
		{
			"a thousand stale attempts", 1000, nil, 12, "throttled",
			func(err error) bool { return fault.Is(err, fault.Throttled) },
		},
	} {
		attempts := 0
		err := storetest.New(t).RunInTx(t.Context(), func(context.Context) error {
			attempts++
			if attempts <= c.conflicts {
				return fmt.Errorf("commit: %w", store.ErrStale)
			}
			return c.result
		})
		if attempts != c.attempts || !c.check(err) {
			t.Errorf("%s: RunInTx() = %v after %d attempts, want %s after %d", c.name, err, attempts, c.want, c.attempts)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := storetest.New(t).RunInTx(ctx, func(context.Context) error {
		return store.ErrStale
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("RunInTx() with a canceled context = %v, want %v", err, context.Canceled)
	}
}
