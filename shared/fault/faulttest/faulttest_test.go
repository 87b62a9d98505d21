package faulttest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/fault"
	"github.com/gatewright/gatewright/shared/fault/faulttest"
)

// failures counts those of a test.
type failures int

func (*failures) Helper() {}

func (f *failures) Errorf(string, ...any) { *f++ }

func TestOnlyTheWantedFaultPasses(t *testing.T) {
	wanted := fault.New(fault.NotFound, "There is no bucket.")
	for name, tt := range map[string]struct {
		err  error
		want failures
	}{
		"it":              {wanted, 0},
		"it, wrapped":     {fmt.Errorf("read: %w", wanted), 0},
		"another kind":    {fault.New(fault.Conflict, "There is no bucket."), 1},
		"another text":    {fault.New(fault.NotFound, "There is no key."), 1},
		"no fault":        {errors.New("there is no bucket"), 1},
		"no error at all": {nil, 1},
	} {
		var got failures
		faulttest.Want(&got, tt.err, fault.NotFound, "no bucket")
		if got != tt.want {
			t.Errorf("%s: %d failures, want %d", name, got, tt.want)
		}
	}
}
