package terminal

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// repeatedSignal is within which time signals count as one: a launcher may pass on what
// the terminal has sent to all.
const repeatedSignal = 300 * time.Millisecond

// Interruptible returns a context that the first Ctrl-C (or SIGTERM, or the terminal's
// end) ends with a cause. The next one calls again, which is to end the process at once;
// its children go with it.
func Interruptible(ctx context.Context, cause error, again func()) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		if _, ok := <-signals; !ok {
			return
		}
		first := time.Now()
		cancel(cause)
		for range signals {
			if time.Since(first) > repeatedSignal {
				again()
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
