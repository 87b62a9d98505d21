package keys

import (
	"errors"
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
