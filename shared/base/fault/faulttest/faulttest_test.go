package faulttest_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/shared/base/fault"
	"github.com/gatewright/gatewright/shared/base/fault/faulttest"
)

// failures counts the failures of a test.
type failures int

func (*failures) Helper() {}

func (f *failures) Errorf(string, ...any) { *f++ }

func TestCheckPassesOnlyForTheExpectedFault(t *testing.T) {
	wanted := fault.New(fault.NotFound, "There is no bucket.")
	for name, tt := range map[string]struct {
		err  error
		want failures
	}{
		"the expected fault":          {wanted, 0},
		"the expected fault, wrapped": {fmt.Errorf("read: %w", wanted), 0},
		"another kind":                {fault.New(fault.Conflict, "There is no bucket."), 1},
		"another text":                {fault.New(fault.NotFound, "There is no key."), 1},
		"another type of error":       {errors.New("there is no bucket"), 1},
		"no error":                    {nil, 1},
	} {
		var got failures
		faulttest.Check(&got, tt.err, fault.NotFound, "no bucket")
		if got != tt.want {
			t.Errorf("%s: Check() reports %d failures, want %d", name, got, tt.want)
		}
	}
}
