package exit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

func TestErrorsEndACommandWithTheirCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("x")
	for _, c := range []struct {
		err  error
		want exit.Code
	}{
		{nil, exit.OK},
		{exit.With(exit.Usage, nil), exit.OK},
		{plain, exit.Failure},
		{exit.With(exit.Conflict, plain), exit.Conflict},
		{fmt.Errorf("roll a key: %w", exit.With(exit.NotFound, plain)), exit.NotFound},
		{exit.With(exit.Invalid, exit.With(exit.Usage, plain)), exit.Invalid},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), exit.TimedOut},
		{fmt.Errorf("wait: %w", exit.ErrInterrupted), exit.Interrupted},
		{exit.With(exit.TimedOut, exit.ErrInterrupted), exit.Interrupted},
	} {
		if got := exit.Of(c.err); got != c.want {
			t.Errorf("%v ends a command with %d, want %d", c.err, got, c.want)
		}
	}
	if err := exit.With(exit.Usage, plain); !errors.Is(err, plain) || err.Error() != "x" {
		t.Errorf("an error with a code is %v", err)
	}
}
