package keys

import (
	"errors"
	"sync/atomic"
	"testing"
)

// TestConcurrentlyReturnsFirstError checks that concurrently returns the error of any call, and of two failing calls
// that of the first in the list.
func TestConcurrentlyReturnsFirstError(t *testing.T) {
	errFailed, errLater := errors.New("failed"), errors.New("a later call failed")
	fail, succeed := func() error { return errFailed }, func() error { return nil }
	failLater := func() error { return errLater }
	for name, test := range map[string]struct {
		calls []func() error
		want  error
	}{
		"none":      {[]func() error{succeed, succeed, succeed}, nil},
		"the first": {[]func() error{fail, succeed, succeed}, errFailed},
		"another":   {[]func() error{succeed, fail, succeed}, errFailed},
		"the last":  {[]func() error{succeed, succeed, fail}, errFailed},
		"two calls": {[]func() error{succeed, fail, failLater}, errFailed},
	} {
		if err := concurrently(test.calls...); !errors.Is(err, test.want) {
			t.Errorf("concurrently(failing: %s) error = %v, want %v", name, err, test.want)
		}
	}
}

func TestInParallelCallsEachOnceAndReturnsError(t *testing.T) {
	errFailed := errors.New("failed")
	for _, n := range []int{0, 1, maxConcurrency, maxConcurrency + 1, 3*maxConcurrency + 1} {
		calls := make([]atomic.Int32, n)
		if err := inParallel(n, func(i int) error { calls[i].Add(1); return nil }); err != nil {
			t.Fatalf("inParallel(%d) error = %v, want none", n, err)
		}
		for i := range calls {
			if count := calls[i].Load(); count != 1 {
				t.Errorf("inParallel(%d) makes %[3]d calls with %[2]d, want 1", n, i, count)
			}
			if err := inParallel(n, func(j int) error {
				if j == i {
					return errFailed
				}
				return nil
			}); !errors.Is(err, errFailed) {
				t.Errorf("inParallel(%d) with failing call %d: error = %v, want %v", n, i, err, errFailed)
			}
		}
	}
}
