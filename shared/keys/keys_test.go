package keys

import (
	"errors"
	"sync/atomic"
	"testing"
)

// TestWhatAnyOfTheReadsAnswersIsAnswered: each read of a request may be the one
// that has failed.
func TestWhatAnyOfTheReadsAnswersIsAnswered(t *testing.T) {
	failed := errors.New("failed")
	fails, reads := func() error { return failed }, func() error { return nil }
	for name, test := range map[string]struct {
		calls []func() error
		want  error
	}{
		"none":      {[]func() error{reads, reads, reads}, nil},
		"the first": {[]func() error{fails, reads, reads}, failed},
		"another":   {[]func() error{reads, fails, reads}, failed},
		"the last":  {[]func() error{reads, reads, fails}, failed},
	} {
		if err := concurrently(test.calls...); !errors.Is(err, test.want) {
			t.Errorf("%s fails: %v", name, err)
		}
	}
}

func TestEachOfManyReadsIsMadeOnceUntilOneFails(t *testing.T) {
	failed := errors.New("failed")
	for _, n := range []int{0, 1, parallel, parallel + 1, 3*parallel + 1} {
		calls := make([]atomic.Int32, n)
		if err := inParallel(n, func(i int) error { calls[i].Add(1); return nil }); err != nil {
			t.Fatal(err)
		}
		for i := range calls {
			if made := calls[i].Load(); made != 1 {
				t.Errorf("of %d: the read %d is made %d times", n, i, made)
			}
			if err := inParallel(n, func(at int) error {
				if at == i {
					return failed
				}
				return nil
			}); !errors.Is(err, failed) {
				t.Errorf("of %d, the read %d fails: %v", n, i, err)
			}
		}
	}
}
