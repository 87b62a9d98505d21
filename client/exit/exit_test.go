package exit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gatewright/gatewright/client/exit"
)

func TestCodeOf(t *testing.T) {
	t.Parallel()
	plain := errors.New("x")
	for _, c := range []struct {
		err  error
		want exit.Code
	}{
		{nil, exit.OK},
		{exit.WithCode(exit.Usage, nil), exit.OK},
		{plain, exit.Failure},
		{exit.WithCode(exit.Conflict, plain), exit.Conflict},
		{fmt.Errorf("roll a key: %w", exit.WithCode(exit.NotFound, plain)), exit.NotFound},
		{exit.WithCode(exit.Invalid, exit.WithCode(exit.Usage, plain)), exit.Invalid},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), exit.TimedOut},
		{fmt.Errorf("wait: %w", exit.ErrInterrupted), exit.Interrupted},
		{exit.WithCode(exit.TimedOut, exit.ErrInterrupted), exit.Interrupted},
	} {
		if got := exit.CodeOf(c.err); got != c.want {
			t.Errorf("CodeOf(%v) = %d, want %d", c.err, got, c.want)
		}
	}
	if err := exit.WithCode(exit.Usage, plain); !errors.Is(err, plain) || err.Error() != "x" {
		t.Errorf("WithCode(x) = %v, want an error that wraps x and has its text", err)
	}
}
