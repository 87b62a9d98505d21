package output_test

import (
	"context"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
)

// contextThatEnds is one that a signal ends, some milliseconds later.
func contextThatEnds(t *testing.T) (context.Context, func()) {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(20*time.Millisecond, func() { end(exit.ErrInterrupted) })
	return ctx, func() { timer.Stop(); end(nil) }
}
