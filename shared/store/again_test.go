package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/store"
	"github.com/gatewright/gatewright/shared/store/storetest"
)

func TestChangeIsMadeAgainUntilNothingElseGetsInBetween(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		stale int // how many attempts meet another change
		then  error
		made  int
		check func(error) bool
	}{
		{"at once", 0, nil, 1, func(err error) bool { return err == nil }},
		{"after others", 3, nil, 4, func(err error) bool { return err == nil }},
		{"a failure of its own", 1, broken, 2, func(err error) bool { return errors.Is(err, broken) }},
		{"never", 1000, nil, 12, func(err error) bool { return fault.Is(err, fault.Throttled) }},
	} {
		made := 0
		err := storetest.New(t).Again(t.Context(), func(context.Context) error {
			made++
			if made <= c.stale {
				return fmt.Errorf("commit: %w", store.ErrStale)
			}
			return c.then
		})
		if made != c.made || !c.check(err) {
			t.Errorf("%s: %d attempts, %v", c.name, made, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := storetest.New(t).Again(ctx, func(context.Context) error { return store.ErrStale }); !errors.Is(err, context.Canceled) {
		t.Errorf("after the caller has gone: %v", err)
	}
}
