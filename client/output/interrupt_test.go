package output_test

import (
	"context"
	"testing"
	"time"

	"github.com/gatewright/gatewright/client/exit"
)

// interruptedContext returns a context that is canceled after 20 ms, with the cause
// that a signal has. The returned function stops the timer and cancels the context.
func interruptedContext(t *testing.T) (context.Context, func()) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	timer := time.AfterFunc(20*time.Millisecond, func() { cancel(exit.ErrInterrupted) })
	return ctx, func() { timer.Stop(); cancel(nil) }
}
